//! `vmalert` over both stores: it evaluates a recording and an alerting rule by queries and writes the
//! results back by remote write.
//!
//! The state of alerts after a restart is not tested: vmalert restores it with `default_rollup`, a function
//! that only VictoriaMetrics has.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value as Json, json};

use super::busy;
use crate::support::process::Process;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::{self, api, eventually};

/// Rules over the series that [`busy`] writes.
const RULES: &str = "
groups:
- name: g
  interval: 1s
  rules:
  - record: busy:sum
    expr: sum by (job) (busy)
    labels: {origin: rule}
  - alert: Busy
    expr: busy > 0
    for: 1s
    labels: {severity: page}
    annotations: {summary: '{{ $labels.instance }} is busy'}
";

/// Milliseconds since 1970.
fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(now.as_millis()).expect("far from the end")
}

#[tokio::test(flavor = "multi_thread")]
async fn over_embedded() {
    rules(&Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_cassandra() {
    rules(&Backend::cassandra_store()).await;
}

async fn rules(backend: &Backend) {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(&folder.path().join("data"), backend, &[]).await;
    busy(&server, now_ms()).await;
    let file = folder.path().join("rules.yml");
    std::fs::write(&file, RULES).expect("written");
    let url = server.url("");
    let mut command = Command::new(support::vmalert_binary());
    command
        .args([format!("-datasource.url={url}"), format!("-remoteWrite.url={url}")])
        .args([format!("-rule={}", file.display())])
        .args(["-notifier.blackhole", "-httpListenAddr=127.0.0.1:0", "-rule.evalDelay=0s"])
        .args(["-remoteWrite.flushInterval=100ms"]);
    let mut vmalert = Process::start("vmalert", &mut command);
    let address = vmalert.wait_for_line("its address", |line| {
        line.split_once("started server at http://")?.1.trim_end_matches('/').parse().ok()
    });
    let address: SocketAddr = address.unwrap_or_else(|log| panic!("{log}"));
    let alert = eventually("the alert fires", async || {
        let (_, answer) = api::get(&format!("http://{address}/api/v1/alerts"), &[]).await;
        let alert = &answer["data"]["alerts"][0];
        (alert["state"] == "firing").then(|| alert.clone()).ok_or_else(|| answer.to_string())
    })
    .await;
    assert_eq!(alert["labels"]["instance"], "a", "{alert}");
    assert_eq!(alert["annotations"]["summary"], "a is busy");
    for (query, metric) in [
        ("busy:sum == 1", json!({ "__name__": "busy:sum", "job": "api", "origin": "rule" })),
        (
            "ALERTS{alertstate=\"firing\"} == 1",
            json!({
                "__name__": "ALERTS", "alertgroup": "g", "alertname": "Busy",
                "alertstate": "firing", "instance": "a", "job": "api", "severity": "page"
            }),
        ),
    ] {
        assert_eq!(written_back(&server, query).await, metric, "{query}");
    }
    let since = "ALERTS_FOR_STATE < time() + 1 > time() - 600";
    assert_eq!(written_back(&server, since).await["alertname"], "Busy");
}

/// Waits until a query returns one series; returns its labels.
async fn written_back(server: &Promkairos, query: &str) -> Json {
    eventually(query, async || {
        let (status, answer) = api::get(&server.url("/api/v1/query"), &[("query", query)]).await;
        assert_eq!(status, 200, "{answer}");
        let result = answer["data"]["result"].as_array().cloned().unwrap_or_default();
        match &*result {
            [one] => Ok(one["metric"].clone()),
            _ => Err(answer.to_string()),
        }
    })
    .await
}
