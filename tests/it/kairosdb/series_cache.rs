//! The series cache: which windows are read, when they are read again, and which are never read.

use std::time::SystemTime;

use promkairos::model::{Labels, METRIC_NAME, MatchOp, Matcher, TimeRange};
use promkairos::storage::cassandra::{CassandraStore, Options};
use promkairos::storage::{ListSize, SeriesQuery, Store};
use promkairos::telemetry::CassandraMetrics;

use crate::cassandra::keyspace::{Request, TestKeyspace, labels, matcher, named, read};
use crate::support::{self, eventually};

async fn open(options: Options) -> (CassandraStore, CassandraMetrics) {
    let metrics = CassandraMetrics::default();
    (support::cassandra::open(options, &metrics).await, metrics)
}

fn host(n: usize) -> Labels {
    labels(&[("__name__", "m"), ("host", &format!("h{n}")), ("group", &format!("g{}", n % 25))])
}

/// Writes `series` series, and waits until a query is answered from the cache.
async fn fill(keyspace: &TestKeyspace, store: &CassandraStore, series: usize) {
    for from in (0..series).step_by(2_000) {
        let mut request = Request::default();
        for n in from..(from + 2_000).min(series) {
            request = request.floats(&host(n), &[(1_000, n as f64)]);
        }
        assert!(request.write(store).await.rejections.is_empty());
    }
    // A window is read again shortly after a write; a new store shows when it is not read again.
    let (other, metrics) = open(keyspace.options()).await;
    eventually("the window is answered from memory", async || {
        let hits = metrics.series_cache_hits.get();
        count(&other, &named("m")).await;
        match metrics.series_cache_hits.get() > hits {
            true => Ok(()),
            false => Err(format!("{hits} hits")),
        }
    })
    .await;
    other.close().await.expect("closes");
}

async fn count(store: &CassandraStore, matchers: &[Matcher]) -> usize {
    let matchers = matchers.to_vec();
    let query = SeriesQuery { matchers, range: TimeRange::ALL, limit: ListSize::UNLIMITED };
    store.series(&query).await.expect("series").items.len()
}

#[tokio::test]
async fn only_what_is_selected_is_read_and_the_index_only_once() {
    let keyspace = TestKeyspace::new().await;
    let (store, metrics) = open(keyspace.options()).await;
    fill(&keyspace, &store, 10_000).await;
    let group = [Matcher::equal(METRIC_NAME, "m"), Matcher::equal("group", "g7")];
    assert_eq!(read(&store, &group, TimeRange::ALL).await.len(), 400);
    assert_eq!(metrics.rows_read.get(), 400, "no points of the other 9,600");
    // One window was read: the metric has no rows under our own table name.
    assert_eq!(metrics.series_cache_reads.get(), 1);
    let hits = metrics.series_cache_hits.get();
    let one = [Matcher::equal(METRIC_NAME, "m"), Matcher::equal("host", "h77")];
    assert_eq!(read(&store, &one, TimeRange::ALL).await.len(), 1);
    assert_eq!(count(&store, &[matcher("host", MatchOp::Regex, "h1.")]).await, 10);
    let query =
        SeriesQuery { matchers: named("m"), range: TimeRange::ALL, limit: ListSize::UNLIMITED };
    let values = store.label_values("group", &query).await.expect("values");
    assert_eq!(values.items.len(), 25);
    assert_eq!(metrics.series_cache_reads.get(), 1, "matchers and label endpoints share it");
    assert_eq!(metrics.series_cache_hits.get(), hits + 3);
    assert!(metrics.series_cache_bytes.get() > 10_000 * 100);
    assert_eq!(metrics.rows_read.get(), 401);
    keyspace.drop().await;
}

#[tokio::test]
async fn own_writes_are_seen_at_once_and_without_another_read() {
    let keyspace = TestKeyspace::new().await;
    let (store, metrics) = open(keyspace.options()).await;
    fill(&keyspace, &store, 2_000).await;
    assert_eq!(count(&store, &named("m")).await, 2_000);
    let mut reads = metrics.series_cache_reads.get();
    for n in 2_000..2_020 {
        Request::default().floats(&host(n), &[(1_000, 1.0)]).write(&store).await;
        assert_eq!(count(&store, &named("m")).await, n + 1);
    }
    // The window is sometimes read again, for rows of a neighbour that our writes may hide.
    reads = metrics.series_cache_reads.get() - reads;
    assert!(reads < 20, "{reads} reads for 20 new series");
    // Deletes too: a delete of all points in a window that closed long ago removes its series.
    store.delete(&named("m"), TimeRange::ALL).await.expect("deleted");
    assert_eq!(count(&store, &named("m")).await, 0);
    Request::default().floats(&host(1), &[(1_000, 1.0)]).write(&store).await;
    assert_eq!(count(&store, &named("m")).await, 1);
    keyspace.drop().await;
}

