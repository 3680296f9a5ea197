//! Limits that are settings, and settings that are read again while the server runs, on the real
//! program with both stores.

mod metadata;
mod named;
mod times;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::load::compress;
use crate::support::promkairos::{Answer, Backend, Message, Promkairos};
use crate::support::proto;
use crate::support::{api, eventually};

/// A series `metric{host}` with this number of points.
pub(crate) fn series(metric: &str, host: &str, points: u64) -> proto::Message {
    let label = |name: &str, value: &str| proto::Message::default().bytes(1, name).bytes(2, value);
    let labels = [label("__name__", metric), label("host", host)];
    let point = |at| proto::Message::default().double(1, 1.0).varint(2, 1_700_000_000_000 + at);
    proto::Message::default().messages(1, labels).messages(2, (0..points).map(point))
}

pub(crate) async fn send(server: &Promkairos, series: &[proto::Message]) -> Answer {
    let body = compress(&proto::Message::default().messages(1, series.to_vec()));
    server.write(Message::V1, body).await.expect("an answer")
}

/// The stored hosts of a metric.
pub(crate) async fn stored(server: &Promkairos, metric: &str) -> Vec<String> {
    let path = format!("/api/v1/label/host/values?match[]={metric}");
    let (status, text) = server.get(&path).await.expect("an answer");
    assert_eq!(status, 200, "{text}");
    let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    serde_json::from_value(answer["data"].clone()).expect("a list")
}

