//! `GET /federate`: the newest sample of each matching series, as text or in protocol buffers.
//!
//! The header `Accept` selects the format and the escaping of names (`accept`). Protocol buffers carry all native
//! histograms; text carries only those with custom bounds, as classic histograms.

mod accept;
mod classic;
mod newest;
mod protobuf;
mod text;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};

use super::admission::ListPermit;
use super::answer_room::holding;
use super::parameters::Parameters;
use super::selected::{Make, Points, of_each_series};
use super::slow::Watch;
use super::state::SharedState;
use super::workers::Caller;
use super::{ApiError, AppState, matches};
use accept::{Encoding, Format};
use newest::Newest;
use promkairos_model::{Labels, TimeRange, Value, is_stale};

/// `GET /federate`, parameter `match[]`. Errors are plain text.
pub(super) async fn federate(
    State(state): State<SharedState>,
    headers: HeaderMap,
    parameters: Parameters,
) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let format = Format::asked_for(accept.unwrap_or_default());
    let _watch = Watch::new(&state, "/federate", parameters.shown());
    match written(&state, &parameters, format).await {
        Ok((page, turn)) => {
            let kind = (header::CONTENT_TYPE, format.content_type());
            let vary = (header::VARY, header::ACCEPT.as_str().to_owned());
            holding(([kind, vary], page).into_response(), turn, 0)
        }
        Err(error) => error.into_response(),
    }
}

/// The page, and the permit under which it was made.
async fn written(
    state: &AppState,
    parameters: &Parameters,
    format: Format,
) -> Result<(Vec<u8>, ListPermit), ApiError> {
    let selectors = matches::parse_any(state, parameters.list("match[]")).await?;
    let (selectors, _room) = selectors.map_err(ApiError::BadRequest)?;
    let now = state.clock.now_ms();
    let lookback = state.evaluator().engine.settings().lookback.as_millis() as i64;
    let range = TimeRange::new(now.saturating_sub(lookback), now);
    let newest: Make<Newest> = match format.encoding {
        Encoding::Text => newest_for_text,
        Encoding::Protobuf => newest_of,
    };
    let page = async {
        let (mut found, mut all_held) = (Vec::new(), Vec::new());
        for matchers in selectors.iter() {
            let (more, held) = of_each_series(state, matchers, range, newest).await?;
            found.extend(more);
            all_held.push(held);
            // Deduplicates after each selector: the same selector may be given many times.
            found = state.workers.run(move |_: &Caller<'_>| Ok(each_once(found))).await?;
        }
        let external = state.global().external_labels.clone();
        found.iter_mut().for_each(|one| one.external = external.clone());
        // In protocol buffers a family is built before it is appended to the page, so it is in memory twice.
        let copies = if format.encoding == Encoding::Protobuf { 2 } else { 1 };
        let bytes = found.iter().map(|one: &Newest| copies * one.bytes_on_page(format.encoding));
        let mut page_held = state.evaluator().engine.nothing();
        page_held.take(0, bytes.sum())?;
        let page = state.workers.run(move |_: &Caller<'_>| Ok(page(found, format))).await;
        drop((all_held, page_held));
        page
    };
    state.in_turn(page).await
}

/// Sorts by labels and removes duplicates.
fn each_once(mut found: Vec<Newest>) -> Vec<Newest> {
    found.sort_by(|a, b| a.labels.cmp(&b.labels));
    found.dedup_by(|a, b| a.labels == b.labels);
    found
}

/// The last sample of a series in the range, unless it is stale.
fn newest_of(labels: &Labels, points: Points<'_>) -> Result<Option<Newest>, ApiError> {
    let mut last = None;
    for point in points {
        last = Some(point?);
    }
    let last = last.filter(|point| match &point.value {
        Value::Float(value) => !is_stale(*value),
        Value::Histogram(histogram) => !histogram.is_stale(),
    });
    Ok(last.map(|point| Newest {
        labels: labels.clone(),
        external: Labels::default(),
        time: point.timestamp,
        value: point.value,
    }))
}

/// Like [`newest_of`], but skips histograms that text cannot express.
fn newest_for_text(labels: &Labels, points: Points<'_>) -> Result<Option<Newest>, ApiError> {
    Ok(newest_of(labels, points)?.filter(|newest| newest.fits(Encoding::Text)))
}

/// The page, in the order of metric, kind and labels.
fn page(mut found: Vec<Newest>, format: Format) -> Vec<u8> {
    found.sort_by(|a, b| a.family().cmp(&b.family()));
    let families = found.chunk_by(|a, b| a.family() == b.family());
    // A family without a name cannot be scraped.
    let families = families.filter(|family| !family[0].metric().is_empty());
    match format.encoding {
        Encoding::Text => text::page(families, format.escaping).into_bytes(),
        Encoding::Protobuf => protobuf::page(families, format.escaping),
    }
}
