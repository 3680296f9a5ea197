//! Queries over HTTP that no recording of a Prometheus covers: our limits, a store that is not open,
//! answers in zstd.

use promkairos::limits::MAX_QUERY_DEPTH;
use promkairos::promql::{Features, Settings};
use serde_json::Value as Json;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::recorded::{in_process, load};
use crate::support::eventually;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::series::{floats, send};

/// Status and body of a query at a time that has samples.
async fn query(url: &str, text: &str) -> (u16, Json) {
    let form = form_urlencoded::Serializer::new(String::new())
        .extend_pairs([("query", text), ("time", "1704068400")])
        .finish();
    let request = reqwest::Client::new()
        .post(format!("{url}/api/v1/query"))
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(form);
    let response = request.send().await.expect("an answer");
    let status = response.status().as_u16();
    let body = response.text().await.expect("a body");
    (status, serde_json::from_str(&body).expect("JSON"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_is_passed_names_its_setting() {
    let settings = Settings { max_samples: 2, max_depth: 9, ..Settings::default() };
    let url = in_process(settings, Features::Stable).await;
    load(&url).await;
    for (text, setting) in
        [("{__name__=~\".+\"}", "query-max-samples"), ("1+1+1+1+1+1+1+1+1+1+1", "query-max-depth")]
    {
        let (status, answer) = query(&url, text).await;
        assert_eq!((status, &answer["errorType"]), (422, &Json::from("execution")), "{answer}");
        let error = answer["error"].as_str().expect("a text");
        assert!(error.contains(setting), "{error}");
    }
}

/// The walk over a query recurses: the deepest allowed query must fit on the stack.
#[tokio::test(flavor = "multi_thread")]
async fn the_deepest_query_is_answered() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    let url = server.url("");
    let nested = |open: &str, inner: &str, close: &str| {
        open.repeat(MAX_QUERY_DEPTH - 2) + inner + &close.repeat(MAX_QUERY_DEPTH - 2)
    };
    for text in [
        nested("1+", "1", ""),
        nested("up+", "up", ""),
        nested("(", "1", ")"),
        nested("sum(", "up", ")"),
        nested("abs(", "up", ")"),
    ] {
        let (status, answer) = query(&url, &text).await;
        assert_eq!(status, 200, "{answer}");
    }
    let (status, answer) = query(&url, &"1+".repeat(2 * MAX_QUERY_DEPTH)).await;
    assert_eq!(status, 400, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_come_in_zstd() {
    let url = in_process(Settings::default(), Features::Stable).await;
    let request = reqwest::Client::new().get(format!("{url}/api/v1/rules?type=record"));
    let response = request.header("Accept-Encoding", "zstd").send().await.expect("an answer");
    assert_eq!(response.headers()["content-encoding"], "zstd");
    let body = response.bytes().await.expect("a body");
    let body = zstd::decode_all(&*body).expect("zstd");
    assert_eq!(body, br#"{"status":"success","data":{"groups":[]}}"#);
}

#[tokio::test]
async fn nothing_is_answered_before_the_store_is_open() {
    let address = super::server_without_store().await;
    for path in ["query?query=1", "labels", "status/buildinfo", "rules"] {
        let (status, retry_after, body) =
            super::ask(address, reqwest::Method::GET, &format!("/api/v1/{path}"), vec![]).await;
        assert_eq!((status, retry_after.as_deref()), (503, Some("1")), "{path}");
        assert!(body.starts_with("Service Unavailable"), "{body}");
    }
}

/// A server with 200 counters of 500 points, one in 15 s from 1970 on.
async fn with_counters(data: &std::path::Path, flags: &[&str]) -> Promkairos {
    let server = Promkairos::ready(data, &Backend::Embedded, flags).await;
    let points: Vec<_> = (0..500).map(|at| (at * 15_000, at as f64)).collect();
    let one = |i: i32| floats(&[("__name__", "m"), ("i", &i.to_string())], &points);
    assert_eq!(send(&server.url(""), (0..200).map(one).collect()).await, 204);
    server
}

/// The value of a metric of the server.
async fn metric(server: &Promkairos, name: &str) -> Option<f64> {
    let (_, page) = server.get("/metrics").await.expect("an answer");
    let line = page.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

/// The query of a client that disconnected ends, and its permit goes to the next query.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_whose_client_goes_away_ends() {
    let data = tempfile::tempdir().expect("a folder");
    let flags = ["--query-max-concurrency=1", "--slow-query-log=1ms", "--log-level=debug"];
    let server = with_counters(data.path(), &flags).await;
    let is = async |name: &str, value: f64| match metric(&server, name).await {
        Some(found) if found == value => Ok(()),
        other => Err(format!("{name} is {other:?}")),
    };
    // A query that takes minutes.
    let long = "sum(max_over_time(sum(quantile_over_time(0.5,m%5B1h%5D))%5B2h:100ms%5D))";
    let url = server.url("");
    let mut client = TcpStream::connect(url.trim_start_matches("http://")).await.expect("there");
    let request = format!("GET /api/v1/query?query={long}&time=7200 HTTP/1.1\r\nHost: it\r\n\r\n");
    client.write_all(request.as_bytes()).await.expect("sent");
    eventually("it is under way", async || is("promkairos_queries_in_flight ", 1.0).await).await;
    drop(client);
    let canceled = "promkairos_queries_total{kind=\"instant\",outcome=\"canceled\"} ";
    eventually("it is canceled", async || is(canceled, 1.0).await).await;
    // Like every query it leaves its cost, its status and its duration.
    let given_up = "promkairos_http_requests_total{handler=\"/api/v1/query\",code=\"499\"} ";
    eventually("it is counted", async || is(given_up, 1.0).await).await;
    let timed = "promkairos_http_request_duration_seconds_count{handler=\"/api/v1/query\"} ";
    is(timed, 1.0).await.expect("timed");
    let log = server.process.log();
    let line =
        |level: &str, what: &str| log.lines().find(|one| one.contains(level) && one.contains(what));
    let slow = line("WARN", "slow query: sum(max_over_time(").expect(&log);
    assert!(slow.contains(": the client went away"), "{slow}");
    assert!(slow.contains("samples_read=") && slow.contains("queued="), "{slow}");
    line("DEBUG", "code=499").expect(&log);
    let (status, answer) = query(&url, "1").await;
    assert_eq!(status, 200, "{answer}");
}

/// The resident memory of the process stays near the setting, whatever the queries.
#[tokio::test(flavor = "multi_thread")]
async fn memory_of_the_process_is_bounded() {
    const LIMIT: u64 = 64 << 20;
    let data = tempfile::tempdir().expect("a folder");
    let limit = format!("--query-max-memory={LIMIT}");
    let server = with_counters(data.path(), &[&limit]).await;
    let peak = || {
        let path = format!("/proc/{}/status", server.process.id());
        let status = std::fs::read_to_string(path).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kib << 10
    };
    query(&server.url(""), "sum(m)").await;
    let before = peak();
    for text in [
        "count_over_time(vector(1)[100y:1ms])",
        "max_over_time(m[7d:10ms])",
        "max_over_time(absent(m)[7d:1ms])",
        "m[7d:10ms]",
        "quantile_over_time(0.5, (m + 1)[7d:10ms])",
        "sort(label_replace(max_over_time(m[7d:1s]), \"i\", \"$1$1\", \"i\", \"(.*)\"))[100y:1s]",
    ] {
        let (status, answer) = query(&server.url(""), text).await;
        let error = answer["error"].as_str().unwrap_or_default();
        assert_eq!(status, 422, "{text}: {error}");
        assert!(error.contains("query-max-"), "{text}: {error}");
        let grown = peak().saturating_sub(before);
        assert!(grown < 2 * LIMIT, "{text} takes {} MiB", grown >> 20);
    }
}
