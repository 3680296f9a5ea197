//! Encodes batches as uncompressed messages: the inverse of `v1` and `v2`.
//!
//! Series and points keep the order of the batch, so positions in the message are positions in the
//! batch. Metadata of version 2 is written as extra series without points, which only a replay
//! accepts.

use std::collections::HashMap;

use promkairos_model::varint::{push as put_varint, zigzag};
use promkairos_model::{
    Counts, ExemplarEntry, HistogramSample, METRIC_NAME, MetadataEntry, RawLabels, Sample, Span,
    WriteBatch, positions, samples_with_longs,
};

use super::proto::{BYTES, FIXED64, VARINT, key};

/// The number of the field with the integer of a version 2 sample, a `sint64`. Prometheus has no such field.
pub(super) const LONG: u32 = 100;

/// `batch` as `prometheus.WriteRequest`, which has no start timestamps.
pub fn encode_v1(batch: &WriteBatch<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut message = Vec::new();
    for series in &batch.series {
        message.clear();
        message.extend_from_slice(series.labels.as_bytes());
        for sample in &batch.samples[positions(&series.samples)] {
            field(&mut message, 2, |out| put_sample(out, sample, 0));
        }
        for exemplar in &batch.exemplars[positions(&series.exemplars)] {
            field(&mut message, 3, |out| {
                out.extend_from_slice(exemplar.labels.as_bytes());
                put_exemplar_point(out, exemplar);
            });
        }
        for histogram in &batch.histograms[positions(&series.histograms)] {
            field(&mut message, 4, |out| put_histogram(out, histogram, 0));
        }
        put_bytes(&mut out, 1, &message);
    }
    for entry in &batch.metadata {
        field(&mut out, 3, |out| {
            put_varint_field(out, 1, entry.kind as u64);
            put_text(out, 2, entry.family);
            put_text(out, 4, entry.help);
            put_text(out, 5, entry.unit);
        });
    }
    out
}

/// `batch` as `io.prometheus.write.v2.Request`. Integers have a field of our own, for
/// [`Protocol::V2Longs`](promkairos_model::Protocol::V2Longs).
pub fn encode_v2(batch: &WriteBatch<'_>) -> Vec<u8> {
    let mut symbols = Symbols::default();
    symbols.reference(b"");
    let mut all_series = Vec::new();
    let mut message = Vec::new();
    for series in &batch.series {
        message.clear();
        put_refs(&mut message, &symbols.references(series.labels));
        for (sample, long) in samples_with_longs(&batch.samples, &batch.longs, &series.samples) {
            field(&mut message, 2, |out| {
                put_sample(out, sample, sample.start_timestamp);
                if let Some(long) = long {
                    put_key(out, key(LONG, VARINT));
                    put_varint(out, zigzag(long));
                }
            });
        }
        for histogram in &batch.histograms[positions(&series.histograms)] {
            let start = histogram.start_timestamp;
            field(&mut message, 3, |out| put_histogram(out, histogram, start));
        }
        for exemplar in &batch.exemplars[positions(&series.exemplars)] {
            let references = symbols.references(exemplar.labels);
            field(&mut message, 4, |out| {
                put_refs(out, &references);
                put_exemplar_point(out, exemplar);
            });
        }
        put_bytes(&mut all_series, 5, &message);
    }
    for entry in &batch.metadata {
        message.clear();
        put_metadata_series(&mut message, &mut symbols, entry);
        put_bytes(&mut all_series, 5, &message);
    }
    let mut out = Vec::with_capacity(all_series.len());
    for symbol in symbols.table {
        put_bytes(&mut out, 4, symbol);
    }
    out.append(&mut all_series);
    out
}

#[derive(Default)]
struct Symbols<'a> {
    table: Vec<&'a [u8]>,
    references: HashMap<&'a [u8], u64>,
}

impl<'a> Symbols<'a> {
    fn reference(&mut self, symbol: &'a [u8]) -> u64 {
        let next = self.table.len() as u64;
        let reference = *self.references.entry(symbol).or_insert(next);
        if reference == next {
            self.table.push(symbol);
        }
        reference
    }

    /// References of names and values, up to the first malformed label.
    fn references(&mut self, labels: RawLabels<'a>) -> Vec<u64> {
        let mut references = Vec::new();
        for (name, value) in labels.pairs().map_while(|pair| pair) {
            references.push(self.reference(name));
            references.push(self.reference(value));
        }
        references
    }
}

