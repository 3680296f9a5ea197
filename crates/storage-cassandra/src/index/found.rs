//! What a search finds: series, and the partitions of `data_points` that may hold their points.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::identity::Identity;
use crate::index::index_row::IndexRow;
use crate::index::routing::Route;
use crate::index::window::WindowKey;
use promkairos_kairos::{DataType, RowKey, RowTime};
use promkairos_model::{Labels, METRIC_NAME, ShownTime};
use promkairos_storage::Result;

/// Metrics and windows that one query reads at the same time.
pub(crate) const READS_AT_ONCE: usize = 32;

/// The metrics that a search covers.
pub(crate) struct Candidates<'a> {
    /// Each once.
    pub(crate) names: &'a [String],
    /// Their windows whose rows are in memory; empty where there may be very many.
    pub(crate) in_memory: Vec<WindowKey<'a>>,
}

/// A series and the partitions that may hold its points.
#[derive(Debug, Clone)]
pub(crate) struct FoundSeries {
    pub(crate) labels: Labels,
    /// At least one, in order of time.
    pub(crate) rows: Vec<FoundRow>,
}

impl FoundSeries {
    pub(crate) fn metric(&self) -> &str {
        self.labels.get(METRIC_NAME)
    }
}

/// Bytes of memory of the rows of a series, about, without its labels.
pub(crate) fn bytes_of_rows(rows: &[FoundRow]) -> usize {
    rows.iter().enumerate().map(|(nth, row)| row.bytes(nth == 0)).sum()
}

/// A partition of `data_points`.
#[derive(Debug, Clone)]
pub(crate) struct FoundRow {
    /// A row that has a key.
    pub(crate) row: Arc<IndexRow>,
    pub(crate) row_time: RowTime,
}

impl FoundRow {
    /// The partition key.
    pub(crate) fn key(&self) -> Vec<u8> {
        self.row.key(self.row_time).expect("rows without a key are not found")
    }

    /// Bytes of memory, about, without the labels of the series, which the first row shares.
    pub(crate) fn bytes(&self, is_first: bool) -> usize {
        // Growing lists may have twice the capacity that they need.
        let place = 2 * size_of::<Self>();
        // This may be the last reference to another row.
        if is_first { place } else { place + self.row.bytes() }
    }

    /// The partition key before it is encoded.
    pub(crate) fn row_key(&self) -> RowKey {
        self.row.row_key(self.row_time)
    }

    pub(crate) fn data_type(&self) -> &DataType {
        &self.row.data_type
    }

    /// The metric of the row.
    pub(crate) fn metric(&self) -> &str {
        self.row.labels.get(METRIC_NAME)
    }

    /// Two partitions have equal identities only if they are the same partition.
    pub(crate) fn identity(&self) -> Identity {
        self.row.identity.with(self.row_time.millis())
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        self.row_time == other.row_time && self.row.identity == other.row.identity
    }

    /// Orders by time, then type. Keys are encoded only where nothing else differs, which is rare.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let by_type = (self.row_time, self.data_type()).cmp(&(other.row_time, other.data_type()));
        by_type.then_with(|| match self.is(other) {
            true => Ordering::Equal,
            false => self.key().cmp(&other.key()),
        })
    }
}

/// The whole row, as text for people.
impl fmt::Display for FoundRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}, {}", self.row.labels, self.data_type(), ShownTime(self.row_time.millis()))
    }
}

/// Takes index rows with their row times.
pub(crate) type Visit<'a> = &'a mut (dyn FnMut(&Arc<IndexRow>, RowTime) -> Result<()> + Send);

/// What a search wants, and where its rows go.
pub(crate) struct Search<'a> {
    pub(crate) route: &'a Route,
    /// Selects the types of the rows.
    pub(crate) wanted: fn(&DataType) -> bool,
    pub(crate) visit: Mutex<Visit<'a>>,
}

impl<'a> Search<'a> {
    pub(crate) fn new(route: &'a Route, wanted: fn(&DataType) -> bool, visit: Visit<'a>) -> Self {
        Self { route, wanted, visit: Mutex::new(visit) }
    }
}

/// The rows of one series, ordered by time, grouped by window; all rows before 1970 are one group.
pub(crate) fn windows_of(rows: &[FoundRow]) -> impl Iterator<Item = &[FoundRow]> {
    // Before 1970 rows are not aligned, and a row may hold points of the time of another.
    let window = |row: &FoundRow| row.row_time.millis().max(-1);
    rows.chunk_by(move |a, b| window(a) == window(b))
}
