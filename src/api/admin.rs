//! `/api/v1/admin/tsdb/delete_series`: deletes points of the series that match.
//!
//! Off unless `--enable-admin-api` is set. Answers as Prometheus does: 204, or its JSON error.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;

use super::match_parameters::MatchParameters;
use super::workers::Caller;
use super::{ApiError, AppState, delete_preview, json};
use crate::config::AdminApi;
use crate::model::{MAX_TIMESTAMP, MIN_TIMESTAMP, Matcher, TimeRange};

/// What Go clients send for "as early as can be" and "as late as can be".
const EARLIEST: &str = "-292273086-05-16T16:47:06Z";
const LATEST: &str = "292277025-08-18T07:12:54.999999999Z";

/// `POST` or `PUT`, parameters `match[]` (one or more), `start`, `end` in the URL or a form. With
/// `dry_run=true` nothing is deleted, and the answer says what would be.
pub(super) async fn delete_series(
    State(state): State<Arc<AppState>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    if let Some(refused) = refused_unless_enabled(&state) {
        return refused;
    }
    let body = match state.deletes.read(&headers, body).await {
        Ok(body) => body,
        Err(refusal) => return refusal.into_response(),
    };
    let bytes = body.bytes.clone();
    let parse = move |caller: &Caller<'_>| {
        Parameters::parse(&bytes, query.unwrap_or_default().as_bytes(), caller)
    };
    let parameters = state.workers.run(parse).await;
    drop(body);
    let Parameters { selectors, range, mode } = match parameters {
        Ok(parameters) => parameters,
        Err(error) => return json::failure(error),
    };
    let done = match mode {
        Mode::Delete => delete(&state, &selectors, range).await,
        Mode::DryRun => {
            let preview = preview(&state, &selectors, range).await;
            preview.map(|data| json::answer(Ok(data)))
        }
    };
    done.unwrap_or_else(IntoResponse::into_response)
}

/// What is asked for.
struct Parameters {
    selectors: Vec<Vec<Matcher>>,
    range: TimeRange,
    mode: Mode,
}

impl Parameters {
    /// From a form and a URL; the URL, coming last, wins.
    fn parse(form: &[u8], query: &[u8], caller: &Caller<'_>) -> Result<Self, ApiError> {
        let mut selectors = MatchParameters::default();
        let (mut range, mut mode) = (TimeRange::ALL, Mode::Delete);
        for (name, value) in [form, query].into_iter().flat_map(form_urlencoded::parse) {
            match &*name {
                "match[]" => selectors.push(&value)?,
                "start" => range.start = time("start", &value)?,
                "end" => range.end = time("end", &value)?,
                "dry_run" => mode = Mode::parse(&value)?,
                _ => {}
            }
        }
        Ok(Self { selectors: selectors.compile(caller)?, range, mode })
    }
}

/// Whether to do it.
#[derive(Debug, Clone, Copy)]
enum Mode {
    Delete,
    DryRun,
}

impl Mode {
    /// The value of `dry_run`: one that is misread would delete.
    fn parse(text: &str) -> Result<Self, ApiError> {
        match text {
            "true" | "1" => Ok(Self::DryRun),
            "false" | "0" => Ok(Self::Delete),
            _ => Err(ApiError::BadRequest(format!(
                "invalid parameter \"dry_run\": {text:?} is not true or false"
            ))),
        }
    }
}

async fn delete(
    state: &AppState,
    selectors: &[Vec<Matcher>],
    range: TimeRange,
) -> Result<Response, ApiError> {
    for matchers in selectors {
        state.store()?.delete(matchers, range).await?;
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn preview(
    state: &AppState,
    selectors: &[Vec<Matcher>],
    range: TimeRange,
) -> Result<serde_json::Value, ApiError> {
    delete_preview::preview(&**state.store()?, selectors, range).await
}

/// The answer where the admin API is off.
pub(super) fn refused_unless_enabled(state: &AppState) -> Option<Response> {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    (state.admin_api == AdminApi::Disabled)
        .then(|| json::error(status, "unavailable", "admin APIs disabled"))
}

/// Unix seconds with a fraction, or RFC 3339; in milliseconds. Far away times are clamped.
pub(super) fn time(name: &str, text: &str) -> Result<i64, ApiError> {
    let bad = || {
        let why = format!("cannot parse {text:?} to a valid timestamp");
        ApiError::BadRequest(format!("invalid parameter {name:?}: {why}"))
    };
    if text == EARLIEST {
        return Ok(MIN_TIMESTAMP);
    }
    if text == LATEST {
        return Ok(MAX_TIMESTAMP);
    }
    if let Ok(seconds) = text.parse::<f64>() {
        if !seconds.is_finite() {
            return Err(bad());
        }
        return Ok(((seconds * 1000.0).round() as i64).clamp(MIN_TIMESTAMP, MAX_TIMESTAMP));
    }
    text.parse::<Timestamp>().map(|time| time.as_millisecond()).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::api::remote_write::Intake;

    #[tokio::test]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let state = AppState::new(Arc::default()).with_admin_api(AdminApi::Enabled);
        let deletes = Intake::with_body_timeout(Duration::from_millis(1));
        let state = State(Arc::new(AppState { deletes, ..state }));
        let never = futures::stream::pending::<Result<Bytes, std::io::Error>>();
        let body = Body::from_stream(never);
        let answer = delete_series(state, RawQuery(None), HeaderMap::new(), body).await;
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    }

    #[test]
    fn times() {
        let check =
            |text: &str, want: Option<i64>| assert_eq!(time("t", text).ok(), want, "{text}");
        check("1700000000", Some(1_700_000_000_000));
        check("1700000000.1239", Some(1_700_000_000_124));
        check("-0.5", Some(-500));
        check("2023-11-14T22:13:20Z", Some(1_700_000_000_000));
        check("2023-11-14T23:13:20.5+01:00", Some(1_700_000_000_500));
        check("1e300", Some(MAX_TIMESTAMP));
        check(EARLIEST, Some(MIN_TIMESTAMP));
        check(LATEST, Some(MAX_TIMESTAMP));
        check("", None);
        check("NaN", None);
        check("yesterday", None);
    }
}