/// A row as a neighbour writes it.
async fn neighbour_writes(keyspace: &TestKeyspace, host: &str) {
    let stamp = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let stamp = stamp.expect("after 1970").as_millis();
    let cql = format!(
        "INSERT INTO {{k}}.row_keys (metric, table_name, row_time, data_type, tags, mtime) \
         VALUES ('m', 'data_points', 0, 'kairos_long', {{'host': '{host}'}}, now()) \
         USING TIMESTAMP {stamp}"
    );
    keyspace.cql(&cql).await;
}

#[tokio::test]
async fn a_neighbours_series_is_seen_by_the_next_query() {
    let keyspace = TestKeyspace::new().await;
    let (store, _) = open(keyspace.options()).await;
    fill(&keyspace, &store, 10).await;
    for n in 0..20 {
        assert_eq!(count(&store, &named("m")).await, 10 + n);
        neighbour_writes(&keyspace, &format!("n{n}")).await;
    }
    assert_eq!(count(&store, &named("m")).await, 30);
    keyspace.drop().await;
}

/// Labels are answered from memory until this process writes an index row.
#[tokio::test]
async fn labels_are_answered_from_memory_until_an_index_row_is_written() {
    let keyspace = TestKeyspace::new().await;
    let (store, metrics) = open(keyspace.options()).await;
    fill(&keyspace, &store, 3).await;
    let query = |end| SeriesQuery {
        matchers: vec![],
        range: TimeRange::new(0, end),
        limit: ListSize::UNLIMITED,
    };
    let ask = async |end: i64| {
        let query = query(end);
        let names = store.label_names(&query).await.expect("names").items;
        let metrics = store.label_values(METRIC_NAME, &query).await.expect("values").items;
        [names, metrics, store.label_values("host", &query).await.expect("values").items]
    };
    let all = ask(2_000).await;
    assert_eq!(all[1], ["m"]);
    assert_eq!(all[2], ["h0", "h1", "h2"]);
    assert_eq!((ask(5_000).await, metrics.label_answer_hits.get()), (all, 3));
    // An acknowledged series adds its label name, and a delete removes it.
    let other = labels(&[("__name__", "n"), ("host", "x"), ("rack", "r")]);
    Request::default().floats(&other, &[(1_000, 1.0)]).write(&store).await;
    let all = ask(2_000).await;
    assert_eq!(all[0], ["__name__", "group", "host", "rack"]);
    assert_eq!(
        (&*all[1], &*all[2]),
        (&["m", "n"].map(String::from)[..], &["h0", "h1", "h2", "x"].map(String::from)[..])
    );
    assert_eq!(metrics.label_answer_hits.get(), 3);
    store.delete(&named("n"), TimeRange::ALL).await.expect("deleted");
    assert_eq!(ask(2_000).await[1], ["m"]);
    keyspace.drop().await;
}

/// This process does not rewrite index rows of another process, but acknowledges samples for them, so it
/// must find the series.
#[tokio::test]
async fn a_series_that_another_process_indexed_is_seen_once_it_is_acknowledged_here() {
    let keyspace = TestKeyspace::new().await;
    let (first, _) = open(keyspace.options()).await;
    let (second, _) = open(keyspace.options()).await;
    for n in 0..30 {
        Request::default().floats(&host(2 * n), &[(1_000, 1.0)]).write(&second).await;
        Request::default().floats(&host(2 * n + 1), &[(1_000, 1.0)]).write(&first).await;
        Request::default().floats(&host(2 * n), &[(2_000, 1.0)]).write(&first).await;
        assert_eq!(count(&first, &named("m")).await, 2 * n + 2);
    }
    keyspace.drop().await;
}

#[tokio::test]
async fn a_window_larger_than_memory_is_read_row_by_row() {
    let keyspace = TestKeyspace::new().await;
    let options = Options { series_cache_bytes: 100_000, page_size: 300, ..keyspace.options() };
    let (store, metrics) = open(options).await;
    fill(&keyspace, &store, 1_000).await;
    let group = [Matcher::equal(METRIC_NAME, "m"), Matcher::equal("group", "g7")];
    for _ in 0..3 {
        assert_eq!(read(&store, &group, TimeRange::ALL).await.len(), 40);
        assert_eq!(count(&store, &named("m")).await, 1_000);
    }
    assert_eq!(metrics.series_cache_reads.get(), 1, "it is tried once");
    assert!(metrics.series_cache_bytes.get() <= 100_000);
    keyspace.drop().await;
}
