//! Points and series, as they come from a store and pass the aggregators.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::QueryError;

/// A point.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Milliseconds since 1970.
    pub time: i64,
    /// The value.
    pub value: Value,
}

/// The value of a point.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Of `kairos_long`.
    Long(i64),
    /// Of `kairos_double`.
    Double(f64),
    /// Of `kairos_string`.
    Text(Arc<str>),
    /// A gap. No store has it.
    Null,
}

impl Value {
    /// The value as aggregators of numbers see it.
    pub(crate) fn double(&self) -> Result<f64, QueryError> {
        match self {
            Self::Long(value) => Ok(*value as f64),
            Self::Double(value) => Ok(*value),
            Self::Text(_) => Ok(0.0),
            Self::Null => Err(QueryError::Evaluation(AFTER_GAPS.into())),
        }
    }
}

/// What KairosDB says of a gap that an aggregator needs the value of.
const AFTER_GAPS: &str = "No aggregator can be chained after \
                          org.kairosdb.core.aggregator.DataGapsMarkingAggregator";

/// Series of one group type are merged, of two they are never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupType {
    /// Longs and doubles.
    Number,
    /// Strings.
    Text,
}

impl GroupType {
    /// The name in an answer.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Text => "text",
        }
    }
}

/// Tags of a series, without the name of its metric.
pub type Tags = BTreeMap<String, String>;

/// Points of one tag set and one group type.
pub struct Series<'a> {
    /// The tags.
    pub tags: Tags,
    /// What kind of values the points have.
    pub group_type: GroupType,
    /// Sorted by time, the latest first if the metric is read in descending order. Only points of the range of the
    /// query. A series of numbers may have several points at one time.
    pub points: Box<dyn Iterator<Item = Result<Point, QueryError>> + 'a>,
}
