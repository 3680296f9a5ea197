//! Replays recorded HTTP answers of a real Prometheus 3.16: every endpoint, wrong methods, errors,
//! orders, numbers, warnings.
//!
//! `writes.jsonl` is written to an empty server. Then the request of each line of a file is sent, and
//! the answer is compared by the rule that the line names. Cases that differ on purpose are in a list
//! with a reason; a case of the list that does not differ fails too.

mod compare;
mod cost;
mod federate;
mod metadata;
mod releases;

use std::collections::BTreeMap;
use std::sync::Arc;

use promkairos::api::proto::v1;
use promkairos::limits::THREAD_STACK_BYTES;
use promkairos::promql::{Features, NameRemoval, Names, Settings, Syntax};
use promkairos::storage::memory::MemoryStore;
use prost::Message;
use reqwest::Method;
use serde_json::Value as Json;

use super::super::support::memory;
use super::super::support::promkairos::{Backend, Promkairos};
use compare::{Answer, compare};

/// Reasons, and the cases that differ for them.
type List = &'static [(&'static str, &'static [&'static str])];

/// Why our answers differ on purpose, and in which cases.
const DIFFERENT: List = &[
    (
        "Go's logarithm on amd64 is wrong for subnormal numbers",
        &["requests function-021", "requests function-029"],
    ),
    (
        "it does not say which series comes first; ours are sorted",
        &["requests aggregation-157", "requests annotation-038", "requests limit-029"],
    ),
    ("its number of samples is garbage", &["requests range-042"]),
    ("it counts spans as they are stored, also empty ones", &["requests stats-024"]),
    ("a step of 0.1 ms, by which it divides as 0", &["requests step-009"]),
    (
        "metadata that was written is answered, not only what was scraped",
        &[
            "requests limit-015",
            "requests limit-023",
            "requests limit-031",
            "requests limit-039",
            "requests limit-047",
        ],
    ),
    (
        "a path that is none is not sent on to another that is none",
        &["requests path-008", "requests path-012", "requests path-014", "requests path-017"],
    ),
    (
        "it does not name the flag",
        &[
            "requests disabled-001",
            "requests disabled-002",
            "requests disabled-003",
            "requests disabled-004",
            "requests disabled-005",
            "requests disabled-006",
            "requests disabled-007",
            "requests disabled-008",
        ],
    ),
    ("OTLP is not taken", &["requests path-020", "requests disabled-011", "requests disabled-012"]),
    (
        "a label without a name, which it gives out or panics at",
        &["requests-experimental experimental-error-054", "requests-eager experimental-error-054"],
    ),
];

/// Further differences of Cassandra alone.
const ON_CASSANDRA: List = &[(
    "an index row says in which three weeks a series is, not when",
    &["requests series-030", "requests series-031", "requests series-032"],
)];

