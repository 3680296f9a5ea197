//! A query as it is evaluated: types checked, units known, times absolute, defaults filled in.

use crate::tag_filter::TagFilter;
use crate::time::{Sampling, Zone};

/// A query.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Seconds for which an answer may be kept.
    pub cache_time: i32,
    /// The metrics, in the order of the answer.
    pub metrics: Vec<MetricQuery>,
}

/// What is asked of one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricQuery {
    /// The metric.
    pub name: String,
    /// First millisecond.
    pub start: i64,
    /// Last millisecond, `i64::MAX` if the query has no end.
    pub end: i64,
    /// Which series.
    pub tags: Vec<TagFilter>,
    /// Whether the answer has no tags.
    pub exclude_tags: bool,
    /// Most points of a series, and of a group before its aggregators.
    pub limit: Option<u64>,
    /// In which order points are read.
    pub order: Order,
    /// How points are grouped.
    pub group_by: Vec<GroupBy>,
    /// What is computed of each group, in this order.
    pub aggregators: Vec<Aggregator>,
}

/// An order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The earliest first.
    Ascending,
    /// The latest first.
    Descending,
}

/// How points are grouped.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupBy {
    /// By the values of tags.
    Tag {
        /// The tags.
        tags: Vec<String>,
    },
    /// By ranges of time, which repeat.
    Time {
        /// Length of a range.
        range_size: Sampling,
        /// Number of ranges after which the groups repeat.
        group_count: i32,
        /// Where the first range begins.
        start: i64,
    },
    /// By ranges of values.
    Value {
        /// Length of a range.
        range_size: i32,
    },
    /// By bounds between values.
    Bin {
        /// The bounds.
        bins: Vec<f64>,
    },
}

/// What is computed of points.
#[derive(Debug, Clone, PartialEq)]
pub enum Aggregator {
    /// One value for a range of time, mostly.
    Range(Range),
    /// From a point to the next.
    Diff,
    /// Each value divided.
    Divide(f64),
    /// Each value multiplied.
    Scale(f64),
    /// Without the points that match.
    Filter(Filter),
    /// Change in a time.
    Rate(Sampling, Zone),
    /// Value in a time.
    Sampler(Sampling, Zone),
    /// Points go on, and are saved as another metric.
    SaveAs(SaveAs),
    /// How many thresholds each value passes.
    Score(Score),
    /// Average of the last points.
    Sma(u32),
    /// Without the first or last point. `None` changes nothing.
    Trim(Option<Trim>),
}

/// An aggregator over ranges of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Range {
    /// What is computed.
    pub fold: Fold,
    /// Length of a range, at least 1.
    pub sampling: Sampling,
    /// Where a range begins; the others follow from it.
    pub start: i64,
    /// Where the query begins.
    pub query_start: i64,
    /// Where the query ends, at most now.
    pub query_end: i64,
    /// The zone of days, weeks, months and years.
    pub zone: Zone,
    /// Points get the time of the start of their range.
    pub align_start_time: bool,
    /// Points get the time of the end of their range.
    pub align_end_time: bool,
    /// No gaps before and after the points.
    pub trim: bool,
}

/// What is computed of the points of a range.
#[derive(Debug, Clone, PartialEq)]
pub enum Fold {
    /// Mean.
    Avg,
    /// Number of points.
    Count,
    /// Standard deviation.
    Dev {
        /// Which value.
        deviation: Deviation,
        /// How many standard deviations are added or subtracted.
        count: i32,
    },
    /// First point.
    First,
    /// Last point.
    Last,
    /// All points, and a null for a range without points.
    Gaps,
    /// First and last point of the regression line.
    LeastSquares,
    /// Largest value.
    Max,
    /// Smallest value.
    Min,
    /// Quantile, 0 to 1.
    Percentile(f64),
    /// Sum.
    Sum,
}

/// What `dev` returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deviation {
    /// The standard deviation.
    Value,
    /// The mean and standard deviations.
    Above,
    /// The mean without standard deviations.
    Below,
}

/// The points that `filter` drops.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// How a value compares with the threshold.
    pub operation: FilterOperation,
    /// The threshold.
    pub threshold: ThresholdValue,
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterOperation {
    /// At most.
    Lte,
    /// Less.
    Lt,
    /// At least.
    Gte,
    /// More.
    Gt,
    /// Equal.
    Equal,
    /// Not equal.
    Ne,
}

/// The threshold of a filter.
#[derive(Debug, Clone, PartialEq)]
pub enum ThresholdValue {
    /// Numbers compare; strings are dropped.
    Number(f64),
    /// Strings compare; numbers are dropped.
    Text(String),
    /// All points are dropped.
    Other,
}

/// Where `save_as` saves.
#[derive(Debug, Clone, PartialEq)]
pub struct SaveAs {
    /// The metric.
    pub metric_name: String,
    /// Tags that the query gives.
    pub tags: Vec<(String, String)>,
    /// Tags of the group that are kept if they have one value.
    pub kept_tags: Vec<String>,
    /// Seconds until the points expire, 0 if they do not.
    pub ttl: i32,
    /// Whether a tag `saved_from` has the name of the metric.
    pub add_saved_from: bool,
}

/// The thresholds of `score`.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// Sorted.
    pub thresholds: Vec<Threshold>,
    /// Which end scores 0.
    pub order: ScoreOrder,
}

/// A threshold of `score`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// The value.
    pub value: f64,
    /// What passes at this value.
    pub boundary: Boundary,
}

/// Whether a value equal to a threshold passes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Boundary {
    /// It does.
    Inferior,
    /// It does not.
    Superior,
}

/// Which end scores 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreOrder {
    /// Small values.
    Ascending,
    /// Large values.
    Descending,
}

/// What `trim` drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trim {
    /// The first point.
    First,
    /// The last point.
    Last,
    /// Both.
    Both,
}
