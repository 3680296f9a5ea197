//! Native histograms as queries calculate with them: every count a float.
//!
//! A bucket is an index and a count, sorted by index, whether spans once put it there or
//! arithmetic did; so two histograms are added like two sorted lists, and in place when
//! their buckets are the same ones. What stands here is what a sample says; nothing here
//! knows of series, times or annotations: operations that must be told to the user return
//! what happened. Unlike [`promkairos_model::Histogram`] this is never stored.

mod amount;
mod arithmetic;
mod average;
mod bounds;
mod buckets;
mod classic;
mod fraction;
mod iterate;
mod moments;
#[cfg(test)]
mod properties;
mod quantile;
mod reset;
mod text;
mod trim;
mod zero;

use std::sync::Arc;

pub use amount::{Amount, Kahan};
pub use arithmetic::{Combined, IncompatibleSchemas};
pub use average::HistogramAverage;
pub use buckets::Buckets;
pub use classic::{
    ClassicBucket, ClassicQuantile, Monotonicity, classic_fraction, classic_quantile,
};
pub use fraction::Fraction;
pub use iterate::{Bucket, BucketRule};
pub use quantile::{NanObservations, Quantile};
pub use trim::Keep;

use promkairos_model::{CUSTOM_BUCKETS_SCHEMA, Counts, Histogram, ResetHint, Span, counts_of};

/// The finest exponential resolution that buckets have here.
const MAX_SCHEMA: i32 = 8;

/// A histogram with float counts. `N` is [`Kahan`] while many are summed up.
#[derive(Debug, Clone)]
pub struct FloatHistogram<N = f64> {
    /// What is known of counter resets.
    pub reset_hint: ResetHint,
    /// −4 to 8, or [`CUSTOM_BUCKETS_SCHEMA`].
    pub schema: i32,
    /// Half the width of the zero bucket; 0 with custom buckets.
    pub zero_threshold: f64,
    /// Observations in the zero bucket; 0 with custom buckets.
    pub zero_count: N,
    /// Observations in all.
    pub count: N,
    /// Sum of observations.
    pub sum: N,
    /// Buckets above zero, and all custom ones.
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

    /// Whether the bounds are custom ones.
    pub fn has_custom_buckets(&self) -> bool {
        self.schema == CUSTOM_BUCKETS_SCHEMA
    }

    /// The custom bounds; empty for exponential buckets.
    pub fn custom_bounds(&self) -> &[f64] {
        self.custom_values.as_deref().unwrap_or_default()
    }

    /// Bytes that it takes in memory, those of custom bounds that it may share included.
    pub fn heap_bytes(&self) -> usize {
        // Beside itself the counts of what shares it.
        let own = size_of::<Self>() + 2 * size_of::<usize>();
        let bounds = size_of_val(self.custom_bounds());
        own + self.positive.heap_bytes() + self.negative.heap_bytes() + bounds
    }

    /// The same without any bucket: of what is left only count, sum and hint may be asked.
    pub fn totals(&self) -> Self {
        Self {
            reset_hint: self.reset_hint,
            count: self.count,
            sum: self.sum,
            ..Self::empty(self.schema, None)
        }
    }

    /// Drops the buckets without observations.
    pub fn compact(&mut self) {
        self.positive.compact();
        self.negative.compact();
    }

    /// The same with every amount turned into another kind.
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

    /// Merges buckets until they have the resolution of `schema`, which is not finer.
    pub fn reduce_resolution(&mut self, schema: i32) {
        let shift = self.schema.saturating_sub(schema);
        if shift > 0 && !self.has_custom_buckets() {
            self.positive = self.positive.reduced(0, shift);
            self.negative = self.negative.reduced(0, shift);
            self.schema = schema;
        }
    }
}

/// What Prometheus' histogram takes without buckets and bounds.
const STRUCT_BYTES: usize = 168;

impl FloatHistogram {
    /// How many bytes it takes in the layout that Prometheus keeps it in, which is what the
    /// limit on samples goes by.
    pub fn size_bytes(&self) -> usize {
        let words = self.positive.len()
            + self.negative.len()
            + self.positive.runs()
            + self.negative.runs()
            + self.custom_bounds().len();
        STRUCT_BYTES + 8 * words
    }

    /// How many samples it counts as: one for 16 bytes, the size of a float with its time.
    pub fn samples(&self) -> usize {
        (self.size_bytes() + 8) / 16
    }

    /// The same of several histograms, which have `words` buckets, runs and bounds together.
    pub(crate) fn samples_of_many(histograms: f64, words: f64) -> f64 {
        ((STRUCT_BYTES + 8) as f64 * histograms + 8.0 * words) / 16.0
    }

    /// The same for one of which only count and sum are read.
    pub fn samples_of_totals() -> usize {
        (STRUCT_BYTES + 8) / 16
    }

    /// Whether both say the same, bit for bit, hints aside. A bucket without observations is
    /// not the same as no bucket.
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

/// The same data with the same hint.
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

/// The index of every bucket that `spans` describe.
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
pub(crate) mod tests {
    use super::*;

    /// A histogram of schema `schema` with these positive buckets; `count` is their number.
    pub(crate) fn positive(schema: i32, first: i32, counts: &[f64], sum: f64) -> FloatHistogram {
        let mut h = FloatHistogram::empty(schema, None);
        h.positive = (first..).zip(counts.iter().copied()).collect();
        h.count = counts.iter().sum();
        h.sum = sum;
        h
    }

    /// A histogram with custom bounds.
    pub(crate) fn custom(bounds: &[f64], counts: &[f64], sum: f64) -> FloatHistogram {
        let mut h = positive(CUSTOM_BUCKETS_SCHEMA, 0, counts, sum);
        h.custom_values = Some(bounds.into());
        h
    }

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
        // The fields, 3 runs and 4 buckets.
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
