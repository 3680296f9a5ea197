//! `/api/v1/metricnames`: the names of all metrics, sorted.

use axum::extract::State;
use axum::response::Response;

use super::answer::answer;
use super::failure::Failure;
use crate::answer_room::holding;
use crate::error::ApiError;
use crate::labels::{ITEM_BYTES, Limit};
use crate::parameters::Parameters;
use crate::slow::Watch;
use crate::state::SharedState;
use promkairos_kairos_query::render_names;
use promkairos_model::{METRIC_NAME, TimeRange};
use promkairos_storage::{Listed, SeriesQuery};

/// `GET /api/v1/metricnames`, parameter `prefix`. More names than a list may have are an error, so that no client
/// takes a part of them for all.
pub(super) async fn metric_names(
    State(state): State<SharedState>,
    parameters: Parameters,
) -> Result<Response, Failure> {
    let _watch = Watch::new(&state, "/api/v1/metricnames", parameters.shown());
    let limit = Limit::of(&state, None);
    let store = state.store()?.clone();
    let query = SeriesQuery { matchers: Vec::new(), range: TimeRange::ALL, limit: limit.most };
    let names = async { Ok(store.label_values(METRIC_NAME, &query).await?) };
    let (mut names, turn) = state.in_turn(names).await?;
    if let Some(why) = limit.warnings(&state, &names).pop() {
        return Err(ApiError::BadRequest(why).into());
    }
    names.items.retain(|name| name.starts_with(parameters.first("prefix")));
    let bytes = names.items.iter().map(|name| name.bytes() + ITEM_BYTES).sum();
    let json = render_names(names.items.iter().map(String::as_str));
    Ok(holding(answer(json), turn, bytes))
}
