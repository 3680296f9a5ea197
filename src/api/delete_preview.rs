//! What a delete would take: series, and how many points and exemplars of each lie in the range.
//!
//! Counted by reading them, a run of series at a time. The list is cut, the sums are not.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::ApiError;
use crate::limits::{MAX_PREVIEW_SERIES, READ_RUN_SERIES};
use crate::model::{Labels, Matcher, TimeRange};
use crate::storage::{SelectHints, Store};

/// Points and exemplars.
type Count = (u64, u64);

/// The answer for these selectors, a series that several select counted once.
pub(super) async fn preview(
    store: &dyn Store,
    selectors: &[Vec<Matcher>],
    range: TimeRange,
) -> Result<Value, ApiError> {
    let mut counts: BTreeMap<Labels, Count> = BTreeMap::new();
    for matchers in selectors {
        count_points(store, matchers, range, &mut counts).await?;
        for (labels, exemplars) in store.exemplars(matchers, range).await? {
            counts.entry(labels).or_default().1 = exemplars.len() as u64;
        }
    }
    let selected = counts.iter().take(MAX_PREVIEW_SERIES).map(|(labels, (points, exemplars))| {
        json!({ "labels": labels.to_string(), "points": points, "exemplars": exemplars })
    });
    Ok(json!({
        "selected": selected.collect::<Vec<_>>(),
        "series": counts.len(),
        "points": counts.values().map(|(points, _)| points).sum::<u64>(),
        "exemplars": counts.values().map(|(_, exemplars)| exemplars).sum::<u64>(),
    }))
}

/// Adds the series that have points in the range.
async fn count_points(
    store: &dyn Store,
    matchers: &[Matcher],
    range: TimeRange,
    counts: &mut BTreeMap<Labels, Count>,
) -> Result<(), ApiError> {
    let selection = store.select(matchers, range, &SelectHints::default()).await?;
    let mut start = 0;
    for run in selection.series.chunks(READ_RUN_SERIES) {
        let chunks = selection.reader.read(start..start + run.len()).await?;
        start += run.len();
        for (series, chunks) in run.iter().zip(chunks) {
            let mut points = 0;
            for point in chunks.iter().flat_map(|chunk| chunk.points()) {
                let point =
                    point.map_err(|source| ApiError::Chunk { series: series.clone(), source })?;
                points += u64::from(range.contains(point.timestamp));
            }
            if points > 0 {
                counts.entry(series.clone()).or_default().0 = points;
            }
        }
    }
    Ok(())
}
