//! Deletes: records them, and cuts deleted points out of chunks when they are read.
//!
//! A delete is a tombstone in the manifest, durable before the delete is acknowledged. Reads apply
//! it until compaction has rewritten the files; then it is dropped. Chunks without deleted points
//! are passed on unchanged.

use std::sync::Arc;

use promkairos_chunk::{Chunk, ChunkError};
use promkairos_model::{Labels, Matcher, TimeRange};
use promkairos_storage::{StoreError, merge};

use super::manifest::{PartEntry, Tombstone};
use super::state::PartStore;

impl PartStore {
    /// Deletes points and exemplars in the store and in flushes in progress.
    pub(super) fn delete(
        &self,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> Result<(), StoreError> {
        if range.is_empty() {
            return Ok(());
        }
        self.commit(|state| {
            if matchers.is_empty() {
                let whole = |part: &PartEntry| {
                    range.start <= part.range.start && part.range.end <= range.end
                };
                state.parts.retain(|part| !whole(&part.entry));
            }
            state.add_tombstone(matchers, range);
            Ok(())
        })
    }
}

/// The time ranges that are deleted from a series in a part.
pub(super) fn cuts(
    tombstones: &[Arc<Tombstone>],
    part: &PartEntry,
    labels: &Labels,
) -> Vec<TimeRange> {
    let concerned = tombstones.iter().filter(|tombstone| tombstone.concerns(part));
    let matching = concerned.filter(|tombstone| Matcher::all_match(&tombstone.matchers, labels));
    matching.map(|tombstone| tombstone.range).collect()
}

/// The chunks without the points in `cuts`.
pub(super) fn without(chunks: Vec<Chunk>, cuts: &[TimeRange]) -> Result<Vec<Chunk>, ChunkError> {
    cuts.iter().try_fold(chunks, |left, removed| merge::cut(left, *removed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_chunk::encode_points;
    use promkairos_model::{Point, Value};

    fn points(range: std::ops::Range<i64>) -> Vec<Point> {
        let point = |timestamp| Point {
            timestamp,
            start_timestamp: 0,
            value: Value::Float(timestamp as f64),
        };
        range.map(point).collect()
    }

    fn times(chunks: &[Chunk]) -> Vec<i64> {
        let points = chunks.iter().flat_map(Chunk::points);
        points.map(|point| point.expect("well-formed").timestamp).collect()
    }

    #[test]
    fn only_what_is_in_a_cut_goes() {
        let chunks = encode_points(&points(0..300));
        let check = |cuts: &[TimeRange]| {
            let left = without(chunks.clone(), cuts).expect("well-formed");
            let want: Vec<i64> =
                (0..300).filter(|at| !cuts.iter().any(|cut| cut.contains(*at))).collect();
            assert_eq!(times(&left), want);
        };
        check(&[]);
        check(&[TimeRange::new(130, 135)]);
        check(&[TimeRange::new(0, 119), TimeRange::new(200, 1_000)]);
        check(&[TimeRange::ALL]);
        check(&[TimeRange::new(119, 120), TimeRange::new(5, 4)]);
        let untouched = without(chunks.clone(), &[TimeRange::new(299, 299)]).expect("well-formed");
        assert_eq!(untouched[0].data.as_ptr(), chunks[0].data.as_ptr());
    }
}
