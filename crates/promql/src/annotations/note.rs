//! The notes, the severity of each, and their texts, which are the same as in Prometheus.

use crate::format::general;
use crate::named_enum::named_enum;
use crate::strings::quoted;

/// A warning says that the result is probably wrong, an info that it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Returned under `warnings`.
    Warning,
    /// Returned under `infos`.
    Info,
}

named_enum! {
    /// The operation on histograms whose layouts or hints disagree.
    #[derive(PartialOrd, Ord)]
    pub enum HistogramOperation {
        /// `+`
        Addition = "addition",
        /// `-`
        Subtraction = "subtraction",
        /// `sum`, `avg` and similar functions.
        Aggregation = "aggregation",
    }
}

/// A note; `Display` is its text without its place in the query. `metric` is the metric's name, which may be empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum Note {
    #[error("PromQL warning: quantile value should be between 0 and 1, got {got}")]
    InvalidQuantile { got: String },
    #[error(
        "PromQL warning: ratio value should be between -1 and 1, got {got}, capping to {capped}"
    )]
    InvalidRatio { got: String, capped: String },
    #[error("PromQL warning: strategy should be 0, 1, or 2 (default), using 2, got {got}")]
    InvalidIntegralStrategy { got: String },
    #[error(
        "PromQL warning: bucket label \"le\" is missing or has a malformed value of {}{}",
        quoted(le),
        for_metric(metric)
    )]
    BadBucketLabel { le: String, metric: String },
    #[error(
        "PromQL warning: encountered a mix of histograms and floats for metric name {}",
        quoted(metric)
    )]
    MixedFloatsHistograms { metric: String },
    #[error("PromQL warning: encountered a mix of histograms and floats for aggregation")]
    MixedFloatsHistogramsInAggregation,
    #[error(
        "PromQL warning: vector contains a mix of classic and native histograms{}",
        for_metric(metric)
    )]
    MixedClassicNative { metric: String },
    #[error("PromQL warning: this native histogram metric is not a counter: {}", quoted(metric))]
    NotCounterHistogram { metric: String },
    #[error("PromQL warning: this native histogram metric is not a gauge: {}", quoted(metric))]
    NotGaugeHistogram { metric: String },
    #[error(
        "PromQL warning: vector contains a mix of histograms with exponential and custom buckets \
         schemas for metric name {}",
        quoted(metric)
    )]
    MixedExponentialCustom { metric: String },
    #[error(
        "PromQL warning: incompatible bucket layout encountered for binary operator {operator}"
    )]
    IncompatibleBucketLayout { operator: &'static str },
    #[error(
        "PromQL warning: sort is ineffective for range queries since results are always ordered \
         by labels"
    )]
    SortInRangeQuery,
    #[error("PromQL warning: conflicting counter resets during histogram {operation}")]
    CollidingResets { operation: HistogramOperation },
    #[error(
        "PromQL warning: sample has start time that overlaps with previous sample timestamp for \
         metric {}",
        quoted(metric)
    )]
    OverlappingStartTime { metric: String },
    #[error(
        "PromQL info: metric might not be a counter, name does not end in \
         _total/_sum/_count/_bucket: {}",
        quoted(metric)
    )]
    PossibleNonCounter { metric: String },
    #[error(
        "PromQL info: metric might not be a counter, __type__ label is not set to \"counter\" or \
         \"histogram\", got {}: {}",
        quoted(kind),
        quoted(metric)
    )]
    PossibleNonCounterType { metric: String, kind: String },
    #[error(
        "PromQL info: input to histogram_quantile needed to be fixed for monotonicity \
         (see https://prometheus.io/docs/prometheus/latest/querying/functions/\
         #histogram_quantile){}",
        for_metric(metric)
    )]
    ForcedMonotonicity { metric: String },
    #[error(
        "PromQL info: incompatible sample types encountered for binary operator \"{operator}\": \
         {left} {operator} {right}"
    )]
    IncompatibleTypes { left: &'static str, operator: &'static str, right: &'static str },
    #[error("PromQL info: ignored histogram in {aggregation} aggregation")]
    HistogramIgnoredInAggregation { aggregation: &'static str },
    #[error(
        "PromQL info: ignored histograms in a range containing both floats and histograms for \
         metric name {}",
        quoted(metric)
    )]
    HistogramIgnoredInMixedRange { metric: String },
    #[error(
        "PromQL info: input to histogram_quantile has NaN observations, result is NaN{}",
        for_metric(metric)
    )]
    NanQuantile { metric: String },
    #[error(
        "PromQL info: input to histogram_quantile has NaN observations, result is skewed higher{}",
        for_metric(metric)
    )]
    NanSkewsQuantile { metric: String },
    #[error(
        "PromQL info: input to histogram_fraction has NaN observations, which are excluded from \
         all fractions{}",
        for_metric(metric)
    )]
    NanInFraction { metric: String },
    #[error("PromQL info: mismatched custom buckets were reconciled during {operation}")]
    ReconciledBounds { operation: HistogramOperation },
}

impl Note {
    /// A quantile outside of 0 to 1.
    pub fn invalid_quantile(got: f64) -> Self {
        Self::InvalidQuantile { got: general(got) }
    }

    /// A ratio outside of −1 to 1.
    pub fn invalid_ratio(got: f64, capped: f64) -> Self {
        Self::InvalidRatio { got: general(got), capped: general(capped) }
    }

    /// An unknown strategy of `integral`.
    pub fn invalid_strategy(got: f64) -> Self {
        Self::InvalidIntegralStrategy { got: general(got) }
    }

    /// Whether it is a warning or an info.
    pub fn severity(&self) -> Severity {
        match self {
            Self::PossibleNonCounter { .. }
            | Self::PossibleNonCounterType { .. }
            | Self::ForcedMonotonicity { .. }
            | Self::IncompatibleTypes { .. }
            | Self::HistogramIgnoredInAggregation { .. }
            | Self::HistogramIgnoredInMixedRange { .. }
            | Self::NanQuantile { .. }
            | Self::NanSkewsQuantile { .. }
            | Self::NanInFraction { .. }
            | Self::ReconciledBounds { .. } => Severity::Info,
            _ => Severity::Warning,
        }
    }
}

/// ` for metric name "…"`, or nothing if the name is empty.
fn for_metric(metric: &str) -> String {
    if metric.is_empty() { String::new() } else { format!(" for metric name {}", quoted(metric)) }
}
