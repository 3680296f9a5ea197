//! Traces: the spans of requests and flushes. Nothing else depends on the collector.

use std::collections::BTreeSet;
use std::path::Path;

use axum::http::StatusCode;
use promkairos::api::proto::v1;
use promkairos::wire::snappy;
use prost::Message;
use reqwest::{Client, Url};
use serde_json::{Value as Json, json};
use tokio::net::{TcpListener, TcpSocket};

use crate::support::collector::{Collector, Span};
use crate::support::eventually;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::series::floats;

/// Ids of traces that senders begin.
const TRACES: [&str; 3] = [
    "0af7651916cd43dd8448eb211c80319a",
    "0af7651916cd43dd8448eb211c80319b",
    "0af7651916cd43dd8448eb211c80319c",
];
/// The id of a sender's span.
const SENDER: &str = "b7ad6b7169203331";
/// The time of the points.
const TIME: i64 = 1_700_000_000_000;

/// Kinds of spans in the protocol.
const INTERNAL: i32 = 1;
const SERVER: i32 = 2;
const CLIENT: i32 = 3;

/// A header that says whether the request is traced.
fn traceparent(trace: &str, flags: &str) -> String {
    format!("00-{trace}-{SENDER}-{flags}")
}

/// A ready server with these variables that exports its spans every tenth of a second.
async fn server(
    data: &Path,
    backend: &Backend,
    endpoint: &str,
    flags: &[&str],
    variables: &[&str],
) -> Promkairos {
    let environment = [&["env", "OTEL_BSP_SCHEDULE_DELAY=100"][..], variables].concat();
    let endpoint = format!("--otlp-endpoint={endpoint}");
    let flags = [&[endpoint.as_str()][..], flags].concat();
    let mut server = Promkairos::start_under(&environment, data, backend, &flags);
    server.wait_ready().await;
    server
}

/// Status and text of a GET.
async fn get(
    server: &Promkairos,
    path: &str,
    query: &[(&str, &str)],
    traceparent: Option<&str>,
) -> (u16, String) {
    let mut url = Url::parse(&server.url(path)).expect("a URL");
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    let request = Client::new().get(url);
    let request = match traceparent {
        Some(traceparent) => request.header("traceparent", traceparent),
        None => request,
    };
    let response = request.send().await.expect("an answer");
    let status = response.status().as_u16();
    (status, response.text().await.expect("a body"))
}

/// The status of a remote write.
async fn write(server: &Promkairos, block: Vec<u8>, traceparent: &str) -> u16 {
    let request = Client::new()
        .post(server.url("/api/v1/write"))
        .header("Content-Encoding", "snappy")
        .header("Content-Type", "application/x-protobuf")
        .header("traceparent", traceparent)
        .body(block);
    request.send().await.expect("an answer").status().as_u16()
}

/// A remote write with one point.
fn one_point() -> Vec<u8> {
    let timeseries = vec![floats(&[("__name__", "traced"), ("job", "a")], &[(TIME, 1.0)])];
    let request = v1::WriteRequest { timeseries, ..v1::WriteRequest::default() };
    snappy::compress(&request.encode_to_vec()).expect("small")
}

/// The number of spans with this outcome, by the server's metrics.
async fn spans_ended(server: &Promkairos, outcome: &str) -> u64 {
    let (_, page) = server.get("/metrics").await.expect("an answer");
    let head = format!("promkairos_traces_spans_total{{outcome=\"{outcome}\"}} ");
    let line = page.lines().find_map(|line| line.strip_prefix(&head));
    line.map_or(0, |number| number.parse().expect("a whole number"))
}

/// The spans of one trace.
fn of_trace(spans: &[Span], trace: &str) -> Vec<Span> {
    spans.iter().filter(|span| span.trace == trace).cloned().collect()
}

/// The only span of this name.
#[track_caller]
fn only<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<&Span> = spans.iter().filter(|span| span.name == name).collect();
    assert_eq!(found.len(), 1, "{name}: {spans:#?}");
    found[0]
}

/// The names of the children of a span.
fn below<'a>(spans: &'a [Span], parent: &Span) -> BTreeSet<&'a str> {
    let children = spans.iter().filter(|span| span.parent == parent.id);
    children.map(|span| span.name.as_str()).collect()
}

#[track_caller]
fn attribute(span: &Span, name: &str, want: impl Into<Json>) {
    assert_eq!(span.attributes.get(name), Some(&want.into()), "{name}: {span:#?}");
}

