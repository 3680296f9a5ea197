//! Validates histograms.
//!
//! The rules are the same as in Prometheus. Bucket counts of float histograms need not add up to
//! the count. Bucket counts of integer histograms must, unless the sum is NaN: a NaN observation is
//! in the count, but in no bucket.

use super::native::{CUSTOM_BUCKETS_SCHEMA, Counts, Histogram, Span};
use crate::limits::NO_SETTING;

/// Why a histogram is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HistogramError {
    /// Neither −4..=52 nor custom buckets.
    #[error("histogram has an unknown schema {0}")]
    UnknownSchema(i32),
    /// Spans and buckets do not agree.
    #[error("{side} side: spans name {spans} buckets, but there are {buckets}")]
    SpanMismatch {
        /// `positive` or `negative`.
        side: &'static str,
        /// Sum of the span lengths.
        spans: u64,
        /// Number of counts.
        buckets: usize,
    },
    /// A span after the first with a negative offset.
    #[error("{side} side: span number {number} has the negative offset {offset}")]
    NegativeOffset {
        /// `positive` or `negative`.
        side: &'static str,
        /// Counted from 1.
        number: usize,
        /// Its offset.
        offset: i32,
    },
    /// A bucket index that does not fit into 32 bits.
    #[error(
        "{side} side: span number {number} reaches beyond the smallest or largest bucket index"
    )]
    IndexOverflow {
        /// `positive` or `negative`.
        side: &'static str,
        /// Counted from 1.
        number: usize,
    },
    /// A bucket count below zero.
    #[error("{side} side: bucket number {number} holds {count} observations")]
    NegativeBucket {
        /// `positive` or `negative`.
        side: &'static str,
        /// Counted from 1.
        number: usize,
        /// The count.
        count: f64,
    },
    /// Count or zero count below zero.
    #[error("histogram has a negative {0}")]
    NegativeCount(&'static str),
    /// The count differs from the sum of the buckets.
    #[error("buckets hold {buckets} observations, but the count is {count}")]
    CountMismatch {
        /// Sum over the buckets, the zero bucket included.
        buckets: u64,
        /// The count field.
        count: u64,
    },
    /// More spans, buckets and bounds than the limit given.
    #[error("histogram has more than {0} spans, buckets and bounds; {NO_SETTING}")]
    TooManyBuckets(usize),
    /// A bucket count that overflows 64 bits.
    #[error("histogram bucket counts overflow")]
    CountOverflow,
    /// A zero threshold that is negative, infinite or NaN.
    #[error("histogram has the zero threshold {0}")]
    ZeroThreshold(f64),
    /// A standard schema with custom values.
    #[error("histogram with exponential schema must not have custom bounds")]
    UnexpectedCustomValues,
    /// Custom bounds that do not rise, or are not finite.
    #[error("custom bound number {number} is {bound}: bounds must be finite and rise")]
    CustomBound {
        /// Counted from 1.
        number: usize,
        /// The bound.
        bound: f64,
    },
    /// Custom buckets with a negative side.
    #[error("custom buckets: must not have negative {0}")]
    CustomNegative(&'static str),
    /// Custom buckets with a zero bucket.
    #[error("custom buckets: must have zero {0} of 0")]
    CustomZero(&'static str),
    /// More buckets than bounds allow.
    #[error("{bounds} custom bounds are too few for {extent} buckets")]
    CustomTooFew {
        /// Number of bounds.
        bounds: usize,
        /// Buckets from the first index to the last.
        extent: u64,
    },
}

/// The exponential schemas that can be read. Those above 8 are reduced.
const EXPONENTIAL_SCHEMAS: std::ops::RangeInclusive<i32> = -4..=52;

const POSITIVE: &str = "positive";
const NEGATIVE: &str = "negative";

impl Histogram {
    /// Whether spans, buckets, bounds and counts agree.
    pub fn validate(&self) -> Result<(), HistogramError> {
        if !(self.zero_threshold >= 0.0 && self.zero_threshold.is_finite()) {
            return Err(HistogramError::ZeroThreshold(self.zero_threshold));
        }
        let (positive, negative) = self.buckets_by_side();
        if self.has_custom_buckets() {
            self.check_custom(negative)?;
        } else if !EXPONENTIAL_SCHEMAS.contains(&self.schema) {
            return Err(HistogramError::UnknownSchema(self.schema));
        } else if !self.custom_values.is_empty() {
            return Err(HistogramError::UnexpectedCustomValues);
        }
        check_spans(POSITIVE, &self.positive_spans, positive)?;
        check_spans(NEGATIVE, &self.negative_spans, negative)?;
        match &self.counts {
            Counts::Integer { count, zero_count, positive, negative } => {
                let positive = sum_of_deltas(POSITIVE, positive)?;
                let negative = sum_of_deltas(NEGATIVE, negative)?;
                let buckets = positive
                    .checked_add(negative)
                    .and_then(|sum| sum.checked_add(*zero_count))
                    .ok_or(HistogramError::CountOverflow)?;
                let agrees = if self.sum.is_nan() { buckets <= *count } else { buckets == *count };
                if !agrees {
                    return Err(HistogramError::CountMismatch { buckets, count: *count });
                }
            }
            Counts::Float { count, zero_count, positive, negative } => {
                if *count < 0.0 {
                    return Err(HistogramError::NegativeCount("count"));
                }
                if *zero_count < 0.0 {
                    return Err(HistogramError::NegativeCount("zero count"));
                }
                check_floats(POSITIVE, positive)?;
                check_floats(NEGATIVE, negative)?;
            }
        }
        Ok(())
    }

    fn check_custom(&self, negative_buckets: usize) -> Result<(), HistogramError> {
        debug_assert_eq!(self.schema, CUSTOM_BUCKETS_SCHEMA);
        let mut before = f64::NEG_INFINITY;
        for (i, &bound) in self.custom_values.iter().enumerate() {
            if !(bound > before && bound.is_finite()) {
                return Err(HistogramError::CustomBound { number: i + 1, bound });
            }
            before = bound;
        }
        if !self.negative_spans.is_empty() {
            return Err(HistogramError::CustomNegative("spans"));
        }
        if negative_buckets > 0 {
            return Err(HistogramError::CustomNegative("buckets"));
        }
        let zero_count = match self.counts {
            Counts::Integer { zero_count, .. } => zero_count != 0,
            Counts::Float { zero_count, .. } => zero_count != 0.0,
        };
        if zero_count {
            return Err(HistogramError::CustomZero("count"));
        }
        if self.zero_threshold != 0.0 {
            return Err(HistogramError::CustomZero("threshold"));
        }
        if let Some(first) = self.positive_spans.first().filter(|span| span.offset < 0) {
            let (side, offset) = (POSITIVE, first.offset);
            return Err(HistogramError::NegativeOffset { side, number: 1, offset });
        }
        let lengths = self.positive_spans.iter();
        let extent: i64 = lengths.map(|s| i64::from(s.offset) + i64::from(s.length)).sum();
        let bounds = self.custom_values.len();
        // A negative extent implies a negative offset, which is reported as such.
        if extent > bounds as i64 + 1 {
            let extent = extent.unsigned_abs();
            return Err(HistogramError::CustomTooFew { bounds, extent });
        }
        Ok(())
    }
}

fn check_spans(side: &'static str, spans: &[Span], buckets: usize) -> Result<(), HistogramError> {
    let mut total = 0;
    let mut index = 0i64;
    for (i, span) in spans.iter().enumerate() {
        let number = i + 1;
        if i > 0 && span.offset < 0 {
            return Err(HistogramError::NegativeOffset { side, number, offset: span.offset });
        }
        // The bucket below has no index.
        if span.offset == i32::MIN {
            return Err(HistogramError::IndexOverflow { side, number });
        }
        total += u64::from(span.length);
        index += i64::from(span.offset) + i64::from(span.length);
        if i32::try_from(index).is_err() {
            return Err(HistogramError::IndexOverflow { side, number });
        }
    }
    if total != buckets as u64 {
        return Err(HistogramError::SpanMismatch { side, spans: total, buckets });
    }
    Ok(())
}

fn sum_of_deltas(side: &'static str, deltas: &[i64]) -> Result<u64, HistogramError> {
    let (mut bucket, mut sum) = (0i64, 0u64);
    for (i, delta) in deltas.iter().enumerate() {
        bucket = bucket.checked_add(*delta).ok_or(HistogramError::CountOverflow)?;
        let Ok(count) = u64::try_from(bucket) else {
            let (number, count) = (i + 1, bucket as f64);
            return Err(HistogramError::NegativeBucket { side, number, count });
        };
        sum = sum.checked_add(count).ok_or(HistogramError::CountOverflow)?;
    }
    Ok(sum)
}

fn check_floats(side: &'static str, buckets: &[f64]) -> Result<(), HistogramError> {
    match buckets.iter().position(|count| *count < 0.0) {
        Some(at) => {
            Err(HistogramError::NegativeBucket { side, number: at + 1, count: buckets[at] })
        }
        None => Ok(()),
    }
}
