//! A native histogram: its layout, its counts, and what is known about resets.

use crate::stale::is_stale;

/// The schema number of histograms with custom bounds (NHCB).
pub const CUSTOM_BUCKETS_SCHEMA: i32 = -53;

/// A run of neighbouring buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// First span: index of its first bucket. Later ones: gap to the end of the span before.
    pub offset: i32,
    /// Number of buckets.
    pub length: u32,
}

/// The bucket counts for deltas from bucket to bucket.
pub fn counts_of(deltas: &[i64]) -> impl Iterator<Item = i64> {
    deltas.iter().scan(0i64, |count, delta| {
        *count = count.wrapping_add(*delta);
        Some(*count)
    })
}

/// What is known about counter resets. `Reset` and `NotReset` refer to the sample before, and to no
/// other: see [`ResetHint::alone`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum ResetHint {
    /// Unknown: compare with the sample before.
    #[default]
    Unknown = 0,
    /// The counter was reset before this sample.
    Reset = 1,
    /// The counter was not reset before this sample.
    NotReset = 2,
    /// A gauge histogram: resets mean nothing.
    Gauge = 3,
}

impl ResetHint {
    /// The hint with this wire number; unknown numbers are [`ResetHint::Unknown`].
    pub const fn from_number(number: u64) -> Self {
        match number {
            1 => Self::Reset,
            2 => Self::NotReset,
            3 => Self::Gauge,
            _ => Self::Unknown,
        }
    }

    /// The part of the hint that stays valid if the sample before may be a different one.
    pub const fn alone(self) -> Self {
        match self {
            Self::Gauge => Self::Gauge,
            Self::Unknown | Self::Reset | Self::NotReset => Self::Unknown,
        }
    }
}

/// The counts: integer or float.
#[derive(Debug, Clone)]
pub enum Counts {
    /// Integer histogram; each bucket is the difference to the bucket before, the first to 0.
    Integer {
        /// Total observations.
        count: u64,
        /// Observations in the zero bucket.
        zero_count: u64,
        /// Deltas of the positive buckets.
        positive: Vec<i64>,
        /// Deltas of the negative buckets.
        negative: Vec<i64>,
    },
    /// Float histogram; buckets are absolute.
    Float {
        /// Total observations.
        count: f64,
        /// Observations in the zero bucket.
        zero_count: f64,
        /// Counts of the positive buckets.
        positive: Vec<f64>,
        /// Counts of the negative buckets.
        negative: Vec<f64>,
    },
}

/// A native histogram.
#[derive(Debug, Clone)]
pub struct Histogram {
    /// −4 to 8: buckets grow by 2^(2^−schema). [`CUSTOM_BUCKETS_SCHEMA`]: the bounds are
    /// `custom_values`. Up to 52 on the wire, until [`Histogram::reduce_resolution`].
    pub schema: i32,
    /// Width of the zero bucket.
    pub zero_threshold: f64,
    /// Sum of observations. A stale marker in this field makes the sample a stale marker.
    pub sum: f64,
    /// What is known about counter resets.
    pub reset_hint: ResetHint,
    /// The positive buckets that exist.
    pub positive_spans: Vec<Span>,
    /// The negative buckets that exist.
    pub negative_spans: Vec<Span>,
    /// Upper bounds of custom buckets, rising; empty otherwise.
    pub custom_values: Vec<f64>,
    /// The counts.
    pub counts: Counts,
}

/// Equality compares the bits of every float.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.schema == other.schema
            && same(self.zero_threshold, other.zero_threshold)
            && same(self.sum, other.sum)
            && self.reset_hint == other.reset_hint
            && self.positive_spans == other.positive_spans
            && self.negative_spans == other.negative_spans
            && same_all(&self.custom_values, &other.custom_values)
            && self.counts == other.counts
    }
}

impl PartialEq for Counts {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Integer { count, zero_count, positive, negative },
                Self::Integer { count: c, zero_count: z, positive: p, negative: n },
            ) => (count, zero_count, positive, negative) == (c, z, p, n),
            (
                Self::Float { count, zero_count, positive, negative },
                Self::Float { count: c, zero_count: z, positive: p, negative: n },
            ) => {
                same(*count, *c)
                    && same(*zero_count, *z)
                    && same_all(positive, p)
                    && same_all(negative, n)
            }
            _ => false,
        }
    }
}

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits()
}

fn same_all(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(*a, *b))
}

impl Histogram {
    /// Whether this is a stale marker.
    pub fn is_stale(&self) -> bool {
        is_stale(self.sum)
    }

    /// Whether the counts are floats.
    pub fn is_float(&self) -> bool {
        matches!(self.counts, Counts::Float { .. })
    }

    /// Whether the bounds are custom ones.
    pub fn has_custom_buckets(&self) -> bool {
        self.schema == CUSTOM_BUCKETS_SCHEMA
    }

    /// The number of positive and negative spans.
    pub fn span_count(&self) -> usize {
        self.positive_spans.len() + self.negative_spans.len()
    }

    /// The number of positive buckets, and of negative ones.
    pub(super) fn buckets_by_side(&self) -> (usize, usize) {
        match &self.counts {
            Counts::Integer { positive, negative, .. } => (positive.len(), negative.len()),
            Counts::Float { positive, negative, .. } => (positive.len(), negative.len()),
        }
    }

    /// The number of positive and negative buckets.
    pub fn bucket_count(&self) -> usize {
        let (positive, negative) = self.buckets_by_side();
        positive + negative
    }

    /// The total number of spans, buckets and custom bounds.
    pub fn elements(&self) -> usize {
        self.span_count() + self.bucket_count() + self.custom_values.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_buckets_and_bounds_are_counted() {
        let span = |length| Span { offset: 1, length };
        let integer = Counts::Integer {
            count: 6,
            zero_count: 0,
            positive: vec![1, 1],
            negative: vec![2, 0, -1],
        };
        let float = Counts::Float {
            count: 6.0,
            zero_count: 0.0,
            positive: vec![1.0, 2.0],
            negative: vec![2.0, 2.0, 1.0],
        };
        for counts in [integer, float] {
            let histogram = Histogram {
                schema: 0,
                zero_threshold: 0.0,
                sum: 1.0,
                reset_hint: ResetHint::Unknown,
                positive_spans: vec![span(2)],
                negative_spans: vec![span(1), span(2)],
                custom_values: vec![0.5, 1.0, 2.0, 4.0],
                counts,
            };
            assert_eq!((histogram.span_count(), histogram.bucket_count()), (3, 5));
            assert_eq!(histogram.elements(), 12);
        }
    }
}