/// The span of a request, whose parent is the sender's span.
#[track_caller]
fn request<'a>(spans: &'a [Span], method: &str, route: &str, status: u16) -> &'a Span {
    let root = only(spans, &format!("{method} {route}"));
    assert_eq!((root.kind, root.parent.as_str()), (SERVER, SENDER), "{root:#?}");
    attribute(root, "http.request.method", method);
    attribute(root, "http.route", route);
    attribute(root, "http.response.status_code", status);
    root
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_and_flushes_are_traces() {
    let (data, collector) = (tempfile::tempdir().expect("a folder"), Collector::start().await);
    let flags = ["--trace-sampling=0", "--log-level=debug"];
    let (backend, endpoint) = (Backend::Embedded, &collector.url);
    let mut server = server(data.path(), &backend, endpoint, &flags, &[]).await;
    let [writes, queries, lists] = TRACES.map(|trace| traceparent(trace, "01"));
    assert_eq!(write(&server, one_point(), &writes).await, 204);
    let query = [("query", "sum(traced)"), ("time", "1700000001")];
    let (status, text) = get(&server, "/api/v1/query", &query, Some(&queries)).await;
    assert!(status == 200 && text.contains("\"1\""), "{status} {text}");
    let path = "/api/v1/label/job/values";
    assert_eq!(get(&server, path, &[], Some(&lists)).await.0, 200);
    // The only trace with two requests.
    assert_eq!(write(&server, b"no snappy".to_vec(), &lists).await, 400);
    eventually("the metric counts what was sent", async || {
        match spans_ended(&server, "sent").await {
            0 => Err("none".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    assert!(server.process.terminate().success());
    let spans = collector.spans();

    let write = of_trace(&spans, TRACES[0]);
    let root = request(&write, "POST", "/api/v1/write", 204);
    assert_eq!(below(&write, root), BTreeSet::from(["body", "wait", "decode", "store"]));
    let store = only(&write, "store");
    assert_eq!(below(&write, store), BTreeSet::from(["wait", "look-up", "log"]));
    attribute(store, "series", 1);
    attribute(store, "samples", 1);

    let query = of_trace(&spans, TRACES[1]);
    let root = request(&query, "GET", "/api/v1/query", 200);
    assert_eq!(below(&query, root), BTreeSet::from(["parse", "query", "answer"]));
    let evaluation = only(&query, "query");
    assert_eq!(below(&query, evaluation), BTreeSet::from(["wait", "select", "evaluate"]));
    attribute(evaluation, "query", "sum(traced)");
    attribute(evaluation, "samples_read", 1);
    assert!(query.iter().all(|span| !span.is_error), "{query:#?}");

    let list = of_trace(&spans, TRACES[2]);
    request(&list, "GET", "/api/v1/label/{name}/values", 200);
    request(&list, "POST", "/api/v1/write", 400);

    let flush = only(&spans, "flush");
    assert_eq!((flush.kind, flush.parent.as_str()), (INTERNAL, ""), "{flush:#?}");
    assert!(!TRACES.contains(&flush.trace.as_str()), "{flush:#?}");
    attribute(flush, "points", 1);
    let ours = json!("promkairos");
    assert!(spans.iter().all(|span| span.resource["service.name"] == ours), "{spans:#?}");

    // The log does not change: the line was written in the span of the request.
    let log = server.process.log();
    let line = log.lines().find(|line| line.contains("a remote write was refused"));
    let line = line.unwrap_or_else(|| panic!("no such line: {log}"));
    assert!(!line.contains("request{") && !line.contains("http.route"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_fails_says_why_in_its_trace() {
    let (data, collector) = (tempfile::tempdir().expect("a folder"), Collector::start().await);
    let flags = ["--trace-sampling=0", "--query-max-depth=2"];
    let name = ["OTEL_SERVICE_NAME=another name"];
    let (backend, endpoint) = (Backend::Embedded, &collector.url);
    let mut server = server(data.path(), &backend, endpoint, &flags, &name).await;
    let query = [("query", "abs(abs(abs(a)))"), ("time", "1700000001")];
    let traced = traceparent(TRACES[0], "01");
    assert_eq!(get(&server, "/api/v1/query", &query, Some(&traced)).await.0, 422);
    assert!(server.process.terminate().success());
    let spans = collector.spans();
    assert!(only(&spans, "query").is_error, "{spans:#?}");
    // The span of the request is no error, since the client caused it.
    assert!(!request(&spans, "GET", "/api/v1/query", 422).is_error, "{spans:#?}");
    assert_eq!(spans[0].resource["service.name"], json!("another name"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sender_decides_what_is_traced_or_else_the_share() {
    for (sampling, want) in [("0", 1), ("1", 2)] {
        let (data, collector) = (tempfile::tempdir().expect("a folder"), Collector::start().await);
        let flag = format!("--trace-sampling={sampling}");
        let (backend, endpoint) = (Backend::Embedded, &collector.url);
        let mut server = server(data.path(), &backend, endpoint, &[&flag], &[]).await;
        let [yes, no] = [(TRACES[0], "01"), (TRACES[1], "00")].map(|(t, f)| traceparent(t, f));
        for decided in [None, Some(yes.as_str()), Some(no.as_str())] {
            assert_eq!(get(&server, "/-/healthy", &[], decided).await.0, 200);
        }
        assert!(server.process.terminate().success());
        let mut spans = collector.spans();
        spans.retain(|span| span.name == "GET /-/healthy");
        let traces: BTreeSet<&str> = spans.iter().map(|span| span.trace.as_str()).collect();
        assert_eq!((spans.len(), traces.len()), (want, want), "{spans:#?}");
        assert!(traces.contains(TRACES[0]) && !traces.contains(TRACES[1]), "{spans:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_to_cassandra_are_parts_of_a_trace() {
    let (data, collector) = (tempfile::tempdir().expect("a folder"), Collector::start().await);
    let (backend, endpoint) = (Backend::cassandra_store(), &collector.url);
    let flags = ["--trace-sampling=0"];
    let mut server = server(data.path(), &backend, endpoint, &flags, &[]).await;
    let [writes, queries, _] = TRACES.map(|trace| traceparent(trace, "01"));
    assert_eq!(write(&server, one_point(), &writes).await, 204);
    let query = [("query", "traced"), ("time", "1700000001")];
    let (status, text) = get(&server, "/api/v1/query", &query, Some(&queries)).await;
    assert!(status == 200 && text.contains("\"1\""), "{status} {text}");
    assert!(server.process.terminate().success());
    let spans = collector.spans();
    let write = of_trace(&spans, TRACES[0]);
    let store = only(&write, "store");
    assert!(below(&write, store).is_superset(&BTreeSet::from(["index", "rows"])), "{write:#?}");
    for trace in [write, of_trace(&spans, TRACES[1])] {
        let statements: Vec<&Span> = trace.iter().filter(|span| span.kind == CLIENT).collect();
        assert!(!statements.is_empty(), "{trace:#?}");
        for statement in statements {
            attribute(statement, "db.system.name", "cassandra");
            let is_parent = |span: &Span| span.id == statement.parent;
            assert!(trace.iter().any(is_parent), "{statement:#?} in {trace:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_holds_up_nothing() {
    let data = tempfile::tempdir().expect("a folder");
    // Connections are accepted by the system, but nobody reads from them.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
    let flags = ["--trace-sampling=1"];
    let mut server = server(data.path(), &Backend::Embedded, &endpoint, &flags, &[]).await;
    let ask = async || get(&server, "/api/v1/query", &[("query", "1")], None).await.0;
    eventually("spans are dropped", async || {
        for _ in 0..100 {
            assert_eq!(ask().await, 200);
        }
        match spans_ended(&server, "dropped").await {
            0 => Err("none".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    assert_eq!(spans_ended(&server, "sent").await, 0);
    // The server ends though the queue is full.
    assert!(server.process.terminate().success());
    let log = server.process.log();
    assert!(log.contains("the last traces were not taken within"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_not_there_holds_up_nothing() {
    let data = tempfile::tempdir().expect("a folder");
    // A port that is bound, so that no other process gets it, and that nobody listens at.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(([127, 0, 0, 1], 0).into()).expect("a free port");
    let endpoint = format!("http://{}", socket.local_addr().expect("bound"));
    let flags = ["--trace-sampling=1"];
    let mut server = server(data.path(), &Backend::Embedded, &endpoint, &flags, &[]).await;
    eventually("spans fail", async || {
        assert_eq!(get(&server, "/api/v1/query", &[("query", "1")], None).await.0, 200);
        match spans_ended(&server, "failed").await {
            0 => Err("none".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    assert!(server.process.terminate().success());
    let log = server.process.log();
    assert!(log.contains(&format!("traces were not taken by {endpoint}/v1/traces: ")), "{log}");
}

const SECRET: &str = "s3cret-of-the-collector";

#[tokio::test(flavor = "multi_thread")]
async fn headers_for_the_collector_are_never_printed() {
    let variable = format!("OTEL_EXPORTER_OTLP_HEADERS=x-api-key={SECRET}");
    headers_reach_the_collector_alone(&[], &[&variable]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_of_a_file_are_never_printed() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), format!("x-org=7\nx-api-key={SECRET}\n")).expect("written");
    let flag = format!("--otlp-headers-file={}", file.path().display());
    headers_reach_the_collector_alone(&[&flag], &[]).await;
}

async fn headers_reach_the_collector_alone(more: &[&str], variables: &[&str]) {
    let data = tempfile::tempdir().expect("a folder");
    let collector = Collector::answering(StatusCode::UNAUTHORIZED).await;
    let flags = [&["--trace-sampling=1", "--log-level=trace"], more].concat();
    let (backend, endpoint) = (Backend::Embedded, &collector.url);
    let mut server = server(data.path(), &backend, endpoint, &flags, variables).await;
    eventually("spans are refused", async || match spans_ended(&server, "failed").await {
        0 => Err("none".to_owned()),
        _ => Ok(()),
    })
    .await;
    let requests = collector.requests();
    assert_eq!(requests[0].get("x-api-key").map(|value| value.as_bytes()), Some(SECRET.as_bytes()));
    for path in ["/metrics", "/api/v1/status/flags", "/api/v1/status/config", "/"] {
        let (status, page) = server.get(path).await.expect("an answer");
        assert!(status == 200 && !page.contains(SECRET), "{path}: {status} {page}");
    }
    assert!(server.process.terminate().success());
    let log = server.process.log();
    assert!(log.contains("traces were not taken by ") && log.contains("401"), "{log}");
    assert!(!log.contains(SECRET), "{log}");
}
