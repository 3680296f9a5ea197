//! Row times, column offsets, and the `spec` table that fixes both for a keyspace.
//!
//! ```text
//! spec ('cluster_config', 'row_time_unit') = MILLISECONDS | SECONDS | LEGACY
//! spec ('cluster_config', 'row_width')     = decimal number
//!
//! row time   t - (|t| mod row_width), on raw milliseconds whatever the unit
//! offset     4 bytes, big-endian, of t - row time:
//!            MILLISECONDS as is · SECONDS / 1000 · LEGACY << 1, low bit 1 = float
//! ```
//!
//! Invariant: an offset is in `0..row_width`, so the bytes of offsets sort by time. Before 1970 row
//! times are not aligned (t = -5 lies in row -10): nearly every millisecond has its own row.

use std::fmt;

use super::DecodeError;
use promkairos_model::TimeRange;

/// KairosDB's default `row_width` for `MILLISECONDS` and `LEGACY`: three weeks.
pub const DEFAULT_ROW_WIDTH: i64 = 1_814_400_000;
/// Width of the widest row whose offsets KairosDB can read: 2^31 units.
const MAX_UNITS: i64 = 1 << 31;

/// The unit of an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimeUnit {
    /// Milliseconds.
    Milliseconds,
    /// Whole seconds after the row time; the fraction of a second is lost.
    Seconds,
    /// Milliseconds shifted left by one: the low bit distinguishes long from float in `kairos_legacy`.
    Legacy,
}

impl TimeUnit {
    /// The value of `row_time_unit` in the `spec` table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Milliseconds => "MILLISECONDS",
            Self::Seconds => "SECONDS",
            Self::Legacy => "LEGACY",
        }
    }

    const fn millis(self) -> i64 {
        match self {
            Self::Milliseconds | Self::Legacy => 1,
            Self::Seconds => 1000,
        }
    }

    /// Bits below the offset in a column.
    const fn shift(self) -> u32 {
        match self {
            Self::Milliseconds | Self::Seconds => 0,
            Self::Legacy => 1,
        }
    }

    const fn max_width(self) -> i64 {
        match self {
            Self::Milliseconds => MAX_UNITS,
            Self::Seconds => MAX_UNITS * 1000,
            // One less: the column after the last one must also fit into 4 bytes.
            Self::Legacy => MAX_UNITS - 1,
        }
    }
}

/// Why a `spec` is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// An unknown unit.
    #[error("spec: unknown row_time_unit {0:?}")]
    UnknownUnit(String),
    /// Not a decimal number.
    #[error("spec: row_width {0:?} is not a number")]
    NotANumber(String),
    /// Zero, negative, or too wide for a 4-byte offset.
    #[error("spec: row_width {width} is not between 1 and {limit}, as {unit} needs")]
    Width {
        /// The width.
        width: i64,
        /// The unit's name.
        unit: &'static str,
        /// The largest width for this unit.
        limit: i64,
    },
}

/// How a keyspace divides time into rows. Never changes after it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RowSpec {
    unit: TimeUnit,
    width: i64,
}

impl RowSpec {
    /// The spec that KairosDB writes into an empty keyspace.
    pub const DEFAULT: Self = Self { unit: TimeUnit::Milliseconds, width: DEFAULT_ROW_WIDTH };

    /// The spec of a keyspace that has data, but no `spec`.
    pub const LEGACY: Self = Self { unit: TimeUnit::Legacy, width: DEFAULT_ROW_WIDTH };

    /// A spec with a `row_width` in milliseconds (for `SECONDS` too, as in KairosDB).
    pub fn new(unit: TimeUnit, width: i64) -> Result<Self, SpecError> {
        let limit = unit.max_width();
        if !(1..=limit).contains(&width) {
            return Err(SpecError::Width { width, unit: unit.as_str(), limit });
        }
        Ok(Self { unit, width })
    }

