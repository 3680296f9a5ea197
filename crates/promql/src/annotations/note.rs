//! The notes, the severity of each, and their texts, which are the same as in Prometheus.

use std::fmt;

use crate::format::general;
use crate::strings::quoted;

/// A warning says that the result is probably wrong, an info that it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Returned under `warnings`.
    Warning,
    /// Returned under `infos`.
    Info,
}

/// The operation on histograms whose layouts or hints disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HistogramOperation {
    /// `+`
    Addition,
    /// `-`
    Subtraction,
    /// `sum`, `avg` and similar functions.
    Aggregation,
}

/// A note. `metric` is the metric's name, which may be empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the texts below say it")]
pub enum Note {
    InvalidQuantile { got: String },
    InvalidRatio { got: String, capped: String },
    InvalidIntegralStrategy { got: String },
    BadBucketLabel { le: String, metric: String },
    MixedFloatsHistograms { metric: String },
    MixedFloatsHistogramsInAggregation,
    MixedClassicNative { metric: String },
    NotCounterHistogram { metric: String },
    NotGaugeHistogram { metric: String },
    MixedExponentialCustom { metric: String },
    IncompatibleBucketLayout { operator: &'static str },
    SortInRangeQuery,
    CollidingResets { operation: HistogramOperation },
    OverlappingStartTime { metric: String },
    PossibleNonCounter { metric: String },
    PossibleNonCounterType { metric: String, kind: String },
    ForcedMonotonicity { metric: String },
    IncompatibleTypes { left: &'static str, operator: &'static str, right: &'static str },
    HistogramIgnoredInAggregation { aggregation: &'static str },
    HistogramIgnoredInMixedRange { metric: String },
    NanQuantile { metric: String },
    NanSkewsQuantile { metric: String },
    NanInFraction { metric: String },
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

impl fmt::Display for HistogramOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Addition => "addition",
            Self::Subtraction => "subtraction",
            Self::Aggregation => "aggregation",
        })
    }
}

/// ` for metric name "…"`, or nothing if the name is empty.
struct ForMetric<'a>(&'a str);

impl fmt::Display for ForMetric<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " for metric name {}", quoted(self.0)) }
    }
}

/// The text without its place in the query.
impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.severity() {
            Severity::Warning => {
                f.write_str("PromQL warning: ")?;
                self.warning(f)
            }
            Severity::Info => {
                f.write_str("PromQL info: ")?;
                self.info(f)
            }
        }
    }
}

impl Note {
    fn warning(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIX: &str = "encountered a mix of histograms and floats for";
        match self {
            Self::InvalidQuantile { got } => {
                write!(f, "quantile value should be between 0 and 1, got {got}")
            }
            Self::InvalidRatio { got, capped } => {
                write!(f, "ratio value should be between -1 and 1, got {got}, capping to {capped}")
            }
            Self::InvalidIntegralStrategy { got } => {
                write!(f, "strategy should be 0, 1, or 2 (default), using 2, got {got}")
            }
            Self::BadBucketLabel { le, metric } => write!(
                f,
                "bucket label \"le\" is missing or has a malformed value of {}{}",
                quoted(le),
                ForMetric(metric)
            ),
            Self::MixedFloatsHistograms { metric } => {
                write!(f, "{MIX} metric name {}", quoted(metric))
            }
            Self::MixedFloatsHistogramsInAggregation => write!(f, "{MIX} aggregation"),
            Self::MixedClassicNative { metric } => write!(
                f,
                "vector contains a mix of classic and native histograms{}",
                ForMetric(metric)
            ),
            Self::NotCounterHistogram { metric } => {
                write!(f, "this native histogram metric is not a counter: {}", quoted(metric))
            }
            Self::NotGaugeHistogram { metric } => {
                write!(f, "this native histogram metric is not a gauge: {}", quoted(metric))
            }
            Self::MixedExponentialCustom { metric } => write!(
                f,
                "vector contains a mix of histograms with exponential and custom buckets schemas \
                 for metric name {}",
                quoted(metric)
            ),
            Self::IncompatibleBucketLayout { operator } => {
                write!(f, "incompatible bucket layout encountered for binary operator {operator}")
            }
            Self::SortInRangeQuery => f.write_str(
                "sort is ineffective for range queries since results are always ordered by labels",
            ),
            Self::CollidingResets { operation } => {
                write!(f, "conflicting counter resets during histogram {operation}")
            }
            Self::OverlappingStartTime { metric } => write!(
                f,
                "sample has start time that overlaps with previous sample timestamp for metric {}",
                quoted(metric)
            ),
            // Infos have no warning text.
            _ => Ok(()),
        }
    }

    fn info(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NON_COUNTER: &str = "metric might not be a counter,";
        const QUANTILE: &str = "input to histogram_quantile";
        match self {
            Self::PossibleNonCounter { metric } => write!(
                f,
                "{NON_COUNTER} name does not end in _total/_sum/_count/_bucket: {}",
                quoted(metric)
            ),
            Self::PossibleNonCounterType { metric, kind } => write!(
                f,
                "{NON_COUNTER} __type__ label is not set to \"counter\" or \"histogram\", \
                 got {}: {}",
                quoted(kind),
                quoted(metric)
            ),
            Self::ForcedMonotonicity { metric } => write!(
                f,
                "{QUANTILE} needed to be fixed for monotonicity \
                 (see https://prometheus.io/docs/prometheus/latest/querying/functions/\
                 #histogram_quantile){}",
                ForMetric(metric)
            ),
            Self::IncompatibleTypes { left, operator, right } => write!(
                f,
                "incompatible sample types encountered for binary operator \"{operator}\": \
                 {left} {operator} {right}"
            ),
            Self::HistogramIgnoredInAggregation { aggregation } => {
                write!(f, "ignored histogram in {aggregation} aggregation")
            }
            Self::HistogramIgnoredInMixedRange { metric } => write!(
                f,
                "ignored histograms in a range containing both floats and histograms for metric \
                 name {}",
                quoted(metric)
            ),
            Self::NanQuantile { metric } => {
                write!(f, "{QUANTILE} has NaN observations, result is NaN{}", ForMetric(metric))
            }
            Self::NanSkewsQuantile { metric } => write!(
                f,
                "{QUANTILE} has NaN observations, result is skewed higher{}",
                ForMetric(metric)
            ),
            Self::NanInFraction { metric } => write!(
                f,
                "input to histogram_fraction has NaN observations, which are excluded from all \
                 fractions{}",
                ForMetric(metric)
            ),
            Self::ReconciledBounds { operation } => {
                write!(f, "mismatched custom buckets were reconciled during {operation}")
            }
            // Warnings have no info text.
            _ => Ok(()),
        }
    }
}
