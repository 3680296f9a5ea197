//! Histograms for tests.

use super::float::FloatHistogram;
use promkairos_model::CUSTOM_BUCKETS_SCHEMA;

/// A histogram of `schema` with these positive buckets; its count is the sum of their counts.
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