fn put_metadata_series<'a>(
    out: &mut Vec<u8>,
    symbols: &mut Symbols<'a>,
    entry: &MetadataEntry<'a>,
) {
    let name = symbols.reference(METRIC_NAME.as_bytes());
    let references = [name, symbols.reference(entry.family.as_bytes())];
    put_refs(out, &references);
    let help = symbols.reference(entry.help.as_bytes());
    let unit = symbols.reference(entry.unit.as_bytes());
    field(out, 5, |out| {
        put_varint_field(out, 1, entry.kind as u64);
        put_varint_field(out, 3, help);
        put_varint_field(out, 4, unit);
    });
}

fn put_refs(out: &mut Vec<u8>, references: &[u64]) {
    packed(out, 1, references, |out, reference| put_varint(out, *reference));
}

fn put_sample(out: &mut Vec<u8>, sample: &Sample, start: i64) {
    put_double(out, 1, sample.value);
    put_varint_field(out, 2, sample.timestamp as u64);
    put_varint_field(out, 3, start as u64);
}

fn put_exemplar_point(out: &mut Vec<u8>, exemplar: &ExemplarEntry<'_>) {
    put_double(out, 2, exemplar.value);
    put_varint_field(out, 3, exemplar.timestamp as u64);
}

fn put_histogram(out: &mut Vec<u8>, sample: &HistogramSample, start: i64) {
    let histogram = &sample.histogram;
    // The arm is written even if it is 0: it says which kind of histogram this is.
    match &histogram.counts {
        Counts::Integer { count, .. } => {
            put_key(out, key(1, VARINT));
            put_varint(out, *count);
        }
        Counts::Float { count, .. } => put_chosen_double(out, 2, *count),
    }
    put_double(out, 3, histogram.sum);
    put_varint_field(out, 4, zigzag(histogram.schema.into()));
    put_double(out, 5, histogram.zero_threshold);
    match &histogram.counts {
        Counts::Integer { zero_count, positive, negative, .. } => {
            put_key(out, key(6, VARINT));
            put_varint(out, *zero_count);
            put_spans(out, 8, &histogram.negative_spans);
            packed(out, 9, negative, |out, delta| put_varint(out, zigzag(*delta)));
            put_spans(out, 11, &histogram.positive_spans);
            packed(out, 12, positive, |out, delta| put_varint(out, zigzag(*delta)));
        }
        Counts::Float { zero_count, positive, negative, .. } => {
            put_chosen_double(out, 7, *zero_count);
            put_spans(out, 8, &histogram.negative_spans);
            packed(out, 10, negative, put_raw_double);
            put_spans(out, 11, &histogram.positive_spans);
            packed(out, 13, positive, put_raw_double);
        }
    }
    put_varint_field(out, 14, histogram.reset_hint as u64);
    put_varint_field(out, 15, sample.timestamp as u64);
    packed(out, 16, &histogram.custom_values, put_raw_double);
    put_varint_field(out, 17, start as u64);
}

fn put_spans(out: &mut Vec<u8>, number: u32, spans: &[Span]) {
    for span in spans {
        field(out, number, |out| {
            put_varint_field(out, 1, zigzag(span.offset.into()));
            put_varint_field(out, 2, span.length.into());
        });
    }
}

/// Appends a length-delimited field that `write` fills.
pub(super) fn field(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let mut message = Vec::new();
    write(&mut message);
    put_bytes(out, number, &message);
}

fn packed<T>(out: &mut Vec<u8>, number: u32, values: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    if !values.is_empty() {
        field(out, number, |out| values.iter().for_each(|value| put(out, value)));
    }
}

pub(super) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_key(out, key(number, BYTES));
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(super) fn put_text(out: &mut Vec<u8>, number: u32, text: &str) {
    if !text.is_empty() {
        put_bytes(out, number, text.as_bytes());
    }
}

fn put_double(out: &mut Vec<u8>, number: u32, value: f64) {
    if value.to_bits() != 0 {
        put_chosen_double(out, number, value);
    }
}

fn put_chosen_double(out: &mut Vec<u8>, number: u32, value: f64) {
    put_key(out, key(number, FIXED64));
    put_raw_double(out, &value);
}

fn put_raw_double(out: &mut Vec<u8>, value: &f64) {
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

pub(super) fn put_varint_field(out: &mut Vec<u8>, number: u32, value: u64) {
    if value != 0 {
        put_key(out, key(number, VARINT));
        put_varint(out, value);
    }
}

fn put_key(out: &mut Vec<u8>, key: u32) {
    put_varint(out, key.into());
}
