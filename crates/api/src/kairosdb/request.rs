//! Receives and parses the query of a request, within its time and the room for bodies.

use std::time::Instant;

use axum::extract::Request;
use axum::http::{Method, header};
use tokio::time::timeout_at;

use super::failure::Failure;
use crate::body::receive;
use crate::error::ApiError;
use crate::heads::query_of;
use crate::query_request::reached;
use crate::request_error::RequestError;
use crate::slow::{self, Watch};
use crate::state::AppState;
use promkairos_ingest::ReceivedBody;
use promkairos_kairos_query::{Limits, Query, parse};
use promkairos_model::ShownSize;
use promkairos_model::limits::{MAX_KAIROSDB_QUERY_BYTES, NO_SETTING};
use promkairos_promql::{LimitSource, QueryError};

const NO_QUERY: &str = "query json must not be null or empty";

/// A query that came.
pub(super) struct Asked {
    pub(super) query: Query,
    /// Those that no setting changes.
    pub(super) limits: Limits,
    pub(super) began: Instant,
    /// Its room is taken until the request has ended: the query takes a multiple of it.
    _body: Option<ReceivedBody>,
    _watch: Watch,
}

/// The query in the body of a request, or in the parameter `query` of GET. It is parsed by the workers.
pub(super) async fn read(state: &AppState, request: Request) -> Result<Asked, Failure> {
    let began = Instant::now();
    let path = request.uri().path().to_owned();
    let (text, body) = query_json(state, request).await?;
    let watch = Watch::new(state, &path, [slow::shown(&text)]);
    state.pressure.check_read()?;
    let (limits, now) = (limits(), state.clock.now_ms());
    let parsed = state.workers.run(move |_| Ok((parse(&text, now, &limits), limits)));
    let (most, setting) = state.evaluator().engine.settings().longest();
    let parsed = timeout_at((began + most).into(), parsed).await.map_err(|_| {
        let (place, of) = ("query queue", LimitSource::Setting(setting));
        let late = QueryError::TimedOut { place, limit: most, of };
        reached(state, &late);
        ApiError::Query(late)
    })?;
    let (query, limits) = parsed?;
    Ok(Asked { query: query?, limits, began, _body: body, _watch: watch })
}

/// The JSON of a query, and the body that it was in. While the body is there, its room is taken.
async fn query_json(
    state: &AppState,
    request: Request,
) -> Result<(String, Option<ReceivedBody>), Failure> {
    let (parts, body) = request.into_parts();
    if parts.method != Method::GET {
        let encoding = parts.headers.get(header::CONTENT_ENCODING);
        if let Some(encoding) = encoding.filter(|encoding| *encoding != "identity") {
            let why = format!("a query is not taken with the Content-Encoding {encoding:?}");
            return Err(RequestError::UnsupportedType(why).into());
        }
        let (most, http) = (state.body_bytes(), &state.metrics.http);
        let body = receive(&state.forms, &parts.headers, body, most, http).await?;
        if body.bytes.len() > MAX_KAIROSDB_QUERY_BYTES {
            let most = ShownSize::of(MAX_KAIROSDB_QUERY_BYTES);
            let why = format!("query of more than {most}; {NO_SETTING}");
            return Err(ApiError::BadRequest(why).into());
        }
        return Ok((String::from_utf8_lossy(&body.bytes).into_owned(), Some(body)));
    }
    let query = query_of(&parts.uri, &parts.extensions).unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    match pairs.find(|(name, text)| name == "query" && !text.is_empty()) {
        Some((_, text)) => Ok((text.into_owned(), None)),
        None => Err(ApiError::BadRequest(NO_QUERY.into()).into()),
    }
}

/// The limits of a query that no setting changes. Its memory is limited by that of a query of PromQL.
fn limits() -> Limits {
    let (max_points_in_memory, max_answer_bytes) = (u64::MAX, usize::MAX);
    Limits { max_points_in_memory, max_answer_bytes, ..Limits::default() }
}
