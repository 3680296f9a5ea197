//! `/api/v1/query_exemplars`: the exemplars of all series that a query selects.
//!
//! Exemplars are data, like samples: an answer beyond the size limit of lists is an error, never a truncated list.

use std::fmt::Write as _;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::answer_room::holding;
use super::labels::SIZE;
use super::parameters::Parameters;
use super::slow::Watch;
use super::state::SharedState;
use super::time_param::TimeParam;
use super::workers::Caller;
use super::{ApiError, AppState, json, query_request};
use promkairos_model::{Exemplar, Matcher, TimeRange};
use promkairos_promql::annotations::Shown;
use promkairos_promql::ast::Expr;
use promkairos_promql::format::{sample_value, timestamp};
use promkairos_promql::{QueryError, QueryOptions};
use promkairos_storage::{ExemplarList, GatheredExemplars, StoreError, exemplar_bytes};

/// `/api/v1/query_exemplars`, parameters `query`, `start`, `end`. A query without selectors is answered 204.
pub(super) async fn query_exemplars(
    State(state): State<SharedState>,
    parameters: Parameters,
) -> Response {
    let _watch = Watch::new(&state, "/api/v1/query_exemplars", parameters.shown());
    json::respond(answer(&state, &parameters).await)
}

async fn answer(state: &AppState, parameters: &Parameters) -> Result<Response, ApiError> {
    let start = parameters.time("start")?.unwrap_or(TimeParam::EARLIEST);
    let end = parameters.time("end")?.unwrap_or(TimeParam::LATEST);
    let range = TimeRange::new(start.millis(), end.millis());
    if end < start {
        let why = "end timestamp must not be before start timestamp";
        return Err(ApiError::BadRequest(why.into()));
    }
    let options = QueryOptions::default();
    let (expr, _room) = query_request::parsed(state, parameters.first("query"), &options).await?;
    let expr = expr.map_err(ApiError::BadRequest)?;
    let mut selectors = Vec::new();
    collect(&expr, &mut selectors);
    if selectors.is_empty() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let store = state.store()?;
    let most = state.turns().limits.bytes;
    let found = async {
        if let [matchers] = selectors[..] {
            return Ok(store.exemplars(matchers, range, most).await?);
        }
        let mut all = GatheredExemplars::new(most);
        for matchers in selectors {
            let found = store.exemplars(matchers, range, most).await?;
            // A series that several selectors match has the same exemplars each time.
            let add = move |_: &Caller<'_>| all.add_all(found).map(|()| all).map_err(Into::into);
            all = state.workers.run(add).await?;
        }
        state.workers.run(move |_| Ok(all.finish())).await
    };
    let found = state.in_turn(found).await;
    let (found, turn) = found.map_err(|error| too_many(state, error))?;
    let bytes = exemplar_bytes(&found);
    Ok(holding(list(found), turn, bytes))
}

/// Adds the setting to the error that there are too many exemplars, and counts it.
pub(super) fn too_many(state: &AppState, error: ApiError) -> ApiError {
    match error {
        ApiError::Store(StoreError::Limit(what)) => {
            state.metrics.http.limits.reached(SIZE);
            let what = format!("{what}, which is the setting {SIZE}");
            ApiError::Query(QueryError::Limit { what, setting: SIZE })
        }
        other => other,
    }
}

/// Collects the matchers of every selector in an expression.
fn collect<'a>(expr: &'a Expr, selectors: &mut Vec<&'a [Matcher]>) {
    match expr {
        Expr::Selector(selector) => selectors.push(&selector.matchers),
        Expr::Matrix(matrix) => selectors.push(&matrix.selector.matchers),
        _ => expr.children().into_iter().for_each(|child| collect(child, selectors)),
    }
}

/// The answer, written one exemplar at a time, because one series may have nearly all of them.
fn list(found: ExemplarList) -> Response {
    let mut series = found.into_iter();
    let mut own: Option<std::vec::IntoIter<Exemplar>> = None;
    let (mut before_series, mut before_exemplar) = ("", "");
    let next = move |out: &mut String| {
        if let Some(exemplars) = &mut own {
            match exemplars.next() {
                Some(exemplar) => {
                    out.push_str(std::mem::replace(&mut before_exemplar, ","));
                    write(out, &exemplar);
                }
                None => {
                    out.push_str("]}");
                    own = None;
                }
            }
            return true;
        }
        let Some((labels, exemplars)) = series.next() else { return false };
        out.push_str(std::mem::replace(&mut before_series, ","));
        out.push_str("{\"seriesLabels\":");
        json::labels(out, &labels);
        out.push_str(",\"exemplars\":[");
        (own, before_exemplar) = (Some(exemplars.into_iter()), "");
        true
    };
    json::stream("[".into(), next, format!("]{}", json::tail(&Shown::default())))
}

fn write(out: &mut String, exemplar: &Exemplar) {
    out.push_str("{\"labels\":");
    json::labels(out, &exemplar.labels);
    let (value, time) = (sample_value(exemplar.value), timestamp(exemplar.timestamp));
    let _ = write!(out, ",\"value\":\"{value}\",\"timestamp\":{time}}}");
}
