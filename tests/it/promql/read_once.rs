//! The number of reads of a query from Cassandra, by the server's own count of statements.

use crate::support::api;
use crate::support::promkairos::{Backend, Promkairos, statements};
use crate::support::series::{floats, send};

const START: i64 = 1_700_000_000;

/// The number of statements that read the points of rows.
async fn reads_of_points(server: &Promkairos) -> u64 {
    let (status, text) = api::send(reqwest::Method::GET, &server.url("/metrics"), &[], None).await;
    assert_eq!(status, 200, "{text}");
    statements(&text, "select_points")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_selector_is_read_once() {
    let folder = tempfile::tempdir().expect("a folder");
    // Without a cache, each query reads the points again.
    let flags = ["--cassandra-read-cache-size=0"];
    let server = Promkairos::ready(folder.path(), &Backend::cassandra_store(), &flags).await;
    let points: Vec<(i64, f64)> =
        (0..41).map(|at| ((START + at * 15) * 1000, at as f64 + 1.0)).collect();
    let series = (0..20).map(|number| {
        floats(&[("__name__", "requests_total"), ("instance", &number.to_string())], &points)
    });
    assert_eq!(send(&server.url(""), series.collect()).await, 204);
    let mut reads = Vec::new();
    let once = "requests_total";
    let thrice = "requests_total / requests_total + rate(requests_total[1m])";
    // With this many steps one operand works on few series at a time, and the other on many.
    let apart = "requests_total + requests_total @ end()";
    // The first query may read rows that later queries have cached.
    for (query, step) in [(once, "15"), (once, "15"), (thrice, "15"), (apart, "0.06")] {
        let before = reads_of_points(&server).await;
        let (start, end) = (START.to_string(), (START + 600).to_string());
        let form = [("query", query), ("start", &start), ("end", &end), ("step", step)];
        let (status, answer) = api::post(&server.url("/api/v1/query_range"), &form).await;
        assert_eq!(status, 200, "{answer}");
        let result = answer["data"]["result"].as_array().expect("a list");
        assert_eq!(result.len(), 20, "{query}");
        reads.push(reads_of_points(&server).await - before);
    }
    assert!(reads[1] >= 20, "{reads:?}");
    assert_eq!(reads[1..], [reads[1]; 3], "{reads:?}");
}
