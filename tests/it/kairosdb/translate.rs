//! `promkairos translate`: the PromQL that it prints has the values that KairosDB's API answers, for random queries.
//!
//! The queries begin and end where a range does: for other ranges the command says what differs. They follow from the
//! seed, which is printed.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value as Json, json};

use crate::support::api::get;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::series::{floats, send};
use crate::support::{long, seed};

/// 2024-03-01T00:00:00Z.
const START: i64 = 1_709_251_200_000;
const HOUR: i64 = 3_600_000;
const NAMES: [&str; 2] = ["sent", "a b.c"];
const HOSTS: [&str; 4] = ["a", "b", "c.d", "c-d"];
/// A unit, its milliseconds, and the largest number of them in a range.
const UNITS: [(&str, i64, i64); 4] = [
    ("seconds", 1_000, 500),
    ("minutes", 60_000, 90),
    ("hours", HOUR, 5),
    ("milliseconds", 1, 900_000),
];
const TAGS: [Option<&str>; 6] = [
    None,
    Some(r#"{"host":"a"}"#),
    Some(r#"{"host":["b","c.d"]}"#),
    Some(r#"{"host":["a","regex:c.*"]}"#),
    Some(r#"{"data.center":"regex:.*"}"#),
    Some(r#"{"data.center":"x","host":"regex:[ab]"}"#),
];
const GROUPS: [&[&str]; 4] = [&[], &["host"], &["host", "data.center"], &["none"]];
const AFTER: [&str; 7] = [
    r#"{"name":"scale","factor":-2.5}"#,
    r#"{"name":"div","divisor":3}"#,
    r#"{"name":"filter","filter_op":"lt","threshold":10}"#,
    r#"{"name":"filter","filter_op":"lte","threshold":10}"#,
    r#"{"name":"filter","filter_op":"gt","threshold":10}"#,
    r#"{"name":"filter","filter_op":"equal","threshold":10}"#,
    r#"{"name":"filter","filter_op":"ne","threshold":10}"#,
];

/// Values by group and time.
type Values = BTreeMap<(BTreeMap<String, String>, i64), f64>;

fn random_series(random: &mut StdRng) -> Vec<promkairos::api::proto::v1::TimeSeries> {
    let mut all = Vec::new();
    for name in NAMES {
        for (host, center) in HOSTS.iter().zip(["x", "y", "x", ""]) {
            let mut points = Vec::new();
            let mut time = START + random.random_range(0..20_000);
            while time < START + 6 * HOUR {
                points.push((time, f64::from(random.random_range(-8..40)) / 2.0));
                time += random.random_range(1..90_000);
            }
            let mut labels = vec![("__name__", name), ("host", host)];
            labels.extend(Some(("data.center", center)).filter(|one| !one.1.is_empty()));
            all.push(floats(&labels, &points));
        }
    }
    all
}

fn one<T: Copy>(random: &mut StdRng, of: &[T]) -> T {
    of[random.random_range(0..of.len())]
}

/// A query whose ranges are whole, and the tags of its groups.
fn random_query(random: &mut StdRng) -> (Json, &'static [&'static str]) {
    let (unit, millis, most) = one(random, &UNITS);
    let value = random.random_range(1.max(most / 50)..=most);
    let length = value * millis;
    let count = random.random_range(1..=(5 * HOUR / length).clamp(1, 200));
    let fold = one(random, &["sum", "count", "min", "max", "avg"]);
    let range = json!({"name": fold, "align_start_time": true,
        "sampling": {"value": value, "unit": unit}});
    let mut aggregators = vec![range];
    while random.random_bool(0.4) {
        aggregators.push(serde_json::from_str(one(random, &AFTER)).expect("JSON"));
    }
    let groups = one(random, &GROUPS);
    let mut metric = json!({"name": one(random, &NAMES), "aggregators": aggregators});
    if !groups.is_empty() {
        metric["group_by"] = json!([{"name": "tag", "tags": groups}]);
    }
    if let Some(tags) = one(random, &TAGS) {
        metric["tags"] = serde_json::from_str(tags).expect("JSON");
    }
    // KairosDB counts ranges from a midnight.
    let query = json!({"start_absolute": START, "end_absolute": START + count * length - 1,
        "time_zone": "UTC", "metrics": [metric]});
    (query, groups)
}

/// The exit code of the command, and what it prints.
fn translate(query: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_promkairos"));
    command.args(["translate", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(query.as_bytes()).expect("it reads");
    let done = child.wait_with_output().expect("it ends");
    (done.status.code(), String::from_utf8(done.stdout).expect("UTF-8"))
}

/// What KairosDB's API answers.
async fn theirs(server: &Promkairos, query: &Json) -> Values {
    let body = reqwest::Client::new().post(server.url("/api/v1/datapoints/query"));
    let answer = body.body(query.to_string()).send().await.expect("it answers");
    let text = answer.text().await.expect("a body");
    let answer: Json = serde_json::from_str(&text).expect(&text);
    let mut values = Values::new();
    for result in answer["queries"][0]["results"].as_array().expect(&text) {
        let group = result["group_by"].as_array().into_iter().flatten();
        let group = group.filter_map(|one| one["group"].as_object()).flatten();
        let group: BTreeMap<String, String> = group
            .map(|(name, value)| (name.clone(), value.as_str().expect("a text").to_owned()))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        for point in result["values"].as_array().expect(&text) {
            let (time, value) = (point[0].as_i64(), point[1].as_f64());
            values.insert((group.clone(), time.expect("a time")), value.expect("a number"));
        }
    }
    values
}

/// What the printed request answers.
async fn ours(server: &Promkairos, printed: &str) -> Values {
    let request = printed.lines().find_map(|line| line.strip_prefix("# range query: "));
    let mut parameters: Vec<(&str, &str)> =
        request.expect(printed).split(' ').filter_map(|one| one.split_once('=')).collect();
    parameters.push(("query", printed.lines().last().expect(printed)));
    let (status, answer) = get(&server.url("/api/v1/query_range"), &parameters).await;
    assert_eq!(status, 200, "{printed}{answer}");
    let mut values = Values::new();
    for result in answer["data"]["result"].as_array().expect("a matrix") {
        let group: BTreeMap<String, String> =
            serde_json::from_value(result["metric"].clone()).expect("labels");
        for point in result["values"].as_array().expect("values") {
            let time = (point[0].as_f64().expect("a time") * 1_000.0).round() as i64;
            let value = point[1].as_str().expect("a text").parse().expect("a number");
            values.insert((group.clone(), time), value);
        }
    }
    values
}

#[tokio::test]
async fn promql_has_the_values_of_the_query() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let data = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &[]).await;
    assert_eq!(send(&server.url(""), random_series(&mut random)).await, 204);
    let mut compared = 0;
    for _ in 0..if long() { 2_000 } else { 150 } {
        let (query, groups) = random_query(&mut random);
        let (code, printed) = translate(&query.to_string());
        assert_eq!(code, Some(0), "seed {seed}: {query}\n{printed}");
        let (theirs, ours) = (theirs(&server, &query).await, ours(&server, &printed).await);
        let keys = |values: &Values| values.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&theirs), keys(&ours), "seed {seed}: {query} by {groups:?}\n{printed}");
        for (key, want) in &theirs {
            let near = (want - ours[key]).abs() <= 1e-9 * want.abs().max(1.0);
            assert!(near, "seed {seed}: {query}\n{printed}{key:?}: {want} and {}", ours[key]);
        }
        compared += theirs.len();
    }
    assert!(compared > 1_000, "{compared}");
    // The points as they are stored.
    let query = json!({"start_absolute": START, "end_absolute": START + HOUR,
        "metrics": [{"name": "sent", "tags": {"host": "a"}}]});
    let printed = translate(&query.to_string()).1;
    let time = printed.lines().find_map(|line| line.strip_prefix("# instant query: time="));
    let parameters =
        [("time", time.expect(&printed)), ("query", printed.lines().last().expect("a line"))];
    let (_, answer) = get(&server.url("/api/v1/query"), &parameters).await;
    let points = answer["data"]["result"][0]["values"].as_array().map(Vec::len);
    assert_eq!(points, Some(theirs(&server, &query).await.len()), "{printed}");
}

#[tokio::test]
async fn what_has_no_promql_says_why() {
    let query = r#"{"start_absolute":0,"metrics":[{"name":"a"},{"name":"b","limit":5}]}"#;
    let (code, printed) = translate(query);
    assert_eq!(code, Some(1));
    assert!(printed.ends_with("# \"b\"\n# no PromQL: limit has no counterpart\n"), "{printed}");
    assert_eq!(translate("{").0, Some(2));
}
