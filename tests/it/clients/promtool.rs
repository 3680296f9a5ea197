//! `promtool`, the command line of Prometheus, over both stores: every kind of query, and its check of the names
//! and help texts of our own metrics.

use std::io::Write;
use std::process::{Command, Stdio};

use super::busy;
use crate::support;
use crate::support::promkairos::{Backend, Promkairos};

const END: i64 = 1_700_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn over_embedded() {
    queries(&Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_cassandra() {
    queries(&Backend::cassandra_store()).await;
}

/// The output of `promtool query`, or its error.
fn promtool(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(support::promtool_binary()).arg("query").args(arguments).output();
    let output = output.expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}

async fn queries(backend: &Backend) {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(folder.path(), backend, &[]).await;
    busy(&server, END * 1000).await;
    let url = server.url("");
    let (start, end) = (format!("--start={}", END - 60), format!("--end={END}"));
    let time = format!("--time={END}");
    for (arguments, want) in [
        (vec!["instant", &time, &url, "sum by (job) (busy)"], "{job=\"api\"} => 1 @[1700000000]\n"),
        (
            vec!["instant", &time, "-o", "json", &url, "busy == 0"],
            "[{\"metric\":{\"__name__\":\"busy\",\"instance\":\"b\",\"job\":\"api\"},\
             \"value\":[1700000000,\"0\"]}]\n",
        ),
        (
            vec!["range", &start, &end, "--step=30s", &url, "sum(busy)"],
            "{} =>\n1 @[1699999940]\n1 @[1699999970]\n1 @[1700000000]\n",
        ),
        (
            vec!["series", &start, &end, "--match=busy", "--match={instance=\"b\"}", &url],
            "{__name__=\"busy\", instance=\"a\", job=\"api\"}\n\
             {__name__=\"busy\", instance=\"b\", job=\"api\"}\n",
        ),
        (vec!["labels", &start, &end, &url, "instance"], "a\nb\n"),
        (vec!["labels", &start, &end, "--match=busy", &url, "job"], "api\n"),
    ] {
        assert_eq!(promtool(&arguments).as_deref(), Ok(want), "{arguments:?}");
    }
    let error = promtool(&["instant", &url, "sum("]).expect_err("not a query");
    let want = "bad_data: invalid parameter \"query\": 1:5: parse error: unclosed left parenthesis";
    assert!(error.contains(want), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_has_no_complaint_of_the_metrics_over_embedded() {
    metrics(&Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_has_no_complaint_of_the_metrics_over_cassandra() {
    metrics(&Backend::cassandra_store()).await;
}

/// The complaints of `promtool check metrics` about a page; empty without any.
fn complaints(page: &str) -> String {
    let mut command = Command::new(support::promtool_binary());
    command.args(["check", "metrics"]).stdin(Stdio::piped());
    let mut checking =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut stdin = checking.stdin.take().expect("piped");
    stdin.write_all(page.as_bytes()).expect("it reads");
    drop(stdin);
    let output = checking.wait_with_output().expect("it ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.success(), said.is_empty(), "{said}");
    said
}

async fn metrics(backend: &Backend) {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(folder.path(), backend, &[]).await;
    // Some metrics exist only after the first count.
    busy(&server, END * 1000).await;
    for (path, want) in [("/api/v1/query?query=busy", 200), ("/nowhere", 404)] {
        assert_eq!(server.get(path).await.expect("an answer").0, want, "{path}");
    }
    let (status, page) = server.get("/metrics").await.expect("an answer");
    assert!(status == 200 && page.contains("promkairos_queries_total"), "{page}");
    assert_eq!(complaints(&page), "");
    let badly_named = page
        + "# HELP requestsTotal of any kind\n# TYPE requestsTotal gauge\n\
                              requestsTotal 1\n";
    assert!(complaints(&badly_named).contains("requestsTotal"), "it looks at the page");
}
