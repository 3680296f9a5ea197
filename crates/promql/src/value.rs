//! The result of a query.

use std::sync::Arc;
use std::time::Duration;

use super::annotations::Annotations;
use super::counts::StepCounts;
use super::error::QueryError;
use super::estimate::Estimate;
use super::histogram::FloatHistogram;
use super::points::Value;
use super::response_budget::Room;
use promkairos_model::Labels;

/// The answer to a query.
#[derive(Debug)]
pub struct QueryResult {
    /// The value.
    pub value: QueryValue,
    /// Warnings and notes for the user.
    pub annotations: Annotations,
    /// Counts and times.
    pub stats: Stats,
    /// The estimated cost, if requested.
    pub estimate: Option<Result<Estimate, QueryError>>,
    /// Its room among the results that are not sent yet; kept until it is sent.
    pub room: Room,
}

/// The value of a query.
#[derive(Debug, Clone, PartialEq)]
pub enum QueryValue {
    /// Series with one point each.
    Vector(Vec<Sample>),
    /// Series with points by rising time, sorted by labels.
    Matrix(Vec<SeriesPoints>),
    /// A number at a time.
    Scalar(i64, f64),
    /// A text at a time.
    String(i64, String),
}

impl QueryValue {
    /// Its approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Vector(samples) => samples.iter().map(Sample::bytes).sum(),
            Self::Matrix(series) => series.iter().map(SeriesPoints::bytes).sum(),
            Self::Scalar(..) => 0,
            Self::String(_, text) => text.len(),
        }
    }
}

/// A series with one point.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Its labels.
    pub labels: Labels,
    /// Milliseconds since 1970.
    pub time: i64,
    /// The value.
    pub value: Value,
}

impl Sample {
    /// Its approximate size in bytes.
    pub fn bytes(&self) -> usize {
        let value = match &self.value {
            Value::Float(_) => 0,
            Value::Histogram(histogram) => histogram.heap_bytes(),
        };
        value + self.labels.as_bytes().len() + SAMPLE_BYTES
    }
}

/// Bytes of a sample beside its labels and histogram, with the copies made while a result is built.
const SAMPLE_BYTES: usize = 3 * size_of::<Sample>() + 64;
/// Bytes of a series beside its labels and points, with the copies made while a result is built and sorted.
const SERIES_BYTES: usize = 3 * size_of::<SeriesPoints>() + 64;

/// A series with points.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesPoints {
    /// Its labels.
    pub labels: Labels,
    /// Floats by rising time in milliseconds.
    pub floats: Vec<(i64, f64)>,
    /// Histograms by rising time in milliseconds.
    pub histograms: Vec<(i64, Arc<FloatHistogram>)>,
}

impl SeriesPoints {
    /// Its approximate size in bytes. A histogram that neighbouring points share is counted once.
    pub fn bytes(&self) -> usize {
        let floats = self.floats.len() * size_of::<(i64, f64)>();
        let mut bytes = self.labels.as_bytes().len() + SERIES_BYTES + floats;
        let mut last: Option<&Arc<FloatHistogram>> = None;
        for (_, histogram) in &self.histograms {
            bytes += size_of::<(i64, Arc<FloatHistogram>)>();
            if !last.is_some_and(|last| Arc::ptr_eq(last, histogram)) {
                bytes += histogram.heap_bytes();
            }
            last = Some(histogram);
        }
        bytes
    }

    /// How many samples its points count for.
    pub(crate) fn samples(&self) -> usize {
        let histograms = self.histograms.iter().map(|(_, histogram)| histogram.samples());
        self.floats.len() + histograms.sum::<usize>()
    }
}

/// Counts and times of a query.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// Points seen at the steps; a point counts at every step that sees it.
    pub total_queryable_samples: u64,
    /// Points read from the store.
    pub samples_read: u64,
    /// `samples_read` and the points that subqueries read between two windows: the cost of the query.
    pub samples_taken: u64,
    /// Series that its selectors read; a series that two selectors read counts twice.
    pub series_touched: u64,
    /// Both counts of samples by step, if requested.
    pub by_step: Option<StepCounts>,
    /// The most samples held in memory at a time.
    pub peak_samples: u64,
    /// Waiting in the queue.
    pub queued: Duration,
    /// Planning and selecting.
    pub preparation: Duration,
    /// Evaluating.
    pub evaluation: Duration,
    /// Sorting the result.
    pub sorting: Duration,
    /// All of it.
    pub total: Duration,
}
