//! Days (UTC) as runs of consecutive days, compact in memory and in the file of a copy.
//!
//! Invariant: runs are ascending, do not touch, and lie in the years 1 to 9999, also when read from a file.

use serde::{Deserialize, Serialize};

use super::job::Job;
use crate::limits::PARTITION_MS;
use crate::model::{MAX_TIMESTAMP, MIN_TIMESTAMP, TimeRange};

/// Number of the day of a time in milliseconds; 1970-01-01 is day 0.
pub(super) fn day_of(timestamp: i64) -> i64 {
    timestamp.clamp(MIN_TIMESTAMP, MAX_TIMESTAMP).div_euclid(PARTITION_MS)
}

/// The times of a job from the start of one day to the end of another.
pub(super) fn times_of(job: &Job, first: i64, last: i64) -> TimeRange {
    let (start, end) = (first * PARTITION_MS, (last + 1) * PARTITION_MS - 1);
    TimeRange::new(start.max(job.range.start), end.min(job.range.end))
}

/// Consecutive days, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(i64, i64)", into = "(i64, i64)")]
pub(super) struct DayRange {
    pub(super) first: i64,
    pub(super) last: i64,
}

impl DayRange {
    /// `None` if `first` is after `last`. Both are days of the years 1 to 9999.
    pub(super) fn new(first: i64, last: i64) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    /// Both halves; `None` for a single day.
    pub(super) fn halves(self) -> Option<[Self; 2]> {
        let Self { first, last } = self;
        let middle = first + (last - first) / 2;
        (first < last).then_some([Self { first, last: middle }, Self { first: middle + 1, last }])
    }

    /// Number of days.
    pub(super) fn len(self) -> u64 {
        self.last.abs_diff(self.first) + 1
    }
}

impl TryFrom<(i64, i64)> for DayRange {
    type Error = String;

    fn try_from((first, last): (i64, i64)) -> Result<Self, String> {
        let is_known = day_of(MIN_TIMESTAMP) <= first && last <= day_of(MAX_TIMESTAMP);
        let range = Self::new(first, last).filter(|_| is_known);
        range.ok_or_else(|| format!("no days of the years 1 to 9999: {first} to {last}"))
    }
}

impl From<DayRange> for (i64, i64) {
    fn from(DayRange { first, last }: DayRange) -> Self {
        (first, last)
    }
}

/// A set of days.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<DayRange>", into = "Vec<DayRange>")]
pub(super) struct Days(Vec<DayRange>);

impl TryFrom<Vec<DayRange>> for Days {
    type Error = &'static str;

    fn try_from(runs: Vec<DayRange>) -> Result<Self, &'static str> {
        let rise = runs.is_sorted_by(|a, b| a.last + 1 < b.first);
        if rise { Ok(Self(runs)) } else { Err("days that do not rise") }
    }
}

impl From<Days> for Vec<DayRange> {
    fn from(Days(runs): Days) -> Self {
        runs
    }
}

impl Days {
    pub(super) fn insert(&mut self, day: i64) {
        let Self(runs) = self;
        // The first run that ends at the day before, or later.
        let at = runs.partition_point(|run| run.last + 1 < day);
        match runs.get_mut(at) {
            Some(run) if run.first <= day && day <= run.last => {}
            Some(run) if run.last + 1 == day => {
                run.last = day;
                if runs.get(at + 1).is_some_and(|next| next.first == day + 1) {
                    runs[at].last = runs.remove(at + 1).last;
                }
            }
            Some(run) if run.first == day + 1 => run.first = day,
            _ => runs.insert(at, DayRange { first: day, last: day }),
        }
    }

    /// Number of days.
    pub(super) fn len(&self) -> u64 {
        self.0.iter().map(|run| run.len()).sum()
    }

    pub(super) fn last(&self) -> Option<i64> {
        self.0.last().map(|run| run.last)
    }

    /// The days from `from` on.
    pub(super) fn since(&self, from: i64) -> impl Iterator<Item = i64> {
        self.0.iter().flat_map(move |run| run.first.max(from)..=run.last)
    }

    /// The runs.
    pub(super) fn runs(&self) -> &[DayRange] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_of_days_survives_its_file(all in prop::collection::vec(-40i64..40, 0..60)) {
            let mut days = Days::default();
            all.iter().for_each(|day| days.insert(*day));
            let want: BTreeSet<i64> = all.into_iter().collect();
            prop_assert!(days.since(i64::MIN).eq(want.iter().copied()));
            prop_assert!(days.since(3).eq(want.range(3..).copied()));
            prop_assert_eq!(days.len(), want.len() as u64);
            prop_assert_eq!(days.last(), want.last().copied());
            let text = serde_json::to_string(&days).expect("JSON");
            prop_assert_eq!(serde_json::from_str::<Days>(&text).ok(), Some(days));
        }
    }

    #[test]
    fn days_that_nobody_wrote_are_refused() {
        for text in ["[[2,1]]", "[[1,2],[3,4]]", "[[5,6],[1,2]]", "[[1,9223372036854775807]]"] {
            assert!(serde_json::from_str::<Days>(text).is_err(), "{text}");
        }
    }
}
