//! The `Histogram` message, which remote write 1.0, 2.0 and remote read share.
//!
//! Repeated numbers are packed or not. The last arm of `count` decides whether the histogram holds
//! floats; values of the other kind are dropped, as Prometheus does. Only the number of buckets is
//! validated here.

use promkairos_model::{Counts, Histogram, HistogramSample, ResetHint, Span};

use super::WireError;
use super::proto::{BYTES, FIXED64, Reader, VARINT, key};

/// A decoded histogram.
pub(super) struct Decoded {
    /// The histogram and its time.
    pub(super) sample: HistogramSample,
    /// The number of spans, buckets and bounds together.
    pub(super) buckets: usize,
}

/// Decodes a message; `None` when it holds more than `limit` spans, buckets and bounds.
pub(super) fn decode(message: &[u8], limit: usize) -> Result<Option<Decoded>, WireError> {
    let mut fields = Fields { limit, ..Fields::default() };
    let mut reader = Reader::new(message);
    while let Some(key) = reader.key()? {
        fields.read(key, &mut reader)?;
    }
    Ok(fields.finish())
}

/// One arm of a `oneof` of an integer and a float.
#[derive(Clone, Copy)]
enum Number {
    Integer(u64),
    Float(f64),
}

impl Default for Number {
    fn default() -> Self {
        Self::Integer(0)
    }
}

#[derive(Default)]
struct Fields {
    limit: usize,
    /// Elements seen in all repeated fields, the dropped ones included.
    held: usize,
    count: Number,
    zero_count: Number,
    sum: f64,
    schema: i32,
    zero_threshold: f64,
    negative_spans: Vec<Span>,
    negative_deltas: Vec<i64>,
    negative_counts: Vec<f64>,
    positive_spans: Vec<Span>,
    positive_deltas: Vec<i64>,
    positive_counts: Vec<f64>,
    reset_hint: u64,
    timestamp: i64,
    custom_values: Vec<f64>,
    start_timestamp: i64,
}

const COUNT_INT: u32 = key(1, VARINT);
const COUNT_FLOAT: u32 = key(2, FIXED64);
const SUM: u32 = key(3, FIXED64);
const SCHEMA: u32 = key(4, VARINT);
const ZERO_THRESHOLD: u32 = key(5, FIXED64);
const ZERO_COUNT_INT: u32 = key(6, VARINT);
const ZERO_COUNT_FLOAT: u32 = key(7, FIXED64);
const NEGATIVE_SPANS: u32 = key(8, BYTES);
const NEGATIVE_DELTA: u32 = key(9, VARINT);
const NEGATIVE_DELTAS: u32 = key(9, BYTES);
const NEGATIVE_COUNT: u32 = key(10, FIXED64);
const NEGATIVE_COUNTS: u32 = key(10, BYTES);
const POSITIVE_SPANS: u32 = key(11, BYTES);
const POSITIVE_DELTA: u32 = key(12, VARINT);
const POSITIVE_DELTAS: u32 = key(12, BYTES);
const POSITIVE_COUNT: u32 = key(13, FIXED64);
const POSITIVE_COUNTS: u32 = key(13, BYTES);
const RESET_HINT: u32 = key(14, VARINT);
const TIMESTAMP: u32 = key(15, VARINT);
const CUSTOM_VALUE: u32 = key(16, FIXED64);
const CUSTOM_VALUES: u32 = key(16, BYTES);
const START_TIMESTAMP: u32 = key(17, VARINT);
const KNOWN: &[u32] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17];

