//! `/api/v1/metadata`: type, unit and help of metric families, one entry for each family: the last
//! one written.

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;

use super::admission::ListPermit;
use super::answer_room::holding;
use super::parameters::{Parameters, integer};
use super::slow::Watch;
use super::state::SharedState;
use super::{ApiError, AppState, json};
use promkairos_model::Metadata;
use promkairos_promql::annotations::Shown;

/// An entry; the keys have Prometheus' order.
#[derive(Serialize)]
struct Entry<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    unit: &'a str,
    help: &'a str,
}

/// Families with their names.
type Families = Vec<(String, Metadata)>;

/// `GET /api/v1/metadata`, parameters `metric`, `limit`, `limit_per_metric`.
pub(super) async fn metadata(State(state): State<SharedState>, parameters: Parameters) -> Response {
    let _watch = Watch::new(&state, "/api/v1/metadata", parameters.shown());
    match families(&state, &parameters).await {
        Ok((families, turn)) => {
            let bytes = families.iter().map(bytes_of).sum();
            holding(page(families), turn, bytes)
        }
        Err(error) => json::failure(error),
    }
}

async fn families(
    state: &AppState,
    parameters: &Parameters,
) -> Result<(Families, ListPermit), ApiError> {
    let limit = count(parameters, "limit")?;
    // Each family has one entry, so the parameter is only checked.
    count(parameters, "limit_per_metric")?;
    let metric = Some(parameters.first("metric")).filter(|metric| !metric.is_empty());
    let store = state.store()?;
    state.in_turn(async { Ok(store.metadata(metric, limit).await?) }).await
}

/// Approximate memory of a family.
fn bytes_of((name, metadata): &(String, Metadata)) -> usize {
    size_of::<(String, Metadata)>() + name.len() + metadata.unit.len() + metadata.help.len()
}

/// A JSON object with a list of one entry for each family.
fn page(families: Families) -> Response {
    let write = |out: &mut String, (name, metadata): (String, Metadata)| {
        let Metadata { kind, unit, help } = &metadata;
        let entry = Entry { kind: kind.as_str(), unit, help };
        out.push_str(&json::text(&name));
        out.push_str(":[");
        out.push_str(&json::text(&entry));
        out.push(']');
    };
    let tail = json::tail(&Shown::default());
    json::items_between("{".to_owned(), families, write, format!("}}{tail}"))
}

/// A number; negative or missing means no limit.
fn count(parameters: &Parameters, name: &str) -> Result<usize, ApiError> {
    let text = parameters.first(name);
    if text.is_empty() {
        return Ok(usize::MAX);
    }
    let count =
        integer(text).map_err(|_| ApiError::BadRequest(format!("{name} must be a number")))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}
