//! Answers of endpoints that only promkairos has: the preview of a delete, the paths of a selection, the tag index,
//! and limits that are reached. Each line of `tests/data/api/*.jsonl` is a request and its whole answer.
//!
//! `PROMKAIROS_TEST_SNAPSHOTS=write` writes the answers anew; review them before you commit them.

use std::fmt::Write as _;
use std::path::Path;

use promkairos::model::Labels;
use promkairos::wire;
use reqwest::Method;
use serde_json::{Value as Json, json};

use crate::cassandra::keyspace::Request;
use crate::support::load::compress;
use crate::support::promkairos::{Backend, Message, Promkairos};
use crate::support::{api, eventually, proto};

const AT: i64 = 1_700_000_000_000;

/// Writes `m` of two hosts and `n` of one host, three points each.
async fn fill(server: &Promkairos) {
    let mut request = Request::default();
    for (metric, host) in [("m", "a"), ("m", "b"), ("n", "a")] {
        let labels = [("__name__", metric), ("host", host), ("job", "j")];
        let labels = Labels::from_pairs(labels).expect("labels");
        let points = [(AT, 1.0), (AT + 15_000, 2.0), (AT + 30_000, 4.0)];
        request = request.floats(&labels, &points);
    }
    let body = compress(&proto::Message(wire::encode_v1(&request.batch())));
    assert_eq!(server.write(Message::V1, body).await.expect("an answer").status, 204);
}

/// Sends all requests of a file in order and compares the answers.
async fn check(server: &Promkairos, file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/api").join(file);
    let lines = std::fs::read_to_string(&path).expect(file);
    let (mut anew, mut wrong, mut asked) = (String::new(), String::new(), 0);
    for line in lines.lines() {
        let case: Json = serde_json::from_str(line).expect("a line of JSON");
        let text = |value: &Json| value.as_str().expect("a text").to_owned();
        let list = case["parameters"].as_array().expect("parameters");
        let parameters: Vec<_> = list.iter().map(|pair| (text(&pair[0]), text(&pair[1]))).collect();
        let parameters: Vec<_> = parameters.iter().map(|(n, v)| (&**n, &**v)).collect();
        let method = Method::from_bytes(text(&case["method"]).as_bytes()).expect("a method");
        let url = server.url(&text(&case["path"]));
        let (status, answer) = match method {
            Method::POST => api::send(method, &url, &[], Some(&parameters)).await,
            method => api::send(method, &url, &parameters, None).await,
        };
        let answer: Json = serde_json::from_str(&answer).unwrap_or(Json::String(answer));
        let mut now = case.clone();
        (now["status"], now["answer"]) = (json!(status), answer);
        if now != case {
            writeln!(wrong, "recorded {case}\nnow      {now}").expect("a string");
        }
        writeln!(anew, "{now}").expect("a string");
        asked += 1;
    }
    assert!(asked > 0, "{file} is empty");
    if std::env::var_os("PROMKAIROS_TEST_SNAPSHOTS").is_some_and(|value| value == "write") {
        std::fs::write(&path, anew).expect("written");
    }
    assert!(wrong.is_empty(), "{file}:\n{wrong}");
}

#[tokio::test(flavor = "multi_thread")]
async fn over_the_embedded_store() {
    let data = tempfile::tempdir().expect("a folder");
    let flags = [
        "--enable-admin-api=true",
        "--query-max-samples=5",
        "--query-max-depth=4",
        "--query-max-memory=64KiB",
    ];
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    fill(&server).await;
    check(&server, "embedded.jsonl").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_cassandra() {
    let data = tempfile::tempdir().expect("a folder");
    let flags = [
        "--enable-admin-api=true",
        "--tag-indexed-row-key-lookup-metrics={m = [\"host\"]}",
        "--cassandra-series-cache=0B",
    ];
    let server = Promkairos::ready(data.path(), &Backend::cassandra_store(), &flags).await;
    fill(&server).await;
    eventually("the index is readable", async || {
        let (_, status) = api::get(&server.url("/api/v1/status/tag_index"), &[]).await;
        if status.to_string().contains("readable") { Ok(()) } else { Err(status.to_string()) }
    })
    .await;
    check(&server, "cassandra.jsonl").await;
}
