//! `--kairosdb-listen`: KairosDB's API on an address of its own; and its deletes. No KairosDB is needed.

use serde_json::{Value as Json, json};

use crate::support::eventually;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::series::{floats, send};

/// A stale marker.
const STALE: u64 = 0x7ff0_0000_0000_0002;
const FLAG: &str = "--kairosdb-listen=127.0.0.1:0";

/// The URL that the log names.
async fn kairosdb_url(server: &Promkairos) -> String {
    logged_address(server, "KairosDB's API is served on ").await
}

/// What follows this text in a line of the log.
pub(super) async fn logged_address(server: &Promkairos, text: &str) -> String {
    eventually("the log names the address", async || {
        let log = server.process.log();
        let line = log.lines().find_map(|line| line.split_once(text));
        line.map(|(_, address)| address.trim().to_owned()).ok_or(log)
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

/// The tags that are left of a metric: `{"host":[...]}`.
async fn tags(server: &Promkairos, metric: &str) -> Json {
    let query = json!({"start_absolute": 0, "metrics": [{"name": metric}]});
    let url = server.url("/api/v1/datapoints/query");
    let (status, text) = ask(&url, Some(&query)).await;
    assert_eq!(status, 200, "{text}");
    let answer: Json = serde_json::from_str(&text).expect("JSON");
    answer["queries"][0]["results"][0]["tags"].clone()
}

async fn delete(server: &Promkairos, path: &str) -> (u16, String) {
    let answer = reqwest::Client::new().delete(server.url(path)).send().await.expect("it answers");
    (answer.status().as_u16(), answer.text().await.expect("a text"))
}

#[tokio::test]
async fn deletes_need_the_admin_api_and_delete_what_a_query_means() {
    for backend in [Backend::Embedded, Backend::cassandra_store()] {
        let data = tempfile::tempdir().expect("a folder");
        let mut server = Promkairos::ready(data.path(), &backend, &[]).await;
        let series = |metric: &str, host: &str| {
            floats(&[("__name__", metric), ("host", host)], &[(1_000, 1.0), (5_000, 2.0)])
        };
        let all = ["a", "b", "c"].map(|host| series("one", host)).into_iter();
        let all = all.chain([series("two", "a")]).collect();
        assert_eq!(send(&server.url(""), all).await, 204);
        let some =
            |tags: Json| json!({"start_absolute": 0, "metrics": [{"name": "one", "tags": tags}]});
        let url = |server: &Promkairos| server.url("/api/v1/datapoints/delete");
        let hosts = |hosts: &[&str]| json!({"host": hosts});
        let why = json!({"errors": ["Forbidden: --enable-admin-api of the server allows deletes"]});
        let refused = ask(&url(&server), Some(&some(json!({"host": "a"})))).await;
        assert_eq!(refused, (403, why.to_string()));
        assert_eq!(delete(&server, "/api/v1/metric/one").await, (403, why.to_string()));
        assert_eq!(tags(&server, "one").await, hosts(&["a", "b", "c"]));
        assert!(server.process.terminate().success());

        let server = Promkairos::ready(data.path(), &backend, &["--enable-admin-api"]).await;
        assert_eq!(ask(&url(&server), Some(&json!({"metrics": [{"name": "one"}]}))).await.0, 400);
        assert_eq!(tags(&server, "one").await, hosts(&["a", "b", "c"]));
        let done = (204, String::new());
        assert_eq!(ask(&url(&server), Some(&some(json!({"host": ["a", "c"]})))).await, done);
        assert_eq!(tags(&server, "one").await, hosts(&["b"]));
        for path in ["/api/v1/metric/two", "/api/v1/metric/unknown"] {
            assert_eq!(delete(&server, path).await, done, "{path}");
        }
        assert_eq!(tags(&server, "two").await, json!({}));
        assert_eq!(tags(&server, "one").await, hosts(&["b"]));
        deletes_by_expressions(&server).await;
    }
}

/// Deletes whose filters have regular expressions.
async fn deletes_by_expressions(server: &Promkairos) {
    let url = server.url("/api/v1/datapoints/delete");
    let series = [("h1", "x"), ("h2", "x"), ("h.2", "y"), ("hx2", "y"), ("other", "x")];
    let series = series.map(|(host, dc)| {
        floats(&[("__name__", "re"), ("host", host), ("dc", dc)], &[(1_000, 1.0), (5_000, 2.0)])
    });
    assert_eq!(send(&server.url(""), series.into()).await, 204);
    let delete = async |name: &str, tags: Json, end: u64| {
        let metric = json!({"name": name, "tags": tags});
        let query = json!({"start_absolute": 0, "end_absolute": end, "metrics": [metric]});
        ask(&url, Some(&query)).await
    };
    let left = async || tags(server, "re").await["host"].clone();
    let invalid = delete("re", json!({"host": "regex:("}), 9_000).await;
    assert_eq!(invalid.0, 400, "{invalid:?}");
    let all = json!(["h.2", "h1", "h2", "hx2", "other"]);
    let done = (204, String::new());
    for (name, tags) in [
        ("re", json!({"host": "regex:h"})),
        ("re", json!({"host": "regex:h.*", "none": "regex:.*"})),
        ("no_such_metric", json!({"host": "regex:.*"})),
    ] {
        assert_eq!(delete(name, tags.clone(), 9_000).await, done, "{name} {tags}");
        assert_eq!(left().await, all, "{name} {tags}");
    }
    // The range is that of the query.
    assert_eq!(delete("re", json!({"host": "regex:h.*"}), 4_000).await, done);
    assert_eq!(left().await, all);
    // The value that matches is no expression itself, and both filters hold.
    assert_eq!(delete("re", json!({"host": "regex:h[.]2", "dc": ["y", "z"]}), 9_000).await, done);
    assert_eq!(left().await, json!(["h1", "h2", "hx2", "other"]));
    assert_eq!(delete("re", json!({"host": ["other", "regex:h[12]"]}), 9_000).await, done);
    assert_eq!(left().await, json!(["hx2"]));
}

#[tokio::test]
async fn a_delete_of_very_many_values_leaves_a_log_that_can_be_read() {
    let data = tempfile::tempdir().expect("a folder");
    let flags = ["--enable-admin-api"];
    let mut server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    let series = floats(&[("__name__", "one"), ("host", "a.b")], &[(1_000, 1.0)]);
    assert_eq!(send(&server.url(""), vec![series]).await, 204);
    let url = server.url("/api/v1/datapoints/delete");
    for count in [100, 16_000] {
        let hosts: Vec<String> = (0..count).map(|at| format!("h{at}.b-#*")).collect();
        let query =
            json!({"start_absolute": 0, "metrics": [{"name": "one", "tags": {"host": hosts}}]});
        let (status, text) = ask(&url, Some(&query)).await;
        let refused = status == 400 && text.contains("too many values of a tag at a time");
        assert!(status == 204 || count > 100 && refused, "{count}: {status} {text}");
    }
    server.process.kill();
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    assert_eq!(tags(&server, "one").await, json!({"host": ["a.b"]}));
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
