//! Remote write over HTTP: the cases of the official receiver suite, recorded answers of a real
//! Prometheus to good and bad requests, limits, reasons of refusals, and failures.
//!
//! Requests are encoded with the generated code, which shares no code with our decoder.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::SystemTime;

use promkairos::api::proto::v2::metadata::MetricType;
use promkairos::api::proto::{v1, v2};
use promkairos::api::{self, AppState};
use promkairos::limits;
use promkairos::model::TimeRange;
use promkairos::storage::memory::MemoryStore;
use promkairos::storage::{ListSize, SeriesQuery, SharedStore};
use promkairos::telemetry::Metrics;
use promkairos::wire::snappy;
use prost::Message;
use reqwest::Method;
use serde_json::Value;

const V1: &str = "application/x-protobuf";
const V2: &str = "application/x-protobuf;proto=io.prometheus.write.v2.Request";
const STALE: u64 = 0x7ff0_0000_0000_0002;

/// A real server over an empty memory store.
struct Server {
    address: SocketAddr,
    store: SharedStore,
    metrics: Arc<Metrics>,
}

impl Server {
    async fn start() -> Self {
        let store: SharedStore = Arc::new(MemoryStore::default());
        let metrics = Arc::new(Metrics::new());
        let state = Arc::new(AppState::new(metrics.clone()));
        state.open(store.clone());
        Self { address: serve(state).await, store, metrics }
    }

    /// The number of series in the store.
    async fn series(&self) -> usize {
        let query =
            SeriesQuery { matchers: Vec::new(), range: TimeRange::ALL, limit: ListSize::UNLIMITED };
        self.store.series(&query).await.expect("a memory store answers").items.len()
    }
}

async fn serve(state: Arc<AppState>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move { axum::serve(listener, api::router(state)).await });
    address
}

/// The server's answer.
#[derive(Debug)]
struct Answer {
    status: u16,
    /// Samples, histograms, exemplars; `None` if a header is missing.
    written: Option<[u64; 3]>,
    retry_after: Option<String>,
    content_type: Option<String>,
    body: String,
}

