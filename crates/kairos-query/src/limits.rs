//! What one query may cost. Limits bound work and memory that the number of points read does not bound.

use crate::error::QueryError;

/// What one query may cost.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Objects and lists within each other in the JSON of a query.
    pub max_nesting: usize,
    /// Metrics of a query.
    pub max_metrics: usize,
    /// Aggregators of a metric.
    pub max_aggregators: usize,
    /// `group_by` of a metric.
    pub max_group_by: usize,
    /// Tags of a `group_by`, bins, and thresholds of `score`.
    pub max_list: usize,
    /// Empty ranges that the aggregators `gaps` of a metric mark.
    pub max_gaps: u64,
    /// Groups of a metric.
    pub max_groups: usize,
    /// Points in memory at one time: of groups by value, time or bin, of a range of `percentile`, of `save_as`.
    pub max_points_in_memory: u64,
    /// Points of one average of `sma`.
    pub max_sma_size: u32,
    /// Bytes of an answer.
    pub max_answer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_nesting: 64,
            max_metrics: 1_000,
            max_aggregators: 64,
            max_group_by: 16,
            max_list: 1_000,
            max_gaps: 1_000_000,
            max_groups: 100_000,
            max_points_in_memory: 10_000_000,
            max_sma_size: 10_000,
            max_answer_bytes: 256 << 20,
        }
    }
}

impl Limits {
    /// An error if there is more than a limit allows.
    pub(crate) fn check(
        is: usize,
        allowed: usize,
        what: &str,
        limit: &'static str,
    ) -> Result<(), QueryError> {
        match is > allowed {
            true => Err(exceeded(what, allowed as u64, limit)),
            false => Ok(()),
        }
    }
}

/// More than `allowed`.
pub(crate) fn exceeded(what: &str, allowed: u64, limit: &'static str) -> QueryError {
    QueryError::Limit { what: format!("{what}: more than {allowed}"), limit }
}
