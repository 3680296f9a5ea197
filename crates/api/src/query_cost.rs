//! Costs of queries: the endpoints `query_cost` and `query_range_cost`.
//!
//! The engine counts costs and enforces their limits.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::error::ApiError;
use super::json;
use super::parameters::Parameters;
use super::query_request::{Kind, expression, options, reached, steps, wanted};
use super::query_result::{Figures, stats_warning};
use super::slow::Watch;
use super::state::{AppState, SharedState};
use promkairos_promql::Estimate;

/// `/api/v1/query_cost`; parameters like `query`.
pub(super) async fn query_cost(
    State(state): State<SharedState>,
    headers: HeaderMap,
    parameters: Parameters,
) -> Response {
    let _watch = Watch::new(&state, "/api/v1/query_cost", parameters.shown());
    respond(&parameters, estimate(&state, &headers, &parameters, Kind::Instant).await)
}

/// `/api/v1/query_range_cost`; parameters like `query_range`.
pub(super) async fn query_range_cost(
    State(state): State<SharedState>,
    headers: HeaderMap,
    parameters: Parameters,
) -> Response {
    let _watch = Watch::new(&state, "/api/v1/query_range_cost", parameters.shown());
    respond(&parameters, estimate(&state, &headers, &parameters, Kind::Range).await)
}

/// The estimate of a query of this kind; counts a limit that it exceeds.
async fn estimate(
    state: &AppState,
    headers: &HeaderMap,
    parameters: &Parameters,
    kind: Kind,
) -> Result<Estimate, ApiError> {
    parameters.limit()?;
    wanted(parameters)?;
    let steps = steps(state, parameters, kind)?;
    let options = options(state, headers, parameters)?;
    let (expr, _room) = expression(state, parameters.first("query"), &options).await?;
    let store = state.store()?.clone();
    let evaluator = state.evaluator();
    let engine = &evaluator.engine;
    let estimate = match kind {
        Kind::Instant => engine.estimate_instant(store, &expr, steps.start, &options).await,
        Kind::Range => engine.estimate_range(store, &expr, steps, &options).await,
    };
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
