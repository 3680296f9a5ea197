//! Paths that are not clean, and multipart forms, answered as a real Prometheus 3.16 answered them. Its answer to a
//! trailing slash is not copied: that answer redirects to a path that does not exist.
//!
//! Requests are written by hand, since clients clean paths, and in HTTP/1.0, so that bodies are not chunked.

use promkairos::promql::{Features, Settings};
use serde_json::Value as Json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::recorded::in_process;
use crate::support::series::{floats, send};

const RECORDED: &str = include_str!("../../data/prometheus-3.16/paths-and-forms.jsonl");

/// An answer to a request that was written by hand.
struct Answer {
    status: u64,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

async fn ask(url: &str, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let address = url.strip_prefix("http://").expect("an address");
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: h\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Answer { status: status.expect("a status"), head: head.to_owned(), body: body.to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_prometheus() {
    let url = in_process(Settings::default(), Features::Stable).await;
    let points: Vec<(i64, f64)> =
        (0..121).map(|i| (1_704_067_200_000 + i * 15_000, i as f64)).collect();
    let plain = [("__name__", "plain"), ("instance", "x"), ("job", "a")];
    let other = [("__name__", "other"), ("le", "1")];
    let series = vec![floats(&plain, &points), floats(&other, &points)];
    assert_eq!(send(&url, series).await, 204);
    let mut count = 0;
    for line in RECORDED.lines() {
        let case: Json = serde_json::from_str(line).expect(line);
        let pairs = case["params"].as_array().into_iter().flatten();
        let pairs: Vec<(&str, &str)> = pairs
            .map(|pair| (pair[0].as_str().expect("a text"), pair[1].as_str().expect("a text")))
            .collect();
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(&pairs).finish();
        let path = case["path"].as_str().expect("a path");
        let path = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        let mut headers = String::new();
        for (name, value) in case["headers"].as_object().into_iter().flatten() {
            headers += &format!("{name}: {}\r\n", value.as_str().expect("a text"));
        }
        let method = case["method"].as_str().unwrap_or("GET");
        let body = case["body"].as_str().unwrap_or_default();
        let got = ask(&url, method, &path, &headers, body).await;
        assert_eq!(got.status, case["status"], "{line}\n{}", got.body);
        assert_eq!(got.header("location"), case["location_header"].as_str(), "{line}");
        if case["compare"] != "status" {
            let got: Json = serde_json::from_str(&got.body).expect("JSON");
            assert_eq!(got, case["json"], "{line}");
        }
        count += 1;
    }
    assert_eq!(count, 23);
}

#[tokio::test]
async fn a_slash_at_the_end_leads_to_the_path_without() {
    let url = in_process(Settings::default(), Features::Stable).await;
    for (method, path, location) in [
        ("POST", "/api/v1/write/", "/api/v1/write"),
        ("PUT", "/api/v1/read/", "/api/v1/read"),
        ("GET", "/api/v1/query/?query=up%2F", "/api/v1/query?query=up%2F"),
        ("GET", "/api/v1/label/a%2Fb/values/", "/api/v1/label/a%2Fb/values"),
        ("HEAD", "/-/healthy/", "/-/healthy"),
        ("GET", "/federate/", "/federate"),
        ("POST", "/api/v1/admin/tsdb/delete_series/", "/api/v1/admin/tsdb/delete_series"),
        ("POST", "//api/v1/write/", "/api/v1/write/"),
    ] {
        let answer = ask(&url, method, path, "", "").await;
        assert_eq!((answer.status, answer.header("location")), (307, Some(location)), "{path}");
    }
    for path in ["/api/", "/api/v1/", "/api/v1/status/", "/nowhere/"] {
        assert_eq!(ask(&url, "GET", path, "", "").await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn no_redirect_leaves_the_server() {
    let url = in_process(Settings::default(), Features::Stable).await;
    for (path, location) in [
        ("//evil.example/", "/evil.example/"),
        ("///evil.example/api/v1/query", "/evil.example/api/v1/query"),
        ("//evil.example/..//evil.example", "/evil.example"),
        ("/.//evil.example", "/evil.example"),
        ("//\\evil.example/", "/%5Cevil.example/"),
        ("/\\/evil.example//a", "/%5C/evil.example/a"),
        ("http://evil.example//api/v1/query", "/api/v1/query"),
    ] {
        let answer = ask(&url, "GET", path, "", "").await;
        assert_eq!((answer.status, answer.header("location")), (307, Some(location)), "{path}");
        assert!(answer.body.contains(&format!("href=\"{location}\"")), "{}", answer.body);
    }
    let answer = ask(&url, "GET", "//a?b=\"'<script>&", "", "").await;
    assert!(answer.status == 400 || !answer.body.contains('\''), "{}", answer.body);
}

/// Writes to a base URL with a trailing slash arrive, from a client that follows redirects.
#[tokio::test]
async fn clients_that_follow_lose_nothing() {
    let url = in_process(Settings::default(), Features::Stable).await;
    let point = [(1_704_067_200_000, 1.0)];
    for (at, base) in [("a", "/"), ("b", "//"), ("c", "///")] {
        let series = vec![floats(&[("__name__", "up"), ("at", at)], &point)];
        assert_eq!(send(&format!("{url}{base}"), series).await, 204, "{base}");
    }
    let found = ask(&url, "GET", "/api/v1/label/at/values", "", "").await;
    assert_eq!(found.body, r#"{"status":"success","data":["a","b","c"]}"#);
}
