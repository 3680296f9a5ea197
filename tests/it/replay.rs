//! The recorded answers of a real Prometheus 3.16 to remote reads, compared with ours.
//!
//! `writes.jsonl` is written to an empty server, then every line of `reads.jsonl` is asked and the
//! answers are compared by meaning: series, timestamps, bits of floats, histograms. Not compared
//! are the order of series in SAMPLES, series without points there if the range has any, the
//! borders of chunks, empty buckets, and the hint about counter resets. We keep two things that
//! Prometheus changes: it loses the sign of -0.0 in SAMPLES, and it turns a float that marks a
//! series of histograms as stale into a histogram.

use std::collections::BTreeMap;
use std::sync::Arc;

use promkairos::api::proto::v1;
use promkairos::api::{self, AppState};
use promkairos::chunk::{Chunk, ChunkKind};
use promkairos::model::{Counts, Histogram, ResetHint, Span, Value, is_stale};
use promkairos::storage::memory::MemoryStore;
use promkairos::telemetry::Metrics;
use prost::Message;
use serde_json::Value as Json;

use super::support::promkairos::{Backend, Promkairos};

const WRITES: &str = include_str!("../data/prometheus-3.16/writes.jsonl");
const READS: &str = include_str!("../data/prometheus-3.16/reads.jsonl");

/// Cases in which our answer differs on purpose: our status, and the reason.
const DIFFERENT: [(&str, u16, &str); 2] = [
    ("bad-regex-001", 400, "a bad matcher is the client's fault; a 500 would be tried again"),
    ("bad-matcher-type-001", 400, "the same"),
];

