//! Converts a native histogram with custom bounds to a classic one, the only form that the formats
//! have for it.

use promkairos_model::Histogram;
use promkairos_promql::histogram::FloatHistogram;

/// A classic histogram.
pub(super) struct Classic {
    pub(super) count: f64,
    pub(super) sum: f64,
    /// Upper bounds with cumulative counts. The last bucket, up to +Inf, equals `count` and is omitted.
    pub(super) buckets: Vec<(f64, f64)>,
}

impl From<&Histogram> for Classic {
    fn from(histogram: &Histogram) -> Self {
        let histogram = FloatHistogram::from(histogram);
        let mut counts = histogram.positive.iter().peekable();
        let mut cumulative = 0.0;
        let buckets = histogram.custom_bounds().iter().zip(0..).map(|(bound, index)| {
            while let Some((_, count)) = counts.next_if(|(of, _)| *of <= index) {
                cumulative += count;
            }
            (*bound, cumulative)
        });
        Self { count: histogram.count, sum: histogram.sum, buckets: buckets.collect() }
    }
}