    /// Parses the values of `row_time_unit` and `row_width` in the `spec` table.
    pub fn parse(row_time_unit: &str, row_width: &str) -> Result<Self, SpecError> {
        let unit = [TimeUnit::Milliseconds, TimeUnit::Seconds, TimeUnit::Legacy]
            .into_iter()
            .find(|unit| unit.as_str() == row_time_unit)
            .ok_or_else(|| SpecError::UnknownUnit(row_time_unit.into()))?;
        let width = row_width.parse().map_err(|_| SpecError::NotANumber(row_width.into()))?;
        Self::new(unit, width)
    }

    /// The unit of offsets.
    pub const fn unit(self) -> TimeUnit {
        self.unit
    }

    /// `row_width`: milliseconds of data that share a row time.
    pub const fn width(self) -> i64 {
        self.width
    }

    /// Seconds that KairosDB adds to a data TTL for the TTL of index rows. With `SECONDS` this is a
    /// thousand times the real width, as in KairosDB; a longer TTL does no harm.
    pub const fn index_ttl_seconds(self) -> i64 {
        match self.unit {
            TimeUnit::Seconds => self.width,
            TimeUnit::Milliseconds | TimeUnit::Legacy => self.width / 1000,
        }
    }

    /// The row time of a timestamp in milliseconds.
    pub fn row_time(self, timestamp: i64) -> RowTime {
        self.split(timestamp).0
    }

    /// Row time and offset of a timestamp in milliseconds.
    pub fn split(self, timestamp: i64) -> (RowTime, Offset) {
        let within = timestamp.unsigned_abs() % self.width.unsigned_abs();
        let within = i64::try_from(within).expect("less than the width");
        // Wraps only for times within a width of i64::MIN, and `timestamp` wraps back.
        (RowTime(timestamp.wrapping_sub(within)), self.offset(within))
    }

    /// The timestamp in milliseconds of an offset in a row; with `SECONDS`, rounded down to whole
    /// seconds after the row time.
    pub fn timestamp(self, row: RowTime, offset: Offset) -> i64 {
        let units = i64::from(offset.0 >> self.unit.shift());
        row.0.wrapping_add(units * self.unit.millis())
    }

    /// The `row_time` bounds of index rows whose points can be in the range, both ends included.
    /// `None` if the range is empty.
    pub fn row_time_bounds(self, range: TimeRange) -> Option<RowTimeBounds> {
        if range.is_empty() {
            return None;
        }
        let first = if range.start >= 0 {
            self.row_time(range.start).0
        } else {
            range.start.saturating_sub(self.width - 1)
        };
        Some(RowTimeBounds { first: RowTime(first), last: RowTime(range.end) })
    }

    /// The row times from 1970 on that can hold points of the range, rising. Row times before 1970
    /// cannot be listed: query the index with [`RowSpec::row_time_bounds`].
    pub fn row_times_since_1970(self, range: TimeRange) -> impl Iterator<Item = RowTime> {
        let first = self.row_time(range.start.max(0)).0;
        let step = usize::try_from(self.width).unwrap_or(usize::MAX);
        let (first, last) = if range.is_empty() { (0, -1) } else { (first, range.end) };
        (first..=last).step_by(step).map(RowTime)
    }

    /// The columns of a row whose timestamps, as returned by [`RowSpec::timestamp`], are in the
    /// range. `None` if there can be none.
    pub fn columns(self, row: RowTime, range: TimeRange) -> Option<ColumnRange> {
        if range.is_empty() {
            return None;
        }
        // i128, because the difference of two i64 needs 65 bits.
        let unit = i128::from(self.unit.millis());
        let distance = |time: i64| i128::from(time) - i128::from(row.0);
        let first = distance(range.start).max(0).div_euclid(unit)
            + i128::from(distance(range.start).max(0).rem_euclid(unit) != 0);
        let end = distance(range.end).div_euclid(unit) + 1;
        let end = end.min(i128::from((self.width - 1) / self.unit.millis() + 1));
        if first >= end {
            return None;
        }
        Some(ColumnRange { start: self.column_bound(first), end: self.column_bound(end) })
    }

