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
    /// Every timestamp there is.
    pub const ALL: Self = Self { start: i64::MIN, end: i64::MAX };

    /// The closed range from `start` to `end`.
    pub const fn new(start: i64, end: i64) -> Self {
        Self { start, end }
    }

    /// Whether `timestamp` lies in the range.
    pub const fn contains(&self, timestamp: i64) -> bool {
        self.start <= timestamp && timestamp <= self.end
    }

    /// The range that reaches over both, and over what lies between.
    pub fn hull(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// Whether the two ranges share a millisecond.
    pub const fn overlaps(&self, other: &Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    /// Whether nothing lies in the range.
    pub const fn is_empty(&self) -> bool {
        self.start > self.end
    }
}

/// A timestamp as people read it: by RFC 3339, or as so many `ms` where that has no such time.
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
