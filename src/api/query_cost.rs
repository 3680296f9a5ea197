//! Costs of queries: the endpoints `query_cost` and `query_range_cost`, the parameters `max_series`,
//! `max_samples_read` and `max_query_duration`, and the part `cost` of an answer.
//!
//! A parameter can only lower the limit of a setting; a greater value is refused here. The engine counts costs and
//! enforces the limits.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::parameters::{Parameters, invalid, truth, unsigned};
use super::slow::Watch;
use super::{ApiError, AppState, json, query, query_result, time_param};
use crate::promql::annotations::Shown;
use crate::promql::{CostLimits, Estimate, Estimating, QueryError, Settings, Stats, quoted};
use crate::storage::MEMORY_LIMIT;

/// `/api/v1/query_cost`; parameters like `query`.
pub(super) async fn query_cost(
    State(state): State<Arc<AppState>>,
    headers: HeaderMap,
    parameters: Parameters,
) -> Response {
    let _watch = Watch::new(&state, "/api/v1/query_cost", parameters.shown());
    respond(&parameters, instant(&state, &headers, &parameters).await)
}

/// `/api/v1/query_range_cost`; parameters like `query_range`.
pub(super) async fn query_range_cost(
    State(state): State<Arc<AppState>>,
    headers: HeaderMap,
    parameters: Parameters,
) -> Response {
    let _watch = Watch::new(&state, "/api/v1/query_range_cost", parameters.shown());
    respond(&parameters, range(&state, &headers, &parameters).await)
}

async fn instant(
    state: &AppState,
    headers: &HeaderMap,
    parameters: &Parameters,
) -> Result<Estimate, ApiError> {
    parameters.limit()?;
    wanted(parameters)?;
    let time = query::instant_time(state, parameters)?;
    let options = query::options(state, headers, parameters)?;
    let (expr, _room) = query::expression(state, parameters.first("query"), &options).await?;
    let store = state.store()?.clone();
    let evaluator = state.evaluator();
    counted(state, evaluator.engine.estimate_instant(store, &expr, time, &options).await)
}

async fn range(
    state: &AppState,
    headers: &HeaderMap,
    parameters: &Parameters,
) -> Result<Estimate, ApiError> {
    parameters.limit()?;
    wanted(parameters)?;
    let steps = query::range_steps(parameters)?;
    let options = query::options(state, headers, parameters)?;
    let (expr, _room) = query::expression(state, parameters.first("query"), &options).await?;
    let store = state.store()?.clone();
    let evaluator = state.evaluator();
    counted(state, evaluator.engine.estimate_range(store, &expr, steps, &options).await)
}

/// The estimate; counts a limit that it exceeds.
fn counted(state: &AppState, estimate: Result<Estimate, QueryError>) -> Result<Estimate, ApiError> {
    let reached = estimate.as_ref().err().and_then(QueryError::setting);
    // Refusals for lack of memory are counted elsewhere.
    if let Some(setting) = reached.filter(|setting| *setting != MEMORY_LIMIT) {
        state.metrics.http.limits.reached(setting);
    }
    Ok(estimate?)
}

fn respond(parameters: &Parameters, estimate: Result<Estimate, ApiError>) -> Response {
    match estimate {
        Ok(Estimate { series_touched, samples_read, mut warnings }) => {
            warnings.extend(query_result::stats_warning(parameters.first("stats")));
            warnings.sort_unstable();
            let estimate = Figures { series_touched, samples_read, peak_samples: None };
            json::warned(&Answer { estimate }, warnings)
        }
        Err(error) => json::failure(error),
    }
}

/// Whether the query is to be estimated too.
pub(super) fn wanted(parameters: &Parameters) -> Result<Estimating, ApiError> {
    match parameters.first("cost") {
        "" => Ok(Estimating::Off),
        text => match truth(text) {
            Ok(true) => Ok(Estimating::On),
            Ok(false) => Ok(Estimating::Off),
            Err(_) => Err(invalid("cost", "must be a boolean")),
        },
    }
}

/// The cost limits in the parameters; none may exceed the settings.
pub(super) fn limits(parameters: &Parameters, settings: &Settings) -> Result<CostLimits, ApiError> {
    let number = |name| match parameters.first(name) {
        "" => Ok(0),
        text => unsigned(text).map_err(|why| {
            let why = format!("strconv.ParseUint: parsing {}: {why}", quoted(text));
            ApiError::BadRequest(format!("error parsing {name}: {why}"))
        }),
    };
    let (series, samples_read) = (number("max_series")?, number("max_samples_read")?);
    let duration = match parameters.first("max_query_duration") {
        "" => Duration::ZERO,
        text => duration(text).map_err(|why| {
            ApiError::BadRequest(format!("error parsing max_query_duration: {why}"))
        })?,
    };
    let lowers = |name: &str, own: u64, most: u64| match most != 0 && own > most {
        true => Err(above(name, &own.to_string(), &most.to_string())),
        false => Ok(()),
    };
    lowers("max_series", series, settings.max_series)?;
    lowers("max_samples_read", samples_read, settings.max_samples_read)?;
    let (longest, _) = settings.longest();
    if duration > longest {
        let nanoseconds = |length: Duration| i64::try_from(length.as_nanos()).unwrap_or(i64::MAX);
        let [own, most] = [duration, longest].map(nanoseconds).map(time_param::go_duration);
        return Err(above("max_query_duration", &own, &most));
    }
    Ok(CostLimits { series, samples_read, duration })
}

fn duration(text: &str) -> Result<Duration, String> {
    let nanoseconds = time_param::duration(text)?;
    let negative =
        |_| format!("must not be negative, got {}", time_param::go_duration(nanoseconds));
    u64::try_from(nanoseconds).map(Duration::from_nanos).map_err(negative)
}

fn above(name: &str, own: &str, most: &str) -> ApiError {
    ApiError::BadRequest(format!("requested {name} of {own} exceeds the server limit of {most}"))
}

/// The answer of an estimate.
#[derive(serde::Serialize)]
struct Answer {
    estimate: Figures,
}

/// The cost of a query.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    series_touched: u64,
    samples_read: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_samples: Option<u64>,
}

/// The part of an answer that compares the estimate with the actual cost, with a comma before it. Empty if the
/// estimate failed; then a warning says why.
pub(super) fn compared(
    estimate: Result<Estimate, QueryError>,
    stats: &Stats,
    shown: &mut Shown,
) -> String {
    let Estimate { series_touched, samples_read, warnings } = match estimate {
        Ok(estimate) => estimate,
        Err(why) => {
            shown.warnings.push(format!("cost estimation failed: {why}"));
            return String::new();
        }
    };
    shown.warnings.extend(warnings);
    let estimated = Figures { series_touched, samples_read, peak_samples: None };
    let actual = Figures {
        series_touched: stats.series_touched,
        samples_read: stats.samples_taken,
        peak_samples: Some(stats.peak_samples).filter(|peak| *peak > 0),
    };
    let estimated = serde_json::to_string(&estimated).unwrap_or_default();
    let actual = serde_json::to_string(&actual).unwrap_or_default();
    format!(",\"cost\":{{\"estimated\":{estimated},\"actual\":{actual}}}")
}
