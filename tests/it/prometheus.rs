//! The main job with real peers: one Prometheus scrapes and remote-writes, another one with only
//! `remote_read` answers every query exactly as the first does from its own data. Then exemplars
//! and metadata are compared with the store.
//!
//! One test for each store. In each, the first Prometheus writes to two servers at once: to one
//! with remote write 1.0, to the other with 2.0.

mod federate;
mod kept;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use promkairos::model::TimeRange;
use serde_json::Value;

use crate::support::prometheus::Prometheus;
use crate::support::promkairos::{Backend, Message, Promkairos};
use crate::support::remote_read::{self, Point, ReadSeries};
use crate::support::target::Target;
use crate::support::{eventually, long};

#[tokio::test(flavor = "multi_thread")]
async fn round_trip_over_embedded() {
    round_trip([Backend::Embedded, Backend::Embedded]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn round_trip_over_cassandra_acknowledged_by_it() {
    round_trip([Backend::cassandra_store(), Backend::cassandra_store()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn round_trip_over_cassandra_behind_the_log() {
    round_trip([Backend::cassandra_wal(), Backend::cassandra_wal()]).await;
}

/// Queries whose answers are compared, over the whole time of the test.
const QUERIES: &[&str] = &[
    "up",
    "absent(here)",
    "here",
    "comes_and_goes",
    "odd",
    "temperature_celsius",
    "requests_total",
    "rate(requests_total[5s])",
    "histogram_quantile(0.9, sum by (le) (rate(latency_seconds_bucket[5s])))",
    "native_integer",
    "native_float",
    "native_gauge",
    "rate(native_integer[5s])",
    "histogram_quantile(0.5, sum(rate(native_integer[10s])))",
    "histogram_fraction(0, 1, native_float)",
    "histogram_count(native_gauge)",
    "count by (__name__) ({__name__!=\"latency_seconds\", job=~\".+\"})",
    "sum by (job) (scrape_samples_scraped)",
    "rate(prometheus_http_request_duration_seconds_count[5s])",
    "{__name__=~\"promkairos_.*\", job!=\"nowhere\"}",
    "{__name__!~\"prometheus_.*|go_.*\", job=\"prometheus\"}",
    "last_over_time({job=\"vanishing\"}[1m])",
];

/// Histograms with custom bounds: remote write 1.0 has no field for the bounds, and Prometheus 3.5
/// sends the histograms without them, which is invalid. So these are sent with 2.0 only.
const CUSTOM_BOUNDS_QUERIES: &[&str] = &[
    "latency_seconds",
    "histogram_quantile(0.9, rate(latency_seconds[5s]))",
    "count by (__name__) ({__name__=~\".+\"})",
];

async fn round_trip(backends: [Backend; 2]) {
    let scrapes = if long() { 60.0 } else { 16.0 };
    let messages = [Message::V1, Message::V2];
    let folder = tempfile::tempdir().expect("a folder");
    let mut servers = Vec::new();
    for (backend, message) in backends.iter().zip(messages) {
        let data = folder.path().join(message.name());
        servers.push(Promkairos::ready(&data, backend, &[]).await);
    }
    let target = Target::start().await;
    let writer = Prometheus::start().await;
    let start = now_ms();
    writer.configure(&writer_config(&writer, &target, &servers, &messages).await).await;

    scraped(&writer, "text", scrapes / 2.0).await;
    let families = kept::families(&writer).await;
    assert!(families.contains_key("here"), "{families:?}");
    target.vanish();
    scraped(&writer, "text", scrapes).await;
    // The range is final: later scrapes have later times, and one under way ends within a second.
    let end = now_ms();
    eventually("the clock is past the range", async || {
        (now_ms() > end + 2_000).then_some(()).ok_or_else(String::new)
    })
    .await;

    has_everything(&writer, start, end).await;
    for (server, message) in servers.iter().zip(messages) {
        same_samples(&writer, server, message, start, end).await;
        let reader = Prometheus::start().await;
        reader.configure(&reader_config(server)).await;
        same_answers(&writer, &reader, message, start, end).await;
    }
    let known = kept::Known::of(&writer, start, end, families).await;
    writer.configure(&format!("remote_write:{}", remote_writes(&servers, &messages))).await;
    kept::everything_sent(&writer).await;
    nothing_failed(&writer).await;
    for ((server, backend), message) in servers.into_iter().zip(&backends).zip(messages) {
        let data = folder.path().join(message.name());
        let known = (&known, TimeRange::new(start, end));
        kept::same_in_the_store(server, &data, backend, message, known).await;
    }
}

async fn writer_config(
    writer: &Prometheus,
    target: &Target,
    servers: &[Promkairos],
    messages: &[Message; 2],
) -> String {
    // From 3.8 on this is a setting; before, there was only the feature flag.
    let native = match writer.minor_version().await {
        0..=7 => "",
        _ => "scrape_native_histograms: true",
    };
    let servers_list: Vec<String> = servers.iter().map(|one| one.address.to_string()).collect();
    format!(
        r#"
global: {{scrape_interval: 1s, scrape_timeout: 1s, {native}}}
scrape_configs:
- {{job_name: prometheus, static_configs: [{{targets: ["{}"]}}]}}
- {{job_name: promkairos, static_configs: [{{targets: {servers_list:?}}}]}}
- {{job_name: text, metrics_path: /text, static_configs: [{{targets: ["{target}"]}}]}}
- {{job_name: custom, metrics_path: /text, static_configs: [{{targets: ["{target}"]}}],
   convert_classic_histograms_to_nhcb: true, always_scrape_classic_histograms: true}}
- {{job_name: native, metrics_path: /native, static_configs: [{{targets: ["{target}"]}}],
   scrape_protocols: [PrometheusProto], fallback_scrape_protocol: PrometheusProto}}
- {{job_name: vanishing, metrics_path: /vanishing, static_configs: [{{targets: ["{target}"]}}]}}
remote_write:{}
"#,
        writer.address,
        remote_writes(servers, messages),
        target = target.address,
    )
}

fn remote_writes(servers: &[Promkairos], messages: &[Message; 2]) -> String {
    let one = |(server, message): (&Promkairos, &Message)| {
        remote_write(&server.url("/api/v1/write"), *message)
    };
    servers.iter().zip(messages).map(one).collect()
}

fn remote_write(url: &str, message: Message) -> String {
    let filter = match message {
        Message::V1 => {
            "[{source_labels: [__name__, job], regex: latency_seconds;custom, action: drop}]"
        }
        Message::V2 => "[]",
    };
    format!(
        r#"
- {{url: "{url}", protobuf_message: {}, send_exemplars: true, send_native_histograms: true,
   metadata_config: {{send_interval: 1s}}, queue_config: {{batch_send_deadline: 1s}},
   write_relabel_configs: {filter}}}
"#,
        message.name()
    )
}

fn reader_config(server: &Promkairos) -> String {
    format!("remote_read:\n- {{url: \"{}\", read_recent: true}}\n", server.url("/api/v1/read"))
}

/// Waits until the job has been scraped this number of times.
async fn scraped(prometheus: &Prometheus, job: &str, times: f64) {
    let query = format!("count_over_time(up{{job=\"{job}\"}}[10m])");
    eventually("scrapes", async || match prometheus.number(&query).await {
        Some(count) if count >= times => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

/// Asserts that the first Prometheus has all kinds of data; otherwise the test would prove little.
async fn has_everything(writer: &Prometheus, start: i64, end: i64) {
    let all = read(&writer.url("/api/v1/read"), start, end).await.expect("it answers");
    let of = |name: &str| -> Vec<&Point> {
        let named = all.iter().filter(|series| series.labels["__name__"] == name);
        let points: Vec<&Point> = named.flat_map(|series| series.points.values()).collect();
        assert!(!points.is_empty(), "no {name}");
        points
    };
    let stale = Point::Float(0x7ff0_0000_0000_0002);
    assert!(of("here").contains(&&stale), "the target that vanished left no stale marker");
    assert!(of("comes_and_goes").contains(&&stale), "the series that goes left no stale marker");
    assert!(of("odd").contains(&&Point::Float(0x7ff8_0000_0000_0001)), "no ordinary NaN");
    let integer = |point: &Point| matches!(point, Point::Histogram(one) if !one.is_float);
    let float = |point: &Point| matches!(point, Point::Histogram(one) if one.is_float);
    assert!(of("native_integer").into_iter().any(integer), "no integer histogram");
    assert!(of("native_float").into_iter().any(float), "no float histogram");
    assert!(of("native_gauge").into_iter().any(integer), "no gauge histogram");
    assert!(of("latency_seconds").into_iter().any(has_custom_bounds), "no custom bounds");
    let text = writer.get("/metrics").await.expect("it answers").1;
    for kind in ["samples", "histograms", "exemplars", "metadata"] {
        let name = format!("prometheus_remote_storage_{kind}_total");
        let sent = metric_values(&text, &name).into_iter().sum::<f64>();
        assert!(sent > 0.0, "{name} is {sent}");
    }
}

fn has_custom_bounds(point: &Point) -> bool {
    matches!(point, Point::Histogram(histogram) if histogram.schema == -53)
}

/// Asserts that all samples of the range, also stale markers, have the same bits on both sides.
async fn same_samples(
    writer: &Prometheus,
    server: &Promkairos,
    message: Message,
    start: i64,
    end: i64,
) {
    let mut want = read(&writer.url("/api/v1/read"), start, end).await.expect("it answers");
    if message == Message::V1 {
        want.iter_mut().for_each(|one| one.points.retain(|_, point| !has_custom_bounds(point)));
        want.retain(|series| !series.points.is_empty());
    }
    eventually(&format!("samples sent with {}", message.name()), async || {
        let mut have = read(&server.url("/api/v1/read"), start, end).await?;
        have.iter_mut().for_each(|series| series.points.values_mut().for_each(drop_bounds));
        if have == want { Ok(()) } else { Err(first_difference(&want, &have)) }
    })
    .await;
}

/// Prometheus 3.5 leaves custom bounds out of the samples of remote read, but not out of its
/// chunks. The queries compare the bounds.
fn drop_bounds(point: &mut Point) {
    if let Point::Histogram(histogram) = point {
        histogram.custom_bounds.clear();
    }
}

async fn read(url: &str, start: i64, end: i64) -> Result<Vec<ReadSeries>, String> {
    let mut all =
        remote_read::samples(&reqwest::Client::new(), url, "__name__", ".+", start..=end).await?;
    // A coarse answer may contain a series without points.
    all.retain(|series| !series.points.is_empty());
    Ok(all)
}

fn first_difference(want: &[ReadSeries], have: &[ReadSeries]) -> String {
    for series in want {
        let Some(other) = have.iter().find(|other| other.labels == series.labels) else {
            return format!(
                "of {} series, {} are there; missing {:?}",
                want.len(),
                have.len(),
                series.labels
            );
        };
        for (time, point) in &series.points {
            if other.points.get(time) != Some(point) {
                let other = other.points.get(time);
                return format!("{:?} at {time}: want {point:?}, have {other:?}", series.labels);
            }
        }
        if let Some(time) = other.points.keys().find(|time| !series.points.contains_key(time)) {
            return format!("{:?} at {time}: too much", series.labels);
        }
    }
    format!("{} series too many", have.len() - want.len())
}

/// Asserts that both answer all queries alike, as ranges and as the raw points of a range vector.
async fn same_answers(
    writer: &Prometheus,
    reader: &Prometheus,
    message: Message,
    start: i64,
    end: i64,
) {
    let (from, to) = (seconds(start), seconds(end));
    let custom = if message == Message::V2 { CUSTOM_BOUNDS_QUERIES } else { &[] };
    for query in QUERIES.iter().chain(custom) {
        let range = [("query", *query), ("start", &from), ("end", &to), ("step", "1")];
        same(writer, reader, message, "/api/v1/query_range", &range).await;
    }
    for selector in ["{__name__!=\"latency_seconds\", job=~\".+\"}", "latency_seconds"] {
        if message == Message::V1 && selector == "latency_seconds" {
            continue;
        }
        let raw = format!("{selector}[{}ms]", end - start);
        same(writer, reader, message, "/api/v1/query", &[("query", &raw), ("time", &to)]).await;
    }
}

async fn same(
    writer: &Prometheus,
    reader: &Prometheus,
    message: Message,
    path: &str,
    parameters: &[(&str, &str)],
) {
    let want = sorted(writer.api(path, parameters).await.expect("it answers"));
    let have = sorted(reader.api(path, parameters).await.expect("it answers"));
    assert_eq!(want["status"], "success", "{parameters:?}: {want}");
    let results = |answer: &Value| answer["data"]["result"].as_array().cloned().unwrap_or_default();
    for (want, have) in results(&want).iter().zip(&results(&have)) {
        assert_eq!(want, have, "{}: {parameters:?}", message.name());
    }
    assert_eq!(want, have, "{}: {parameters:?}", message.name());
}

/// Sorts an instant vector or annotations, whose order has no meaning.
fn sorted(mut answer: Value) -> Value {
    let by_text = |a: &Value, b: &Value| a.to_string().cmp(&b.to_string());
    if let Some(result) = answer["data"]["result"].as_array_mut() {
        result.sort_by(|a, b| by_text(&a["metric"], &b["metric"]));
    }
    for key in ["warnings", "infos"] {
        if let Some(list) = answer.get_mut(key).and_then(Value::as_array_mut) {
            list.sort_by(by_text);
        }
    }
    answer
}

/// Asserts that the sender had no failure and only dropped what it must (`dropped_series`).
async fn nothing_failed(writer: &Prometheus) {
    let text = writer.get("/metrics").await.expect("it answers").1;
    for kind in ["samples", "histograms", "exemplars", "metadata"] {
        let name = format!("prometheus_remote_storage_{kind}_failed_total");
        let values = metric_values(&text, &name);
        assert!(values.len() >= 2, "{name}: {values:?}");
        assert!(values.iter().all(|value| *value == 0.0), "{name}: {values:?}");
    }
    let skip = "reason=\"dropped_series\"";
    let others: String =
        text.lines().filter(|line| !line.contains(skip)).map(|l| l.to_owned() + "\n").collect();
    for (kind, page) in [("samples", &text), ("histograms", &others), ("exemplars", &others)] {
        let name = format!("prometheus_remote_storage_{kind}_dropped_total");
        // A reason that never occurred has no series.
        let values = metric_values(page, &name);
        assert!(values.iter().all(|value| *value == 0.0), "{name}: {values:?}");
    }
}

/// The values of all series of one name on a page of metrics.
fn metric_values(page: &str, name: &str) -> Vec<f64> {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        if !rest.starts_with(['{', ' ']) {
            return None;
        }
        rest.rsplit(' ').next()?.parse().ok()
    };
    page.lines().filter_map(value).collect()
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("before the year 292 million")
}

fn seconds(ms: i64) -> String {
    format!("{:?}", Duration::from_millis(ms.unsigned_abs()).as_secs_f64())
}
