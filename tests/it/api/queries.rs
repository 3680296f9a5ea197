//! Queries over HTTP, as far as no recording of a Prometheus shows them: our limits, a store that is
//! not open, answers in zstd.

use promkairos::limits::MAX_QUERY_DEPTH;
use promkairos::promql::{Features, Settings};
use serde_json::Value as Json;

use super::recorded::{in_process, load};
use crate::support::promkairos::{Backend, Promkairos};

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

/// Walking a query recurses: its depth must never pass the stack.
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
