//! The rows that a write touches (partitions, columns and values), and which parts of the request are
//! stored or refused when they are written. Pure. Who writes the rows, and when, is not known here.

pub(crate) mod planner;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use crate::identity::Identity;
use promkairos_kairos::{DataType, EncodeError, Offset, RowSpec, RowTime};
use promkairos_model::{Labels, METRIC_NAME, RejectReason, Target, WriteOutcome};

/// Series whose index rows Cassandra refuses for good, and why.
pub(crate) type RefusedSeries = HashMap<u32, String>;

/// Rows to write, and how to account for them.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The series, each once.
    pub(crate) series: Vec<PlannedSeries>,
    /// The partitions; those of a series follow each other.
    pub(crate) rows: Vec<PlannedRow>,
    /// The cells of all rows.
    pub(crate) cells: Vec<PlannedCell>,
    /// One for each cell, regardless of its type: cells with equal identities must not share a millisecond.
    pub(crate) identities: Vec<Identity>,
    /// The points that no row can hold.
    pub(crate) unplaced: Vec<Unplaced>,
    /// Points and exemplars that lost their fraction of a second.
    pub(crate) floored: u64,
    keys: Vec<u8>,
    /// Positions in [`Plan::series`] of repeated series, each with its position in the request; in order.
    again: Vec<(u32, u32)>,
}

/// A series of a plan.
#[derive(Debug)]
pub(crate) struct PlannedSeries {
    pub(crate) labels: Labels,
    pub(crate) identity: Identity,
    /// Position in the request.
    index: u32,
    /// The earliest time of its points; exemplars do not count.
    first: i64,
    samples: u64,
    histograms: u64,
    exemplars: u64,
    refused: Option<EncodeError>,
}

/// One partition of `data_points` and its new cells.
#[derive(Debug)]
pub(crate) struct PlannedRow {
    /// Position in [`Plan::series`].
    pub(crate) series: u32,
    pub(crate) row_time: RowTime,
    pub(crate) data_type: DataType,
    /// Whether it holds more than stale markers, which end a series.
    pub(crate) is_live: bool,
    /// Range in [`Plan::cells`].
    pub(crate) cells: Range<usize>,
    key: Range<usize>,
}

/// A point that no row can hold.
#[derive(Debug)]
pub(crate) struct Unplaced {
    pub(crate) series: u32,
    pub(crate) timestamp: i64,
    pub(crate) data_type: DataType,
    pub(crate) stamp: i64,
    pub(crate) value: UnplacedValue,
}

/// The value of a point that no row can hold.
#[derive(Debug)]
pub(crate) enum UnplacedValue {
    /// The cell of a series that is refused.
    Cell(CellValue),
    /// A histogram without a cell, as complete text.
    Histogram {
        text: String,
        why: EncodeError,
        /// Position in the request.
        index: u32,
    },
}

/// One cell.
#[derive(Debug)]
pub(crate) struct PlannedCell {
    column: [u8; 12],
    column_len: usize,
    value: CellValue,
    /// When the cell was accepted, in milliseconds.
    pub(crate) stamp: i64,
}

#[derive(Debug)]
pub(crate) enum CellValue {
    Double([u8; 8]),
    Bytes(Vec<u8>),
}

impl CellValue {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Double(bytes) => bytes,
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl PlannedRow {
    /// The time of a cell, from its column.
    pub(crate) fn timestamp(&self, spec: RowSpec, column: &[u8]) -> i64 {
        timestamp(spec, self.row_time, column)
    }
}

impl PlannedCell {
    pub(crate) fn column(&self) -> &[u8] {
        &self.column[..self.column_len]
    }

    pub(crate) fn value(&self) -> &[u8] {
        self.value.bytes()
    }
}

impl PlannedSeries {
    /// A series without points, at this position in the request.
    fn new(labels: Labels, identity: Identity, index: u32) -> Self {
        Self {
            labels,
            identity,
            index,
            first: i64::MAX,
            samples: 0,
            histograms: 0,
            exemplars: 0,
            refused: None,
        }
    }

    /// Why no row can hold the series.
    pub(crate) fn refused(&self) -> String {
        self.refused.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    pub(crate) fn metric(&self) -> &str {
        self.labels.get(METRIC_NAME)
    }
}

impl Plan {
    /// Rows of a window without cells, to write only their index rows.
    pub(crate) fn of_index_rows(
        rows: impl Iterator<Item = (Labels, Identity, DataType)>,
        row_time: RowTime,
    ) -> Self {
        let mut plan = Self::default();
        for (series, (labels, identity, data_type)) in (0..).zip(rows) {
            plan.rows.push(PlannedRow {
                series,
                row_time,
                data_type,
                is_live: false,
                cells: 0..0,
                key: 0..0,
            });
            plan.series.push(PlannedSeries::new(labels, identity, series));
        }
        plan
    }

    /// The partition key of a row.
    pub(crate) fn key(&self, row: &PlannedRow) -> &[u8] {
        &self.keys[row.key.clone()]
    }

    /// The time of the first point of each metric; exemplars do not count.
    pub(crate) fn first_points(&self) -> BTreeMap<&str, i64> {
        let mut firsts = BTreeMap::new();
        for series in self.series.iter().filter(|series| series.first < i64::MAX) {
            let first: &mut i64 = firsts.entry(series.metric()).or_insert(i64::MAX);
            *first = series.first.min(*first);
        }
        firsts
    }

    /// Gives all cells one stamp.
    pub(crate) fn stamp(&mut self, stamp: i64) {
        for cell in &mut self.cells {
            cell.stamp = stamp;
        }
        for cell in &mut self.unplaced {
            cell.stamp = stamp;
        }
    }

    /// Accounts for what is stored and what is not, when Cassandra refused these series for these reasons.
    pub(crate) fn account(&self, refused: &HashMap<u32, String>, outcome: &mut WriteOutcome) {
        for point in &self.unplaced {
            let UnplacedValue::Histogram { why, index, .. } = &point.value else { continue };
            let labels = &self.series[point.series as usize].labels;
            let reason = RejectReason::Store(why.to_string());
            outcome.rejections.push(Target::Histogram(*index), reason, || shortened(labels));
        }
        let mut left = self.again.as_slice();
        for (slot, series) in (0..).zip(&self.series) {
            let again;
            (again, left) = left.split_at(left.iter().take_while(|(of, _)| *of == slot).count());
            let reason = match &series.refused {
                Some(error) => Some(error.to_string()),
                None => refused.get(&slot).cloned(),
            };
            let Some(reason) = reason else {
                outcome.samples += series.samples;
                outcome.histograms += series.histograms;
                outcome.exemplars += series.exemplars;
                continue;
            };
            let mut points = series.samples + series.histograms;
            for index in [series.index].into_iter().chain(again.iter().map(|(_, index)| *index)) {
                let reason = RejectReason::Store(reason.clone());
                let series = || shortened(&series.labels);
                // The points of all occurrences count with the first one.
                outcome.rejections.push_series(index, std::mem::take(&mut points), reason, series);
            }
        }
    }
}

fn shortened(labels: &Labels) -> String {
    promkairos_model::RawLabels(labels.as_bytes()).describe()
}

/// The time of a cell, from the first four bytes of its column.
fn timestamp(spec: RowSpec, row_time: RowTime, column: &[u8]) -> i64 {
    let offset = Offset::from_bytes(&column[..4], spec.unit());
    offset.map_or(row_time.millis(), |offset| spec.timestamp(row_time, offset))
}
