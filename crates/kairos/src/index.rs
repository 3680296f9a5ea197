//! Rows of the tables that index `data_points`, as plain values.
//!
//! ```text
//! string_index          metric names: which metrics exist at all
//! row_key_time_index    metric -> row times
//! row_keys              metric, row time -> data type, tags
//! tag_indexed_row_keys  metric, row time, "name=value" -> data type, hash, tags
//! row_key_index         metric -> row keys, all in one partition (legacy, only read and deleted)
//! service_index         metric family -> type, help, unit
//! ```
//!
//! The `value` of all our index rows is an empty text, so that their TTL can be read; KairosDB
//! writes null and reads both. The store decides which rows are written when.

use std::collections::BTreeSet;

use super::metadata;
use super::murmur3::murmur3_32;
use super::row_key::push_start;
use super::{DecodeError, EncodeError, RowKey, RowSpec, TableName};
use promkairos_model::{Metadata, TimeRange};

/// A row of `row_keys`: the partition key is metric, table name and row time; then type and tags.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RowKeyRow {
    /// The programs that can find the row.
    pub table_name: TableName,
    /// The row of data that it refers to.
    pub key: RowKey,
}

impl RowKeyRow {
    /// The index row of a row of data.
    pub fn of(key: &RowKey) -> Self {
        Self { table_name: key.data_type.table_name(), key: key.clone() }
    }

    /// Whether the type belongs to this table name. No other program would look for it elsewhere.
    pub fn is_in_place(&self) -> bool {
        self.key.data_type.table_name() == self.table_name
    }
}

/// The tags of a metric that are in `tag_indexed_row_keys`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexedTags {
    /// Every tag: `"*"` in KairosDB's configuration.
    All,
    /// Only these tags.
    Only(BTreeSet<Box<str>>),
}

impl IndexedTags {
    /// Whether rows for this tag are written.
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(name),
        }
    }
}

/// A row of `tag_indexed_row_keys`: a row of `row_keys`, found by one of its tags.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TagIndexRow {
    /// Partition key, after metric, table name and row time: see [`single_tag_pair`].
    pub single_tag_pair: Box<str>,
    /// Hash of all indexed tags of the row. Deletes must match it; readers ignore it.
    pub tag_collection_hash: i32,
    /// The row of `row_keys`.
    pub row: RowKeyRow,
}

impl TagIndexRow {
    /// The index rows of a row of data, one per indexed tag of the row.
    pub fn of(key: &RowKey, indexed: &IndexedTags) -> Vec<Self> {
        let tags = || key.tags.iter().filter(|(name, _)| indexed.contains(name));
        let parts = tags().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
        let hash = murmur3_32(parts);
        let mut rows: Vec<Self> = Vec::new();
        for (name, value) in tags() {
            let single_tag_pair = single_tag_pair(name, value);
            // Without escapes, "a" with "=b" and "a=" with "b" are the same pair, so there is one row.
            if rows.iter().all(|row| row.single_tag_pair != single_tag_pair) {
                let row = RowKeyRow::of(key);
                rows.push(Self { single_tag_pair, tag_collection_hash: hash, row });
            }
        }
        rows
    }
}

/// The name of a tag in `tag_indexed_row_keys`: `name=value`, without escapes.
pub fn single_tag_pair(name: &str, value: &str) -> Box<str> {
    format!("{name}={value}").into()
}

/// A row of `string_index`: a metric name in one of the lists of names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StringIndexRow {
    /// The list: names with rows in `data_points` are in KairosDB's own list.
    pub table_name: TableName,
    /// `column1`.
    pub metric: Box<str>,
}

impl StringIndexRow {
    /// The row that lists the metric of a row of data.
    pub fn of(key: &RowKey) -> Self {
        Self { table_name: key.data_type.table_name(), metric: key.metric.clone() }
    }

    /// `key` of a list of names.
    pub const fn key(table_name: TableName) -> &'static [u8] {
        match table_name {
            TableName::DataPoints => b"metric_names",
            TableName::Prometheus => b"prometheus_metric_names",
        }
    }
}

/// A slice of a partition of `row_key_index`: `column1 >= start AND column1 <= end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacySlice {
    /// First column.
    pub start: Vec<u8>,
    /// Last column.
    pub end: Vec<u8>,
}

impl LegacySlice {
    /// The slices that contain all rows with points in a range. A range across 1970 needs two,
    /// because the bytes of negative times sort after the bytes of positive ones.
    pub fn of(spec: RowSpec, metric: &str, range: TimeRange) -> Result<Vec<Self>, EncodeError> {
        let before = TimeRange::new(range.start, range.end.min(-1));
        let since = TimeRange::new(range.start.max(0), range.end);
        let mut slices = Vec::with_capacity(2);
        for range in [before, since] {
            if let Some(bounds) = spec.row_time_bounds(range) {
                let mut slice = Self { start: Vec::new(), end: Vec::new() };
                push_start(&mut slice.start, metric, bounds.first)?;
                // An empty data type at the start; at the end bytes that sort after any data type or tag.
                slice.start.extend_from_slice(&[0x00, 0]);
                push_start(&mut slice.end, metric, bounds.last)?;
                slice.end.extend_from_slice(&[0xFF, 0]);
                slices.push(slice);
            }
        }
        Ok(slices)
    }
}

