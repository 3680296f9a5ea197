//! A row of any index: a series and the type of its cells.
//!
//! Within its row time it identifies one partition of `data_points`. Rows that are not series for
//! Prometheus (a tag without a name, or a tag `__name__`) are not represented here.
//!
//! A row is made once and used by many queries. Its identity is hashed when it is made; its key is
//! encoded only to read or delete its partition.

use std::fmt;
use std::ops::ControlFlow;

use scylla::deserialize::value::MapIterator;

use crate::cql::rows::Rows;
use crate::identity::Identity;
use crate::index::window::WindowKey;
use promkairos_kairos::{DataType, EncodeError, MAX_KEY_BYTES, RowKey, RowTime, Tags};
use promkairos_model::{Labels, METRIC_NAME, Printable, ShownSeries, ShownTime};
use promkairos_storage::Result;

/// A row of an index.
#[derive(Debug, Clone)]
pub(crate) struct IndexRow {
    pub(crate) labels: Labels,
    pub(crate) data_type: DataType,
    /// All tags, where there are fewer labels: a tag with an empty value is not a label.
    tags: Option<Box<Tags>>,
    /// The identity of the labels.
    pub(crate) series: Identity,
    /// Two rows have equal identities only if their keys in a row time are equal.
    pub(crate) identity: Identity,
    /// Whether the key of the row can be encoded.
    pub(crate) has_key: bool,
}

impl IndexRow {
    /// The row of a series that promkairos wrote.
    pub(crate) fn of_series(labels: Labels, data_type: DataType) -> Self {
        Self::new(labels, data_type, None)
    }

    /// The row of a metric with these tags; None where they are not a valid series.
    pub(crate) fn of_tags(
        metric: &str,
        data_type: DataType,
        tags: &[(&str, &str)],
    ) -> Option<Self> {
        let pairs = tags.iter().copied();
        let labels = Labels::from_pairs(pairs.clone().chain([(METRIC_NAME, metric)])).ok()?;
        let tags = if tags.iter().any(|(_, value)| value.is_empty()) {
            Some(Box::new(Tags::from_pairs(pairs).ok()?))
        } else {
            None
        };
        Some(Self::new(labels, data_type, tags))
    }

    fn new(labels: Labels, data_type: DataType, tags: Option<Box<Tags>>) -> Self {
        let series = Identity::of(&[labels.as_bytes()]);
        let mut identity = series.and(&[data_type.as_str().as_bytes()]);
        for (name, value) in tags.iter().flat_map(|tags| tags.iter()) {
            identity = identity.and(&[name.as_bytes(), value.as_bytes()]);
        }
        let mut row = Self { labels, data_type, tags, series, identity, has_key: true };
        // Nearly all rows need no encoded key for this check.
        row.has_key = row.surely_has_key() || row.key(RowTime::from_stored(0)).is_ok();
        row
    }

    fn surely_has_key(&self) -> bool {
        // Escaping at most doubles the labels; the rest of the key is short.
        const REST: usize = 64;
        let metric = self.labels.get(METRIC_NAME);
        self.tags.is_none()
            && !matches!(self.data_type, DataType::Legacy | DataType::Other(_))
            && !metric.is_empty()
            && !metric.contains('\0')
            && self.labels.as_bytes().len() * 2 + REST <= MAX_KEY_BYTES
    }

    /// Bytes of memory, about, of a row in an [`Arc`](std::sync::Arc).
    pub(crate) fn bytes(&self) -> usize {
        /// Reference counts of the row and of its labels, and the overhead of the allocator.
        const BESIDE: usize = 48;
        let tags = self.tags.as_ref().map_or(0, |_| 2 * self.labels.as_bytes().len() + BESIDE);
        size_of::<Self>() + BESIDE + self.labels.as_bytes().len() + tags
    }

    /// The key of the partition of `data_points` in a row time.
    pub(crate) fn key(&self, row_time: RowTime) -> Result<Vec<u8>, EncodeError> {
        self.row_key(row_time).encode()
    }

    /// The key before it is encoded.
    pub(crate) fn row_key(&self, row_time: RowTime) -> RowKey {
        let tags = match &self.tags {
            Some(tags) => (**tags).clone(),
            None => Tags::from_labels(self.labels.as_ref()),
        };
        let metric = self.labels.get(METRIC_NAME).into();
        RowKey { metric, row_time, data_type: self.data_type.clone(), tags }
    }
}

/// Calls `take` with type and tags of each row of a page with those two columns, until it breaks.
pub(crate) fn each_row(
    page: &Rows,
    mut take: impl FnMut(DataType, &[(&str, &str)]) -> Result<ControlFlow<()>>,
) -> Result<ControlFlow<()>> {
    // A partition whose rows are all deleted keeps `mtime`: then it has one row of nulls.
    type Row<'f> = (Option<&'f str>, Option<MapIterator<'f, 'f, &'f str, &'f str>>);
    let mut tags: Vec<(&str, &str)> = Vec::new();
    for row in page.iter::<Row<'_>>()? {
        let (Some(data_type), Some(map)) = row? else { continue };
        tags.clear();
        for tag in map {
            tags.push(tag.map_err(|e| page.unreadable(e))?);
        }
        if take(DataType::parse(data_type), &tags)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// A row of a page with value and TTL beside type and tags.
