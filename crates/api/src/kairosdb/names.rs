//! `/api/v1/metricnames`: the names of all metrics, sorted.

use axum::extract::State;
use axum::response::Response;

use super::answer::answer;
use super::failure::Failure;
use crate::answer_room::holding;
use crate::error::ApiError;
use crate::labels::{ITEM_BYTES, RESULTS, SIZE};
use crate::parameters::Parameters;
use crate::settings::ListLimits;
use crate::slow::Watch;
use crate::state::{AppState, SharedState};
use promkairos_kairos_query::render_names;
use promkairos_model::{METRIC_NAME, ShownSize, TimeRange};
use promkairos_storage::{ListSize, Listed, SeriesQuery};

/// `GET /api/v1/metricnames`, parameter `prefix`. More names than a list may have are an error, so that no client
/// takes a part of them for all.
pub(super) async fn metric_names(
    State(state): State<SharedState>,
    parameters: Parameters,
) -> Result<Response, Failure> {
    let _watch = Watch::new(&state, "/api/v1/metricnames", parameters.shown());
    let ListLimits { results, bytes, .. } = state.turns().limits;
    let limit = ListSize { items: usize::MAX, bytes };
    let query = SeriesQuery { matchers: Vec::new(), range: TimeRange::ALL, limit };
    let store = state.store()?.clone();
    let names = async { Ok(store.label_values(METRIC_NAME, &query).await?) };
    let (mut names, turn) = state.in_turn(names).await?;
    if names.truncated {
        return Err(refused(&state, format!("names of {}", ShownSize::of(bytes)), SIZE));
    }
    names.items.retain(|name| name.starts_with(parameters.first("prefix")));
    if names.items.len() > results {
        return Err(refused(&state, format!("{results} names"), RESULTS));
    }
    let bytes = names.items.iter().map(|name| name.bytes() + ITEM_BYTES).sum();
    let json = render_names(names.items.iter().map(String::as_str));
    Ok(holding(answer(json), turn, bytes))
}

fn refused(state: &AppState, most: String, setting: &'static str) -> Failure {
    state.metrics.http.limits.reached(setting);
    ApiError::BadRequest(format!("more than {most}, which is the setting {setting}")).into()
}
