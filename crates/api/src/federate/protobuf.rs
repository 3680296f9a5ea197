//! The page in protocol buffers: `MetricFamily` messages, each preceded by its length.
//!
//! Floats are untyped. A native histogram keeps its stored spans, and its counts are written as floats even if they
//! were integers. A histogram with custom bounds is written as a classic one.

use prost::{Message, encode_length_delimiter};

use super::classic::Classic;
use super::newest::{Kind, Newest};
use crate::escaping::Escaping;
use crate::proto::client::{
    Bucket, BucketSpan, Histogram as ClientHistogram, LabelPair, Metric, MetricFamily, MetricType,
    Untyped,
};
use promkairos_model::{Counts, Histogram, Span, Value, counts_of};

/// The page of these families. Each family has a name and at least one sample.
pub(super) fn page<'a>(
    families: impl Iterator<Item = &'a [Newest]>,
    escaping: Escaping,
) -> Vec<u8> {
    let (mut page, mut message) = (Vec::new(), Vec::new());
    for family in families {
        let (metric, kind) = family[0].family();
        let kind = match kind {
            Kind::Float => MetricType::Untyped,
            Kind::Histogram => MetricType::Histogram,
            Kind::GaugeHistogram => MetricType::GaugeHistogram,
        };
        message.clear();
        let name = Some(escaping.escaped(metric).into_owned());
        append(&mut message, &MetricFamily { name, r#type: Some(kind.into()), metric: Vec::new() });
        // Protobuf merges repeated fields, so one metric at a time is encoded and dropped.
        for sample in family {
            let metric = vec![of_sample(sample, escaping)];
            append(&mut message, &MetricFamily { metric, ..MetricFamily::default() });
        }
        encode_length_delimiter(message.len(), &mut page).expect("a vector grows");
        page.extend_from_slice(&message);
    }
    page
}

fn append(message: &mut Vec<u8>, part: &MetricFamily) {
    part.encode(message).expect("a vector grows");
}

fn of_sample(sample: &Newest, escaping: Escaping) -> Metric {
    let label = sample.pairs(escaping).map(|(name, value)| LabelPair {
        name: Some(name.into_owned()),
        value: Some(value.to_owned()),
    });
    let (untyped, histogram) = match &sample.value {
        Value::Float(value) => (Some(Untyped { value: Some(*value) }), None),
        Value::Histogram(histogram) if histogram.has_custom_buckets() => {
            (None, Some(classic(&Classic::from(&**histogram))))
        }
        Value::Histogram(histogram) => (None, Some(native(histogram))),
    };
    Metric { label: label.collect(), untyped, histogram, timestamp_ms: Some(sample.time) }
}

fn native(histogram: &Histogram) -> ClientHistogram {
    let (count, zero_count, positive_count, negative_count) = match &histogram.counts {
        Counts::Integer { count, zero_count, positive, negative } => {
            (*count as f64, *zero_count as f64, absolute(positive), absolute(negative))
        }
        Counts::Float { count, zero_count, positive, negative } => {
            (*count, *zero_count, positive.clone(), negative.clone())
        }
    };
    ClientHistogram {
        sample_count_float: Some(count),
        sample_sum: Some(histogram.sum),
        schema: Some(histogram.schema),
        zero_threshold: Some(histogram.zero_threshold),
        zero_count_float: Some(zero_count),
        negative_span: spans(&histogram.negative_spans),
        negative_count,
        positive_span: spans(&histogram.positive_spans),
        positive_count,
        bucket: Vec::new(),
    }
}

fn classic(histogram: &Classic) -> ClientHistogram {
    let bucket = histogram.buckets.iter().map(|(bound, count)| Bucket {
        upper_bound: Some(*bound),
        cumulative_count_float: Some(*count),
    });
    ClientHistogram {
        sample_count_float: Some(histogram.count),
        sample_sum: Some(histogram.sum),
        bucket: bucket.collect(),
        ..ClientHistogram::default()
    }
}

fn absolute(deltas: &[i64]) -> Vec<f64> {
    counts_of(deltas).map(|count| count as f64).collect()
}

fn spans(spans: &[Span]) -> Vec<BucketSpan> {
    let span = |span: &Span| BucketSpan { offset: Some(span.offset), length: Some(span.length) };
    spans.iter().map(span).collect()
}
