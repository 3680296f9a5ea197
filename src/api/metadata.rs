//! `/api/v1/metadata`: type, unit and help of metric families, one entry a family: the last that
//! was written.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;

use super::parameters::{Parameters, integer};
use super::slow::Watch;
use super::turns::Turn;
use super::unsent::holding;
use super::{ApiError, AppState, json};

/// An entry, keys in Prometheus' order.
#[derive(Serialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: &'static str,
    unit: String,
    help: String,
}

/// `GET /api/v1/metadata`, parameters `metric`, `limit`, `limit_per_metric`.
pub(super) async fn metadata(
    State(state): State<Arc<AppState>>,
    parameters: Parameters,
) -> Response {
    let _watch = Watch::new(&state, "/api/v1/metadata", parameters.shown());
    match families(&state, &parameters).await {
        Ok((families, turn)) => holding(json::answer(Ok(families)), turn, 0),
        Err(error) => json::failure(error),
    }
}

async fn families(
    state: &AppState,
    parameters: &Parameters,
) -> Result<(BTreeMap<String, [Entry; 1]>, Turn), ApiError> {
    let limit = count(parameters, "limit")?;
    // There is never more than one.
    count(parameters, "limit_per_metric")?;
    let metric = Some(parameters.first("metric")).filter(|metric| !metric.is_empty());
    let store = state.store()?;
    let found = state.in_turn(async { Ok(store.metadata(metric, limit).await?) });
    let (families, turn) = found.await?;
    let entry = |(name, metadata): (String, crate::model::Metadata)| {
        let kind = metadata.kind.as_str();
        (name, [Entry { kind, unit: metadata.unit, help: metadata.help }])
    };
    Ok((families.into_iter().map(entry).collect(), turn))
}

/// A number of things; below 0 or absent means all.
fn count(parameters: &Parameters, name: &str) -> Result<usize, ApiError> {
    let text = parameters.first(name);
    if text.is_empty() {
        return Ok(usize::MAX);
    }
    let count =
        integer(text).map_err(|_| ApiError::BadRequest(format!("{name} must be a number")))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}
