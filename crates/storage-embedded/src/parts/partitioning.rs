//! Chooses the part of a flush for each point: the part of its day, or one part of many days.
//!
//! A part costs a file, a sync and an index, however few points it has. If a flush has points of many days, only days
//! with very many points get parts of their own. All other days go into one *wide* part, where a series has one row,
//! not one a day. All points of a series on a day go into one part: parts of a flush have no precedence among them.

use std::collections::{BTreeMap, BTreeSet};

use promkairos_chunk::{Chunk, ChunkBuilder, ChunkError};
use promkairos_storage::DayCounts;

use super::names::{WIDE, partition_of};

/// Up to this number of days, a flush has a part for each day.
const FEW_DAYS: usize = 16;
/// With more days, the largest have parts of their own: at most this number of days ...
const LARGEST_DAYS: usize = 8;
/// ... with at least this number of points each ...
const LARGE: u64 = 256;
/// ... and at most this number of days whose series have many points each; all their files are
/// open.
const DENSE_DAYS: usize = 128;
/// ... with at least this number of points in such series.
const DENSE: u64 = 4096;

/// Where the points of a flush go.
pub(super) enum Partitions {
    /// Each into the part of its day.
    Days,
    /// Points of these days into parts of their own; a day is given by its first millisecond.
    Some(BTreeSet<i64>),
}

impl Partitions {
    /// The choice for a flush with these counts of points by day.
    pub(super) fn of(days: &DayCounts) -> Self {
        if !days.are_more_than(FEW_DAYS) {
            return Self::Days;
        }
        let mut own: BTreeSet<i64> = days.with_many(LARGE, LARGEST_DAYS).into_iter().collect();
        own.extend(days.with_many_dense(DENSE, DENSE_DAYS));
        Self::Some(own)
    }

    /// The partition of a time.
    pub(super) fn at(&self, timestamp: i64) -> i64 {
        let day = partition_of(timestamp);
        match self {
            Self::Some(days) if !days.contains(&day) => WIDE,
            _ => day,
        }
    }

    /// The chunks of a series by partition, each list in the order given. A chunk that lies in
    /// several partitions is cut.
    pub(super) fn split(&self, chunks: &[Chunk]) -> Result<BTreeMap<i64, Vec<Chunk>>, ChunkError> {
        let mut split: BTreeMap<i64, Vec<Chunk>> = BTreeMap::new();
        for chunk in chunks {
            if let Some(partition) = self.only(chunk) {
                split.entry(partition).or_default().push(chunk.clone());
                continue;
            }
            let mut cut: BTreeMap<i64, ChunkBuilder> = BTreeMap::new();
            for stamped in chunk.stamped_points() {
                let entry = stamped?;
                cut.entry(self.at(entry.point.timestamp)).or_default().push_stamped(&entry);
            }
            for (partition, builder) in cut {
                split.entry(partition).or_default().extend(builder.finish());
            }
        }
        Ok(split)
    }

    /// The partition of all points of a chunk, if its first and last time say that it is one.
    fn only(&self, chunk: &Chunk) -> Option<i64> {
        let (first, last) = (partition_of(chunk.min_time), partition_of(chunk.max_time));
        match self {
            _ if first == last => Some(self.at(first)),
            Self::Some(days) if days.range(first..=last).next().is_none() => Some(WIDE),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use promkairos_chunk::encode_points;
    use promkairos_model::limits::PARTITION_MS;
    use promkairos_model::{Point, Value};

    fn chunks(times: &[i64]) -> Vec<Chunk> {
        let point = |timestamp: &i64| Point {
            timestamp: *timestamp,
            start_timestamp: 0,
            value: Value::Float(*timestamp as f64),
        };
        encode_points(&times.iter().map(point).collect::<Vec<_>>())
    }

    #[test]
    fn few_days_and_days_with_many_points_have_parts_of_their_own() {
        let mut counts = DayCounts::default();
        for day in 0..16 {
            counts.add(day * PARTITION_MS, day * PARTITION_MS, 1);
        }
        assert_eq!(Partitions::of(&counts).at(3 * PARTITION_MS + 5), 3 * PARTITION_MS);
        counts.add(-PARTITION_MS, -1, 10_000);
        let many = Partitions::of(&counts);
        assert_eq!((many.at(3 * PARTITION_MS), many.at(-1)), (WIDE, -PARTITION_MS));
        // Days with few points a series are sparse: only the largest have parts of their own.
        for day in 0..1_000 {
            (0..5_000).for_each(|_| counts.add(day * PARTITION_MS, day * PARTITION_MS, 1));
        }
        let Partitions::Some(days) = Partitions::of(&counts) else { panic!("many days") };
        assert_eq!(days.len(), LARGEST_DAYS);
        for day in 0..1_000 {
            counts.add(day * PARTITION_MS, day * PARTITION_MS, DENSE);
        }
        let Partitions::Some(days) = Partitions::of(&counts) else { panic!("many days") };
        assert!((DENSE_DAYS..=DENSE_DAYS + LARGEST_DAYS).contains(&days.len()));
    }

    proptest! {
        /// Every point goes to the partition of its time, and none is lost.
        #[test]
        fn each_point_goes_to_its_partition(
            times in prop::collection::btree_set((-5i64..40, 0i64..4), 1..200),
            days in prop::option::of(prop::collection::btree_set(-5i64..40, 0..10)),
        ) {
            let times: Vec<i64> =
                times.into_iter().map(|(day, part)| day * PARTITION_MS + part * 20_000_000).collect();
            let partitions = match days {
                None => Partitions::Days,
                Some(days) => Partitions::Some(days.iter().map(|day| day * PARTITION_MS).collect()),
            };
            let mut found = Vec::new();
            for (partition, chunks) in partitions.split(&chunks(&times)).expect("own chunks") {
                for point in chunks.iter().flat_map(Chunk::points) {
                    let time = point.expect("own chunks").timestamp;
                    prop_assert_eq!(partitions.at(time), partition);
                    found.push(time);
                }
            }
            found.sort_unstable();
            prop_assert_eq!(found, times);
        }
    }

    #[test]
    fn the_ends_of_time_are_days_too() {
        let times = [i64::MIN, i64::MIN + 1, 0, i64::MAX];
        let days = Partitions::Days.split(&chunks(&times)).expect("own chunks");
        assert_eq!(days.len(), 3);
    }
}
