//! Time: milliseconds since 1970 as `i64`, and closed ranges of them.
//!
//! Every timestamp in promkairos is in milliseconds unless its name says otherwise.

use std::fmt;

/// 0001-01-01T00:00:00Z. Samples before it are refused.
pub const MIN_TIMESTAMP: i64 = -62_135_596_800_000;
/// 9999-12-31T23:59:59.999Z. Samples after it are refused.
pub const MAX_TIMESTAMP: i64 = 253_402_300_799_999;

/// A closed range of milliseconds: both ends belong to it. Empty when `start > end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// First millisecond in the range.
    pub start: i64,
    /// Last millisecond in the range.
    pub end: i64,
}

impl TimeRange {
    /// All timestamps.
    pub const ALL: Self = Self { start: i64::MIN, end: i64::MAX };

    /// The closed range from `start` to `end`.
    pub const fn new(start: i64, end: i64) -> Self {
        Self { start, end }
    }

    /// Whether `timestamp` lies in the range.
    pub const fn contains(&self, timestamp: i64) -> bool {
        self.start <= timestamp && timestamp <= self.end
    }

    /// The smallest range that contains both ranges.
    pub fn hull(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The common part of both ranges; `None` if there is none.
    pub fn intersection(self, other: Self) -> Option<Self> {
        let both = Self { start: self.start.max(other.start), end: self.end.min(other.end) };
        (!both.is_empty()).then_some(both)
    }

    /// Whether the two ranges share a millisecond.
    pub const fn overlaps(&self, other: &Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    /// Both halves, the earlier one first; `None` if the range has at most one millisecond.
    pub fn halves(self) -> Option<[Self; 2]> {
        let Self { start, end } = self;
        // The length of the full range does not fit into an `i64`, but its half does.
        let length = end.wrapping_sub(start).cast_unsigned();
        let middle = start.wrapping_add((length / 2).cast_signed());
        (start < end).then(|| [Self::new(start, middle), Self::new(middle + 1, end)])
    }

    /// Whether the range contains no timestamp.
    pub const fn is_empty(&self) -> bool {
        self.start > self.end
    }
}

/// A timestamp for people: in RFC 3339, or as a number with `ms` if RFC 3339 has no such time.
#[derive(Debug, Clone, Copy)]
pub struct ShownTime(pub i64);

impl fmt::Display for ShownTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => time.fmt(f),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_all_of_a_range() {
        let check = |start, end, want| assert_eq!(TimeRange::new(start, end).halves(), want);
        let halves = |start, middle, end| {
            Some([TimeRange::new(start, middle), TimeRange::new(middle + 1, end)])
        };
        check(0, 1, halves(0, 0, 1));
        check(-3, 4, halves(-3, 0, 4));
        check(-4, -2, halves(-4, -3, -2));
        check(i64::MIN, i64::MAX, halves(i64::MIN, -1, i64::MAX));
        check(7, 7, None);
        check(8, 7, None);
        check(i64::MAX, i64::MIN, None);
    }

    #[test]
    fn an_intersection_is_what_lies_in_both() {
        let check = |one: (i64, i64), other: (i64, i64), want: Option<(i64, i64)>| {
            let [one, other] = [one, other].map(|(start, end)| TimeRange::new(start, end));
            let want = want.map(|(start, end)| TimeRange::new(start, end));
            assert_eq!(one.intersection(other), want, "{one:?} {other:?}");
            assert_eq!(other.intersection(one), want, "{other:?} {one:?}");
        };
        check((0, 9), (5, 20), Some((5, 9)));
        check((0, 9), (3, 4), Some((3, 4)));
        check((0, 9), (9, 20), Some((9, 9)));
        check((0, 9), (10, 20), None);
        check((0, 9), (i64::MIN, i64::MAX), Some((0, 9)));
        check((9, 0), (i64::MIN, i64::MAX), None);
    }
}