/// A row of `service_index` with the metadata of a metric family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataRow {
    /// `key`: name of the family.
    pub family: Box<str>,
    /// Its type, help and unit.
    pub metadata: Metadata,
}

impl MetadataRow {
    /// `service`.
    pub const SERVICE: &str = "prometheus";
    /// `service_key`.
    pub const SERVICE_KEY: &str = "metadata";

    /// `value`.
    pub fn value(&self) -> String {
        metadata::encode(&self.metadata)
    }

    /// Reads `key` and `value`.
    pub fn decode(key: &str, value: &str) -> Result<Self, DecodeError> {
        Ok(Self { family: key.into(), metadata: metadata::decode(value)? })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DataType, RowTime, Tags, TimeUnit};
    use super::*;

    fn key(metric: &str, data_type: DataType, pairs: &[(&str, &str)]) -> RowKey {
        RowKey {
            metric: metric.into(),
            row_time: RowTime::from_stored(0),
            data_type,
            tags: Tags::from_pairs(pairs.iter().copied()).expect("unique names"),
        }
    }

    #[test]
    fn rows_of_ours_stand_under_our_table_name() {
        let ours = key("m", DataType::PromDouble, &[]);
        assert_eq!(RowKeyRow::of(&ours).table_name, TableName::Prometheus);
        assert!(RowKeyRow::of(&ours).is_in_place());
        let misplaced = RowKeyRow { table_name: TableName::DataPoints, ..RowKeyRow::of(&ours) };
        assert!(!misplaced.is_in_place());

        let name = StringIndexRow::of(&ours);
        let list = StringIndexRow::key(name.table_name);
        assert_eq!(list, b"prometheus_metric_names");
    }

    #[test]
    fn only_indexed_tags_count() {
        let key = key("m", DataType::Long, &[("dc", "x"), ("host", "b:1")]);
        let pairs = |indexed: &IndexedTags| -> Vec<(Box<str>, i32)> {
            let rows = TagIndexRow::of(&key, indexed).into_iter();
            rows.map(|row| (row.single_tag_pair, row.tag_collection_hash)).collect()
        };
        let host = IndexedTags::Only(["host".into(), "other".into()].into());
        assert_eq!(pairs(&host), [("host=b:1".into(), -1_336_815_236)]);
        let all = pairs(&IndexedTags::All);
        assert_eq!(all.iter().map(|(pair, _)| &**pair).collect::<Vec<_>>(), ["dc=x", "host=b:1"]);
        assert_eq!(all[0].1, all[1].1);
        assert_eq!(pairs(&IndexedTags::Only(BTreeSet::new())), []);
    }

    #[test]
    fn pairs_that_read_alike_are_one_row() {
        let key = key("m", DataType::Long, &[("a", "=b"), ("a=", "b")]);
        assert_eq!(TagIndexRow::of(&key, &IndexedTags::All).len(), 1);
    }

    #[test]
    fn slices_of_the_legacy_index() {
        let spec = RowSpec::new(TimeUnit::Legacy, 100).expect("valid");
        let bound = |time: i64, mark: u8| [b"m\0", &time.to_be_bytes()[..], &[mark, 0]].concat();
        let check = |start, end, want: &[(i64, i64)]| {
            let got = LegacySlice::of(spec, "m", TimeRange::new(start, end));
            let slice =
                |(first, last)| LegacySlice { start: bound(first, 0), end: bound(last, 0xFF) };
            assert_eq!(got, Ok(want.iter().copied().map(slice).collect()));
        };
        check(250, 420, &[(200, 420)]);
        check(-5, 420, &[(-104, -1), (0, 420)]);
        check(-5, -3, &[(-104, -3)]);
        check(-5, -1, &[(-104, -1)]);
        check(0, 0, &[(0, 0)]);
        check(5, 4, &[]);
        check(i64::MIN, i64::MAX, &[(i64::MIN, -1), (0, i64::MAX)]);
        let nul = LegacySlice::of(spec, "m\0", TimeRange::ALL);
        assert_eq!(nul, Err(EncodeError::NulInMetric));
    }

    #[test]
    fn every_legacy_row_with_points_in_the_range_is_in_a_slice() {
        let spec = RowSpec::new(TimeUnit::Legacy, 7).expect("valid");
        let range = TimeRange::new(-40, 40);
        let slices = LegacySlice::of(spec, "m", range).expect("valid");
        for timestamp in range.start..=range.end {
            for data_type in [DataType::Legacy, DataType::Long] {
                let row_time = spec.row_time(timestamp);
                let row_key = RowKey { row_time, ..key("m", data_type, &[("\u{10ffff}", "b")]) };
                let column = row_key.encode().expect("valid");
                assert!(slices.iter().any(|s| s.start <= column && column <= s.end), "{timestamp}");
            }
        }
    }

    #[test]
    fn metadata_rows() {
        let metadata = Metadata { help: "Help.".into(), ..Metadata::default() };
        let row = MetadataRow { family: "up".into(), metadata };
        assert_eq!(row.value(), "1\nunknown\n\nHelp.");
        assert_eq!(MetadataRow::decode("up", &row.value()), Ok(row));
    }
}