#[test]
fn over_the_memory_store() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(THREAD_STACK_BYTES)
        .enable_all()
        .build();
    runtime.expect("threads").block_on(async {
        let url = in_process(Settings::default(), Features::Stable).await;
        load(&url).await;
        replay(&url, "requests", 2930).await;
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn over_the_embedded_store() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    load(&server.url("")).await;
    replay(&server.url(""), "requests", 2930).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_a_cassandra_store() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(data.path(), &Backend::cassandra_store(), &[]).await;
    load(&server.url("")).await;
    replay_but(&server.url(""), "requests", 2930, ON_CASSANDRA).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_all_that_is_experimental() {
    let data = tempfile::tempdir().expect("a folder");
    // Start timestamps are used only where a request asks for them.
    let flags = ["--promql-experimental", "--use-start-timestamps=false"];
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    load(&server.url("")).await;
    replay(&server.url(""), "requests-experimental", 580).await;
    replay(&server.url(""), "requests-new", 150).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_names_removed_at_once() {
    let settings = Settings { name_removal: NameRemoval::AtOnce, ..Settings::default() };
    let url = in_process(settings, Features::Experimental).await;
    load(&url).await;
    replay(&url, "requests-eager", 9).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_names_of_all_scripts_without_quotes() {
    let syntax = Syntax { features: Features::Stable, names: Names::Unicode };
    let url = memory::serve(Arc::new(MemoryStore::new()), Settings::default(), syntax).await;
    load(&url).await;
    replay(&url, "requests-utf8", 114).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_types_and_units_as_labels() {
    let data = tempfile::tempdir().expect("a folder");
    let flags = ["--type-and-unit-labels"];
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    load(&server.url("")).await;
    replay(&server.url(""), "requests-typed", 48).await;
    server.process.kill();
    // A restart keeps the acknowledged series of the log, whatever the settings are by then.
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    let (_, values) = server.get("/api/v1/label/__unit__/values").await.expect("an answer");
    assert_eq!(values, r#"{"status":"success","data":["ms","seconds"]}"#);
    let rate = "/api/v1/query?query=rate(up%5B5m%5D)&time=1704068400";
    let (_, answer) = server.get(rate).await.expect("an answer");
    assert!(answer.contains("name does not end in"), "{answer}");
    server.process.kill();
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    replay(&server.url(""), "requests-typed", 48).await;
}

/// The URL of a server over an empty memory store.
pub(super) async fn in_process(settings: Settings, features: Features) -> String {
    memory::serve(Arc::new(MemoryStore::new()), settings, features).await
}

fn lines(file: &str) -> Vec<Json> {
    let path = format!("{}/tests/data/prometheus-3.16/{file}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect(&path);
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// Sends all requests of `writes.jsonl` to an empty server.
pub(super) async fn load(url: &str) {
    for case in lines("writes") {
        write_case(url, &case).await;
    }
}

/// Sends a request of `writes.jsonl`.
async fn write_case(url: &str, case: &Json) {
    let hex = case["proto_hex"].as_str().expect("a message");
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    let message: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    let body = promkairos::wire::snappy::compress(&message).expect("small");
    let mut request = reqwest::Client::new().post(format!("{url}/api/v1/write")).body(body);
    for (name, value) in case["headers"].as_object().expect("headers") {
        request = request.header(name, value.as_str().expect("a text"));
    }
    let answer = request.send().await.expect("an answer");
    assert_eq!(u64::from(answer.status().as_u16()), case["status"], "{}", case["id"]);
}

/// Sends a remote-write message.
async fn write(url: &str, message: &v1::WriteRequest) {
    let body = promkairos::wire::snappy::compress(&message.encode_to_vec()).expect("small");
    let request = reqwest::Client::new()
        .post(format!("{url}/api/v1/write"))
        .header("Content-Encoding", "snappy")
        .header("Content-Type", "application/x-protobuf")
        .body(body);
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.status().as_u16(), 204, "{:?}", answer.text().await);
}

/// Sends the request of each line of a file; panics with the differences.
async fn replay(url: &str, file: &str, count: usize) {
    replay_but(url, file, count, &[]).await;
}

/// Like [`replay`]; `also` lists further differences.
async fn replay_but(url: &str, file: &str, count: usize, also: List) {
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
    let http = http.expect("a client");
    let cases = lines(file);
    assert_eq!(cases.len(), count);
    let (mut wrong, mut kinds) = (Vec::new(), BTreeMap::new());
    for case in &cases {
        let id = case["id"].as_str().expect("a name");
        let answer = ask(&http, url, case).await;
        let differs = compare(case, &answer);
        let reason = reason(file, id, also);
        let (equal, total) = kinds.entry(case["cat"].as_str().expect("a kind")).or_insert((0, 0));
        (*equal, *total) = (*equal + usize::from(differs.is_ok()), *total + 1);
        match (differs, reason) {
            (Ok(()), None) | (Err(_), Some(_)) => {}
            (Ok(()), Some(reason)) => wrong.push(format!("{id} is equal; listed: {reason}")),
            (Err(why), None) => {
                wrong.push(format!("{id} {} {}\n{why}", case["path"], case["params"]));
            }
        }
    }
    let sum = |sum: (usize, usize), one: &(usize, usize)| (sum.0 + one.0, sum.1 + one.1);
    println!("{file}: {:?} of all, {kinds:?}", kinds.values().fold((0, 0), sum));
    assert!(wrong.is_empty(), "{} of {count} differ\n{}", wrong.len(), wrong.join("\n"));
}

/// Why a case differs, if it is listed.
fn reason(file: &str, id: &str, also: List) -> Option<&'static str> {
    let name = format!("{file} {id}");
    let listed =
        DIFFERENT.iter().chain(also).find(|(_, ids)| ids.iter().any(|listed| *listed == name));
    listed.map(|(reason, _)| *reason)
}

fn pairs(value: &Json) -> Vec<(&str, &str)> {
    let pairs = value.as_array().into_iter().flatten();
    pairs.map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
}

fn text(value: &Json) -> &str {
    value.as_str().expect("a text")
}

/// Sends a request as it was recorded.
async fn ask(http: &reqwest::Client, url: &str, case: &Json) -> Answer {
    let encoded = |part: &str| {
        form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs(&case[part])).finish()
    };
    let query = encoded("params");
    let separator = if query.is_empty() { "" } else { "?" };
    let path = case["path"].as_str().expect("a path");
    let method = case["method"].as_str().unwrap_or("GET");
    let method = Method::from_bytes(method.as_bytes()).expect("a method");
    let mut request = http.request(method, format!("{url}{path}{separator}{query}"));
    let headers = case["headers"].as_object();
    for (name, value) in headers.into_iter().flatten() {
        request = request.header(name, value.as_str().expect("a text"));
    }
    if case["form"].is_array() {
        if case["headers"]["Content-Type"].is_null() {
            request = request.header("Content-Type", "application/x-www-form-urlencoded");
        }
        request = request.body(encoded("form"));
    } else if let Some(body) = case["body"].as_str() {
        request = request.body(body.to_owned());
    }
    let response = request.send().await.expect("an answer");
    let status = u64::from(response.status().as_u16());
    let headers = response.headers().clone();
    let body = response.bytes().await.expect("a body");
    Answer::new(status, headers, &body, case)
}