#[tokio::test(flavor = "multi_thread")]
async fn over_the_memory_store() {
    let state = Arc::new(AppState::new(Arc::new(Metrics::new())));
    state.open(Arc::new(MemoryStore::new()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    tokio::spawn(async move { axum::serve(listener, api::router(state)).await });
    replay(&url).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_the_embedded_store() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    replay(&server.url("")).await;
}

/// Sends the writes to an empty server, then all reads.
async fn replay(url: &str) {
    let http = reqwest::Client::new();
    let mut writes = 0;
    for line in WRITES.lines() {
        let case = Case::parse(line);
        let answer = case.send(&http, format!("{url}/api/v1/write")).await;
        assert_eq!(answer.status, case.status(), "{}: {}", case.id(), answer.text());
        case.check_response_headers(&answer);
        writes += 1;
    }
    assert_eq!(writes, 23);

    let (mut reads, mut differing) = (0, Vec::new());
    for line in READS.lines() {
        let case = Case::parse(line);
        let answer = case.send(&http, format!("{url}/api/v1/read")).await;
        if let Err(reason) = case.compare(&answer) {
            differing.push(format!("{}: {reason}", case.id()));
        }
        reads += 1;
    }
    assert_eq!(reads, 109);
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
}

/// A line of a recording.
struct Case(Json);

/// An answer over HTTP.
struct Answer {
    status: u16,
    headers: reqwest::header::HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Case {
    fn parse(line: &str) -> Self {
        Self(serde_json::from_str(line).expect("a recording is JSON"))
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str()
    }

    fn id(&self) -> &str {
        self.text("id").expect("every line has one")
    }

    fn status(&self) -> u16 {
        let status = self.0["status"].as_u64().expect("every line has one");
        u16::try_from(status).expect("a status")
    }

    fn proto(&self) -> Vec<u8> {
        hex(self.text("proto_hex").expect("an unpacked body"))
    }

    async fn send(&self, http: &reqwest::Client, url: String) -> Answer {
        let body = match self.text("body_hex") {
            Some(body) => hex(body),
            None => snap::raw::Encoder::new().compress_vec(&self.proto()).expect("small"),
        };
        let mut request = http.post(url).body(body);
        for (name, value) in self.0["headers"].as_object().expect("every line has them") {
            request = request.header(name, value.as_str().expect("text"));
        }
        let response = request.send().await.expect("the server answers");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer { status, headers, body: response.bytes().await.expect("a whole body").to_vec() }
    }

    fn check_response_headers(&self, answer: &Answer) {
        let Some(headers) = self.0.get("response_headers").and_then(Json::as_object) else {
            return;
        };
        for (name, value) in headers {
            assert_eq!(answer.header(name), value.as_str(), "{}: {name}", self.id());
        }
    }

    /// The difference from the recorded answer, as an error.
    fn compare(&self, answer: &Answer) -> Result<(), String> {
        let intended = DIFFERENT.iter().find(|(id, ..)| *id == self.id());
        let status = intended.map_or(self.status(), |(_, status, _)| *status);
        same("status", &answer.status, &status)?;
        if intended.is_none() && self.text("compare") == Some("exact") {
            same("body", &answer.text().as_str(), &self.text("raw").unwrap_or_default())?;
        }
        if self.status() != 200 {
            return Ok(());
        }
        same("content type", &answer.header("content-type"), &self.text("content_type"))?;
        let encoding = answer.header("content-encoding");
        same("content encoding", &encoding, &self.text("content_encoding"))?;
        let queries = v1::ReadRequest::decode(self.proto().as_slice()).expect("recorded").queries;
        match (self.text("response_hex"), self.text("frames_hex")) {
            (Some(want), None) => {
                let got = snap::raw::Decoder::new()
                    .decompress_vec(&answer.body)
                    .map_err(|error| error.to_string())?;
                let (want, got) = (samples(&hex(want), &queries), samples(&got, &queries));
                let sorted = |mut results: Vec<Vec<Series>>| {
                    results.iter_mut().for_each(|series| series.sort());
                    results
                };
                same("samples", &sorted(got), &sorted(want))
            }
            (None, Some(want)) => {
                let (want, got) = (frames(&hex(want), &queries), frames(&answer.body, &queries));
                same("chunks", &got, &want)
            }
            _ => Err("a recording without an answer".into()),
        }
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, want: &T) -> Result<(), String> {
    if got == want {
        return Ok(());
    }
    let (got, want) = (format!("{got:?}"), format!("{want:?}"));
    let alike = got.chars().zip(want.chars()).take_while(|(a, b)| a == b).count();
    let around =
        |text: &str| -> String { text.chars().skip(alike.saturating_sub(200)).take(400).collect() };
    Err(format!("{what}\n  got  …{}…\n  want …{}…", around(&got), around(&want)))
}

/// A series: query, labels, and points by time.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Series {
    labels: Vec<(String, String)>,
    points: Vec<(i64, Meaning)>,
}

/// The meaning of a point: the bits of a float, or a histogram.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Meaning {
    Stale,
    Float(u64),
    Histogram {
        is_float: bool,
        /// The other hints depend on the points before.
        is_gauge: bool,
        schema: i32,
        /// Bits of zero threshold, sum and custom bounds.
        floats: Vec<u64>,
        /// Count and zero count.
        counts: [u64; 2],
        /// Buckets that are not empty, by side and index.
        buckets: BTreeMap<(bool, i32), u64>,
    },
}

/// The results of a SAMPLES answer, without series without points unless the range ends before it starts.
fn samples(message: &[u8], queries: &[v1::Query]) -> Vec<Vec<Series>> {
    let response = v1::ReadResponse::decode(message).expect("a message");
    let results =
        response.results.iter().map(|result| result.timeseries.iter().map(series).collect());
    let mut results: Vec<Vec<Series>> = results.collect();
    for (result, query) in results.iter_mut().zip(queries) {
        let reversed = query.start_timestamp_ms > query.end_timestamp_ms;
        result.retain(|series| reversed || !series.points.is_empty());
    }
    results
}

fn series(series: &v1::TimeSeries) -> Series {
    let floats = series.samples.iter().map(|sample| {
        let value = if sample.value == 0.0 { 0.0 } else { sample.value };
        (sample.timestamp, float(value))
    });
    let histograms = series.histograms.iter().map(|h| (h.timestamp, histogram_message(h)));
    let mut points: Vec<(i64, Meaning)> = floats.chain(histograms).collect();
    points.sort();
    Series { labels: labels(&series.labels), points }
}

fn float(value: f64) -> Meaning {
    if is_stale(value) { Meaning::Stale } else { Meaning::Float(value.to_bits()) }
}

fn labels(labels: &[v1::Label]) -> Vec<(String, String)> {
    labels.iter().map(|label| (label.name.clone(), label.value.clone())).collect()
}

/// The series of a STREAMED_XOR_CHUNKS answer; also checks every rule about frames.
fn frames(mut body: &[u8], queries: &[v1::Query]) -> Vec<(i64, Series)> {
    let mut all = Vec::new();
    while !body.is_empty() {
        let length = prost::encoding::decode_varint(&mut body).expect("a length") as usize;
        let (checksum, rest) = body.split_at(4);
        let (payload, rest) = rest.split_at(length);
        assert_eq!(checksum, crc32c::crc32c(payload).to_be_bytes());
        body = rest;
        let frame = v1::ChunkedReadResponse::decode(payload).expect("a message");
        assert_eq!(frame.chunked_series.len(), 1, "exactly one series a frame");
        let query = &queries[frame.query_index as usize];
        let range = query.start_timestamp_ms..=query.end_timestamp_ms;
        let series = &frame.chunked_series[0];
        let points: Vec<(i64, Meaning)> = series.chunks.iter().flat_map(chunk_points).collect();
        assert!(points.is_sorted_by(|a, b| a.0 < b.0), "chunks do not overlap");
        assert!(!points.is_empty(), "a series without a point in the range is left out");
        assert!(points.iter().all(|(time, _)| range.contains(time)), "chunks are cut to the range");
        all.push((frame.query_index, Series { labels: labels(&series.labels), points }));
    }
    all
}

fn chunk_points(message: &v1::Chunk) -> Vec<(i64, Meaning)> {
    let count = u16::from_be_bytes([message.data[0], message.data[1]]);
    let kind = u8::try_from(message.r#type).expect("a kind");
    let chunk = Chunk {
        kind: ChunkKind::try_from(kind).expect("a kind that clients know"),
        count,
        min_time: message.min_time_ms,
        max_time: message.max_time_ms,
        data: message.data.clone().into(),
        side: Default::default(),
        side_kind: Default::default(),
        stamps: Default::default(),
    };
    chunk.validate().expect("the times are those of the first and the last point");
    let points = chunk.points().map(|point| {
        let point = point.expect("it was validated");
        let meaning = match &point.value {
            Value::Float(value) => float(*value),
            Value::Histogram(histogram) => histogram_value(histogram),
        };
        (point.timestamp, meaning)
    });
    points.collect()
}

fn histogram_message(message: &v1::Histogram) -> Meaning {
    use v1::histogram::{Count, ZeroCount};
    let spans = |spans: &[v1::BucketSpan]| -> Vec<Span> {
        spans.iter().map(|span| Span { offset: span.offset, length: span.length }).collect()
    };
    let zero_int = || match message.zero_count {
        Some(ZeroCount::ZeroCountInt(count)) => count,
        _ => 0,
    };
    let zero_float = || match message.zero_count {
        Some(ZeroCount::ZeroCountFloat(count)) => count,
        _ => 0.0,
    };
    let counts = match message.count {
        Some(Count::CountFloat(count)) => Counts::Float {
            count,
            zero_count: zero_float(),
            positive: message.positive_counts.clone(),
            negative: message.negative_counts.clone(),
        },
        Some(Count::CountInt(count)) => Counts::Integer {
            count,
            zero_count: zero_int(),
            positive: message.positive_deltas.clone(),
            negative: message.negative_deltas.clone(),
        },
        None => panic!("a histogram without a count"),
    };
    histogram_value(&Histogram {
        schema: message.schema,
        zero_threshold: message.zero_threshold,
        sum: message.sum,
        reset_hint: match message.reset_hint() {
            v1::histogram::ResetHint::Gauge => ResetHint::Gauge,
            _ => ResetHint::Unknown,
        },
        positive_spans: spans(&message.positive_spans),
        negative_spans: spans(&message.negative_spans),
        custom_values: message.custom_values.clone(),
        counts,
    })
}

fn histogram_value(histogram: &Histogram) -> Meaning {
    if histogram.is_stale() {
        return Meaning::Stale;
    }
    let (counts, positive, negative) = match &histogram.counts {
        Counts::Integer { count, zero_count, positive, negative } => {
            ([*count, *zero_count], sums(positive), sums(negative))
        }
        Counts::Float { count, zero_count, positive, negative } => {
            ([count.to_bits(), zero_count.to_bits()], bits(positive), bits(negative))
        }
    };
    let mut buckets = BTreeMap::new();
    for (is_negative, spans, counts) in
        [(false, &histogram.positive_spans, positive), (true, &histogram.negative_spans, negative)]
    {
        let indexes = spans.iter().scan(0, |next, span| {
            let first = *next + span.offset;
            *next = first + span.length as i32;
            Some(first..*next)
        });
        let filled = indexes.flatten().zip(counts).filter(|(_, count)| *count != 0);
        buckets.extend(filled.map(|(index, count)| ((is_negative, index), count)));
    }
    let floats = [histogram.zero_threshold, histogram.sum];
    let floats = floats.iter().chain(&histogram.custom_values).map(|value| value.to_bits());
    Meaning::Histogram {
        is_float: histogram.is_float(),
        is_gauge: histogram.reset_hint == ResetHint::Gauge,
        schema: histogram.schema,
        floats: floats.collect(),
        counts,
        buckets,
    }
}

fn sums(deltas: &[i64]) -> Vec<u64> {
    let sums = deltas.iter().scan(0_i64, |sum, delta| {
        *sum += delta;
        Some(*sum as u64)
    });
    sums.collect()
}

fn bits(counts: &[f64]) -> Vec<u64> {
    counts.iter().map(|count| count.to_bits()).collect()
}

fn hex(text: &str) -> Vec<u8> {
    let digit = |at: usize| (text.as_bytes()[at] as char).to_digit(16).expect("hex") as u8;
    (0..text.len() / 2).map(|at| digit(2 * at) << 4 | digit(2 * at + 1)).collect()
}