    /// Whether every possible timestamp of the row is in the range.
    pub fn covers(self, row: RowTime, range: TimeRange) -> bool {
        range.start <= row.0 && row.0.saturating_add(self.width - 1) <= range.end
    }

    /// `within` is in `0..width`, and the constructor checked that it fits.
    fn offset(self, within: i64) -> Offset {
        let units = u32::try_from(within / self.unit.millis()).expect("at most 2^31 - 1 units");
        Offset(units << self.unit.shift())
    }

    /// `units` is at most `max_width` of the unit.
    fn column_bound(self, units: i128) -> [u8; 4] {
        let units = u32::try_from(units).expect("at most 2^31 units");
        (units << self.unit.shift()).to_be_bytes()
    }
}

/// The start of a row, in milliseconds since 1970. Only a [`RowSpec`] converts a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowTime(i64);

impl RowTime {
    /// A row time as stored in a table, in milliseconds since 1970.
    pub const fn from_stored(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970.
    pub const fn millis(self) -> i64 {
        self.0
    }
}

impl fmt::Display for RowTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Row times from `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowTimeBounds {
    /// May be a row time that does not exist.
    pub first: RowTime,
    /// May be a row time that does not exist.
    pub last: RowTime,
}

/// A slice of a row: `column1 >= start AND column1 < end`. Also valid for the longer columns of
/// `prom_exemplar`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnRange {
    /// First column.
    pub start: [u8; 4],
    /// The column after the last one.
    pub end: [u8; 4],
}

/// The kind of value that the low bit of a `kairos_legacy` column gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LegacyKind {
    /// An integer.
    Long,
    /// A float or double.
    Float,
}

/// A time within a row, as in `column1`. Meaningful only together with a [`RowTime`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Offset(u32);

impl Offset {
    /// The bytes of `column1`.
    pub const fn to_bytes(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }

    /// Reads `column1` of every type except `prom_exemplar`. Under `MILLISECONDS` and `SECONDS` an
    /// offset above 2^31 − 1 is refused: KairosDB would read it as negative.
    pub fn from_bytes(bytes: &[u8], unit: TimeUnit) -> Result<Self, DecodeError> {
        let (head, rest) = bytes.split_first_chunk().ok_or(DecodeError::Truncated("column"))?;
        if !rest.is_empty() {
            return Err(DecodeError::TrailingBytes { what: "column", bytes: rest.len() });
        }
        let offset = u32::from_be_bytes(*head);
        if unit != TimeUnit::Legacy && i32::try_from(offset).is_err() {
            return Err(DecodeError::OutOfRange("column"));
        }
        Ok(Self(offset))
    }

    /// The kind of the `kairos_legacy` cell in this column.
    pub const fn legacy_kind(self) -> LegacyKind {
        if self.0 & 1 == 0 { LegacyKind::Long } else { LegacyKind::Float }
    }

    /// The column of a `kairos_legacy` cell of this kind. Only for the unit `LEGACY`, where the low
    /// bit is free.
    pub const fn with_legacy_kind(self, kind: LegacyKind) -> Self {
        match kind {
            LegacyKind::Long => Self(self.0 & !1),
            LegacyKind::Float => Self(self.0 | 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNITS: [TimeUnit; 3] = [TimeUnit::Milliseconds, TimeUnit::Seconds, TimeUnit::Legacy];

    fn spec(unit: TimeUnit, width: i64) -> RowSpec {
        RowSpec::new(unit, width).expect("valid spec")
    }

    #[test]
    fn the_spec_table_both_ways() {
        for unit in UNITS {
            assert_eq!(RowSpec::parse(unit.as_str(), "7"), Ok(spec(unit, 7)));
        }
        assert_eq!(
            RowSpec::parse("MILLISECONDS", &DEFAULT_ROW_WIDTH.to_string()),
            Ok(RowSpec::DEFAULT)
        );
        assert_eq!(RowSpec::parse("DAYS", "7"), Err(SpecError::UnknownUnit("DAYS".into())));
        assert_eq!(RowSpec::parse("SECONDS", "7x"), Err(SpecError::NotANumber("7x".into())));
    }

    #[test]
    fn widths_that_overflow_the_offset_are_refused() {
        for (unit, limit) in [
            (TimeUnit::Milliseconds, 1 << 31),
            (TimeUnit::Seconds, 1000 << 31),
            (TimeUnit::Legacy, (1 << 31) - 1),
        ] {
            for width in [i64::MIN, -1, 0, limit + 1, i64::MAX] {
                let unit_name = unit.as_str();
                let want = SpecError::Width { width, unit: unit_name, limit };
                assert_eq!(RowSpec::new(unit, width), Err(want));
            }
            let widest = spec(unit, limit);
            let (row, offset) = widest.split(limit - 1);
            assert_eq!(row, RowTime(0));
            assert_eq!(Offset::from_bytes(&offset.to_bytes(), unit), Ok(offset));
            let all = widest.columns(row, TimeRange::ALL).expect("some");
            assert!(all.start <= offset.to_bytes() && offset.to_bytes() < all.end);
        }
    }

    #[test]
    fn row_times_as_kairosdb_computes_them() {
        let check = |unit, width, timestamp, row, offset: u32| {
            let spec = spec(unit, width);
            assert_eq!(spec.split(timestamp), (RowTime(row), Offset(offset)), "{timestamp}");
        };
        use TimeUnit::{Legacy, Milliseconds, Seconds};
        check(Milliseconds, 1_814_400_000, 1_700_000_000_000, 1_698_278_400_000, 0x669d_8800);
        check(Legacy, 1_814_400_000, 1_700_000_000_000, 1_698_278_400_000, 0xcd3b_1000);
        check(Seconds, 1_814_400, 1_700_000_000_999, 1_699_998_451_200, 0x60d);
        check(Milliseconds, 1_814_400_000, -5, -10, 5);
        check(Milliseconds, 1_814_400_000, -1_814_399_999, -3_628_799_998, 1_814_399_999);
        check(Seconds, 1_814_400, -1_814_399_999, -1_816_214_398, 0x716);
    }

    #[test]
    fn seconds_lose_what_is_below_a_second() {
        let spec = spec(TimeUnit::Seconds, 1_814_400);
        let (row, offset) = spec.split(1_700_000_000_000);
        assert_eq!(spec.timestamp(row, offset), 1_699_999_999_200);
    }

    #[test]
    fn columns_of_a_row() {
        let ms = spec(TimeUnit::Milliseconds, 100);
        let check = |spec: RowSpec, row: i64, range: (i64, i64), want: Option<(u32, u32)>| {
            let got = spec.columns(RowTime(row), TimeRange::new(range.0, range.1));
            let got = got.map(|c| (u32::from_be_bytes(c.start), u32::from_be_bytes(c.end)));
            assert_eq!(got, want, "{row} {range:?}");
        };
        check(ms, 200, (0, 1000), Some((0, 100)));
        check(ms, 200, (205, 210), Some((5, 11)));
        check(ms, 200, (299, 300), Some((99, 100)));
        check(ms, 200, (300, 400), None);
        check(ms, 200, (0, 199), None);
        check(ms, 200, (210, 205), None);
        check(ms, 200, (i64::MIN, i64::MAX), Some((0, 100)));
        check(ms, i64::MIN, (i64::MAX, i64::MAX), None);
        check(spec(TimeUnit::Legacy, 100), 200, (205, 210), Some((10, 22)));
        let seconds = spec(TimeUnit::Seconds, 10_500);
        check(seconds, 200, (200, 200), Some((0, 1)));
        check(seconds, 200, (201, 1199), None);
        check(seconds, 200, (201, 1200), Some((1, 2)));
        check(seconds, 200, (0, 99_999), Some((0, 11)));
    }

    #[test]
    fn row_times_of_a_range() {
        let spec = spec(TimeUnit::Milliseconds, 10);
        let rows = |start, end| -> Vec<i64> {
            spec.row_times_since_1970(TimeRange::new(start, end)).map(RowTime::millis).collect()
        };
        assert_eq!(rows(15, 30), [10, 20, 30]);
        assert_eq!(rows(-25, 9), [0]);
        assert_eq!(rows(-25, -9), [0i64; 0]);
        assert_eq!(rows(5, 4), [0i64; 0]);
        assert_eq!(rows(i64::MAX, i64::MAX), [i64::MAX - 7]);
        assert!(spec.covers(RowTime(10), TimeRange::new(10, 19)));
        assert!(!spec.covers(RowTime(10), TimeRange::new(10, 18)));
        assert!(!spec.covers(RowTime(10), TimeRange::new(11, 19)));
    }

    #[test]
    fn columns_of_other_lengths_are_refused() {
        let read = |bytes: &[u8]| Offset::from_bytes(bytes, TimeUnit::Milliseconds);
        assert_eq!(read(&[0; 3]), Err(DecodeError::Truncated("column")));
        assert_eq!(read(&[0; 5]), Err(DecodeError::TrailingBytes { what: "column", bytes: 1 }));
        assert_eq!(read(&[0x80, 0, 0, 0]), Err(DecodeError::OutOfRange("column")));
        assert!(Offset::from_bytes(&[0xff; 4], TimeUnit::Legacy).is_ok());
    }

    fn any_spec() -> impl Strategy<Value = RowSpec> {
        let width = prop_oneof![1..=100_000i64, Just(1_814_400), Just(DEFAULT_ROW_WIDTH)];
        (prop::sample::select(&UNITS[..]), width).prop_map(|(unit, width)| spec(unit, width))
    }

    fn any_time() -> impl Strategy<Value = i64> {
        prop_oneof![-200_000..200_000i64, -10_000_000_000..10_000_000_000i64, any::<i64>()]
    }

    proptest! {
        #[test]
        fn offsets_round_trip(spec in any_spec(), timestamp in any_time()) {
            let (row, offset) = spec.split(timestamp);
            let bytes = offset.to_bytes();
            prop_assert_eq!(Offset::from_bytes(&bytes, spec.unit()), Ok(offset));
            let read = spec.timestamp(row, offset);
            match spec.unit() {
                TimeUnit::Milliseconds | TimeUnit::Legacy => prop_assert_eq!(read, timestamp),
                TimeUnit::Seconds => {
                    prop_assert!((0..1000).contains(&timestamp.wrapping_sub(read)));
                }
            }
        }

        #[test]
        fn a_point_is_found_by_the_range_of_its_time(
            spec in any_spec(), timestamp in -10_000_000_000..10_000_000_000i64,
            before in 0..5_000_000i64, after in 0..5_000_000i64,
        ) {
            let (row, offset) = spec.split(timestamp);
            let read = spec.timestamp(row, offset);
            let range = TimeRange::new(read - before, read + after);
            let bounds = spec.row_time_bounds(range).expect("not empty");
            prop_assert!(bounds.first <= row && row <= bounds.last);
            let columns = spec.columns(row, range).expect("not empty");
            for kind in [offset, offset.with_legacy_kind(LegacyKind::Float)] {
                if kind == offset || spec.unit() == TimeUnit::Legacy {
                    prop_assert!(columns.start <= kind.to_bytes());
                    prop_assert!(kind.to_bytes() < columns.end);
                }
            }
            if read >= 0 {
                prop_assert!(spec.row_times_since_1970(range).any(|r| r == row));
            }
        }

        #[test]
        fn a_point_is_not_found_by_other_ranges(
            spec in any_spec(), timestamp in any_time(), gap in 1..5000i64,
        ) {
            let (row, offset) = spec.split(timestamp);
            let read = spec.timestamp(row, offset);
            for range in [
                TimeRange::new(read.saturating_add(gap), i64::MAX),
                TimeRange::new(i64::MIN, read.saturating_sub(gap)),
            ] {
                if let Some(columns) = spec.columns(row, range).filter(|_| !range.contains(read)) {
                    let bytes = offset.to_bytes();
                    prop_assert!(bytes < columns.start || columns.end <= bytes);
                }
            }
        }
    }
}