pub(crate) async fn metric(server: &Promkairos, name: &str) -> Option<f64> {
    let (_, text) = server.get("/metrics").await.expect("an answer");
    let line = text.lines().find(|line| line.starts_with(&format!("promkairos_{name} ")))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Waits until the limiter knows the stored series. Before that it does not limit their number.
async fn learned(server: &Promkairos) {
    eventually("the store tells its series", async || {
        let log = server.process.log();
        let done = log.contains("active series from the store");
        if done { Ok(()) } else { Err(log) }
    })
    .await;
}

async fn new_series_are_refused_and_known_ones_go_on(backend: Backend) {
    let data = tempfile::tempdir().expect("a folder");
    let flags = ["--max-active-series=3", "--max-active-series-per-metric=2"];
    let mut server = Promkairos::ready(data.path(), &backend, &flags).await;
    learned(&server).await;
    let first = send(&server, &[series("m", "a", 1), series("m", "b", 1)]).await;
    assert_eq!(first.status, 204, "{}", first.body);
    let second =
        send(&server, &[series("m", "c", 1), series("m", "a", 2), series("n", "d", 1)]).await;
    assert_eq!(second.status, 400, "{}", second.body);
    let why = "m has 2 active series, and the setting max-active-series-per-metric is 2 for series \
               {__name__=\"m\", host=\"c\"}\n";
    assert_eq!(second.body, why);
    let third = send(&server, &[series("o", "e", 5)]).await;
    assert_eq!(third.status, 400, "{}", third.body);
    assert!(third.body.contains("the setting max-active-series is 3"), "{}", third.body);
    logged(&server, "series are refused: m has 2 active series").await;
    logged(&server, "series are refused: there are 3 active series").await;
    assert_eq!(stored(&server, "m").await, ["a", "b"]);
    assert_eq!(stored(&server, "n").await, ["d"]);
    assert!(stored(&server, "o").await.is_empty());
    for (gauge, want) in [
        ("active_series", 3.0),
        ("active_series_of_largest_metric", 2.0),
        ("active_series_limit", 3.0),
        ("active_series_per_metric_limit", 2.0),
    ] {
        // Some of these gauges are updated only a few times a second.
        eventually(gauge, async || match metric(&server, gauge).await {
            Some(shown) if shown == want => Ok(()),
            other => Err(format!("{other:?}, not {want}")),
        })
        .await;
    }
    let refused = "write_rejected_total{reason=\"max-active-series\"}";
    assert_eq!(metric(&server, refused).await, Some(1.0));
    let refused = "write_samples_refused_total{reason=\"max-active-series\"}";
    assert_eq!(metric(&server, refused).await, Some(5.0));
    assert!(server.process.terminate().success());
    // Refused series do not return when the log is replayed.
    let server = Promkairos::ready(data.path(), &backend, &[]).await;
    assert_eq!(stored(&server, "m").await, ["a", "b"]);
    assert!(stored(&server, "o").await.is_empty());
}

/// A series `metric{host}` with a point at the current time.
fn series_of_now(metric: &str, host: &str) -> proto::Message {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let point = proto::Message::default().double(1, 1.0).varint(2, since.as_millis() as u64);
    series(metric, host, 0).messages(2, [point])
}

/// A limit that is set later, and a limit after a restart, count the existing series as known.
async fn known_series_are_known(backend: Backend) {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut server, file) = configured(folder.path(), &backend, "", &[]).await;
    learned(&server).await;
    let known = || [series_of_now("m", "a"), series_of_now("n", "b")];
    let new = || [series_of_now("m", "c"), series_of_now("o", "d")];
    assert_eq!(send(&server, &known()).await.status, 204);
    assert_eq!(metric(&server, "active_series").await, Some(2.0), "counted without a limit");
    assert_eq!(metric(&server, "active_series_limit").await, Some(0.0), "there is none");
    let limit = "max_active_series = 2\n";
    write_settings(&file, limit);
    let changed = "changed: max-active-series\n";
    assert_eq!(reload(&server).await, (200, changed.to_owned()));
    assert_eq!(send(&server, &new()).await.status, 400);
    let answer = send(&server, &known()).await;
    assert_eq!(answer.status, 204, "{}", answer.body);
    assert!(server.process.terminate().success());
    let (server, _) = configured(folder.path(), &backend, limit, &[]).await;
    learned(&server).await;
    assert_eq!(metric(&server, "active_series").await, Some(2.0), "learned from the store");
    let answer = send(&server, &new()).await;
    assert!(answer.body.contains("there are 2 active series"), "{}", answer.body);
    assert_eq!(answer.status, 400);
    let answer = send(&server, &known()).await;
    assert_eq!(answer.status, 204, "{}", answer.body);
    assert!(stored(&server, "o").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn series_of_the_embedded_store() {
    new_series_are_refused_and_known_ones_go_on(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn known_series_of_the_embedded_store() {
    known_series_are_known(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn known_series_of_cassandra() {
    known_series_are_known(Backend::cassandra_store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn known_series_of_cassandra_behind_the_log() {
    known_series_are_known(Backend::cassandra_wal()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn series_of_cassandra() {
    new_series_are_refused_and_known_ones_go_on(Backend::cassandra_store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn series_of_cassandra_behind_the_log() {
    new_series_are_refused_and_known_ones_go_on(Backend::cassandra_wal()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_beyond_a_setting_are_told_which() {
    let data = tempfile::tempdir().expect("a folder");
    let flags = [
        "--max-series-per-request=2",
        "--max-samples-per-request=5",
        "--max-request-body-size=2KiB",
        "--max-label-name-size=9",
        "--max-label-value-size=9",
        "--max-labels-size=26B",
        "--max-decoded-body-size=1KiB",
        "--max-label-results=1",
    ];
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    let some = |count: usize| ["a", "b", "c"][..count].iter().map(|host| series("m", host, 1));
    let answer = send(&server, &some(3).collect::<Vec<_>>()).await;
    let why = "3 series in one request, and the setting max-series-per-request is 2\n";
    assert_eq!((answer.status, answer.body.as_str()), (400, why));
    let answer = send(&server, &[series("m", "a", 6)]).await;
    let why = "6 samples in one request, and the setting max-samples-per-request is 5\n";
    assert_eq!((answer.status, answer.body.as_str()), (400, why));
    let answer = server.write(Message::V1, vec![0; 2049]).await.expect("an answer");
    let why = "body has more than 2KiB, which is the setting max-request-body-size\n";
    assert_eq!((answer.status, answer.body.as_str()), (413, why));
    let answer = send(&server, &[series("m", "0123456789", 1), series("m", "a", 1)]).await;
    let why = "value of label \"host\" of 10 bytes, and the setting max-label-value-size is 9 bytes for \
               series {__name__=\"m\", host=\"0123456789\"}\n";
    assert_eq!((answer.status, answer.body.as_str()), (400, why));
    let label = proto::Message::default().bytes(1, "0123456789").bytes(2, "v");
    let answer = send(&server, &[series("m", "a", 1).messages(1, [label])]).await;
    let why = "label name of 10 bytes, and the setting max-label-name-size is 9 bytes";
    assert!(answer.status == 400 && answer.body.starts_with(why), "{}", answer.body);
    // `__name__`, m, host and a have 14 bytes.
    let label = |name: &str| proto::Message::default().bytes(1, name).bytes(2, "123456");
    let fits = send(&server, &[series("m", "a", 1).messages(1, [label("l12345")])]).await;
    assert_eq!(fits.status, 204, "{}", fits.body);
    let answer = send(&server, &[series("m", "a", 2).messages(1, [label("l123456")])]).await;
    let why = "labels of 27 bytes in all, and the setting max-labels-size is 26 bytes for series";
    assert!(answer.status == 400 && answer.body.starts_with(why), "{}", answer.body);
    let large = compress(&proto::Message(vec![0; 1025]));
    let answer = server.write(Message::V1, large.clone()).await.expect("an answer");
    let why = "1025 bytes decoded in one request, and the setting max-decoded-body-size is 1KiB\n";
    assert_eq!((answer.status, answer.body.as_str()), (400, why));
    let client = reqwest::Client::new();
    let read = client.post(server.url("/api/v1/read")).body(large).send().await.expect("an answer");
    assert_eq!(read.status().as_u16(), 400);
    assert_eq!(read.text().await.expect("a text"), why);
    assert_eq!(stored(&server, "m").await, ["a"]);
    assert_eq!(send(&server, &some(2).collect::<Vec<_>>()).await.status, 204);
    assert_eq!(stored(&server, "m").await, ["a"], "one more is there, and cut off");
    let (_, text) = server.get("/api/v1/label/host/values?match[]=m").await.expect("an answer");
    let why = "results truncated due to limit: more than 1, which is the setting max-label-results";
    assert!(text.contains(why), "{text}");
    let (_, text) =
        server.get("/api/v1/label/host/values?match[]=m&limit=1").await.expect("an answer");
    assert!(text.contains("\"results truncated due to limit\""), "the client's own: {text}");
    let (status, text) = server.get("/api/v1/status/tsdb").await.expect("an answer");
    assert!(status == 200 && text.contains(why), "it counts some of the series: {text}");
    for (setting, times) in [
        ("max-series-per-request", 1.0),
        ("max-samples-per-request", 1.0),
        ("max-request-body-size", 1.0),
        ("max-label-name-size", 1.0),
        ("max-label-value-size", 1.0),
        ("max-labels-size", 1.0),
        // Once for a write, and once for a read.
        ("max-decoded-body-size", 2.0),
        // The last two lists without a limit in the request, and the status.
        ("max-label-results", 3.0),
    ] {
        assert_eq!(reached(&server, setting).await, Some(times), "{setting}");
    }
    // Refused requests are counted by reason; their samples too, if they are known.
    for (reason, requests, samples) in [
        ("max-series-per-request", 1.0, 3.0),
        ("max-samples-per-request", 1.0, 6.0),
        ("max-request-body-size", 1.0, 0.0),
        ("max-decoded-body-size", 1.0, 0.0),
        ("max-labels-size", 1.0, 2.0),
        ("body", 0.0, 0.0),
    ] {
        let counted = async |name: &str| {
            metric(&server, &format!("write_{name}_total{{reason=\"{reason}\"}}")).await
        };
        assert_eq!(counted("rejected").await, Some(requests), "{reason}");
        assert_eq!(counted("samples_refused").await, Some(samples), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_label_endpoints_end_at_their_bytes() {
    let data = tempfile::tempdir().expect("a folder");
    let flags = ["--max-label-results-size=64KiB"];
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    let host = |number: u64| number.to_string().repeat(14_000);
    let sent: Vec<_> = (0..9).map(|number| series("m", &host(number), 1)).collect();
    assert_eq!(send(&server, &sent).await.status, 204);
    assert_eq!(stored(&server, "m").await, [0, 1, 2, 3].map(host));
    let ask = async |path: &str| {
        let (status, text) = server.get(path).await.expect("an answer");
        assert_eq!(status, 200, "{path}: {text}");
        let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        answer["warnings"].clone()
    };
    let why = "results truncated due to limit: more than 64KiB, which is the setting \
               max-label-results-size";
    for path in
        ["/api/v1/series?match[]=m", "/api/v1/label/host/values?limit=7", "/api/v1/status/tsdb"]
    {
        assert_eq!(ask(path).await, serde_json::json!([why]), "{path}");
    }
    let own = serde_json::json!(["results truncated due to limit"]);
    assert_eq!(ask("/api/v1/label/host/values?limit=2").await, own);
    assert_eq!(ask("/api/v1/labels").await, serde_json::Value::Null);
    // Includes the request of `stored`.
    assert_eq!(reached(&server, "max-label-results-size").await, Some(4.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn more_exemplars_than_an_answer_may_have_are_an_error() {
    let data = tempfile::tempdir().expect("a folder");
    let flags = ["--max-label-results-size=64KiB", "--enable-admin-api=true"];
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    let time = 1_700_000_000_000;
    let exemplar = |at: u64| {
        let label = proto::Message::default().bytes(1, "trace_id").bytes(2, format!("{at:08}"));
        proto::Message::default().messages(1, [label]).double(2, 0.5).varint(3, time + at)
    };
    let sent = series("m", "a", 1).messages(3, (0..1_000).map(exemplar));
    assert_eq!(send(&server, &[sent]).await.status, 204);
    let ask = async |last: u64| {
        let (start, end) = (time / 1000, format!("{}", (time + last) as f64 / 1e3));
        let path = format!("/api/v1/query_exemplars?query=m&start={start}&end={end}");
        server.get(&path).await.expect("an answer")
    };
    let why = "exemplars of more than 64KiB, which is the setting max-label-results-size";
    let want = format!("{{\"status\":\"error\",\"errorType\":\"execution\",\"error\":\"{why}\"}}");
    assert_eq!(ask(999).await, (422, want));
    let (status, text) = ask(299).await;
    assert_eq!((status, text.matches("trace_id").count()), (200, 300), "{text}");
    assert_eq!(reached(&server, "max-label-results-size").await, Some(1.0));
    // The preview of a delete counts one part of the time after the other.
    let url = server.url("/api/v1/admin/tsdb/delete_series?match[]=m&dry_run=true");
    let answer = reqwest::Client::new().post(url).send().await.expect("an answer");
    let text = answer.text().await.expect("a text");
    let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(answer["data"]["exemplars"], 1_000, "{answer}");
    assert_eq!(reached(&server, "max-label-results-size").await, Some(1.0));
}

/// A form, a remote read, and a remote read without a content length.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_no_writes_end_at_the_setting_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = "max_request_body_size = \"2KiB\"\n";
    let (server, file) = configured(folder.path(), &Backend::Embedded, settings, &[]).await;
    let client = reqwest::Client::new();
    let post = async |path: &str, kind: &str, body: reqwest::Body| {
        let request = client.post(server.url(path)).header("Content-Type", kind).body(body);
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("a text"))
    };
    let why = "body has more than 2KiB, which is the setting max-request-body-size\n";
    let refused = (413, why.to_owned());
    let form = |bytes: usize| format!("query=1&x={}", "y".repeat(bytes - 10));
    let forms = "application/x-www-form-urlencoded";
    let query = async |bytes| post("/api/v1/query", forms, form(bytes).into()).await;
    assert_eq!(query(2048).await.0, 200);
    assert_eq!(query(2049).await, refused);
    let read = async |body| post("/api/v1/read", "application/x-protobuf", body).await;
    assert_eq!(read(vec![0xff; 2048].into()).await.0, 400, "no request, and looked at");
    assert_eq!(read(vec![0xff; 2049].into()).await, refused);
    let mut stream = TcpStream::connect(server.address).await.expect("it listens");
    let head =
        "POST /api/v1/read HTTP/1.1\r\nHost: it\r\nTransfer-Encoding: chunked\r\n\r\n801\r\n";
    let body = [head.as_bytes(), &[0xff; 2049], b"\r\n0\r\n\r\n"].concat();
    stream.write_all(&body).await.expect("it takes that");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 413");
    assert_eq!(reached(&server, "max-request-body-size").await, Some(3.0));
    // As for writes, a new value takes effect at once.
    write_settings(&file, "max_request_body_size = \"4KiB\"\n");
    assert_eq!(reload(&server).await.1, "changed: max-request-body-size\n");
    assert_eq!(query(2049).await.0, 200);
    assert_eq!(reached(&server, "max-request-body-size").await, Some(3.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_remote_read_without_streaming_end_at_settings() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = "query_max_samples = 5\n";
    let flags = ["--memory-limit=256MiB"];
    let (server, file) = configured(folder.path(), &Backend::Embedded, settings, &flags).await;
    // A point takes 18 bytes of the answer, which may have 16 MiB.
    let many = ["a", "b"].map(|host| series("many", host, 500_000));
    for sent in [series("few", "a", 5), series("more", "a", 6)].into_iter().chain(many) {
        let answer = send(&server, &[sent]).await;
        assert_eq!(answer.status, 204, "{}", answer.body);
    }
    let read = async |name: &str| server.read("__name__", name).await.map(|found| found.len());
    assert_eq!(read("few").await, Ok(1));
    let why = read("more").await.expect_err("too many samples");
    let want = "400 Bad Request: exceeded sample limit (5), which is the setting \
                query-max-samples, use STREAMED_XOR_CHUNKS\n";
    assert_eq!(why, want);
    assert_eq!(reached(&server, "query-max-samples").await, Some(1.0));
    write_settings(&file, "");
    assert_eq!(reload(&server).await.1, "changed: query-max-samples\n");
    assert_eq!(read("more").await, Ok(1));
    assert_eq!(reached(&server, "query-max-samples").await, Some(1.0));
    let why = read("many").await.expect_err("too many bytes");
    let want = "400 Bad Request: exceeded response limit (16MiB), which is a share of \
                the setting memory-limit, use STREAMED_XOR_CHUNKS\n";
    assert_eq!(why, want);
    assert_eq!(reached(&server, "memory-limit").await, Some(1.0));
}

/// Each of these limits refuses a query, is named in the error and counted.
#[tokio::test(flavor = "multi_thread")]
async fn limits_of_queries_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (server, file) = configured(folder.path(), &Backend::Embedded, "", &[]).await;
    assert_eq!(send(&server, &[series("m", "a", 9)]).await.status, 204);
    let ask = async |query: &str| {
        let parameters = [("query", query), ("time", "1700000001")];
        let (status, answer) = api::get(&server.url("/api/v1/query"), &parameters).await;
        (status, answer["error"].as_str().unwrap_or_default().to_owned())
    };
    // For each second of a day the median over a day of seconds: minutes of work.
    let long = "max_over_time(quantile_over_time(0.5, vector(1)[1d:1s])[1d:1s])";
    for (setting, value, query, want) in [
        ("query-max-depth", "3", "abs(abs(abs(m)))", 422),
        ("query-max-samples", "5", "m[1h]", 422),
        ("query-max-memory", "\"64KiB\"", "count_over_time(vector(1)[1d:1s])", 422),
        ("query-timeout", "\"1ms\"", long, 503),
    ] {
        assert_eq!(reached(&server, setting).await, Some(0.0), "{setting}");
        write_settings(&file, &format!("{} = {value}\n", setting.replace('-', "_")));
        let (status, said) = reload(&server).await;
        assert!(status == 200 && said.contains(setting), "{said}");
        let (status, why) = ask(query).await;
        assert!(status == want && why.contains(setting), "{setting}: {status} {why}");
        assert_eq!(reached(&server, setting).await, Some(1.0), "{setting}");
    }
    let queue = "query-max-queue";
    write_settings(&file, "query_max_concurrency = 1\nquery_max_queue = 0\n");
    assert_eq!(reload(&server).await.0, 200);
    assert_eq!(reached(&server, queue).await, Some(0.0));
    {
        let mut first = std::pin::pin!(ask(long));
        eventually("the first is under way", async || {
            let count = tokio::select! {
                ended = &mut first => panic!("{ended:?}"),
                count = metric(&server, "queries_in_flight") => count,
            };
            if count == Some(1.0) { Ok(()) } else { Err(format!("{count:?}")) }
        })
        .await;
        let (status, why) = tokio::select! {
            ended = &mut first => panic!("{ended:?}"),
            answer = ask("m") => answer,
        };
        assert!(status == 503 && why.contains(queue), "{status} {why}");
        assert_eq!(reached(&server, queue).await, Some(1.0));
    }
    eventually("the permit of the first is free", async || match ask("m").await {
        (200, _) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

/// Alert rules use the increase of a counter: without a 0 before, they could not see a first burst.
#[tokio::test(flavor = "multi_thread")]
async fn what_alerts_look_at_is_there_before_it_is_counted() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    for counter in [
        "limits_reached_total{limit=\"max-connections\"}",
        "limits_reached_total{limit=\"label-max-wait\"}",
        "limits_reached_total{limit=\"http-head-size\"}",
        "write_samples_refused_total{reason=\"labels\"}",
        "write_samples_refused_total{reason=\"max-samples-per-second\"}",
        "write_rejected_total{reason=\"max-active-series\"}",
        "write_rejected_total{reason=\"body\"}",
        "write_rejected_total{reason=\"max-request-body-size\"}",
        "write_requests_total{protocol=\"1\",code=\"503\"}",
        "http_requests_total{handler=\"/api/v1/write\",code=\"500\"}",
        "queries_total{kind=\"range\",outcome=\"timed_out\"}",
    ] {
        assert_eq!(metric(&server, counter).await, Some(0.0), "{counter}");
    }
    // Appears with the first answer for any other path. Unknown paths share this series.
    let failed = "http_requests_total{handler=\"other\",code=\"500\"}";
    assert_eq!(metric(&server, failed).await, None);
    assert_eq!(server.get("/nowhere").await.expect("an answer").0, 404);
    assert_eq!(metric(&server, failed).await, Some(0.0));
}

/// How often the limit of this setting was reached.
pub(crate) async fn reached(server: &Promkairos, setting: &str) -> Option<f64> {
    metric(server, &format!("limits_reached_total{{limit=\"{setting}\"}}")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_at_their_defaults_name_their_settings() {
    let data = tempfile::tempdir().expect("a folder");
    let flags = ["--query-max-samples=5"];
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    let answer = send(&server, &[series("m", &"v".repeat(17_000), 1)]).await;
    let why =
        "value of label \"host\" of 17000 bytes, and the setting max-label-value-size is 16KiB";
    assert!(answer.status == 400 && answer.body.starts_with(why), "{}", answer.body);
    let label = |name: &str| proto::Message::default().bytes(1, name).bytes(2, "v");
    let labels = (0..129).map(|number| label(&format!("l{number:03}")));
    let point = proto::Message::default().double(1, 1.0).varint(2, 1_700_000_000_000);
    let many = series("m", "a", 0).messages(1, labels).messages(2, [point]);
    let answer = send(&server, &[many]).await;
    let why = "131 labels, and the setting max-labels-per-series is 128";
    assert!(answer.status == 400 && answer.body.starts_with(why), "{}", answer.body);
    let many: Vec<_> = (0..=262_144).map(|_| proto::Message::default()).collect();
    let answer = send(&server, &many).await;
    let why = "more than 262144 series in one request, and the setting max-series-per-request is \
               262144\n";
    assert_eq!((answer.status, answer.body.as_str()), (400, why));
    let answer = send(&server, &[series("m", "a", (1 << 20) + 1)]).await;
    let why = "more than 1048576 samples in one request, and the setting max-samples-per-request is \
               1048576\n";
    assert_eq!((answer.status, answer.body.as_str()), (400, why));
    // Each of the three values is allowed, but not all together; in version 2 the decoder checks
    // it.
    let symbols = ["", "__name__", "m"].map(str::to_owned).into_iter();
    let large = ["a", "b", "c"].into_iter().flat_map(|name| [name.to_owned(), name.repeat(11_000)]);
    let request =
        symbols.chain(large).fold(proto::Message::default(), |all, one| all.bytes(4, one));
    let point = proto::Message::default().double(1, 1.0).varint(2, 1_700_000_000_000);
    let one = proto::Message::default().bytes(1, [1, 2, 3, 4, 5, 6, 7, 8]).messages(2, [point]);
    let body = compress(&request.messages(5, [one]));
    let answer = server.write(Message::V2, body).await.expect("an answer");
    let why = "labels of 33012 bytes in all, and the setting max-labels-size is 32KiB";
    assert!(answer.status == 400 && answer.body.starts_with(why), "{}", answer.body);
    let bomb = [&b"\x81\x80\x80\x10"[..], &[0; 9]].concat();
    let answer = server.write(Message::V1, bomb).await.expect("an answer");
    let why = "32.0MiB decoded in one request, and the setting max-decoded-body-size is 32MiB\n";
    assert_eq!((answer.status, answer.body.as_str()), (400, why));
    assert_eq!(server.write(Message::V1, vec![0xff; 9]).await.expect("an answer").status, 400);
    for reason in [
        "max-series-per-request",
        "max-samples-per-request",
        "max-decoded-body-size",
        "max-labels-size",
        "body",
    ] {
        let counted = format!("write_rejected_total{{reason=\"{reason}\"}}");
        assert_eq!(metric(&server, &counted).await, Some(1.0), "{reason}");
    }
    assert_eq!(send(&server, &[series("m", "a", 9)]).await.status, 204);
    let path = "/api/v1/query?query=m[1h]&time=1700000001";
    let (status, text) = server.get(path).await.expect("an answer");
    assert_eq!(status, 422, "{text}");
    for setting in [
        "max-label-value-size",
        "max-labels-per-series",
        "max-series-per-request",
        "max-samples-per-request",
        "max-decoded-body-size",
        "max-labels-size",
        "query-max-samples",
    ] {
        assert_eq!(reached(&server, setting).await, Some(1.0), "{setting}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sends_faster_than_the_rate_is_told_to_come_again() {
    let data = tempfile::tempdir().expect("a folder");
    let flags = ["--max-samples-per-second=1"];
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    // A request passes whole; the next one has to wait for its samples.
    assert_eq!(send(&server, &[series("m", "a", 100_000)]).await.status, 204);
    let answer = send(&server, &[series("m", "b", 1)]).await;
    assert_eq!(answer.status, 429, "{}", answer.body);
    assert!(answer.body.contains("the setting max-samples-per-second"), "{}", answer.body);
    let after: u64 = answer.retry_after.expect("a header").parse().expect("seconds");
    assert!((1..=100_000).contains(&after), "{after}");
    let answer = send(&server, &[series("m", "b", 5), series("m", "c", 2)]).await;
    assert_eq!(answer.status, 429, "{}", answer.body);
    let refused = "write_samples_refused_total{reason=\"max-samples-per-second\"}";
    assert_eq!(metric(&server, refused).await, Some(8.0));
    assert_eq!(reached(&server, "max-samples-per-second").await, Some(2.0));
    logged(&server, "remote writes are refused: more samples than the 1 a second").await;
    assert_eq!(stored(&server, "m").await, ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_remote_write_is_counted_and_logged() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    let refused = "write_rejected_total{reason=\"body\"}";
    assert_eq!(server.write(Message::V1, b"?".to_vec()).await.expect("an answer").status, 400);
    assert_eq!(metric(&server, refused).await, Some(1.0));
    logged(&server, "remote writes are refused: ").await;
    let client = reqwest::Client::new();
    // Not counted, as the samples are unknown. VictoriaMetrics agents probe for zstd this way.
    let page = async || {
        let (_, page) = server.get("/metrics").await.expect("an answer");
        let of_refusals = ["promkairos_write_rejected_", "promkairos_write_samples_refused_"];
        let lines = page.lines().filter(|line| of_refusals.iter().any(|of| line.starts_with(of)));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let before = page().await;
    let asks = [
        ("Content-Type", "application/json", "", 415),
        ("Content-Type", "application/x-protobuf;proto=other", "", 415),
        ("Content-Encoding", "zstd", "", 415),
        ("Content-Encoding", "zstd", "no frame", 400),
    ];
    for (name, value, body, status) in asks {
        let post = client.post(server.url("/api/v1/write")).header(name, value);
        let post = match status {
            400 => post.header("X-VictoriaMetrics-Remote-Write-Version", "1"),
            _ => post,
        };
        let answer = post.body(body).send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status, "{name}: {value}");
    }
    assert_eq!(page().await, before);
    logged(&server, "remote writes are refused: content type \"application/json\"").await;
}

/// Writes these settings, and the setting that allows a reload.
pub(crate) fn write_settings(file: &Path, text: &str) {
    std::fs::write(file, format!("enable_admin_api = true\n{text}")).expect("written");
}

/// Starts a server over the data in this folder and waits until it is ready. The settings are in
/// the returned file.
pub(crate) async fn configured(
    folder: &Path,
    backend: &Backend,
    text: &str,
    flags: &[&str],
) -> (Promkairos, PathBuf) {
    let file = folder.join("promkairos.toml");
    write_settings(&file, text);
    let config = format!("--config={}", file.display());
    let flags = [&[config.as_str()][..], flags].concat();
    (Promkairos::ready(&folder.join("data"), backend, &flags).await, file)
}

pub(crate) async fn reload(server: &Promkairos) -> (u16, String) {
    let client = reqwest::Client::new();
    let answer = client.post(server.url("/-/reload")).send().await.expect("an answer");
    (answer.status().as_u16(), answer.text().await.expect("a text"))
}

/// Waits for this text in the log, which is read a moment after it is written.
pub(crate) async fn logged(server: &Promkairos, text: &str) {
    eventually(text, async || {
        let log = server.process.log();
        if log.contains(text) { Ok(()) } else { Err(log) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = "max_active_series = 1\n";
    let (mut server, file) = configured(folder.path(), &Backend::Embedded, settings, &[]).await;
    assert_eq!(send(&server, &[series("m", "a", 1)]).await.status, 204);
    assert_eq!(send(&server, &[series("m", "b", 1)]).await.status, 400);
    let nothing = "nothing that holds at once has changed\n";
    assert_eq!(reload(&server).await, (200, nothing.to_owned()));

    write_settings(
        &file,
        "max_active_series = 2\nseries_limit_answer = 429\nflush_interval = \"1h\"\nlog_level = \"debug\"\n",
    );
    let changed = "changed: max-active-series, series-limit-answer, log-level; \
                   needs a restart: flush-interval\n";
    assert_eq!(reload(&server).await, (200, changed.to_owned()));
    assert_eq!(send(&server, &[series("m", "b", 1)]).await.status, 204);
    assert_eq!(send(&server, &[series("m", "c", 1)]).await.status, 429);
    logged(&server, " DEBUG ").await;

    // Refused settings change nothing; the error names the line.
    write_settings(&file, "max_active_series = 9\nmax_activ_series = 9\n");
    let (status, why) = reload(&server).await;
    let hint =
        "promkairos.toml:3: unknown setting max_activ_series, did you mean max_active_series?\n";
    assert!(status == 500 && why.ends_with(hint), "{status} {why}");
    assert_eq!(send(&server, &[series("m", "c", 1)]).await.status, 429);
    assert_eq!(metric(&server, "config_last_reload_successful").await, Some(0.0));

    // A signal does the same. A change that needs a restart is reported again.
    write_settings(&file, "max_active_series = 3\nflush_interval = \"1h\"\n");
    server.process.signal(Signal::HUP);
    eventually("the third series is taken", async || {
        match send(&server, &[series("m", "c", 1)]).await.status {
            204 => Ok(()),
            status => Err(status.to_string()),
        }
    })
    .await;
    let said = "SIGHUP: the settings were read again, changed: max-active-series, \
                series-limit-answer, log-level; needs a restart: flush-interval";
    logged(&server, said).await;
    assert_eq!(metric(&server, "config_last_reload_successful").await, Some(1.0));
    assert!(server.process.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_reloads_where_the_admin_api_is_off() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    let why =
        "Lifecycle API is not enabled: start the server with --enable-admin-api to allow reloads.";
    assert_eq!(reload(&server).await, (403, why.to_owned()));
}
