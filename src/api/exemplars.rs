//! `/api/v1/query_exemplars`: the exemplars of all series that a query selects.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::moment::Moment;
use super::parameters::Parameters;
use super::slow::Watch;
use super::{ApiError, AppState, json, query};
use crate::model::{Exemplar, Labels, Matcher, TimeRange};
use crate::promql::annotations::Shown;
use crate::promql::ast::Expr;
use crate::promql::format::{sample_value, timestamp};

/// `/api/v1/query_exemplars`, parameters `query`, `start`, `end`. A query that selects nothing has
/// no answer: 204.
pub(super) async fn query_exemplars(
    State(state): State<Arc<AppState>>,
    parameters: Parameters,
) -> Response {
    let _watch = Watch::new(&state, "/api/v1/query_exemplars", parameters.shown());
    json::respond(answer(&state, &parameters).await)
}

async fn answer(state: &AppState, parameters: &Parameters) -> Result<Response, ApiError> {
    let start = parameters.time("start")?.unwrap_or(Moment::EARLIEST);
    let end = parameters.time("end")?.unwrap_or(Moment::LATEST);
    let range = TimeRange::new(start.millis(), end.millis());
    if end < start {
        let why = "end timestamp must not be before start timestamp";
        return Err(ApiError::BadRequest(why.into()));
    }
    let expr = query::parsed(state, parameters.first("query")).await?;
    let expr = expr.map_err(ApiError::BadRequest)?;
    let mut selectors = Vec::new();
    collect(&expr, &mut selectors);
    if selectors.is_empty() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let store = state.store()?;
    let found = async {
        let mut found = BTreeMap::new();
        for matchers in selectors {
            found.extend(store.exemplars(matchers, range).await?);
        }
        Ok(found)
    };
    let found = state.in_turn(found).await?;
    Ok(list(found))
}

/// The matchers of every selector in an expression.
fn collect<'a>(expr: &'a Expr, selectors: &mut Vec<&'a [Matcher]>) {
    match expr {
        Expr::Selector(selector) => selectors.push(&selector.matchers),
        Expr::Matrix(matrix) => selectors.push(&matrix.selector.matchers),
        _ => expr.children().into_iter().for_each(|child| collect(child, selectors)),
    }
}

fn list(found: BTreeMap<Labels, Vec<Exemplar>>) -> Response {
    type Series = (Labels, Vec<Exemplar>);
    let write = |out: &mut String, (labels, exemplars): Series| write(out, &labels, &exemplars);
    json::list("", found, write, &json::tail(&Shown::default()))
}

fn write(out: &mut String, labels: &Labels, exemplars: &[Exemplar]) {
    out.push_str("{\"seriesLabels\":");
    json::labels(out, labels);
    out.push_str(",\"exemplars\":[");
    for (at, exemplar) in exemplars.iter().enumerate() {
        out.push_str(if at > 0 { ",{\"labels\":" } else { "{\"labels\":" });
        json::labels(out, &exemplar.labels);
        let (value, time) = (sample_value(exemplar.value), timestamp(exemplar.timestamp));
        let _ = write!(out, ",\"value\":\"{value}\",\"timestamp\":{time}}}");
    }
    out.push_str("]}");
}
