//! `--kairosdb-listen`: KairosDB's API on an address of its own. No KairosDB is needed.

use serde_json::{Value as Json, json};

use crate::support::eventually;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::series::{floats, send};

/// A stale marker.
const STALE: u64 = 0x7ff0_0000_0000_0002;
const FLAG: &str = "--kairosdb-listen=127.0.0.1:0";

/// The URL that the log names.
async fn kairosdb_url(server: &Promkairos) -> String {
    eventually("the log names the address", async || {
        let log = server.process.log();
        let line = log.lines().find_map(|line| line.split_once("KairosDB's API is served on "));
        line.map(|(_, url)| url.trim().to_owned()).ok_or(log)
    })
    .await
}

async fn ask(url: &str, body: Option<&Json>) -> (u16, String) {
    let client = reqwest::Client::new();
    let request = match body {
        Some(body) => client.post(url).body(body.to_string()),
        None => client.get(url),
    };
    let answer = request.send().await.expect("it answers");
    (answer.status().as_u16(), answer.text().await.expect("a text"))
}

#[tokio::test]
async fn it_serves_the_api_of_kairosdb_alone_and_drains() {
    let data = tempfile::tempdir().expect("a folder");
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &[FLAG]).await;
    let url = kairosdb_url(&server).await;
    let values = [1.0, f64::NAN, f64::INFINITY, 2.5, f64::from_bits(STALE)];
    let points: Vec<(i64, f64)> = (1..).map(|at| at * 1_000).zip(values).collect();
    let series = floats(&[("__name__", "up"), ("job", "a")], &points);
    assert_eq!(send(&server.url(""), vec![series]).await, 204);
    // What JSON cannot say, and a KairosDB does not see, is left out.
    let query = json!({"start_absolute": 0, "metrics": [{"name": "up"}]});
    let want = json!({"queries": [{"sample_size": 2, "results": [{
        "name": "up",
        "group_by": [{"name": "type", "type": "number"}],
        "tags": {"job": ["a"]},
        "values": [[1_000, 1], [4_000, 2.5]],
    }]}]});
    for url in [&url, &server.url("")] {
        let (status, text) = ask(&format!("{url}/api/v1/datapoints/query"), Some(&query)).await;
        assert_eq!((status, serde_json::from_str(&text).ok()), (200, Some(want.clone())), "{text}");
        assert_eq!(ask(&format!("{url}/api/v1/health/check"), None).await.0, 204);
    }
    for path in ["/api/v1/query?query=up", "/metrics", "/-/ready", "/api/v1/write", "/"] {
        assert_eq!(ask(&format!("{url}{path}"), None).await.0, 404, "{path}");
    }
    let metrics = ask(&server.url("/metrics"), None).await.1;
    let counted = "promkairos_queries_total{kind=\"kairosdb\",outcome=\"ok\"} 2\n";
    assert!(metrics.contains(counted), "{metrics}");
    let ended = server.process.terminate();
    assert!(ended.success(), "{}", server.process.log());
    reqwest::get(&url).await.expect_err("it no longer listens");
}

#[tokio::test]
async fn an_address_that_is_taken_ends_the_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let flag = format!("--kairosdb-listen={}", taken.local_addr().expect("bound"));
    let data = tempfile::tempdir().expect("a folder");
    let started = Promkairos::try_start(data.path(), &Backend::Embedded, &[&flag]);
    let log = started.err().expect("the address is taken");
    assert!(log.contains("cannot listen on "), "{log}");
}
