//! Native histograms for remote write 1.0, of all kinds.

use promkairos::api::proto::v1;
use promkairos::api::proto::v1::histogram::{Count, ResetHint, ZeroCount};

use super::series::labels;

/// A series with histograms.
pub(crate) fn histograms(pairs: &[(&str, &str)], histograms: Vec<v1::Histogram>) -> v1::TimeSeries {
    v1::TimeSeries { labels: labels(pairs), histograms, ..v1::TimeSeries::default() }
}

/// Spans by offset and length.
pub(crate) fn spans(spans: &[(i32, u32)]) -> Vec<v1::BucketSpan> {
    spans.iter().map(|&(offset, length)| v1::BucketSpan { offset, length }).collect()
}

/// Integers with buckets on both sides: 12 observations.
pub(crate) fn integer(timestamp: i64) -> v1::Histogram {
    v1::Histogram {
        count: Some(Count::CountInt(12)),
        sum: 39.4,
        schema: 1,
        zero_threshold: 0.001,
        zero_count: Some(ZeroCount::ZeroCountInt(2)),
        positive_spans: spans(&[(0, 2), (1, 2)]),
        positive_deltas: vec![1, 1, -1, 0],
        negative_spans: spans(&[(-3, 2), (1, 2)]),
        negative_deltas: vec![1, 1, -1, 0],
        timestamp,
        ..v1::Histogram::default()
    }
}

/// The same, as a gauge.
pub(crate) fn gauge(timestamp: i64) -> v1::Histogram {
    v1::Histogram { reset_hint: ResetHint::Gauge.into(), ..integer(timestamp) }
}

/// Floats, with nothing in the zero bucket.
pub(crate) fn float(timestamp: i64) -> v1::Histogram {
    v1::Histogram {
        count: Some(Count::CountFloat(2.5)),
        sum: -0.25,
        schema: -2,
        zero_count: Some(ZeroCount::ZeroCountFloat(0.0)),
        positive_spans: spans(&[(7, 2)]),
        positive_counts: vec![0.5, 2.0],
        timestamp,
        ..v1::Histogram::default()
    }
}

/// Custom bounds: 3 observations up to 0.1, 2 up to 0.2, 1 up to 2, and one above.
pub(crate) fn custom(timestamp: i64) -> v1::Histogram {
    v1::Histogram {
        count: Some(Count::CountInt(7)),
        sum: 12.25,
        schema: -53,
        zero_count: Some(ZeroCount::ZeroCountInt(0)),
        positive_spans: spans(&[(0, 2), (2, 2)]),
        positive_deltas: vec![3, -1, -1, 0],
        custom_values: vec![0.1, 0.2, 0.5, 1.0, 2.0],
        timestamp,
        ..v1::Histogram::default()
    }
}
