//! The newest sample of a series: its labels as the page has them, the family that it belongs to, and its size.

use std::borrow::Cow;

use super::accept::Encoding;
use crate::api::escaping::Escaping;
use crate::api::selected::Made;
use crate::model::{Histogram, Labels, METRIC_NAME, ResetHint, Value};

/// Bytes of a sample on the page, beside its labels and its buckets.
const SAMPLE_BYTES: usize = 64;
/// How many times as long as they are labels may be on the page: a character of a name may be escaped by its number.
const ESCAPED: usize = 8;
/// The label of a target that a scrape would put its own into.
const INSTANCE: &str = "instance";
/// The most bytes that a bucket, a span or a bound of a histogram takes in protocol buffers.
const ELEMENT_BYTES: usize = 24;
/// Lines of a classic histogram beside those of its bounds: +Inf, sum and count.
const MORE_LINES: usize = 3;

/// A series' newest sample.
pub(super) struct Newest {
    pub(super) labels: Labels,
    /// Those of the server, which a series gets where it has none of the name.
    pub(super) external: Labels,
    /// Milliseconds since 1970.
    pub(super) time: i64,
    pub(super) value: Value,
}

/// What the metrics of one family are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Float,
    Histogram,
    GaugeHistogram,
}

impl Newest {
    /// The name of its metric; empty where it has none.
    pub(super) fn metric(&self) -> &str {
        self.labels.get(METRIC_NAME)
    }

    /// Samples of one metric and kind are one family. A metric with several kinds has several families, which
    /// Prometheus reads.
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

    /// Names and values of its labels, without that of the metric, then what it gets: external labels, and an empty
    /// `instance`, so that a scrape does not add that of its own target.
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

    /// Whether the page can have it in this encoding: text has no native histograms but those with custom bounds,
    /// which become classic ones.
    pub(super) fn fits(&self, encoding: Encoding) -> bool {
        match (&self.value, encoding) {
            (Value::Float(_), _) | (_, Encoding::Protobuf) => true,
            (Value::Histogram(histogram), Encoding::Text) => histogram.has_custom_buckets(),
        }
    }

    /// The most bytes that it takes on the page.
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
            // Each element has eight bytes.
            Value::Histogram(histogram) => size_of::<Histogram>() + 8 * histogram.elements(),
        }
    }
}