impl Fields {
    fn read(&mut self, key: u32, reader: &mut Reader<'_>) -> Result<(), WireError> {
        match key {
            COUNT_INT => self.count = Number::Integer(reader.varint()?),
            COUNT_FLOAT => self.count = Number::Float(reader.double()?),
            SUM => self.sum = reader.double()?,
            SCHEMA => self.schema = reader.sint32()?,
            ZERO_THRESHOLD => self.zero_threshold = reader.double()?,
            ZERO_COUNT_INT => self.zero_count = Number::Integer(reader.varint()?),
            ZERO_COUNT_FLOAT => self.zero_count = Number::Float(reader.double()?),
            RESET_HINT => self.reset_hint = reader.varint()?,
            TIMESTAMP => self.timestamp = reader.int64()?,
            START_TIMESTAMP => self.start_timestamp = reader.int64()?,
            NEGATIVE_SPANS | POSITIVE_SPANS => {
                let span = span(reader.bytes()?)?;
                if self.room_for(1) {
                    let negative = key == NEGATIVE_SPANS;
                    let spans = match negative {
                        true => &mut self.negative_spans,
                        false => &mut self.positive_spans,
                    };
                    spans.push(span);
                }
            }
            NEGATIVE_DELTA | POSITIVE_DELTA => {
                let delta = reader.sint64()?;
                if self.room_for(1) {
                    self.deltas(key).push(delta);
                }
            }
            NEGATIVE_DELTAS | POSITIVE_DELTAS => self.read_deltas(key, reader.bytes()?)?,
            NEGATIVE_COUNT | POSITIVE_COUNT | CUSTOM_VALUE => {
                let value = reader.double()?;
                if self.room_for(1) {
                    self.floats(key).push(value);
                }
            }
            NEGATIVE_COUNTS | POSITIVE_COUNTS | CUSTOM_VALUES => {
                self.read_floats(key, reader.bytes()?)?;
            }
            _ => reader.skip(key, KNOWN)?,
        }
        Ok(())
    }

    /// Counts `more` elements; false if there are too many to keep.
    fn room_for(&mut self, more: usize) -> bool {
        self.held += more;
        self.held <= self.limit
    }

    fn deltas(&mut self, key: u32) -> &mut Vec<i64> {
        match key {
            NEGATIVE_DELTA | NEGATIVE_DELTAS => &mut self.negative_deltas,
            _ => &mut self.positive_deltas,
        }
    }

    fn floats(&mut self, key: u32) -> &mut Vec<f64> {
        match key {
            NEGATIVE_COUNT | NEGATIVE_COUNTS => &mut self.negative_counts,
            POSITIVE_COUNT | POSITIVE_COUNTS => &mut self.positive_counts,
            _ => &mut self.custom_values,
        }
    }

    fn read_deltas(&mut self, key: u32, packed: &[u8]) -> Result<(), WireError> {
        // Every varint has one byte without the high bit: its last.
        let count = packed.iter().filter(|byte| **byte < 0x80).count();
        if !self.room_for(count) {
            return Ok(());
        }
        let deltas = self.deltas(key);
        deltas.reserve_exact(count);
        let mut reader = Reader::new(packed);
        while reader.position() < packed.len() {
            deltas.push(reader.sint64()?);
        }
        Ok(())
    }

    fn read_floats(&mut self, key: u32, packed: &[u8]) -> Result<(), WireError> {
        let (values, rest) = packed.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(WireError::Malformed("packed doubles of a wrong length"));
        }
        if self.room_for(values.len()) {
            let values = values.iter().map(|bytes| f64::from_bits(u64::from_le_bytes(*bytes)));
            self.floats(key).extend(values);
        }
        Ok(())
    }

    fn finish(self) -> Option<Decoded> {
        if self.held > self.limit {
            return None;
        }
        let counts = match self.count {
            Number::Integer(count) => Counts::Integer {
                count,
                zero_count: match self.zero_count {
                    Number::Integer(zero_count) => zero_count,
                    Number::Float(_) => 0,
                },
                positive: self.positive_deltas,
                negative: self.negative_deltas,
            },
            Number::Float(count) => Counts::Float {
                count,
                zero_count: match self.zero_count {
                    Number::Integer(_) => 0.0,
                    Number::Float(zero_count) => zero_count,
                },
                positive: self.positive_counts,
                negative: self.negative_counts,
            },
        };
        let histogram = Histogram {
            schema: self.schema,
            zero_threshold: self.zero_threshold,
            sum: self.sum,
            reset_hint: ResetHint::from_number(self.reset_hint),
            positive_spans: self.positive_spans,
            negative_spans: self.negative_spans,
            custom_values: self.custom_values,
            counts,
        };
        let (timestamp, start_timestamp) = (self.timestamp, self.start_timestamp);
        let sample = HistogramSample { timestamp, start_timestamp, histogram };
        Some(Decoded { sample, buckets: self.held })
    }
}

fn span(message: &[u8]) -> Result<Span, WireError> {
    const OFFSET: u32 = key(1, VARINT);
    const LENGTH: u32 = key(2, VARINT);
    let mut span = Span { offset: 0, length: 0 };
    let mut reader = Reader::new(message);
    while let Some(key) = reader.key()? {
        match key {
            OFFSET => span.offset = reader.sint32()?,
            LENGTH => span.length = reader.uint32()?,
            _ => reader.skip(key, &[1, 2])?,
        }
    }
    Ok(span)
}
