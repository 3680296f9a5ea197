//! A histogram whose counts are all floats, and how it is made from a stored one.

use std::sync::Arc;

use super::amount::Amount;
use super::buckets::Buckets;
use promkairos_model::{CUSTOM_BUCKETS_SCHEMA, Counts, Histogram, ResetHint, Span, counts_of};

/// The finest exponential resolution of buckets here.
const MAX_SCHEMA: i32 = 8;

/// A histogram with float counts. `N` is [`Kahan`](super::Kahan) while many histograms are summed.
#[derive(Debug, Clone)]
pub struct FloatHistogram<N = f64> {
    /// What the histogram says of a counter reset.
    pub reset_hint: ResetHint,
    /// −4 to 8, or [`CUSTOM_BUCKETS_SCHEMA`].
    pub schema: i32,
    /// Half the width of the zero bucket; 0 with custom buckets.
    pub zero_threshold: f64,
    /// Observations in the zero bucket; 0 with custom buckets.
    pub zero_count: N,
    /// Number of observations.
    pub count: N,
    /// Sum of observations.
    pub sum: N,
    /// Buckets above zero, or all custom buckets.
    pub positive: Buckets<N>,
    /// Buckets below zero.
    pub negative: Buckets<N>,
    /// Upper bounds of custom buckets, rising, without +Inf.
    pub custom_values: Option<Arc<[f64]>>,
}

impl<N: Amount> FloatHistogram<N> {
    /// A histogram without observations.
    pub fn empty(schema: i32, custom_values: Option<Arc<[f64]>>) -> Self {
        Self {
            reset_hint: ResetHint::Unknown,
            schema,
            zero_threshold: 0.0,
            zero_count: N::default(),
            count: N::default(),
            sum: N::default(),
            positive: Buckets::default(),
            negative: Buckets::default(),
            custom_values,
        }
    }

    /// Whether the buckets are custom ones.
    pub fn has_custom_buckets(&self) -> bool {
        self.schema == CUSTOM_BUCKETS_SCHEMA
    }

    /// The custom bounds; empty for exponential buckets.
    pub fn custom_bounds(&self) -> &[f64] {
        self.custom_values.as_deref().unwrap_or_default()
    }

    /// Bytes of memory that it takes, including custom bounds, which it may share.
    pub fn heap_bytes(&self) -> usize {
        // An `Arc` around it adds two counters.
        let own = size_of::<Self>() + 2 * size_of::<usize>();
        let bounds = size_of_val(self.custom_bounds());
        own + self.positive.heap_bytes() + self.negative.heap_bytes() + bounds
    }

    /// The same without any bucket; only its count, sum and hint are valid.
    pub fn totals(&self) -> Self {
        Self {
            reset_hint: self.reset_hint,
            count: self.count,
            sum: self.sum,
            ..Self::empty(self.schema, None)
        }
    }

    /// Drops the empty buckets.
    pub fn compact(&mut self) {
        self.positive.compact();
        self.negative.compact();
    }

    /// The same histogram with every amount converted by `amount`.
    pub fn map<M: Amount>(&self, amount: impl Fn(N) -> M + Copy) -> FloatHistogram<M> {
        FloatHistogram {
            reset_hint: self.reset_hint,
            schema: self.schema,
            zero_threshold: self.zero_threshold,
            zero_count: amount(self.zero_count),
            count: amount(self.count),
            sum: amount(self.sum),
            positive: self.positive.map(amount),
            negative: self.negative.map(amount),
            custom_values: self.custom_values.clone(),
        }
    }

    /// Merges buckets to the resolution of `schema`, which must not be finer.
    pub fn reduce_resolution(&mut self, schema: i32) {
        let shift = self.schema.saturating_sub(schema);
        if shift > 0 && !self.has_custom_buckets() {
            self.positive = self.positive.reduced(0, shift);
            self.negative = self.negative.reduced(0, shift);
            self.schema = schema;
        }
    }
}

/// Bytes of a histogram of Prometheus without buckets and bounds.
const STRUCT_BYTES: usize = 168;

impl FloatHistogram {
    /// The bytes that it would take in the layout of Prometheus. The limit on samples is computed
    /// from this size.
    pub fn size_bytes(&self) -> usize {
        let words = self.positive.len()
            + self.negative.len()
            + self.positive.runs()
            + self.negative.runs()
            + self.custom_bounds().len();
        STRUCT_BYTES + 8 * words
    }

    /// The number of samples that it counts as: one for each 16 bytes, as a float with its time.
    pub fn samples(&self) -> usize {
        (self.size_bytes() + 8) / 16
    }

    /// The number of samples of several histograms with `words` buckets, runs and bounds in total.
    pub(crate) fn samples_of_many(histograms: f64, words: f64) -> f64 {
        ((STRUCT_BYTES + 8) as f64 * histograms + 8.0 * words) / 16.0
    }

    /// The number of samples of a histogram of which only count and sum are read.
    pub fn samples_of_totals() -> usize {
        (STRUCT_BYTES + 8) / 16
    }

