//! Which days have anything to copy, found by halving what is looked at.
//!
//! A day is one of UTC. A store may name a day that turns out empty, but never leaves one out. Days that may have
//! exemplars alone are found by reading them: what lists series knows points only.

use std::collections::BTreeSet;

use super::exemplars::Pieces;
use super::side::Side;
use super::{CopyError, Job};
use crate::limits::PARTITION_MS;
use crate::model::{MAX_TIMESTAMP, MIN_TIMESTAMP, TimeRange};

/// Number of the day that a time in milliseconds lies in; that of 1970-01-01 is 0.
pub(super) fn day_of(timestamp: i64) -> i64 {
    timestamp.clamp(MIN_TIMESTAMP, MAX_TIMESTAMP).div_euclid(PARTITION_MS)
}

/// The times of a job from the beginning of one day to the end of another.
pub(super) fn times_of(job: &Job, first: i64, last: i64) -> TimeRange {
    let (start, end) = (first * PARTITION_MS, (last + 1) * PARTITION_MS - 1);
    TimeRange::new(start.max(job.range.start), end.min(job.range.end))
}

/// The days from `from` on on which one of the sides may have something.
pub(super) async fn find(sides: &[&Side], job: &Job, from: i64) -> Result<Vec<i64>, CopyError> {
    let all = (from.max(day_of(job.range.start)), day_of(job.range.end));
    let mut found = BTreeSet::new();
    for selector in &job.selectors {
        let mut pieces = Pieces::new(sides, selector, times_of(job, all.0, all.1));
        while let Some(piece) = pieces.next().await? {
            let exemplars = piece.iter().flatten().flat_map(|(_, exemplars)| exemplars);
            found.extend(exemplars.map(|exemplar| day_of(exemplar.timestamp)));
        }
    }
    let mut open = vec![all];
    while let Some((first, last)) = open.pop() {
        if first > last || !any(sides, job, times_of(job, first, last)).await? {
            continue;
        }
        if first == last {
            found.insert(first);
            continue;
        }
        let middle = first + (last - first) / 2;
        open.extend([(middle + 1, last), (first, middle)]);
    }
    Ok(found.into_iter().collect())
}

async fn any(sides: &[&Side], job: &Job, range: TimeRange) -> Result<bool, CopyError> {
    for side in sides {
        for selector in &job.selectors {
            if side.may_have(selector, range).await? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Selector, Starts, StoreSide};
    use super::*;
    use crate::model::{
        ExemplarEntry, Labels, Matcher, RawLabels, Sample, SeriesEntry, WriteBatch,
    };
    use crate::storage::Store;
    use crate::storage::memory::MemoryStore;

    async fn store(times: &[i64], exemplars: &[i64]) -> Side {
        let store = MemoryStore::default();
        let labels = Labels::from_pairs([("__name__", "up")]).expect("valid");
        let sample = |&timestamp: &i64| Sample { timestamp, start_timestamp: 0, value: 1.0 };
        let entry = SeriesEntry {
            labels: RawLabels(labels.as_bytes()),
            index: 0,
            samples: 0..times.len() as u32,
            histograms: 0..0,
            exemplars: 0..exemplars.len() as u32,
        };
        let samples = times.iter().map(sample).collect();
        let exemplar =
            |&timestamp: &i64| ExemplarEntry { labels: RawLabels(&[]), value: 1.0, timestamp };
        let exemplars = exemplars.iter().map(exemplar).collect();
        let batch = WriteBatch { series: vec![entry], samples, exemplars, ..WriteBatch::default() };
        store.write(batch).await.expect("written");
        Side::Store(StoreSide { name: "m".into(), store: Arc::new(store), starts: Starts::All })
    }

    #[tokio::test]
    async fn days_with_points_are_found_wherever_they_lie() {
        const DAY: i64 = PARTITION_MS;
        let matchers = vec![Matcher::equal("__name__", "up")];
        let selectors = vec![Selector { text: "up".into(), matchers }];
        let all = Job { selectors, range: TimeRange::new(MIN_TIMESTAMP, MAX_TIMESTAMP) };
        let times = [MIN_TIMESTAMP, -1, 0, DAY - 1, 19_000 * DAY, MAX_TIMESTAMP];
        let side = store(&times, &[]).await;
        let want = [day_of(MIN_TIMESTAMP), -1, 0, 19_000, day_of(MAX_TIMESTAMP)];
        assert_eq!(find(&[&side], &all, i64::MIN).await.expect("found"), want);
        assert_eq!(find(&[&side], &all, 1).await.expect("found"), want[3..]);
        let other = store(&[5 * DAY], &[3 * DAY, 3 * DAY + 1, 5 * DAY]).await;
        assert_eq!(find(&[&side, &other], &all, 0).await.expect("found")[..3], [0, 3, 5]);
        assert_eq!(find(&[&other], &all, 4).await.expect("found"), [5]);
        let some = Job { range: TimeRange::new(1, 19_000 * DAY), ..all };
        assert_eq!(find(&[&side], &some, i64::MIN).await.expect("found"), [0, 19_000]);
        assert_eq!(times_of(&some, 0, 0), TimeRange::new(1, DAY - 1));
        let none = Job { range: TimeRange::new(2 * DAY, DAY), ..some };
        assert_eq!(find(&[&side], &none, i64::MIN).await.expect("found"), [0_i64; 0]);
    }
}