async fn send(
    address: SocketAddr,
    method: Method,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Answer {
    let client = reqwest::Client::new();
    let mut request = client.request(method, format!("http://{address}/api/v1/write"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.body(body).send().await.expect("the server answers");
    let header = |name: &str| {
        let value = response.headers().get(name)?;
        Some(value.to_str().expect("ascii").to_owned())
    };
    let count = |kind: &str| {
        let value = header(&format!("x-prometheus-remote-write-{kind}-written"))?;
        Some(value.parse().expect("a number"))
    };
    let counts = [count("samples"), count("histograms"), count("exemplars")];
    let written = match counts {
        [Some(samples), Some(histograms), Some(exemplars)] => {
            Some([samples, histograms, exemplars])
        }
        counts => {
            assert_eq!(counts, [None; 3], "all headers or none");
            None
        }
    };
    let (status, retry_after) = (response.status().as_u16(), header("retry-after"));
    let content_type = header("content-type");
    let body = response.text().await.expect("a body");
    Answer { status, written, retry_after, content_type, body }
}

async fn post(address: SocketAddr, content_type: &str, message: &[u8]) -> Answer {
    let body = snappy::compress(message).expect("small");
    let headers = [("content-type", content_type), ("content-encoding", "snappy")];
    send(address, Method::POST, &headers, body).await
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().collect();
    let byte = |pair: &[char]| pair.iter().collect::<String>();
    digits.chunks(2).map(|p| u8::from_str_radix(&byte(p), 16).expect("hexadecimal")).collect()
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.expect("after 1970").as_millis() as i64
}

const HOUR: i64 = 3_600_000;
const MINUTE: i64 = 60_000;

type Pairs<'a> = &'a [(&'a str, &'a str)];

/// Builds a version 2 request. Labels are sent in the given order, which is rarely sorted.
#[derive(Clone)]
struct Request {
    now: i64,
    symbols: Vec<String>,
    series: Vec<Vec<u8>>,
}

/// A series of the request, with the start timestamp of older drafts.
struct Series {
    message: v2::TimeSeries,
    created: Option<i64>,
}

impl Request {
    fn new() -> Self {
        Self { now: now(), symbols: vec![String::new()], series: Vec::new() }
    }

    fn symbol(&mut self, text: &str) -> u32 {
        let known = self.symbols.iter().position(|symbol| symbol == text);
        let at = known.unwrap_or_else(|| {
            self.symbols.push(text.to_owned());
            self.symbols.len() - 1
        });
        at as u32
    }

    fn refs(&mut self, labels: Pairs<'_>) -> Vec<u32> {
        labels.iter().rev().flat_map(|(n, v)| [self.symbol(n), self.symbol(v)]).collect()
    }

    fn begin(&mut self, labels: Pairs<'_>) -> Series {
        let labels_refs = self.refs(labels);
        let message = v2::TimeSeries { labels_refs, ..Default::default() };
        Series { message, created: None }
    }

    fn float(&mut self, labels: Pairs<'_>, value: f64) -> Series {
        let mut series = self.begin(labels);
        let timestamp = self.now;
        series.message.samples.push(v2::Sample { value, timestamp, start_timestamp: 0 });
        series
    }

    fn histogram(&mut self, labels: Pairs<'_>, mut histogram: v2::Histogram) -> Series {
        let mut series = self.begin(labels);
        histogram.timestamp = self.now;
        series.message.histograms.push(histogram);
        series
    }

    fn exemplar(&mut self, series: &mut Series, labels: Pairs<'_>, value: f64) {
        let (labels_refs, timestamp) = (self.refs(labels), self.now);
        series.message.exemplars.push(v2::Exemplar { labels_refs, value, timestamp });
    }

    fn metadata(&mut self, series: &mut Series, kind: MetricType, help: &str, unit: &str) {
        let (help_ref, unit_ref) = (self.symbol(help), self.symbol(unit));
        let r#type = kind as i32;
        series.message.metadata = Some(v2::Metadata { r#type, help_ref, unit_ref });
    }

    fn push(&mut self, series: Series) {
        let mut message = series.message.encode_to_vec();
        if let Some(created) = series.created {
            prost::encoding::int64::encode(6, &created, &mut message);
        }
        self.series.push(message);
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        prost::encoding::string::encode_repeated(4, &self.symbols, &mut out);
        for series in &self.series {
            prost::encoding::bytes::encode(5, series, &mut out);
        }
        out
    }
}

/// Which buckets a histogram of the suite has.
#[derive(Clone, Copy, Default)]
struct Shape {
    positive: bool,
    negative: bool,
    zero: bool,
    custom: bool,
    bad_count: bool,
}

const ALL: Shape =
    Shape { positive: true, negative: true, zero: true, custom: false, bad_count: false };
const POSITIVE_AND_ZERO: Shape = Shape { negative: false, ..ALL };
const NEGATIVE: Shape = Shape { positive: false, zero: false, ..ALL };
const NEGATIVE_AND_ZERO: Shape = Shape { positive: false, ..ALL };
const ZERO: Shape = Shape { positive: false, negative: false, ..ALL };
const NONE: Shape =
    Shape { positive: false, negative: false, zero: false, custom: false, bad_count: false };
const CUSTOM: Shape = Shape { custom: true, ..NONE };

fn histogram(sum: f64, shape: Shape) -> v2::Histogram {
    let span = |offset, length| v2::BucketSpan { offset, length };
    let mut histogram = v2::Histogram { sum, ..Default::default() };
    let mut count = 0;
    if shape.positive {
        histogram.positive_spans = vec![span(0, 3), span(2, 2)];
        histogram.positive_deltas = vec![1, 2, 1, 3, 1];
        count += 23;
    }
    if shape.negative {
        histogram.negative_spans = vec![span(0, 2)];
        histogram.negative_deltas = vec![1, 1];
        count += 3;
    }
    if shape.zero {
        histogram.zero_count = Some(v2::histogram::ZeroCount::ZeroCountInt(1));
        count += 1;
    }
    if shape.custom {
        histogram.schema = -53;
        histogram.custom_values = vec![0.1, 0.5, 1.0, 2.5, 5.0, 10.0];
        histogram.positive_spans = vec![span(0, 6)];
        histogram.positive_deltas = vec![2, 1, 2, 3, -1, -2];
        count = 30;
    }
    if shape.bad_count {
        count = 99;
    }
    histogram.count = Some(v2::histogram::Count::CountInt(count));
    histogram
}

/// A case of the suite: the request and our answer.
struct Case {
    name: String,
    request: Request,
    status: u16,
    written: [u64; 3],
}

/// Collects cases.
#[derive(Default)]
struct Cases(Vec<Case>);

impl Cases {
    /// A case in which everything is stored: 204.
    fn stored(&mut self, name: &str, request: Request, written: [u64; 3]) {
        self.0.push(Case { name: name.into(), request, status: 204, written });
    }

    /// A case in which something is refused: 400. `written` is stored.
    fn refused(&mut self, name: &str, request: Request, written: [u64; 3]) {
        self.0.push(Case { name: name.into(), request, status: 400, written });
    }
}

fn suite_values() -> [(&'static str, f64); 6] {
    let (stale, nan) = (f64::from_bits(STALE), f64::from_bits(0x7ff8_0000_0000_0001));
    // The suite converts the bits of a stale marker as an integer.
    let huge = STALE as f64;
    let (inf, negative_inf) = (("inf", f64::INFINITY), ("-inf", -f64::INFINITY));
    [("1", 1.0), ("huge", huge), ("stale", stale), ("nan", nan), inf, negative_inf]
}

const UP: Pairs<'static> =
    &[("__name__", "up"), ("job", "testjob"), ("instance", "localhost:9090")];

fn metric_cases(cases: &mut Cases) {
    let good: &[(&str, Pairs<'_>)] = &[
        ("simple", &[("__name__", "up")]),
        ("several labels", UP),
        ("newlines", &[("__name__", "up"), ("job", "test\njob\n"), ("instance", "a:1")]),
        (
            "dots",
            &[("__name__", "resource.cpu.usage"), ("job.name", "j"), ("instance.name", "a:1")],
        ),
        (
            "spaces",
            &[("__name__", "resource cpu usage"), ("job name", "j"), ("instance name", "a:1")],
        ),
    ];
    let bad: &[(&str, Pairs<'_>)] = &[("no name", &UP[1..]), ("no labels", &[])];
    for (kind, value) in suite_values() {
        for (name, labels) in good.iter().chain(bad) {
            let mut request = Request::new();
            let series = request.float(labels, value);
            request.push(series);
            let name = format!("single metric: {name}, {kind}");
            if bad.iter().any(|(_, other)| other == labels) {
                cases.refused(&name, request, [0, 0, 0]);
            } else {
                cases.stored(&name, request, [1, 0, 0]);
            }
        }
        let instance = |i: usize| format!("localhost:909{i}");
        for nameless in [0, 4, 1] {
            let mut request = Request::new();
            for i in 0..4 {
                let instance = instance(i);
                let labels =
                    [("__name__", "up"), ("job", "testjob"), ("instance", instance.as_str())];
                let labels = if i < nameless { &labels[1..] } else { &labels[..] };
                let series = request.float(labels, value);
                request.push(series);
            }
            let name = format!("multiple metrics: {nameless} of 4 without name, {kind}");
            match nameless {
                0 => cases.stored(&name, request, [4, 0, 0]),
                _ => cases.refused(&name, request, [4 - nameless as u64, 0, 0]),
            }
        }
    }
    let mut request = Request::new();
    let mut series = request.float(&[("__name__", "http_requests_total"), ("job", "api")], 100.0);
    series.created = Some(request.now - HOUR);
    request.push(series);
    cases.stored("counter with created timestamp", request, [1, 0, 0]);
}

fn histogram_cases(cases: &mut Cases) {
    let name = |name| [("__name__", name)];
    for (case, shape) in [
        ("basic", ALL),
        ("custom buckets", CUSTOM),
        ("positive only", POSITIVE_AND_ZERO),
        ("negative only", NEGATIVE),
        ("minimal", ZERO),
        ("empty", NONE),
        ("bad count", Shape { bad_count: true, ..POSITIVE_AND_ZERO }),
    ] {
        let mut request = Request::new();
        let series = request.histogram(&name("test_histogram"), histogram(1.0, shape));
        request.push(series);
        let case = format!("histogram: {case}");
        if shape.bad_count {
            cases.refused(&case, request, [0, 0, 0]);
        } else {
            cases.stored(&case, request, [0, 1, 0]);
        }
    }

    let labels: Pairs<'_> = &[("__name__", "request_duration_seconds"), ("job", "api")];
    let mut request = Request::new();
    let mut series = request.histogram(labels, histogram(1.5, ALL));
    series.created = Some(request.now - 30 * MINUTE);
    request.push(series);
    cases.stored("histogram with created timestamp", request, [0, 1, 0]);

    let mut request = Request::new();
    for (name, sum, shape) in [("hist1", 10.5, POSITIVE_AND_ZERO), ("hist2", 5.2, NEGATIVE)] {
        let series =
            request.histogram(&[("__name__", name), ("job", "test")], histogram(sum, shape));
        request.push(series);
    }
    cases.stored("multiple histograms", request, [0, 2, 0]);

    for (with_metadata, with_exemplar) in [(true, false), (false, true), (true, true)] {
        let mut request = Request::new();
        let mut series = request.histogram(labels, histogram(2.5, ALL));
        if with_metadata {
            let help = "HTTP request duration in seconds";
            request.metadata(&mut series, MetricType::Histogram, help, "seconds");
        }
        if with_exemplar {
            let trace = [("trace_id", "abc123def456"), ("span_id", "span789")];
            request.exemplar(&mut series, &trace, 1.23);
        }
        request.push(series);
        let name = format!("histogram, metadata {with_metadata}, exemplar {with_exemplar}");
        cases.stored(&name, request, [0, 1, with_exemplar.into()]);
    }

    let mut request = Request::new();
    for (name, unit) in [("cpu_usage_histogram", "ratio"), ("memory_usage_histogram", "bytes")] {
        let labels = [("__name__", name), ("instance", "server1")];
        let mut series = request.histogram(&labels, histogram(0.75, POSITIVE_AND_ZERO));
        request.metadata(&mut series, MetricType::Histogram, "distribution", unit);
        request.push(series);
    }
    cases.stored("multiple histograms with metadata", request, [0, 2, 0]);
}

/// A request of one float with one exemplar.
fn with_exemplar(labels: Pairs<'_>, exemplar: Pairs<'_>, value: f64) -> Request {
    let mut request = Request::new();
    let mut series = request.float(labels, value);
    request.exemplar(&mut series, exemplar, value);
    request.push(series);
    request
}

fn exemplar_cases(cases: &mut Cases) {
    let long = "trace-with-dashes_and_underscores.123";
    let table: &[(&str, Pairs<'_>)] = &[
        ("basic", &[("trace_id", "abc123def456")]),
        ("span id", &[("trace_id", "xyz789"), ("span_id", "span123")]),
        ("without trace id", &[("user_id", "user123")]),
        ("several labels", &[("trace_id", "t"), ("user", "admin"), ("endpoint", "/login")]),
        ("no labels", &[]),
        ("special characters", &[("trace_id", long)]),
        ("unicode", &[("trace_id", "unicode_trace_测试"), ("region", "🌍")]),
    ];
    for (name, exemplar) in table {
        let labels = [("__name__", "http_requests_total"), ("job", "api"), ("case", name)];
        let request = with_exemplar(&labels, exemplar, 1.0);
        cases.stored(&format!("exemplar: {name}"), request, [1, 0, 1]);
    }
    for value in [0.0, -123.456, 1e10, 1e-10, f64::NAN, f64::INFINITY, -f64::INFINITY] {
        let request =
            with_exemplar(&[("__name__", "test_metric")], &[("trace_id", "special")], value);
        cases.stored(&format!("exemplar value {value}"), request, [1, 0, 1]);
    }
    let trace: Pairs<'_> = &[("trace_id", "test_trace")];
    let nameless = with_exemplar(&[("job", "test")], trace, 1.0);
    cases.refused("exemplar of a series without name", nameless, [0, 0, 0]);
    let empty = with_exemplar(&[("__name__", "")], trace, 1.0);
    cases.refused("exemplar of a series with an empty name", empty, [0, 0, 0]);
    let valid = with_exemplar(&[("__name__", "valid_metric")], trace, 1.0);
    cases.stored("exemplar of a valid series", valid, [1, 0, 1]);

    let mut request = Request::new();
    let mut series = request.float(&[("__name__", "http_requests_total"), ("job", "api")], 250.0);
    series.created = Some(request.now - 2 * HOUR);
    request.exemplar(&mut series, trace, 250.0);
    request.push(series);
    cases.stored("exemplar with created timestamp", request, [1, 0, 1]);

    let mut request = Request::new();
    for (method, value) in [("GET", 0.1), ("POST", 0.25), ("PUT", 1.0)] {
        let labels = [("__name__", "request_duration"), ("method", method)];
        let mut series = request.float(&labels, value);
        request.exemplar(&mut series, &[("trace_id", method), ("span_id", "span")], value);
        request.push(series);
    }
    cases.stored("multiple exemplars", request, [3, 0, 3]);

    // One series three times in one request.
    let mut request = Request::new();
    let base = request.now;
    for (offset, trace, value) in
        [(-HOUR, "old_trace", 0.05), (-MINUTE, "recent_trace", 0.15), (0, "current_trace", 0.08)]
    {
        request.now = base + offset;
        let mut series = request.float(&[("__name__", "latency_hist")], value);
        request.exemplar(&mut series, &[("trace_id", trace)], value);
        request.push(series);
    }
    cases.stored("exemplar timestamps", request, [3, 0, 3]);
}

fn metadata_cases(cases: &mut Cases) {
    let odd = "Test metric with\nnewlines and \"quotes\"";
    for (name, kind, help, unit) in [
        ("http_requests_total", MetricType::Counter, "Total number of requests", "requests"),
        ("cpu_usage_percent", MetricType::Gauge, "Current CPU usage", "percent"),
        ("request_duration_seconds", MetricType::Histogram, "Request duration", "seconds"),
        ("simple_counter", MetricType::Counter, "", ""),
        ("test_metric", MetricType::Gauge, odd, "bytes/sec"),
        ("unknown_metric", MetricType::Unspecified, "Unknown metric type", ""),
        ("build_info", MetricType::Info, "Build information", ""),
        ("node_state", MetricType::Stateset, "Node state", ""),
        ("request_latency_summary", MetricType::Summary, "Request latency", "seconds"),
        ("temperature_histogram", MetricType::Gaugehistogram, "Temperatures", "celsius"),
    ] {
        let mut request = Request::new();
        let labels = [("__name__", name)];
        let is_histogram = kind == MetricType::Histogram;
        let mut series = match is_histogram {
            true => request.histogram(&labels, histogram(1.0, ALL)),
            false => request.float(&labels, 1.0),
        };
        request.metadata(&mut series, kind, help, unit);
        request.push(series);
        let written = if is_histogram { [0, 1, 0] } else { [1, 0, 0] };
        cases.stored(&format!("metadata of {name}"), request, written);
    }
    for created in [true, false] {
        let mut request = Request::new();
        let mut series =
            request.float(&[("__name__", "http_requests_total"), ("job", "api")], 150.0);
        series.created = created.then_some(request.now - HOUR);
        request.metadata(&mut series, MetricType::Counter, "Total HTTP requests", "requests");
        request.push(series);
        cases.stored(&format!("metadata, created timestamp {created}"), request, [1, 0, 0]);
    }
    let mut request = Request::new();
    for name in ["cpu_usage", "memory_usage", "disk_usage"] {
        let mut series = request.float(&[("__name__", name), ("device", "sda1")], 85.5);
        request.metadata(&mut series, MetricType::Gauge, name, "percent");
        request.push(series);
    }
    cases.stored("multiple metadata", request, [3, 0, 0]);

    let labels = [
        ("__name__", "http_request_duration_seconds"),
        ("job", "api-server"),
        ("instance", "localhost:8080"),
        ("method", "GET"),
        ("status", "200"),
        ("endpoint", "/api/v1/users"),
    ];
    let mut request = Request::new();
    let mut series = request.histogram(&labels, histogram(0.25, ALL));
    request.metadata(&mut series, MetricType::Histogram, "HTTP request duration", "seconds");
    request.push(series);
    cases.stored("metadata with complex labels", request, [0, 1, 0]);

    let table: &[(&str, Pairs<'_>, bool)] = &[
        ("no name", &[("job", "test")], false),
        ("an empty name", &[("__name__", "")], false),
        ("a valid name", &[("__name__", "valid_metric_name")], true),
    ];
    for (name, labels, valid) in table {
        let mut request = Request::new();
        let mut series = request.float(labels, 1.0);
        request.metadata(&mut series, MetricType::Gauge, "Test help", "unit");
        request.push(series);
        let name = format!("metadata of a series with {name}");
        match valid {
            true => cases.stored(&name, request, [1, 0, 0]),
            false => cases.refused(&name, request, [0, 0, 0]),
        }
    }
}

/// A series of `request` with metadata and, when `trace` is not empty, an exemplar.
fn full(request: &mut Request, mut series: Series, kind: MetricType, trace: &str) {
    request.metadata(&mut series, kind, "Some help", "unit");
    if !trace.is_empty() {
        request.exemplar(&mut series, &[("trace_id", trace), ("user", "premium")], 0.125);
    }
    request.push(series);
}

fn combined_cases(cases: &mut Cases) {
    let floats: &[(&str, &[&str])] = &[
        ("samples with metadata and exemplars", &["request_trace_123"]),
        ("complex samples", &["high_cpu_trace", ""]),
        ("multiple families of samples", &["successful_request", ""]),
    ];
    for (name, traces) in floats {
        let mut request = Request::new();
        for (i, trace) in traces.iter().enumerate() {
            let metric = format!("float_{i}");
            let series = request.float(&[("__name__", &metric), ("instance", "server1")], 0.85);
            full(&mut request, series, MetricType::Gauge, trace);
        }
        cases.stored(name, request, [traces.len() as u64, 0, 1]);
    }
    let histograms: &[(&str, &[(&str, Shape)])] = &[
        ("histograms with metadata and exemplars", &[("slow_request_trace", ALL)]),
        ("complex histograms", &[("fast_response", POSITIVE_AND_ZERO), ("", NEGATIVE_AND_ZERO)]),
        ("families of histograms", &[("metrics_scrape", POSITIVE_AND_ZERO)]),
    ];
    for (name, shapes) in histograms {
        let mut request = Request::new();
        for (i, (trace, shape)) in shapes.iter().enumerate() {
            let metric = format!("histogram_{i}");
            let labels = [("__name__", metric.as_str()), ("service", "auth")];
            let series = request.histogram(&labels, histogram(0.456, *shape));
            full(&mut request, series, MetricType::Histogram, trace);
        }
        cases.stored(name, request, [0, shapes.len() as u64, 1]);
    }

    let orphan = [("__name__", "orphan_metric")];
    let mut request = Request::new();
    let mut series = request.begin(&orphan);
    request.metadata(&mut series, MetricType::Counter, "Orphaned metadata", "count");
    request.push(series);
    cases.refused("metadata without data", request, [0, 0, 0]);
    let mut request = Request::new();
    let mut series = request.begin(&orphan);
    request.exemplar(&mut series, &[("trace_id", "orphan_trace")], 42.0);
    request.push(series);
    cases.stored("exemplars without data", request, [0, 0, 1]);
    let mut request = Request::new();
    let base = request.now;
    let new = request.float(&[("__name__", "new_metric")], 2.0);
    request.now = base - HOUR;
    let mut old = request.float(&[("__name__", "old_metric")], 1.0);
    request.now = base - 30 * MINUTE;
    request.exemplar(&mut old, &[("trace_id", "old_trace")], 1.0);
    request.push(old);
    request.push(new);
    cases.stored("mixed timestamps", request, [2, 0, 1]);

    let (mut samples, mut many) = (Request::new(), Request::new());
    for i in 0..50 {
        let (name, trace) = (format!("metric_{i}"), format!("trace_{i}"));
        let labels = [("__name__", name.as_str()), ("series", trace.as_str())];
        let series = samples.float(&labels, f64::from(i) * 100.0);
        full(&mut samples, series, MetricType::Counter, &trace);
        let shape = if i % 2 == 0 { ALL } else { POSITIVE_AND_ZERO };
        let series = many.histogram(&labels, histogram(f64::from(i) / 10.0, shape));
        full(&mut many, series, MetricType::Histogram, &trace);
    }
    cases.stored("many samples", samples, [50, 0, 50]);
    cases.stored("many histograms", many, [0, 50, 50]);

    let mut request = Request::new();
    let labels = [
        ("__name__", "test_metric"),
        ("job", "test-job_with.special@chars"),
        ("instance", "localhost:9090"),
        ("environment", "test🚀"),
    ];
    let mut series = request.float(&labels, 42.0);
    let help = "Special characters: äöü, newlines\nand \"quotes\"";
    request.metadata(&mut series, MetricType::Gauge, help, "special/units");
    request.exemplar(&mut series, &[("trace_id", "special_trace_äöü-123")], 42.0);
    request.push(series);
    cases.stored("special characters combined", request, [1, 0, 1]);
    let mut request = Request::new();
    let series = request.histogram(&[("__name__", "custom_latency_hist")], histogram(0.05, CUSTOM));
    full(&mut request, series, MetricType::Unspecified, "custom_bucket_trace");
    cases.stored("custom buckets with exemplar", request, [0, 1, 1]);
}

#[tokio::test]
async fn official_receiver_suite_of_version_2() {
    let server = Server::start().await;
    let mut cases = Cases::default();
    metric_cases(&mut cases);
    histogram_cases(&mut cases);
    exemplar_cases(&mut cases);
    metadata_cases(&mut cases);
    combined_cases(&mut cases);
    assert_eq!(cases.0.len(), 61 + 13 + 20 + 17 + 13);
    for Case { name, request, status, written } in &cases.0 {
        let answer = post(server.address, V2, &request.encode()).await;
        assert_eq!(
            (answer.status, answer.written),
            (*status, Some(*written)),
            "{name}: {answer:?}"
        );
        assert_eq!(answer.body.is_empty(), *status == 204, "{name}");
        // The suite sends each successful request twice.
        let again = post(server.address, V2, &request.encode()).await;
        assert_eq!((again.status, again.written), (*status, Some(*written)), "{name}: {again:?}");
    }
}

#[tokio::test]
async fn official_receiver_suite_of_requests_and_version_1() {
    let server = Server::start().await;
    let mut request = Request::new();
    let series = request.float(&[("__name__", "up")], 1.0);
    request.push(series);
    let mut corrupt = snappy::compress(&request.encode()).expect("small");
    corrupt[0] = b'0';
    let mut cases = 0;
    for (content_type, encoding, status, written) in [
        ("application/json", "snappy", 415, None),
        ("image/png", "snappy", 415, None),
        (V2, "gzip", 415, Some([0; 3])),
        (V2, "deflate", 415, Some([0; 3])),
        (V2, "snappy", 400, Some([0; 3])),
    ] {
        let headers = [("content-type", content_type), ("content-encoding", encoding)];
        let answer = send(server.address, Method::POST, &headers, corrupt.clone()).await;
        assert_eq!((answer.status, answer.written), (status, written), "{answer:?}");
        cases += 1;
    }
    let label = |name: &str, value: &str| v1::Label { name: name.into(), value: value.into() };
    let float = |labels| v1::TimeSeries {
        labels,
        samples: vec![v1::Sample { value: 1.0, timestamp: now() }],
        ..Default::default()
    };
    let up = UP.iter().map(|(name, value)| label(name, value)).collect();
    let timeseries = vec![float(up), float(vec![label("__name__", "http_requests_total")])];
    let message = v1::WriteRequest { timeseries, metadata: Vec::new() };
    let mut body = snappy::compress(&message.encode_to_vec()).expect("small");
    for (first_byte, status) in [(body[0], 204), (0xff, 400)] {
        body[0] = first_byte;
        let headers = [("content-type", V1), ("content-encoding", "snappy")];
        let answer = send(server.address, Method::POST, &headers, body.clone()).await;
        assert_eq!((answer.status, answer.written), (status, None), "{answer:?}");
        cases += 1;
    }
    assert_eq!(cases, 5 + 2);
    assert_eq!(server.series().await, 2);
}

/// The lines of a file of recorded answers.
fn recorded(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn headers(value: &Value) -> Vec<(&str, &str)> {
    let headers = value["headers"].as_object().expect("an object");
    headers.iter().map(|(name, value)| (name.as_str(), value.as_str().expect("text"))).collect()
}

/// The `-Written` headers that were recorded.
fn recorded_counts(value: &Value) -> Option<[u64; 3]> {
    let count = |kind: &str| {
        let name = format!("X-Prometheus-Remote-Write-{kind}-Written");
        value["response_headers"][name].as_str()?.parse().ok()
    };
    Some([count("Samples")?, count("Histograms")?, count("Exemplars")?])
}

#[tokio::test]
async fn what_a_prometheus_takes_we_take() {
    let server = Server::start().await;
    let lines = recorded(include_str!("../data/prometheus-3.16/writes.jsonl"));
    assert_eq!(lines.len(), 23);
    for line in &lines {
        let body = snappy::compress(&hex(text(line, "proto_hex"))).expect("small");
        let answer = send(server.address, Method::POST, &headers(line), body).await;
        let want = (line["status"].as_u64().expect("a status") as u16, recorded_counts(line));
        assert_eq!((answer.status, answer.written), want, "{}: {answer:?}", line["id"]);
    }
    // 157 of the data set, and 5 of the requests that test the order of samples and the headers.
    assert_eq!(server.series().await, 162);
}

const MEDIA_TYPE: &str = "media types are compared without regard to case (RFC 9110)";
const LABELS: &str = "the specification wants 400; upstream drops the series in silence";
const LATEST: &str = "at one timestamp the last write wins";
const EXEMPLAR: &str = "what is refused is said; upstream drops the exemplar in silence";
const VERSION: &str = "nothing of such a body is known; upstream drops all of it in silence";

/// Recorded answers from which ours differ on purpose: the case, our status and counts, the reason.
const DIFFERENCES: &[(&str, u16, Option<[u64; 3]>, &str)] = &[
    ("v1 content type APPLICATION/X-PROTOBUF", 204, None, MEDIA_TYPE),
    // Read as version 1: the media type, compared without regard to case, does not say version 2.
    ("v2 content type APPLICATION/X-PROTOBUF", 400, None, VERSION),
    (
        "v2 content type application/x-protobuf; proto=prometheus.WriteRequest; charset=utf-8",
        400,
        None,
        VERSION,
    ),
    ("v2 body under v1 content type", 400, None, VERSION),
    ("v1 body under v2 content type", 400, Some([0; 3]), VERSION),
    ("v1 duplicate label names", 400, None, LABELS),
    ("v1 no name", 400, None, LABELS),
    ("v1 empty name", 400, None, LABELS),
    ("v1 no labels", 400, None, LABELS),
    ("v1 invalid UTF-8 in value", 400, None, LABELS),
    ("v1 invalid UTF-8 in label name", 400, None, LABELS),
    ("v1 invalid UTF-8 in name", 400, None, LABELS),
    ("v1 empty label name", 400, None, LABELS),
    ("v1 at the head: same time, other value", 204, None, LATEST),
    ("v1 at the head: same time, NaN", 204, None, LATEST),
    ("v1 at the head: same time, stale marker", 204, None, LATEST),
    ("v1 at the head: same time, histogram", 204, None, LATEST),
    ("v1 at the head: same time, other histogram", 204, None, LATEST),
    ("v1 at the head: float at the time of a histogram", 204, None, LATEST),
    ("v1 at the head: bad after good series in one request", 204, None, LATEST),
    ("v2 at the head: same time, other value", 204, Some([1, 0, 0]), LATEST),
    ("v2 at the head: one bad of three", 204, Some([3, 0, 0]), LATEST),
    ("v2 at the head: two bad", 204, Some([2, 0, 0]), LATEST),
    ("v2 at the head: other histogram", 204, Some([0, 1, 0]), LATEST),
    ("v1 exemplar labels over 128 characters", 400, None, EXEMPLAR),
    ("v2 exemplar labels over 128 characters", 400, Some([1, 0, 0]), EXEMPLAR),
];

#[tokio::test]
async fn what_a_prometheus_refuses_we_refuse_but_for_the_listed_differences() {
    let server = Server::start().await;
    let lines = recorded(include_str!("../data/prometheus-3.16/rejected.jsonl"));
    assert_eq!(lines.len(), 167);
    let mut differ = 0;
    for line in &lines {
        let (id, headers) = (text(line, "id"), headers(line));
        let method: Method = text(line, "method").parse().expect("a method");
        let body = hex(text(line, "body_hex"));
        let answer = send(server.address, method.clone(), &headers, body).await;
        let status = line["status"].as_u64().expect("a status") as u16;
        let mut want = (status, recorded_counts(line));
        // Upstream leaves out the counts if it refuses before it decodes; we never do.
        if want.1.is_none() && method == Method::POST && headers.contains(&("Content-Type", V2)) {
            want.1 = Some([0; 3]);
        }
        if let Some((_, status, written, _)) = DIFFERENCES.iter().find(|known| known.0 == id) {
            assert_ne!(want, (*status, *written), "{id} is no difference");
            want = (*status, *written);
            differ += 1;
        }
        assert_eq!((answer.status, answer.written), want, "{id}: {answer:?}");
        if answer.status == 400 {
            let content_type = answer.content_type.as_deref();
            assert_eq!(content_type, Some("text/plain; charset=utf-8"), "{id}");
            assert!(answer.body.len() > 1 && answer.body.ends_with('\n'), "{id}");
        }
    }
    assert_eq!(differ, DIFFERENCES.len());
}

#[tokio::test]
async fn the_good_part_is_stored_and_the_reasons_are_few() {
    let server = Server::start().await;
    let mut request = Request::new();
    for i in 0..1_000 {
        let value = format!("line\n{i}");
        let series = request.float(&[("n", &value)], 1.0);
        request.push(series);
    }
    let good = request.float(&[("__name__", "good")], 1.0);
    request.push(good);
    let answer = post(server.address, V2, &request.encode()).await;
    assert_eq!((answer.status, answer.written), (400, Some([1, 0, 0])));
    let lines: Vec<&str> = answer.body.lines().collect();
    assert_eq!(lines.len(), 17, "{}", answer.body);
    assert_eq!(lines[0], r#"no metric name for series {n="line\n0"}"#);
    assert_eq!(lines[16], "and 984 more");
    assert_eq!(server.series().await, 1);
    let metrics = server.metrics.encode();
    for want in [
        "promkairos_write_rejected_total{reason=\"labels\"} 1000\n",
        "promkairos_write_samples_total 1\n",
        "promkairos_write_requests_total{protocol=\"2\",code=\"400\"} 1\n",
        "promkairos_write_duration_seconds_count 1\n",
        "promkairos_write_in_flight 0\n",
    ] {
        assert!(metrics.contains(want), "{want}{metrics}");
    }
}

#[tokio::test]
async fn without_a_store_it_is_503_and_the_counts_are_zero() {
    let address = serve(Arc::new(AppState::new(Arc::new(Metrics::new())))).await;
    for (content_type, written) in [(V1, None), (V2, Some([0; 3]))] {
        let answer = post(address, content_type, b"").await;
        assert_eq!((answer.status, answer.written), (503, written), "{answer:?}");
        assert_eq!(answer.retry_after.as_deref(), Some("1"));
    }
}

/// Sends `head` and `body`; returns the status of the answer.
fn raw_status(address: SocketAddr, head: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    let head = format!("POST /api/v1/write HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    // The server may answer and close before it has read the whole body.
    let _ = stream.write_all(body);
    let mut status = [0; 12];
    stream.read_exact(&mut status).expect("an answer");
    String::from_utf8_lossy(&status).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_beyond_the_limit_is_413_however_it_comes() {
    let server = Server::start().await;
    let declared = format!("Content-Length: {}", limits::MAX_BODY_BYTES + 1);
    let address = server.address;
    let status = tokio::task::spawn_blocking(move || raw_status(address, &declared, b"")).await;
    assert_eq!(status.expect("no panic"), "HTTP/1.1 413");
    let piece = [&b"100000\r\n"[..], &vec![0; 1 << 20], b"\r\n"].concat();
    let body = piece.repeat(limits::MAX_BODY_BYTES >> 20);
    let body = [&body[..], b"1\r\n0\r\n"].concat();
    let chunked = "Transfer-Encoding: chunked";
    let status = tokio::task::spawn_blocking(move || raw_status(address, chunked, &body)).await;
    assert_eq!(status.expect("no panic"), "HTTP/1.1 413");
}
