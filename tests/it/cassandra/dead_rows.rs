//! Index partitions with more deleted rows than Cassandra reads past: live rows among them and new rows are found,
//! our own deletes leave few tombstones, and the doctor names the partitions.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use promkairos::kairos::DataType;
use promkairos::model::{Labels, MatchOp, TimeRange};
use promkairos::storage::cassandra::doctor::{Group, Kind, Report, Settings};
use promkairos::storage::cassandra::{CassandraStore, Options, TagIndexOptions};
use promkairos::storage::{DeleteCost, Store, StoreError, Tombstones};
use promkairos::telemetry::CassandraMetrics;
use scylla::statement::batch::{Batch, BatchType};
use scylla::value::CqlTimestamp;

use super::deletes::now;
use super::doctor::{examine, fixing, settings};
use super::keyspace::{Request, TestKeyspace, key, labels, matcher, named, read};
use crate::support;

const WIDTH: i64 = 1_814_400_000;
/// More tombstones than Cassandra reads past by default.
const DEAD: i32 = 110_000;
/// Rows of one batch.
const A_BATCH: i32 = 250;

/// Runs a statement `dead` times, each time with its own values: mostly deletes of rows that never existed.
pub(super) async fn bury<V: scylla::serialize::row::SerializeRow>(
    keyspace: &TestKeyspace,
    dead: i32,
    cql: &str,
    values: impl Fn(i32) -> V,
) {
    let cql = cql.replace("{k}", &keyspace.name);
    let delete = keyspace.session.prepare(cql).await.expect("prepared");
    let mut batch = Batch::new(BatchType::Unlogged);
    (0..A_BATCH).for_each(|_| batch.append_statement(delete.clone()));
    let batches = (0..dead / A_BATCH).map(|at| {
        let values: Vec<V> = (at * A_BATCH..(at + 1) * A_BATCH).map(&values).collect();
        let batch = &batch;
        async move { keyspace.session.batch(batch, values).await.map(drop) }
    });
    let deleted: Vec<_> = futures::stream::iter(batches).buffer_unordered(8).collect().await;
    deleted.into_iter().for_each(|deleted| deleted.expect("deleted"));
}

/// The tags of a deleted row.
fn dead_tags(at: i32) -> BTreeMap<String, String> {
    let host = format!("host-{at:06}.example.org:9100");
    [("host".to_owned(), host), ("job".to_owned(), "node".to_owned())].into()
}

