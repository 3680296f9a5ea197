//! `promtool query`, the command line of Prometheus: every kind of query, over both stores.

use std::process::Command;

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

/// What it printed, or said of an error.
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
