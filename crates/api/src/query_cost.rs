//! Costs of queries: the endpoints `query_cost` and `query_range_cost`.
//!
//! The engine counts costs and enforces their limits.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::error::ApiError;
use super::json;
use super::parameters::Parameters;
use super::query_request::{expression, instant_time, options, range_steps, reached, wanted};
use super::query_result::{Figures, stats_warning};
use super::slow::Watch;
use super::state::AppState;
use promkairos_promql::{Estimate, QueryError};

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
    let time = instant_time(state, parameters)?;
    let options = options(state, headers, parameters)?;
    let (expr, _room) = expression(state, parameters.first("query"), &options).await?;
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
    let steps = range_steps(parameters)?;
    let options = options(state, headers, parameters)?;
    let (expr, _room) = expression(state, parameters.first("query"), &options).await?;
    let store = state.store()?.clone();
    let evaluator = state.evaluator();
    counted(state, evaluator.engine.estimate_range(store, &expr, steps, &options).await)
}

/// The estimate; counts a limit that it exceeds.
fn counted(state: &AppState, estimate: Result<Estimate, QueryError>) -> Result<Estimate, ApiError> {
    Ok(estimate.inspect_err(|error| reached(state, error))?)
}

fn respond(parameters: &Parameters, estimate: Result<Estimate, ApiError>) -> Response {
    match estimate {
        Ok(Estimate { series_touched, samples_read, mut warnings }) => {
            warnings.extend(stats_warning(parameters.first("stats")));
            warnings.sort_unstable();
            let estimate = Figures { series_touched, samples_read, peak_samples: None };
            json::warned(&Answer { estimate }, warnings)
        }
        Err(error) => json::failure(error),
    }
}

/// The answer of an estimate.
#[derive(serde::Serialize)]
struct Answer {
    estimate: Figures,
}
