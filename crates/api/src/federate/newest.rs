//! The newest sample of a series: its labels on the page, its family, and its size.

use std::borrow::Cow;

use super::accept::Encoding;
use crate::escaping::Escaping;
use crate::selected::Made;
use promkairos_model::{Histogram, Labels, METRIC_NAME, ResetHint, Value};

/// Bytes of a sample on the page, without its labels and buckets.
const SAMPLE_BYTES: usize = 64;
/// Largest growth of labels by escaping: a character of a name may be escaped by its number.
const ESCAPED: usize = 8;
/// The label that a scrape would fill with its own target.
const INSTANCE: &str = "instance";
/// Most bytes of a bucket, a span or a bound of a histogram in protocol buffers.
const ELEMENT_BYTES: usize = 24;
/// Lines of a classic histogram beside one for each bound: +Inf, sum and count.
const MORE_LINES: usize = 3;

/// The newest sample of a series.
pub(super) struct Newest {
    pub(super) labels: Labels,
    /// External labels of the server; a series gets each one whose name it does not have.
    pub(super) external: Labels,
    /// Milliseconds since 1970.
    pub(super) time: i64,
    pub(super) value: Value,
}

/// The kind of the samples of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Float,
    Histogram,
    GaugeHistogram,
}

impl Newest {
    /// The name of the metric; empty if the series has none.
    pub(super) fn metric(&self) -> &str {
        self.labels.get(METRIC_NAME)
    }

    /// Samples of one metric and one kind form a family. A metric with several kinds has several families;
    /// Prometheus reads that.
    pub(super) fn family(&self) -> (&str, Kind) {
        let kind = match &self.value {
            Value::Float(_) => Kind::Float,
            Value::Histogram(histogram) if histogram.reset_hint == ResetHint::Gauge => {
                Kind::GaugeHistogram
            }
            Value::Histogram(_) => Kind::Histogram,
        };
        (self.metric(), kind)
    }

    /// Names and values of the labels on the page, without the metric name: own labels, external labels, and an
    /// empty `instance`, so that a scrape does not add the `instance` of its target.
    pub(super) fn pairs(&self, escaping: Escaping) -> impl Iterator<Item = (Cow<'_, str>, &str)> {
        let own = self.labels.iter().filter(|(name, _)| *name != METRIC_NAME);
        let own = own.map(move |(name, value)| (escaping.escaped(name), value));
        let mut added: Vec<(&str, &str)> = self.external.iter().collect();
        if let Err(at) = added.binary_search_by_key(&INSTANCE, |(name, _)| *name) {
            added.insert(at, (INSTANCE, ""));
        }
        let added = added.into_iter().filter(|(name, _)| self.labels.get(name).is_empty());
        own.chain(added.map(move |(name, value)| (escaping.escaped(name), value)))
    }

    /// Whether the encoding can express the sample. Text has no native histograms except those with custom
    /// bounds, which become classic ones.
    pub(super) fn fits(&self, encoding: Encoding) -> bool {
        match (&self.value, encoding) {
            (Value::Float(_), _) | (_, Encoding::Protobuf) => true,
            (Value::Histogram(histogram), Encoding::Text) => histogram.has_custom_buckets(),
        }
    }

    /// Most bytes of the sample on the page.
    pub(super) fn bytes_on_page(&self, encoding: Encoding) -> usize {
        let labels = self.labels.as_bytes().len() + self.external.as_bytes().len();
        let sample = ESCAPED * labels + SAMPLE_BYTES;
        match (&self.value, encoding) {
            (Value::Float(_), _) => sample,
            (Value::Histogram(histogram), Encoding::Text) => {
                sample * (histogram.custom_values.len() + MORE_LINES)
            }
            (Value::Histogram(histogram), Encoding::Protobuf) => {
                sample + SAMPLE_BYTES + ELEMENT_BYTES * histogram.elements()
            }
        }
    }
}

impl Made for Newest {
    fn more_bytes(&self) -> usize {
        match &self.value {
            Value::Float(_) => 0,
            // Each element takes eight bytes.
            Value::Histogram(histogram) => size_of::<Histogram>() + 8 * histogram.elements(),
        }
    }
}