    /// Whether both are equal bit for bit, except for hints. An empty bucket is not equal to a missing
    /// bucket.
    pub fn same_data(&self, other: &Self) -> bool {
        let bits = |a: f64, b: f64| a.to_bits() == b.to_bits();
        self.schema == other.schema
            && bits(self.count, other.count)
            && bits(self.sum, other.sum)
            && bits(self.zero_count, other.zero_count)
            && self.zero_threshold == other.zero_threshold
            && self.custom_bounds() == other.custom_bounds()
            && self.positive.same(&other.positive)
            && self.negative.same(&other.negative)
    }
}

/// Equal data and equal hints.
impl PartialEq for FloatHistogram {
    fn eq(&self, other: &Self) -> bool {
        self.reset_hint == other.reset_hint && self.same_data(other)
    }
}

impl From<&Histogram> for FloatHistogram {
    fn from(histogram: &Histogram) -> Self {
        let (positive, negative) = (&histogram.positive_spans, &histogram.negative_spans);
        let (count, zero_count, positive, negative) = match &histogram.counts {
            Counts::Integer { count, zero_count, positive: p, negative: n } => (
                *count as f64,
                *zero_count as f64,
                from_deltas(positive, p),
                from_deltas(negative, n),
            ),
            Counts::Float { count, zero_count, positive: p, negative: n } => {
                (*count, *zero_count, from_spans(positive, p), from_spans(negative, n))
            }
        };
        let custom = histogram.has_custom_buckets();
        let mut this = Self {
            reset_hint: histogram.reset_hint,
            schema: histogram.schema,
            zero_threshold: histogram.zero_threshold,
            zero_count,
            count,
            sum: histogram.sum,
            positive,
            negative,
            custom_values: custom.then(|| histogram.custom_values.as_slice().into()),
        };
        this.reduce_resolution(MAX_SCHEMA);
        this
    }
}

/// The indexes of all buckets in `spans`.
fn indexes(spans: &[Span]) -> impl Iterator<Item = i32> {
    let mut next = 0i32;
    spans.iter().flat_map(move |span| {
        let first = next.wrapping_add(span.offset);
        next = first.wrapping_add_unsigned(span.length);
        (0..span.length).map(move |i| first.wrapping_add_unsigned(i))
    })
}

fn from_spans(spans: &[Span], counts: &[f64]) -> Buckets {
    indexes(spans).zip(counts.iter().copied()).collect()
}

fn from_deltas(spans: &[Span], deltas: &[i64]) -> Buckets {
    indexes(spans).zip(counts_of(deltas).map(|count| count as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::cases::positive;
    use super::*;

    #[test]
    fn spans_and_deltas_become_indexes_and_counts() {
        let span = |offset, length| Span { offset, length };
        let stored = Histogram {
            schema: 1,
            zero_threshold: 0.001,
            sum: 7.5,
            reset_hint: ResetHint::NotReset,
            positive_spans: vec![span(-2, 2), span(3, 1)],
            negative_spans: vec![span(0, 1)],
            custom_values: Vec::new(),
            counts: Counts::Integer {
                count: 12,
                zero_count: 1,
                positive: vec![1, 1, 3],
                negative: vec![3],
            },
        };
        let h = FloatHistogram::from(&stored);
        assert_eq!(h.positive.iter().collect::<Vec<_>>(), [(-2, 1.0), (-1, 2.0), (3, 5.0)]);
        assert_eq!(h.negative.iter().collect::<Vec<_>>(), [(0, 3.0)]);
        assert_eq!((h.count, h.zero_count, h.sum), (12.0, 1.0, 7.5));
        assert_eq!(h.reset_hint, ResetHint::NotReset);
        // The struct, 3 runs and 4 buckets.
        assert_eq!(h.size_bytes(), 168 + 7 * 8);
    }

    #[test]
    fn finer_resolutions_than_ours_are_reduced() {
        let stored = Histogram {
            schema: 9,
            zero_threshold: 0.0,
            sum: 1.0,
            reset_hint: ResetHint::Unknown,
            positive_spans: vec![Span { offset: 1, length: 3 }],
            negative_spans: vec![],
            custom_values: vec![],
            counts: Counts::Float {
                count: 6.0,
                zero_count: 0.0,
                positive: vec![1.0, 2.0, 3.0],
                negative: vec![],
            },
        };
        let h = FloatHistogram::from(&stored);
        assert_eq!(h.schema, 8);
        assert_eq!(h.positive.iter().collect::<Vec<_>>(), [(1, 3.0), (2, 3.0)]);
    }

    #[test]
    fn an_empty_bucket_makes_a_difference_until_compacted() {
        let a = positive(0, 0, &[1.0, 0.0], 1.0);
        let mut b = positive(0, 0, &[1.0], 1.0);
        b.reset_hint = ResetHint::Gauge;
        assert!(!a.same_data(&b));
        let mut compact = a.clone();
        compact.compact();
        assert!(compact.same_data(&b));
    }
}
