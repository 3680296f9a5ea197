//! A Cassandra with guardrails, most of which hold for all but superusers. Where statements over several partitions are
//! forbidden, queries of many metrics use statements of one partition. A row that is too large is refused alone.

use std::path::Path;
use std::sync::Arc;

use promkairos::chunk::ChunkBuilder;
use promkairos::model::{
    Counts, Histogram, MatchOp, Matcher, Point, ResetHint, Span, TimeRange, Value,
};
use promkairos::storage::cassandra::{CassandraStore, Credentials, Options};
use promkairos::storage::{SeriesRun, Store};
use promkairos::telemetry::{CassandraMetrics, Metrics};

use super::deletes::{flush, now, quarantined};
use super::keyspace::{Request, labels, read};
use super::read_cache::cache_in;
use super::secure::{Superuser, options};
use crate::support::promkairos::statements;

/// More metrics than the secure Cassandra of the tests accepts in one statement.
const METRICS: usize = 25;
const LISTS: [&str; 3] = ["select_many_row_times", "select_mtimes", "select_epochs"];

/// The options of a role that is no superuser, for a keyspace with tables.
async fn ordinary() -> Options {
    let options = options();
    let root = Superuser::of(&options).await;
    let keyspace = options.keyspace.as_str();
    let role = format!("g{keyspace}");
    root.role(&role, "g", &["SELECT", "MODIFY"], keyspace).await;
    Options { credentials: Credentials::new(&role, "g"), ..options }
}

#[tokio::test]
async fn queries_of_many_metrics_are_answered_by_statements_of_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let metrics = Metrics::new();
    let ordinary = Options { read_cache: Some(cache_in(folder.path())), ..ordinary().await };
    let store = crate::support::cassandra::open(ordinary, &metrics.cassandra).await;
    let request = (0..METRICS).fold(Request::default(), |request, metric| {
        request.floats(&labels(&[("__name__", &format!("many_{metric:02}"))]), &[(5, 1.0)])
    });
    request.write(&store).await;
    let many = [Matcher::new(MatchOp::Regex, "__name__", "many_.+").expect("a matcher")];
    let counts = || {
        let page = metrics.encode();
        LISTS.map(|list| statements(&page, list))
    };
    let mut asked = Vec::new();
    for _ in 0..3 {
        let found = read(&store, &many, TimeRange::new(0, 10)).await;
        assert_eq!(found.len(), METRICS);
        assert!(found.values().all(|points| points.len() == 1), "{found:?}");
        asked.push(counts());
    }
    // The first list was refused, and so were lists sent at the same time; no other was tried.
    assert!((1..=3).contains(&asked[0][0]), "{asked:?}");
    assert_eq!(asked, [asked[0]; 3]);
}

#[tokio::test]
async fn pages_are_as_large_as_an_operator_lets_them_be() {
    let metrics = Metrics::new();
    let store = crate::support::cassandra::open(ordinary().await, &metrics.cassandra).await;
    let points: Vec<(i64, f64)> = (0..5_001).map(|at| (at, at as f64)).collect();
    let series = labels(&[("__name__", "long")]);
    Request::default().floats(&series, &points).write(&store).await;
    for _ in 0..2 {
        let found = read(&store, &[Matcher::equal("__name__", "long")], TimeRange::ALL).await;
        assert_eq!(found[&series].len(), points.len());
    }
    // Two reads of three pages. The first page was refused once, unless a page of an index was refused before.
    let pages = statements(&metrics.encode(), "select_points");
    assert!((6..=7).contains(&pages), "{pages}");
}

/// A float histogram whose cell has eight bytes a bucket.
fn histogram(buckets: u32) -> Histogram {
    Histogram {
        schema: 3,
        zero_threshold: 0.001,
        sum: 12.5,
        reset_hint: ResetHint::Unknown,
        positive_spans: vec![Span { offset: 0, length: buckets }],
        negative_spans: vec![],
        custom_values: vec![],
        counts: Counts::Float {
            count: f64::from(buckets) * 1.5,
            zero_count: 0.0,
            positive: vec![1.5; buckets as usize],
            negative: vec![],
        },
    }
}

/// Writes a histogram with `buckets` buckets among other points: only the histogram is refused, for the reason `why`,
/// whether Cassandra or the log acknowledges.
async fn refused_alone(options: Options, quarantine: &Path, buckets: u32, why: &str) {
    let options = Options { quarantine: Some(quarantine.to_owned()), ..options };
    let opened = CassandraStore::open(options, CassandraMetrics::default()).await;
    let store = opened.expect("the role gets in");
    let [wide, small, plain] = ["wide", "small", "plain"].map(|name| labels(&[("__name__", name)]));
    let request = Request::default()
        .floats(&plain, &[(1, 1.0), (2, f64::INFINITY)])
        .histogram(&wide, 1, histogram(buckets))
        .histogram(&small, 1, histogram(5));
    let outcome = request.write(&store).await;
    assert_eq!((outcome.samples, outcome.histograms, outcome.rejections.len()), (2, 1, 1));
    let text = outcome.rejections.kept()[0].to_string();
    assert!(text.contains(why) && text.contains("wide"), "{text}");

    let stamp = now();
    let run = |labels: &_, points: &[(i64, Value)]| {
        let mut builder = ChunkBuilder::default();
        for (timestamp, value) in points {
            let value = value.clone();
            builder.push(&Point { timestamp: *timestamp, start_timestamp: 0, value }, stamp);
        }
        SeriesRun { labels: Clone::clone(labels), chunks: builder.finish() }
    };
    let many: Vec<_> = (10..2_010).map(|time| (time, Value::Float(time as f64))).collect();
    let flushed = || {
        let [wide, small] = [(&wide, buckets), (&small, 5)].map(|(labels, buckets)| {
            run(labels, &[(20, Value::Histogram(Arc::new(histogram(buckets))))])
        });
        flush(vec![run(&plain, &many), wide, small])
    };
    for _ in 0..2 {
        let absorbed = store.ingest_flush(flushed()).await.expect("absorbed");
        assert_eq!((absorbed.points, absorbed.refused), (many.len() as u64 + 1, 1));
    }
    let lines = quarantined(quarantine);
    assert_eq!((lines.len(), &lines[0]["metric"]), (1, &"wide".into()));
    assert!(lines[0]["reason"].as_str().is_some_and(|text| text.contains(why)), "{lines:?}");
    let all = [Matcher::new(MatchOp::Regex, "__name__", ".+").expect("a matcher")];
    let found = read(&store, &all, TimeRange::new(0, 3_000)).await;
    let counts: Vec<(&str, usize)> =
        found.iter().map(|(labels, points)| (labels.get("__name__"), points.len())).collect();
    assert_eq!(counts, [("plain", many.len() + 2), ("small", 2)]);
}

#[tokio::test]
async fn a_value_that_is_too_large_is_refused_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let quarantine = folder.path().join("quarantine.jsonl");
    refused_alone(ordinary().await, &quarantine, 400, "Guardrail column_value_size violated").await;
}

/// The limit for the size of a mutation holds for superusers too.
#[tokio::test]
async fn a_row_that_makes_an_oversized_mutation_is_refused_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let quarantine = folder.path().join("quarantine.jsonl");
    refused_alone(options(), &quarantine, 40_000, "Rejected an oversized mutation").await;
}
