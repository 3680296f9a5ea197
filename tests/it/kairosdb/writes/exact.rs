//! Integers that no double can be: they outlive a kill, a flush and copies between the stores, and KairosDB has them in
//! the same rows.

use std::path::Path;
use std::process::Command;

use promkairos::kairos::TimeUnit;
use serde_json::json;

use super::bodies::JSON;
use super::post;
use crate::kairosdb::both_ways::{AT, Both, tags, unique};
use crate::support::kairosdb::KairosSeries;
use crate::support::promkairos::{Backend, Promkairos, WHOLE_FLUSH};
use crate::support::{self, api, eventually};

/// 2^53 + 1.
const ODD: i64 = (1 << 53) + 1;
const LARGE: [i64; 3] = [ODD, i64::MIN, i64::MAX];
/// More than a chunk has.
const POINTS: i64 = 300;
const METRIC: &str = "longs";

/// Longs and doubles in turn: their times, the JSON of each, and its nearest double.
fn points() -> Vec<(i64, String, f64)> {
    let point = |n: i64| {
        let time = AT + 1_000 * n;
        if n % 2 == 1 {
            return (time, format!("{n}.5"), n as f64 + 0.5);
        }
        let large = usize::try_from(n / 2).ok().and_then(|at| LARGE.get(at).copied());
        let long = large.unwrap_or(n);
        (time, long.to_string(), long as f64)
    };
    (0..POINTS).map(point).collect()
}

/// The points as KairosDB's API takes and returns them.
fn listed(points: &[(i64, String, f64)]) -> String {
    let points: Vec<String> =
        points.iter().map(|(time, json, _)| format!("[{time},{json}]")).collect();
    format!("[{}]", points.join(","))
}

async fn write(server: &Promkairos, body: &str) {
    let url = server.url("/api/v1/datapoints");
    assert_eq!(post(&url, JSON, body.as_bytes()).await, (204, String::new()), "{body}");
}

/// Asserts that the server has all points, for KairosDB's API and for PromQL.
async fn has_all(server: &Promkairos, when: &str) {
    let points = points();
    let query = json!({"start_absolute": 0, "metrics": [{"name": METRIC}]}).to_string();
    let url = server.url("/api/v1/datapoints/query");
    let values = listed(&points);
    let group = r#"[{"name":"type","type":"number"}]"#;
    let result = format!(
        r#"{{"name":"{METRIC}","group_by":{group},"tags":{{"host":["a"]}},"values":{values}}}"#
    );
    let want = format!(r#"{{"queries":[{{"sample_size":{POINTS},"results":[{result}]}}]}}"#);
    assert_eq!(post(&url, JSON, query.as_bytes()).await, (200, want), "{when}");

    let (range, time) = (format!("{METRIC}[1h]"), (AT / 1_000 + POINTS).to_string());
    let asked = [("query", range.as_str()), ("time", time.as_str())];
    let (status, answer) = api::get(&server.url("/api/v1/query"), &asked).await;
    assert_eq!(status, 200, "{when}: {answer}");
    let values = answer["data"]["result"][0]["values"].as_array().expect("values").iter();
    let found: Vec<f64> =
        values.map(|value| value[1].as_str().expect("a text").parse().expect("a number")).collect();
    let doubles: Vec<f64> = points.iter().map(|(_, _, double)| *double).collect();
    assert_eq!(found, doubles, "{when}");
}

/// Copies all points, which must be the same on both sides.
fn copy(folder: &Path, from: &str, to: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_promkairos"));
    // Creating tables is slow on a busy machine.
    command.env("PROMKAIROS_CASSANDRA_REQUEST_TIMEOUT", "100s");
    command.current_dir(folder).args(["copy", "--from", from, "--to", to]);
    let output = command.output().expect("it runs");
    let [report, why] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{report}{why}");
    let same = format!("The same on both sides: {POINTS} points");
    assert!(report.contains(&same), "{report}{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn integers_survive_kill_flush_and_copy() {
    let folder = tempfile::tempdir().expect("a folder");
    let [data, over, back] = ["data", "over", "back"].map(|name| folder.path().join(name));
    let embedded = Backend::Embedded;
    let mut server = Promkairos::ready(&data, &embedded, &[]).await;
    for part in points().chunks(100) {
        let head = format!(r#""name":"{METRIC}","tags":{{"host":"a"}}"#);
        write(&server, &format!(r#"[{{{head},"datapoints":{}}}]"#, listed(part))).await;
    }
    has_all(&server, "after the writes").await;
    server.process.kill();
    for when in ["after the kill", "after a flush"] {
        let mut server = Promkairos::ready(&data, &embedded, &[WHOLE_FLUSH]).await;
        has_all(&server, when).await;
        assert!(server.process.terminate().success(), "{}", server.process.log());
    }

    let (address, keyspace) = (support::cassandra(), support::keyspace());
    let there = format!("cassandra:{address}/{keyspace}");
    copy(folder.path(), &format!("embedded:{}", data.display()), &there);
    let cassandra = Backend::CassandraStore { address, keyspace };
    let flags = ["--cassandra-request-timeout=100s"];
    let server = Promkairos::ready(&over, &cassandra, &flags).await;
    has_all(&server, "in Cassandra").await;
    drop(server);
    copy(folder.path(), &there, &format!("embedded:{}", back.display()));
    has_all(&Promkairos::ready(&back, &embedded, &[]).await, "after both copies").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn points_of_kairosdb_and_promkairos_lie_in_the_same_rows() {
    let both = Both::start_with(TimeUnit::Milliseconds, &[]).await;
    let metric = &unique("rows");
    let body = |points: &str| {
        let tags = json!(tags());
        format!(r#"[{{"name":"{metric}","tags":{tags},"datapoints":{points}}}]"#)
    };
    // KairosDB would write the double as 1.0E7, which is no integer of JSON.
    let ours = [(AT, json!(ODD)), (AT + 1, json!(10_000_000))];
    write(&both.server, &body(&json!(ours).to_string())).await;
    let is_ours = |all: &[KairosSeries]| all.len() == 1 && all[0].values == ours;
    both.kairosdb.query_until(metric, &["instance"], is_ours).await;

    both.kairosdb.ingest(metric, &tags(), "long", &[(AT + 2, json!(-ODD))]).await;
    let shows = async |theirs: i64| {
        let query = json!({"start_absolute": 0, "metrics": [{"name": metric}]}).to_string();
        let url = both.server.url("/api/v1/datapoints/query");
        let values = json!([ours[0], ours[1], (AT + 2, theirs)]).to_string();
        let (status, text) = post(&url, JSON, query.as_bytes()).await;
        let is_right = status == 200 && text.contains(&format!(r#""values":{values}}}"#));
        if is_right { Ok(()) } else { Err(format!("{status} {text}, without {values}")) }
    };
    eventually("promkairos has the point of KairosDB", async || shows(-ODD).await).await;

    // The later write of two in one cell wins. A repeat by KairosDB may be the later one; then ours is sent again.
    eventually("our later write wins", async || {
        write(&both.server, &body(&json!([(AT + 2, 7)]).to_string())).await;
        shows(7).await?;
        let all = both.kairosdb.query(metric, &[], &["instance"]).await?;
        let values = all.into_iter().flat_map(|series| series.values);
        let found: Vec<_> = values.filter(|(time, _)| *time == AT + 2).collect();
        if found == [(AT + 2, json!(7))] { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}
