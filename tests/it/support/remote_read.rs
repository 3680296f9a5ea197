//! A remote-read client (samples, not streamed): queries a range and returns the bits of every
//! float. For promkairos and Prometheus.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::proto::{Message, fields, unzigzag, varints};

/// Labels by name.
pub(crate) type LabelMap = BTreeMap<String, String>;

/// A series with its points by timestamp in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadSeries {
    pub(crate) labels: LabelMap,
    pub(crate) points: BTreeMap<i64, Point>,
}

/// A point with the bits of its floats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Point {
    /// Bits of a float.
    Float(u64),
    /// A native histogram.
    Histogram(ReadHistogram),
}

/// A native histogram without the hint about counter resets and without empty buckets: Prometheus
/// adds empty buckets to a sample if a later sample of its chunk has them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ReadHistogram {
    pub(crate) is_float: bool,
    pub(crate) schema: i64,
    pub(crate) zero_threshold: u64,
    pub(crate) zero_count: u64,
    pub(crate) count: u64,
    pub(crate) sum: u64,
    pub(crate) custom_bounds: Vec<u64>,
    /// Integers, or bits of floats, by bucket index.
    pub(crate) positive: BTreeMap<i64, u64>,
    /// The same for negative values.
    pub(crate) negative: BTreeMap<i64, u64>,
}

/// Reads the series whose `name` matches the pattern `value`, in one range of milliseconds.
pub(crate) async fn samples(
    http: &reqwest::Client,
    url: &str,
    name: &str,
    value: &str,
    range: RangeInclusive<i64>,
) -> Result<Vec<ReadSeries>, String> {
    let matcher = Message::default().varint(1, 2).bytes(2, name).bytes(3, value);
    let query = Message::default()
        .varint(1, range.start().cast_unsigned())
        .varint(2, range.end().cast_unsigned())
        .bytes(3, matcher.0);
    let request = Message::default().bytes(1, query.0).bytes(2, [0]);
    let block = snap::raw::Encoder::new().compress_vec(&request.0).expect("small");
    let failed = |error: reqwest::Error| error.to_string();
    let response = http
        .post(url)
        .header("Content-Encoding", "snappy")
        .header("Content-Type", "application/x-protobuf")
        .header("X-Prometheus-Remote-Read-Version", "0.1.0")
        .body(block)
        .send()
        .await
        .map_err(failed)?;
    let status = response.status();
    let body = response.bytes().await.map_err(failed)?;
    if status != 200 {
        return Err(format!("{status}: {}", String::from_utf8_lossy(&body)));
    }
    let message =
        snap::raw::Decoder::new().decompress_vec(&body).map_err(|error| error.to_string())?;
    let mut series = Vec::new();
    for (_, result) in fields(&message) {
        series
            .extend(fields(result.bytes()).into_iter().map(|(_, one)| decode_series(one.bytes())));
    }
    series.sort_by(|a: &ReadSeries, b| a.labels.cmp(&b.labels));
    Ok(series)
}

fn decode_series(message: &[u8]) -> ReadSeries {
    let mut series = ReadSeries { labels: LabelMap::new(), points: BTreeMap::new() };
    for (field, value) in fields(message) {
        let (time, point) = match field {
            1 => {
                let label = fields(value.bytes());
                let text = |wanted| {
                    label.iter().find(|(field, _)| *field == wanted).map(|(_, text)| text.text())
                };
                series.labels.insert(text(1).expect("a name"), text(2).unwrap_or_default());
                continue;
            }
            2 => decode_sample(value.bytes()),
            4 => decode_histogram(value.bytes()),
            other => panic!("field {other} in a series"),
        };
        assert!(series.points.insert(time, point).is_none(), "{:?}: {time} twice", series.labels);
    }
    series
}

fn decode_sample(message: &[u8]) -> (i64, Point) {
    let (mut time, mut bits) = (0, 0);
    for (field, value) in fields(message) {
        match field {
            1 => bits = value.bits(),
            _ => time = value.int(),
        }
    }
    (time, Point::Float(bits))
}

fn decode_histogram(message: &[u8]) -> (i64, Point) {
    let mut time = 0;
    let mut histogram = ReadHistogram::default();
    let (mut positive, mut negative) = (Side::default(), Side::default());
    for (field, value) in fields(message) {
        match field {
            1 | 2 => {
                histogram.is_float = field == 2;
                histogram.count = value.bits();
            }
            3 => histogram.sum = value.bits(),
            4 => histogram.schema = unzigzag(value.bits()),
            5 => histogram.zero_threshold = value.bits(),
            6 | 7 => histogram.zero_count = value.bits(),
            8 => negative.spans.push(decode_span(value.bytes())),
            9 => negative.deltas = packed_zigzag(value.bytes()),
            10 => negative.counts = packed_bits(value.bytes()),
            11 => positive.spans.push(decode_span(value.bytes())),
            12 => positive.deltas = packed_zigzag(value.bytes()),
            13 => positive.counts = packed_bits(value.bytes()),
            14 => {}
            15 => time = value.int(),
            16 => histogram.custom_bounds = packed_bits(value.bytes()),
            other => panic!("field {other} in a histogram"),
        }
    }
    histogram.positive = positive.buckets();
    histogram.negative = negative.buckets();
    (time, Point::Histogram(histogram))
}

/// One side of a histogram in the message.
#[derive(Default)]
struct Side {
    spans: Vec<(i64, i64)>,
    deltas: Vec<i64>,
    counts: Vec<u64>,
}

impl Side {
    /// The nonempty buckets, by index.
    fn buckets(self) -> BTreeMap<i64, u64> {
        let mut running = 0;
        let absolute = self.deltas.iter().map(|delta| {
            running += delta;
            running.cast_unsigned()
        });
        let counts: Vec<u64> = absolute.chain(self.counts).collect();
        let mut next = 0;
        let mut indexes = Vec::new();
        for (offset, length) in self.spans {
            next += offset;
            indexes.extend(next..next + length);
            next += length;
        }
        assert_eq!(indexes.len(), counts.len(), "spans and buckets do not agree");
        indexes.into_iter().zip(counts).filter(|(_, count)| *count != 0).collect()
    }
}

/// Offset and length.
fn decode_span(message: &[u8]) -> (i64, i64) {
    let (mut offset, mut length) = (0, 0);
    for (field, value) in fields(message) {
        match field {
            1 => offset = unzigzag(value.bits()),
            _ => length = value.int(),
        }
    }
    (offset, length)
}

fn packed_zigzag(packed: &[u8]) -> Vec<i64> {
    varints(packed).into_iter().map(unzigzag).collect()
}

fn packed_bits(packed: &[u8]) -> Vec<u64> {
    let (values, rest) = packed.as_chunks();
    assert!(rest.is_empty(), "doubles have 8 bytes");
    values.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect()
}
