//! `/api/v1/status/tsdb`: which metrics, labels and values have the most series.
//!
//! Counts the series of the last hours, as Prometheus counts the series of its head; all series if
//! there are none. If there are more series than the label endpoints list, only the first are counted,
//! with a warning. Chunks are the chunks in memory. A number that a store does not count is 0.

use std::collections::HashMap;

use serde::Serialize;

use super::labels::Limit;
use super::parameters::{Parameters, integer};
use super::workers::Caller;
use super::{ApiError, AppState};
use promkairos_model::{Labels, METRIC_NAME, TimeRange};
use promkairos_storage::SeriesQuery;

/// How far back the last hours reach: the range of the head of a Prometheus.
const HEAD_MS: i64 = 3 * 3_600_000;
const MOST: i64 = 10_000;
const USUAL: usize = 10;

/// The counts, keys in Prometheus' order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cardinality {
    head_stats: HeadStats,
    series_count_by_metric_name: Vec<Count>,
    label_value_count_by_label_name: Vec<Count>,
    memory_in_bytes_by_label_name: Vec<Count>,
    series_count_by_label_value_pair: Vec<Count>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HeadStats {
    num_series: u64,
    num_label_pairs: usize,
    chunk_count: u64,
    min_time: i64,
    max_time: i64,
}

#[derive(Serialize)]
struct Count {
    name: String,
    value: u64,
}

/// The counts, with the `limit` greatest of each kind, and warnings about series that are not counted.
pub(super) async fn cardinality(
    state: &AppState,
    parameters: &Parameters,
) -> Result<(Cardinality, Vec<String>), ApiError> {
    let limit = match parameters.first("limit") {
        "" => USUAL,
        text => positive(text)?,
    };
    let listed = Limit::of(state, None);
    let store = state.store()?;
    let now = state.clock.now_ms();
    let counted = async {
        let stats = store.stats().await?;
        let recent = TimeRange::new(now.saturating_sub(HEAD_MS), i64::MAX);
        let query = |range| SeriesQuery { matchers: Vec::new(), range, limit: listed.most };
        let mut found = store.series(&query(recent)).await?;
        if found.items.is_empty() && !found.truncated {
            found = store.series(&query(TimeRange::ALL)).await?;
        }
        Ok((stats, found))
    };
    let ((stats, found), _turn) = state.in_turn(counted).await?;
    let warnings = listed.warnings(state, &found);
    let series = found.items;
    let range = stats.time_range.unwrap_or(TimeRange::new(0, 0));
    // If the list is truncated, the store may know the total.
    let there = series.len() as u64;
    let num_series = if found.truncated { stats.series.max(there) } else { there };
    let head = HeadStats {
        num_series,
        num_label_pairs: 0,
        chunk_count: stats.chunks,
        min_time: range.start,
        max_time: range.end,
    };
    let count = move |_: &Caller<'_>| Ok(Counts::of(&series).shown(limit, head));
    Ok((state.workers.run(count).await?, warnings))
}

fn positive(text: &str) -> Result<usize, ApiError> {
    match integer(text) {
        Ok(limit @ 1..=MOST) => Ok(limit as usize),
        Ok(limit) if limit > MOST => {
            Err(ApiError::BadRequest(format!("limit must not exceed {MOST}")))
        }
        _ => Err(ApiError::BadRequest("limit must be a positive number".into())),
    }
}

/// The counts; keys are borrowed from the label sets.
#[derive(Default)]
struct Counts<'a> {
    metrics: HashMap<&'a str, u64>,
    values: HashMap<&'a str, u64>,
    bytes: HashMap<&'a str, u64>,
    pairs: HashMap<(&'a str, &'a str), u64>,
}

impl<'a> Counts<'a> {
    fn of(series: &'a [Labels]) -> Self {
        let mut counts = Self::default();
        for (name, value) in series.iter().flat_map(Labels::iter) {
            if name == METRIC_NAME {
                *counts.metrics.entry(value).or_default() += 1;
            }
            let pair = counts.pairs.entry((name, value)).or_default();
            *pair += 1;
            if *pair == 1 {
                *counts.values.entry(name).or_default() += 1;
            }
            *counts.bytes.entry(name).or_default() += value.len() as u64;
        }
        counts
    }

    fn shown(self, limit: usize, head: HeadStats) -> Cardinality {
        let pairs = self.pairs.iter();
        let pairs = pairs.map(|((name, value), count)| (format!("{name}={value}"), *count));
        let texts = |counts: HashMap<&str, u64>| {
            greatest(counts.into_iter().map(|(name, count)| (name.to_owned(), count)), limit)
        };
        Cardinality {
            head_stats: HeadStats { num_label_pairs: self.pairs.len(), ..head },
            series_count_by_label_value_pair: greatest(pairs, limit),
            series_count_by_metric_name: texts(self.metrics),
            label_value_count_by_label_name: texts(self.values),
            memory_in_bytes_by_label_name: texts(self.bytes),
        }
    }
}

/// Sorted in falling order, equal counts by name.
fn greatest(counts: impl Iterator<Item = (String, u64)>, limit: usize) -> Vec<Count> {
    let mut counts: Vec<(String, u64)> = counts.collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts.truncate(limit);
    counts.into_iter().map(|(name, value)| Count { name, value }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_come_first() {
        let series = [[("__name__", "a"), ("i", "1")], [("__name__", "b"), ("i", "22")]];
        let mut series: Vec<_> =
            series.map(|pairs| Labels::from_pairs(pairs).expect("valid")).into();
        series.push(Labels::from_pairs([("__name__", "b"), ("i", "1")]).expect("valid"));
        let (chunk_count, min_time, max_time) = (5, 1, 2);
        let head = HeadStats { num_series: 3, num_label_pairs: 0, chunk_count, min_time, max_time };
        let shown = Counts::of(&series).shown(1, head);
        let shown = serde_json::to_value(shown).expect("JSON");
        let want = serde_json::json!({
            "headStats": {
                "numSeries": 3, "numLabelPairs": 4, "chunkCount": 5, "minTime": 1, "maxTime": 2
            },
            "seriesCountByMetricName": [{ "name": "b", "value": 2 }],
            "labelValueCountByLabelName": [{ "name": "__name__", "value": 2 }],
            "memoryInBytesByLabelName": [{ "name": "i", "value": 4 }],
            "seriesCountByLabelValuePair": [{ "name": "__name__=b", "value": 2 }],
        });
        assert_eq!(shown, want);
    }
}