async fn open_indexed(keyspace: &TestKeyspace, metrics: &CassandraMetrics) -> CassandraStore {
    let tag_index = TagIndexOptions {
        metrics: [("m".to_owned(), BTreeSet::from(["job".to_owned()]))].into(),
        refresh: std::time::Duration::from_millis(50),
        ..TagIndexOptions::default()
    };
    let options = Options { tag_index, ..keyspace.options() };
    let store = support::cassandra::open(options, metrics).await;
    support::eventually("the index is read", async || {
        let status = store.tag_index_status().await.map_err(|error| error.to_string())?;
        let is_open = status.tags.iter().all(|tag| tag.state == "readable");
        if is_open && !status.tags.is_empty() { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    store
}

#[tokio::test]
async fn what_lives_among_deleted_index_rows_is_found() {
    let (keyspace, metrics) = (TestKeyspace::new().await, CassandraMetrics::default());
    let store = open_indexed(&keyspace, &metrics).await;
    let of = |host: &str| labels(&[("__name__", "m"), ("host", host), ("job", "node")]);
    let hosts = ["a", "host-0", "host-055555.example.org:9101", "host-2", "z"];
    let mut live: Vec<Labels> = hosts.into_iter().map(of).collect();
    let request = live.iter().fold(Request::default(), |all, one| all.floats(one, &[(10, 1.0)]));
    request.write(&store).await;
    let window = ("m", "data_points", CqlTimestamp(0));
    let row_keys = "DELETE FROM {k}.row_keys WHERE metric = ? AND table_name = ? AND row_time = ? \
                    AND data_type = 'kairos_double' AND tags = ?";
    bury(&keyspace, DEAD, row_keys, |at| (window.0, window.1, window.2, dead_tags(at))).await;
    let tag_rows = "DELETE FROM {k}.tag_indexed_row_keys WHERE metric = ? AND table_name = ? AND \
                    row_time = ? AND single_tag_pair = 'job=node' AND data_type = 'kairos_double' \
                    AND tag_collection_hash = ? AND tags = ?";
    let hash = |at: i32| at.wrapping_mul(-1_640_531_527);
    bury(&keyspace, DEAD, tag_rows, |at| (window.0, window.1, window.2, hash(at), dead_tags(at)))
        .await;
    let names =
        "DELETE FROM {k}.string_index WHERE key = 0x6d65747269635f6e616d6573 AND column1 = ?";
    bury(&keyspace, DEAD, names, |at| (format!("m_{at:06}_total"),)).await;
    store.close().await.expect("closed");

    let by_name = [matcher("__name__", MatchOp::Regex, "m.*")];
    let by_tag = [named("m"), vec![matcher("job", MatchOp::Equal, "node")]].concat();
    // Nothing is in memory: the first query reads all rows of the window, the second reads the rows of a tag.
    for matchers in [&by_name[..], &by_tag] {
        let store = open_indexed(&keyspace, &metrics).await;
        let before = metrics.reads_given_up.get();
        let found = read(&store, matchers, TimeRange::ALL).await;
        assert!(found.keys().eq(live.iter()), "{matchers:?}: {found:?}");
        let given_up = metrics.reads_given_up.get();
        assert!(given_up > before, "the partitions have fewer tombstones than the test needs");
        let warnings = metrics.tombstone_warnings.get();
        println!("{} reads given up, {warnings} warnings", given_up - before);
        assert!(warnings > 0, "a slice of the rest has more than a server warns of");
        // An acknowledged series among the deleted rows is found too.
        let new = of(&format!("host-0{:05}.example.org:9100x", live.len()));
        Request::default().floats(&new, &[(20, 2.0)]).write(&store).await;
        live.push(new);
        live.sort();
        // By now the store knows where to divide the partition.
        let before = metrics.reads_given_up.get();
        let found = read(&store, matchers, TimeRange::ALL).await;
        assert!(found.keys().eq(live.iter()), "{matchers:?}: {found:?}");
        assert!(metrics.reads_given_up.get() <= before + 1, "{}", metrics.reads_given_up.get());
        store.close().await.expect("closed");
    }
    // Opening the keyspace does not read these partitions.
    keyspace.open().await.close().await.expect("closed");
    // The doctor completes and names the partitions. It reports no defect in data whose index it cannot read.
    let report = examine(&keyspace, settings()).await;
    assert_eq!(report.facts.rows, live.len() as u64);
    let total = report.total(Kind::ManyTombstones).expect("found");
    assert_eq!(report.left(), total.found, "{report:?}");
    let tables =
        ["row_keys: the partition with token ", "tag_indexed_row_keys: the partition with "];
    for table in tables {
        assert!(total.examples.iter().any(|found| found.starts_with(table)), "{total:?}");
    }
    keyspace.drop().await;
}

/// The metrics with many tombstones, and the findings of each.
fn tombstones(report: &Report) -> BTreeMap<&str, Vec<&str>> {
    let metrics = report.findings.get(&Kind::ManyTombstones).into_iter().flatten();
    metrics
        .map(|(metric, Group { examples, .. })| {
            (metric.as_str(), examples.iter().map(String::as_str).collect())
        })
        .collect()
}

#[tokio::test]
async fn the_doctor_names_partitions_near_the_threshold() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let [near, apart, cells] = ["near", "apart", "cells"]
        .map(|metric| labels(&[("__name__", metric), ("host", "zz"), ("job", "node")]));
    let request = [&near, &apart, &cells].into_iter();
    let request =
        request.fold(Request::default(), |all, one| all.floats(one, &[(90_000_000, 1.0)]));
    request.write(&store).await;
    store.close().await.expect("closed");
    let row_keys = "DELETE FROM {k}.row_keys WHERE metric = ? AND table_name = 'data_points' AND row_time = 0 \
                    AND data_type = 'kairos_double' AND tags = ?";
    bury(&keyspace, 25_000, row_keys, |at| ("near", dead_tags(at))).await;
    bury(&keyspace, 5_000, row_keys, |at| ("apart", dead_tags(at))).await;
    let key = key(&cells, 0, DataType::Double);
    let points = "DELETE FROM {k}.data_points WHERE key = ? AND column1 = ?";
    let column = |at: i32| at.cast_unsigned().to_be_bytes().to_vec();
    bury(&keyspace, 25_000, points, |at| (key.clone(), column(at * 2))).await;
    let report = examine(&keyspace, settings()).await;
    let found = tombstones(&report);
    assert!(found.keys().eq(["cells", "near"].iter()), "{found:?}");
    let [near] = found["near"][..] else { panic!("{found:?}") };
    let want = "row_keys: near, data_points, 1970-01-01T00:00:00Z: a page of 1,000 rows passes over 25000 tombstones";
    assert_eq!(near, want);
    let [cells] = found["cells"][..] else { panic!("{found:?}") };
    let want = "data_points: cells{host=\"zz\", job=\"node\"} kairos_double, 1970-01-01T00:00:00Z: a read passes \
                over 25000 tombstones";
    assert_eq!(cells, want);
    assert_eq!(report.left(), 2, "{report:?}");
    keyspace.drop().await;
}

#[tokio::test]
async fn the_doctor_deletes_a_portion_of_a_partition() {
    const SERIES: usize = 30;
    let (keyspace, metrics) = (TestKeyspace::new().await, CassandraMetrics::default());
    let store = open_indexed(&keyspace, &metrics).await;
    let request = (0..SERIES).fold(Request::default(), |request, n| {
        let host = format!("host-{n:02}");
        let series = labels(&[("__name__", "m"), ("host", &host), ("job", "node")]);
        request.floats(&series, &[(WIDTH + 10, 1.0)])
    });
    request.write(&store).await;
    store.close().await.expect("closed");
    keyspace.cql("TRUNCATE {k}.data_points").await;
    let settings = Settings { most_deleted: 20, slices: 1, ..fixing() };
    for (stay, rows) in [(10, SERIES), (0, 10)] {
        let report = examine(&keyspace, settings.clone()).await;
        let left = [rows_of(&keyspace, "row_keys"), rows_of(&keyspace, "tag_indexed_row_keys")];
        assert_eq!(futures::future::join_all(left).await, [stay; 2], "{report:?}");
        assert_eq!(report.facts.rows_left, 2 * stay as u64);
        assert_eq!(report.facts.row_keys, rows as u64);
    }
    keyspace.drop().await;
}

/// Series of a metric in a window that closed long ago.
const SERIES: usize = 12_000;

async fn fill(store: &dyn Store) {
    for first in (0..SERIES).step_by(3_000) {
        let request = (first..first + 3_000).fold(Request::default(), |request, n| {
            let host = format!("host-{n:06}");
            let series = labels(&[("__name__", "m"), ("host", &host), ("job", "node")]);
            request.floats(&series, &[(WIDTH + 10, n as f64)])
        });
        request.write(store).await;
    }
}

async fn count(keyspace: &TestKeyspace, table: &str) -> i64 {
    keyspace.rows::<(i64,)>(&format!("SELECT COUNT(*) FROM {{k}}.{table}")).await[0].0
}

pub(super) async fn row_keys(keyspace: &TestKeyspace) -> usize {
    rows_of(keyspace, "row_keys").await
}

/// A partition without rows keeps `mtime`.
async fn rows_of(keyspace: &TestKeyspace, table: &str) -> usize {
    let cql = format!("SELECT data_type FROM {{k}}.{table}");
    let rows: Vec<(Option<String>,)> = keyspace.rows(&cql).await;
    rows.into_iter().filter(|(data_type,)| data_type.is_some()).count()
}

#[tokio::test]
async fn all_rows_of_a_large_window_go_at_once() {
    let (keyspace, metrics) = (TestKeyspace::new().await, CassandraMetrics::default());
    let store = open_indexed(&keyspace, &metrics).await;
    fill(&store).await;
    assert_eq!(
        (row_keys(&keyspace).await, count(&keyspace, "tag_indexed_row_keys").await),
        (SERIES, SERIES as i64)
    );
    let index_rows_deleted = SERIES as u64;
    let tombstones = Tombstones {
        data_points: index_rows_deleted,
        row_keys: 1,
        row_key_time_index: 1,
        row_key_index: 0,
        // One tombstone for the partition of each host, and one for the job.
        tag_indexed_row_keys: index_rows_deleted + 1,
    };
    let want = DeleteCost { windows: 1, index_rows_deleted, index_rows_left: 0, tombstones };
    let cost = store.delete_cost(&named("m"), TimeRange::ALL).await.expect("counted");
    assert_eq!(cost, Some(want));
    store.delete(&named("m"), TimeRange::ALL).await.expect("deleted");
    for table in ["data_points", "tag_indexed_row_keys", "row_key_time_index"] {
        assert_eq!(count(&keyspace, table).await, 0, "{table}");
    }
    assert_eq!(row_keys(&keyspace).await, 0);
    assert!(read(&store, &named("m"), TimeRange::ALL).await.is_empty());
    // A later write has all its index rows.
    let again = labels(&[("__name__", "m"), ("host", "host-000007"), ("job", "node")]);
    Request::default().floats(&again, &[(WIDTH + 20, 1.0)]).write(&store).await;
    store.close().await.expect("closed");
    let other = keyspace.open().await;
    assert!(read(&other, &named("m"), TimeRange::ALL).await.keys().eq([&again]));
    keyspace.drop().await;
}

#[tokio::test]
async fn rows_of_a_large_window_that_kairosdb_wrote_too_stay() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    fill(&store).await;
    let insert = "INSERT INTO {k}.row_keys (metric, table_name, row_time, data_type, tags, mtime) \
                  VALUES ('m', 'data_points', ?, 'kairos_double', ?, now()) USING TIMESTAMP ?";
    let tags = |at: i32| {
        let (host, job) = (format!("host-{at:06}"), "node".to_owned());
        BTreeMap::from([("host".to_owned(), host), ("job".to_owned(), job)])
    };
    let stamp = now();
    bury(&keyspace, SERIES as i32, insert, |at| (CqlTimestamp(WIDTH), tags(at), stamp)).await;
    assert_eq!(row_keys(&keyspace).await, SERIES);
    store.delete(&named("m"), TimeRange::ALL).await.expect("deleted");
    assert_eq!(count(&keyspace, "data_points").await, 0);
    let values: Vec<(Option<String>,)> = keyspace.rows("SELECT value FROM {k}.row_keys").await;
    let ours = values.iter().filter(|(value,)| value.is_some()).count();
    assert_eq!((values.len(), ours), (SERIES, SERIES - 10_000));
    assert!(read(&store, &named("m"), TimeRange::ALL).await.is_empty());
    keyspace.drop().await;
}

#[tokio::test]
async fn of_a_larger_delete_some_index_rows_stay_and_lead_to_nothing() {
    let (keyspace, metrics) = (TestKeyspace::new().await, CassandraMetrics::default());
    let store = open_indexed(&keyspace, &metrics).await;
    fill(&store).await;
    let stays = labels(&[("__name__", "m"), ("host", "other"), ("job", "other")]);
    Request::default().floats(&stays, &[(WIDTH + 10, 1.0)]).write(&store).await;
    let selector = [named("m"), vec![matcher("job", MatchOp::Equal, "node")]].concat();
    let tombstones = Tombstones {
        data_points: SERIES as u64,
        row_keys: 10_000,
        row_key_time_index: 0,
        row_key_index: 0,
        tag_indexed_row_keys: 10_000,
    };
    let (index_rows_deleted, index_rows_left) = (10_000, SERIES as u64 - 10_000);
    let want = DeleteCost { windows: 1, index_rows_deleted, index_rows_left, tombstones };
    let cost = store.delete_cost(&selector, TimeRange::ALL).await.expect("counted");
    assert_eq!(cost, Some(want));
    let delete = async || store.delete(&selector, TimeRange::ALL).await;
    delete().await.expect("deleted");
    assert_eq!(row_keys(&keyspace).await, SERIES - 10_000 + 1);
    assert!(read(&store, &named("m"), TimeRange::ALL).await.keys().eq([&stays]));
    let again = labels(&[("__name__", "m"), ("host", "host-011999"), ("job", "node")]);
    Request::default().floats(&again, &[(WIDTH + 20, 1.0)]).write(&store).await;
    let other = keyspace.open().await;
    assert!(read(&other, &named("m"), TimeRange::ALL).await.keys().eq([&again, &stays]));
    other.close().await.expect("closed");
    // The next delete removes the rest.
    support::eventually("no other adapter runs", async || {
        delete().await.map_err(|error: StoreError| error.to_string())?;
        match row_keys(&keyspace).await {
            1 => Ok(()),
            left => Err(format!("{left} rows")),
        }
    })
    .await;
    assert!(read(&store, &named("m"), TimeRange::ALL).await.keys().eq([&stays]));
    keyspace.drop().await;
}
