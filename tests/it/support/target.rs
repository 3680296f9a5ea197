//! A scrape target with what Prometheus does not expose itself: exemplars, native histograms with
//! floats and gauges, unusual values, a series that comes and goes, and a page that vanishes.
//!
//! Each page counts its own scrapes, so that values change from scrape to scrape.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use super::proto::Message;

const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// The running target. Dropping it stops it.
pub(crate) struct Target {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    state: Arc<Scrapes>,
    server: AbortHandle,
}

#[derive(Default)]
struct Scrapes {
    text: AtomicU64,
    native: AtomicU64,
    has_vanished: AtomicBool,
}

impl Target {
    /// Starts it with the pages `/text` (OpenMetrics), `/native` (protobuf) and `/vanishing`.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let state = Arc::new(Scrapes::default());
        let router = Router::new()
            .route("/text", get(text))
            .route("/native", get(native))
            .route("/vanishing", get(vanishing))
            .with_state(state.clone());
        let server = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("it serves until it is aborted");
        });
        Self { address, state, server: server.abort_handle() }
    }

    /// From now on `/vanishing` answers 503.
    pub(crate) fn vanish(&self) {
        self.state.has_vanished.store(true, Ordering::Relaxed);
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn text(State(scrapes): State<Arc<Scrapes>>) -> impl IntoResponse {
    let n = scrapes.text.fetch_add(1, Ordering::Relaxed);
    ([("Content-Type", TEXT)], text_page(n))
}

async fn native(State(scrapes): State<Arc<Scrapes>>) -> impl IntoResponse {
    let n = scrapes.native.fetch_add(1, Ordering::Relaxed);
    ([("Content-Type", PROTOBUF)], native_page(n))
}

async fn vanishing(State(scrapes): State<Arc<Scrapes>>) -> Result<impl IntoResponse, StatusCode> {
    if scrapes.has_vanished.load(Ordering::Relaxed) {
        return Err(StatusCode::SERVICE_UNAVAILABLE);
    }
    Ok(([("Content-Type", TEXT)], "# TYPE here gauge\nhere 1\n# EOF\n"))
}

/// The page of the scrape number `n`.
fn text_page(n: u64) -> String {
    let mut page = String::new();
    // The counter is reset every 7th scrape.
    let count = n % 7 * 3;
    let shown = format!(
        "# TYPE requests counter\n# HELP requests Requests.\n\
         requests_total{{code=\"200\"}} {count} # {{trace_id=\"t{n}\"}} {n}.25\n\
         # TYPE temperature_celsius gauge\n# UNIT temperature_celsius celsius\n\
         temperature_celsius{{room=\"Küche, \\\"oben\\\"\"}} {}\n",
        (n as f64).sin()
    );
    page.push_str(&shown);
    // No negative zero: Prometheus sends it as zero.
    page.push_str("# TYPE odd gauge\n");
    let third = if n.is_multiple_of(3) { "NaN" } else { "0.1" };
    for (kind, value) in [
        ("nan", "NaN"),
        ("nan_sometimes", third),
        ("inf", "+Inf"),
        ("minus_inf", "-Inf"),
        ("smallest", "5e-324"),
        ("largest", "1.7976931348623157e+308"),
        ("integer", "9007199254740993"),
    ] {
        writeln!(page, "odd{{kind=\"{kind}\"}} {value}").expect("a String");
    }
    if n % 5 < 3 {
        page.push_str("# TYPE comes_and_goes gauge\ncomes_and_goes 1\n");
    }
    page.push_str("# TYPE latency_seconds histogram\n# UNIT latency_seconds seconds\n");
    for (le, share) in [("0.1", 1), ("0.5", 2), ("2.5", 3), ("+Inf", 4)] {
        let bucket = n * share;
        writeln!(
            page,
            "latency_seconds_bucket{{le=\"{le}\"}} {bucket} # {{trace_id=\"b{n}\"}} 0.0{share}"
        )
        .expect("a String");
    }
    writeln!(page, "latency_seconds_sum {}", n as f64 * 0.7).expect("a String");
    writeln!(page, "latency_seconds_count {}", n * 4).expect("a String");
    page.push_str("# EOF\n");
    page
}

/// The families of `io.prometheus.client` of the scrape number `n`.
fn native_page(n: u64) -> Vec<u8> {
    const HISTOGRAM: u64 = 4;
    const GAUGE_HISTOGRAM: u64 = 5;
    // Reset every 11 scrapes.
    let size = n % 11 + 1;
    let f = n as f64 + 0.5;
    let integer = Message::default()
        .varint(1, 8 * size)
        .double(2, 18.4 * size as f64)
        .zigzag(5, 3)
        .double(6, 0.001)
        .varint(7, size)
        .messages(9, spans(&[(0, 1), (3, 1)]))
        .packed_zigzag(10, &[size.cast_signed(), 0])
        .messages(12, spans(&[(-5, 2), (1, 2)]))
        .packed_zigzag(13, &[size.cast_signed(), size.cast_signed(), -size.cast_signed(), 0])
        .messages(16, [exemplar(n)]);
    let float = Message::default()
        .double(4, 4.0 * f)
        .double(2, -f)
        .zigzag(5, 0)
        .double(6, 1e-128)
        .double(8, f)
        .messages(12, spans(&[(0, 2), (40, 1)]))
        .packed_double(14, &[f, f / 2.0, f + f / 2.0 - f / 2.0 - f / 2.0]);
    // A gauge: it grows and shrinks, and sometimes has no observations.
    let level = n % 4;
    let gauge = Message::default()
        .varint(1, 2 * level)
        .double(2, level as f64)
        .zigzag(5, if n % 6 < 3 { 8 } else { -4 })
        .double(6, 0.25)
        .messages(12, spans(&[(1, 2)]))
        .packed_zigzag(13, &[level.cast_signed(), 0]);
    let page = [
        ("native_integer", HISTOGRAM, integer),
        ("native_float", HISTOGRAM, float),
        ("native_gauge", GAUGE_HISTOGRAM, gauge),
    ];
    page.into_iter().flat_map(|(name, kind, one)| family(name, kind, one).delimited()).collect()
}

fn family(name: &str, kind: u64, histogram: Message) -> Message {
    let label = Message::default().bytes(1, "path").bytes(2, "/a");
    let metric = Message::default().bytes(1, label.0).bytes(7, histogram.0);
    Message::default().bytes(1, name).bytes(2, "Help.").varint(3, kind).bytes(4, metric.0)
}

fn spans(spans: &[(i64, u64)]) -> Vec<Message> {
    let span =
        |&(offset, length): &(i64, u64)| Message::default().zigzag(1, offset).varint(2, length);
    spans.iter().map(span).collect()
}

/// An exemplar with a time: Prometheus accepts exemplars of native histograms only with one.
fn exemplar(n: u64) -> Message {
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let time = Message::default().varint(1, now.as_secs()).varint(2, u64::from(now.subsec_nanos()));
    let label = Message::default().bytes(1, "trace_id").bytes(2, format!("n{n}"));
    Message::default().bytes(1, label.0).double(2, 0.7).bytes(3, time.0)
}
