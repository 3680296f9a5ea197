//! Previews a delete: the series with their numbers of points and exemplars in the range, and the marks that the
//! delete would leave in a store that keeps them.
//!
//! Points are counted by reading a run of series at a time, exemplars by reading a part of the range at a time.
//! The list of series is truncated; the sums are complete.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::exemplars::too_many;
use super::selected::{Made, Points, of_each_series};
use super::{ApiError, AppState};
use promkairos_model::limits::MAX_PREVIEW_SERIES;
use promkairos_model::{Labels, Matcher, TimeRange};
use promkairos_storage::{DeleteCost, ExemplarPieces, Limited, ListSize, SeriesQuery, StoreError};

/// Numbers of points and exemplars.
type Count = (u64, u64);

/// The preview for these selectors. A series that several selectors match is counted once, but the cost counts each
/// selector, because each is a separate delete.
pub(super) async fn preview(
    state: &AppState,
    selectors: &[Vec<Matcher>],
    range: TimeRange,
) -> Result<Value, ApiError> {
    let (mut counts, mut all_held) = (BTreeMap::<Labels, Count>::new(), Vec::new());
    let mut costs = Vec::with_capacity(selectors.len());
    for matchers in selectors {
        let (found, held) = of_each_series(state, matchers, range, points_of).await?;
        all_held.push(held);
        for (labels, points) in found {
            counts.entry(labels).or_default().0 = points;
        }
        for (labels, exemplars) in exemplars_of_each(state, matchers, range).await? {
            counts.entry(labels).or_default().1 = exemplars;
        }
        costs.push(state.store()?.delete_cost(matchers, range).await?);
    }
    let selected = counts.iter().take(MAX_PREVIEW_SERIES).map(|(labels, (points, exemplars))| {
        json!({ "labels": labels.to_string(), "points": points, "exemplars": exemplars })
    });
    let mut answer = json!({
        "selected": selected.collect::<Vec<_>>(),
        "series": counts.len(),
        "points": counts.values().map(|(points, _)| points).sum::<u64>(),
        "exemplars": counts.values().map(|(_, exemplars)| exemplars).sum::<u64>(),
    });
    if let Some(cost) = costs.into_iter().flatten().reduce(|all, one| all + one) {
        answer["cost"] = cost_json(cost);
    }
    Ok(answer)
}

fn cost_json(cost: DeleteCost) -> Value {
    let tombstones = cost.tombstones;
    json!({
        "windows": cost.windows,
        "index_rows_deleted": cost.index_rows_deleted,
        "index_rows_left": cost.index_rows_left,
        "tombstones": {
            "data_points": tombstones.data_points,
            "row_keys": tombstones.row_keys,
            "row_key_time_index": tombstones.row_key_time_index,
            "row_key_index": tombstones.row_key_index,
            "tag_indexed_row_keys": tombstones.tag_indexed_row_keys,
        },
    })
}

/// The number of series that match and may have points in the range, from the index. It is at most
/// [`MAX_PREVIEW_SERIES`]; `more` says whether there are more.
pub(super) async fn matched(
    state: &AppState,
    selectors: &[Vec<Matcher>],
    range: TimeRange,
) -> Result<Value, ApiError> {
    let limit = ListSize::items(MAX_PREVIEW_SERIES);
    let mut lists = Vec::with_capacity(selectors.len());
    for matchers in selectors {
        let query = SeriesQuery { matchers: matchers.clone(), range, limit };
        lists.push(state.store()?.series(&query).await?);
    }
    let matched = Limited::union(lists, limit);
    Ok(json!({ "series": matched.items.len(), "more": matched.truncated }))
}

/// The number of exemplars of each matching series. The range is halved until one part fits into memory.
async fn exemplars_of_each(
    state: &AppState,
    matchers: &[Matcher],
    range: TimeRange,
) -> Result<BTreeMap<Labels, u64>, ApiError> {
    let (store, most) = (state.store()?, state.turns().limits.bytes);
    let (mut counts, mut pieces) = (BTreeMap::new(), ExemplarPieces::of(range));
    while let Some(piece) = pieces.next() {
        let found = async { Ok(store.exemplars(matchers, piece, most).await?) };
        let (found, _turn) = match state.in_turn(found).await {
            Err(ApiError::Store(StoreError::Limit(_))) if pieces.divide(piece) => continue,
            found => found.map_err(|error| too_many(state, error))?,
        };
        for (labels, exemplars) in found {
            *counts.entry(labels).or_default() += exemplars.len() as u64;
        }
    }
    Ok(counts)
}

impl Made for (Labels, u64) {}

/// A series with the number of its points in the range, if there are any.
fn points_of(labels: &Labels, points: Points<'_>) -> Result<Option<(Labels, u64)>, ApiError> {
    let mut count = 0;
    for point in points {
        point?;
        count += 1;
    }
    Ok((count > 0).then(|| (labels.clone(), count)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::poll;
    use tokio::task::yield_now;

    use super::*;
    use promkairos_model::{METRIC_NAME, RawLabels, Sample, SeriesEntry, WriteBatch};
    use promkairos_storage::Store;
    use promkairos_storage::memory::MemoryStore;

    // The runtime has one thread and the store never waits: work on this thread is done after one poll.
    #[tokio::test]
    async fn points_are_counted_by_the_workers() {
        let store = MemoryStore::new();
        let labels = Labels::from_pairs([(METRIC_NAME, "up")]).expect("valid");
        let series = SeriesEntry {
            labels: RawLabels(labels.as_bytes()),
            index: 0,
            samples: 0..2,
            histograms: 0..0,
            exemplars: 0..0,
        };
        let sample = |timestamp| Sample { timestamp, start_timestamp: 0, value: 1.0 };
        let samples = vec![sample(1), sample(2)];
        let batch = WriteBatch { series: vec![series], samples, ..WriteBatch::default() };
        store.write(batch).await.expect("stored");
        let state = AppState::new(Arc::default());
        state.open(Arc::new(store));
        let all = state.workers.places.available_permits() as u32;
        let places = state.workers.places.clone().try_acquire_many_owned(all).expect("free");
        let selectors = [vec![Matcher::equal(METRIC_NAME, "up")]];
        let range = TimeRange::new(2, 9);
        let mut counted = std::pin::pin!(preview(&state, &selectors, range));
        for _ in 0..100 {
            assert!(poll!(&mut counted).is_pending(), "counted on the thread that serves");
            yield_now().await;
        }
        drop(places);
        let counted = counted.await.expect("an answer");
        assert_eq!((&counted["series"], &counted["points"]), (&json!(1), &json!(1)));
        assert_eq!(counted.get("cost"), None, "a store in memory keeps no marks");
    }
}
