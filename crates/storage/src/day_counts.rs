//! Counts the points of a flush by day, before the first run arrives. From these counts a store
//! decides whether to write each day on its own or several days together.
//!
//! An estimate in bounded memory: the points of a chunk over several days count as evenly spread.

use std::collections::BTreeMap;

use promkairos_model::limits::PARTITION_MS;

/// Maximum number of days that are counted.
const MOST_DAYS: usize = 1 << 16;
/// A chunk that spans more days than this is not counted by day.
const MOST_DAYS_OF_A_CHUNK: i64 = 1 << 10;
/// A series is dense on a day if it has at least this number of points there.
const DENSE: u64 = 16;

/// Points of a flush by day. The default has no counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DayCounts {
    /// By the number of the day, counted from 1970.
    days: BTreeMap<i64, Day>,
    /// Whether there are more days than are counted.
    more: bool,
}

/// Points of a day: of all series, and of the series that are dense on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Day {
    points: u64,
    dense: u64,
}

impl DayCounts {
    /// Adds a chunk of `points` points by its first and last time, in milliseconds since 1970.
    pub fn add(&mut self, first: i64, last: i64, points: u64) {
        let (first, last) = (first.div_euclid(PARTITION_MS), last.div_euclid(PARTITION_MS));
        let between = last.saturating_sub(first);
        if between >= MOST_DAYS_OF_A_CHUNK {
            self.more = true;
            return;
        }
        let each = points / (between.unsigned_abs() + 1);
        for day in first..=last {
            self.add_day(day, each);
        }
    }

    fn add_day(&mut self, day: i64, points: u64) {
        let is_full = self.days.len() >= MOST_DAYS;
        if is_full && !self.days.contains_key(&day) {
            self.more = true;
            return;
        }
        let known = self.days.entry(day).or_default();
        known.points += points;
        if points >= DENSE {
            known.dense += points;
        }
    }

    /// Whether there are more days than this.
    pub fn are_more_than(&self, days: usize) -> bool {
        self.more || self.days.len() > days
    }

    /// Up to `most` days with at least `points` points, largest first: the first millisecond of each day.
    pub fn with_many(&self, points: u64, most: usize) -> Vec<i64> {
        self.largest(|day| day.points, points, most)
    }

    /// As `with_many`, but counts only points of series that are dense on the day.
    pub fn with_many_dense(&self, points: u64, most: usize) -> Vec<i64> {
        self.largest(|day| day.dense, points, most)
    }

    fn largest(&self, count: impl Fn(&Day) -> u64, least: u64, most: usize) -> Vec<i64> {
        let days = self.days.iter().map(|(number, day)| (count(day), *number));
        let mut days: Vec<(u64, i64)> = days.filter(|(points, _)| *points >= least).collect();
        days.sort_unstable_by(|a, b| b.cmp(a));
        days.truncate(most);
        days.into_iter().map(|(_, number)| number.saturating_mul(PARTITION_MS)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_up_to_a_bound() {
        let mut counts = DayCounts::default();
        assert!(!counts.are_more_than(0));
        counts.add(-1, -1, 5);
        counts.add(0, PARTITION_MS - 1, 100);
        counts.add(0, 2 * PARTITION_MS, 30);
        assert!(counts.are_more_than(3) && !counts.are_more_than(4));
        assert_eq!(counts.with_many(10, 9), [0, 2 * PARTITION_MS, PARTITION_MS]);
        assert_eq!(counts.with_many(11, 9), [0]);
        // The ten points of the chunk over three days are too few on each day.
        assert_eq!(counts.with_many_dense(1, 9), [0]);
        assert_eq!(counts.with_many(0, 2), [0, 2 * PARTITION_MS]);
        for day in 0..2 * MOST_DAYS as i64 {
            counts.add(day * PARTITION_MS, day * PARTITION_MS, 1);
        }
        assert!(counts.days.len() == MOST_DAYS && counts.are_more_than(usize::MAX - 1));
        let mut counts = DayCounts::default();
        counts.add(i64::MIN, i64::MAX, 2);
        assert!(counts.are_more_than(1_000_000) && counts.with_many(0, 9).is_empty());
    }
}
