//! What a delete would take: series, and how many points and exemplars of each lie in the range.
//!
//! Counted by reading them, a run of series at a time. The list is cut, the sums are not.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::ApiError;
use super::selected::each_series;
use crate::limits::MAX_PREVIEW_SERIES;
use crate::model::{Labels, Matcher, TimeRange};
use crate::storage::Store;

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
    each_series(store, matchers, range, |series, points| {
        let mut count = 0;
        for point in points {
            point?;
            count += 1;
        }
        if count > 0 {
            counts.entry(series.clone()).or_default().0 = count;
        }
        Ok(())
    })
    .await
}