pub(crate) struct CheckedRow<'a> {
    pub(crate) data_type: DataType,
    pub(crate) tags: &'a [(&'a str, &'a str)],
    /// Whether it has our cell. A neighbour may have written it too.
    pub(crate) is_ours: bool,
    /// Seconds until our cell expires; None = never, or the cell is not ours.
    pub(crate) ttl: Option<i32>,
}

/// Calls `take` with each row of such a page.
pub(crate) fn each_checked_row(page: &Rows, mut take: impl FnMut(CheckedRow<'_>)) -> Result<()> {
    type Tags<'f> = MapIterator<'f, 'f, &'f str, &'f str>;
    // All null where every row is deleted and only `mtime` is left.
    type Row<'f> = (Option<&'f str>, Option<Tags<'f>>, Option<&'f str>, Option<i32>);
    for row in page.iter::<Row<'_>>()? {
        let (Some(data_type), Some(map), value, ttl) = row? else { continue };
        let tags: Result<Vec<(&str, &str)>, _> = map.collect();
        let tags = tags.map_err(|e| page.unreadable(e))?;
        let data_type = DataType::parse(data_type);
        take(CheckedRow { data_type, tags: &tags, is_ours: value.is_some(), ttl });
    }
    Ok(())
}

/// The identity of a row of `row_keys` within its window.
pub(crate) fn row_identity(series: Identity, data_type: &DataType) -> Identity {
    series.with(match data_type {
        DataType::Double => 1,
        DataType::PromDouble => 2,
        DataType::PromHistogram => 3,
        DataType::PromExemplar => 4,
        DataType::Long => 5,
        DataType::Legacy => 6,
        DataType::String | DataType::Other(_) => 0,
    })
}

/// A whole index row, as text for people.
pub(crate) struct ShownRow<'a> {
    pub(crate) window: WindowKey<'a>,
    pub(crate) data_type: &'a DataType,
    pub(crate) tags: &'a [(&'a str, &'a str)],
}

impl fmt::Display for ShownRow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { window, data_type, tags } = self;
        let series = ShownSeries { metric: Some(window.metric), labels: tags.iter().copied() };
        let data_type = data_type.to_string();
        write!(f, "{series} {}, {}", Printable(&data_type), ShownTime(window.row_time.millis()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_tags_are_no_labels_but_part_of_the_key() {
        let row_time = RowTime::from_stored(0);
        let of = |tags: &[(&str, &str)]| IndexRow::of_tags("m", DataType::Long, tags);
        let (bare, empty) = (of(&[]).expect("a series"), of(&[("a", "")]).expect("a series"));
        assert_eq!(bare.labels, empty.labels);
        let key = |row: &IndexRow| row.key(row_time).expect("a key");
        assert!(key(&empty).ends_with(b"kairos_longa=:") && key(&bare).ends_with(b"kairos_long"));
        let ours = IndexRow::of_series(bare.labels.clone(), DataType::Long);
        assert_eq!(key(&ours), key(&bare));
        assert_eq!(ours.identity, bare.identity);
        assert_ne!(empty.identity, bare.identity);
        assert_eq!(empty.series, bare.series);
        assert_ne!(of(&[("a", ""), ("b", "")]).expect("a series").identity, empty.identity);
        let double = IndexRow::of_series(bare.labels.clone(), DataType::Double);
        assert_ne!(double.identity, bare.identity);
        assert!(of(&[("", "x")]).is_none() && of(&[("__name__", "x")]).is_none());
    }

    #[test]
    fn it_is_known_whether_there_can_be_a_key() {
        let (fits, long) = ("v".repeat(32_000), "=".repeat(32_767));
        let check = |metric: &str, kind: &str, value: &str, want: bool| {
            let data_type = DataType::parse(kind);
            let row = IndexRow::of_tags(metric, data_type, &[("a", value)]).expect("a series");
            let key = row.key(RowTime::from_stored(7));
            assert_eq!((row.has_key, key.is_ok()), (want, want), "{kind} {}", value.len());
        };
        for kind in ["kairos_double", "kairos_legacy", "other"] {
            check("m", kind, "x", true);
            check("m", kind, "", true);
            check("m", kind, &fits, true);
            check("m", kind, &(fits.clone() + &fits), true);
            check("m", kind, &long, false);
            check("a\0b", kind, "x", false);
            check("", kind, "x", false);
        }
        check("m", &"x".repeat(256), "x", false);
    }
}
