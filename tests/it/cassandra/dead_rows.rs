//! Partitions of the indexes in which more rows were deleted than Cassandra reads past: what lives among them is
//! found and what is written there too, and our own deletes leave few tombstones behind.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use promkairos::model::{Labels, MatchOp, TimeRange};
use promkairos::storage::cassandra::{CassandraStore, Options, TagIndexOptions};
use promkairos::storage::{Store, StoreError};
use promkairos::telemetry::CassandraMetrics;
use scylla::statement::batch::{Batch, BatchType};
use scylla::value::CqlTimestamp;

use super::keyspace::{Request, TestKeyspace, labels, matcher, named, read};
use crate::support;

const WIDTH: i64 = 1_814_400_000;
/// More than a Cassandra reads past by default.
const DEAD: i32 = 110_000;
/// Rows of one batch.
const A_BATCH: i32 = 250;

/// Deletes [`DEAD`] rows of a partition that were never there; `values` are those of one.
async fn bury<V: scylla::serialize::row::SerializeRow>(
    keyspace: &TestKeyspace,
    cql: &str,
    values: impl Fn(i32) -> V,
) {
    let cql = cql.replace("{k}", &keyspace.name);
    let delete = keyspace.session.prepare(cql).await.expect("prepared");
    let mut batch = Batch::new(BatchType::Unlogged);
    (0..A_BATCH).for_each(|_| batch.append_statement(delete.clone()));
    let batches = (0..DEAD / A_BATCH).map(|at| {
        let values: Vec<V> = (at * A_BATCH..(at + 1) * A_BATCH).map(&values).collect();
        let batch = &batch;
        async move { keyspace.session.batch(batch, values).await.map(drop) }
    });
    let deleted: Vec<_> = futures::stream::iter(batches).buffer_unordered(8).collect().await;
    deleted.into_iter().for_each(|deleted| deleted.expect("deleted"));
}

/// Tags of a row that is deleted.
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
    bury(&keyspace, row_keys, |at| (window.0, window.1, window.2, dead_tags(at))).await;
    let tag_rows = "DELETE FROM {k}.tag_indexed_row_keys WHERE metric = ? AND table_name = ? AND \
                    row_time = ? AND single_tag_pair = 'job=node' AND data_type = 'kairos_double' \
                    AND tag_collection_hash = ? AND tags = ?";
    let hash = |at: i32| at.wrapping_mul(-1_640_531_527);
    bury(&keyspace, tag_rows, |at| (window.0, window.1, window.2, hash(at), dead_tags(at))).await;
    let names =
        "DELETE FROM {k}.string_index WHERE key = 0x6d65747269635f6e616d6573 AND column1 = ?";
    bury(&keyspace, names, |at| (format!("m_{at:06}_total"),)).await;
    store.close().await.expect("closed");

    let by_name = [matcher("__name__", MatchOp::Regex, "m.*")];
    let by_tag = [named("m"), vec![matcher("job", MatchOp::Equal, "node")]].concat();
    // Nothing is in memory: once all rows of the window are read, once those of a tag.
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
        // What is acknowledged is found, among the dead too.
        let new = of(&format!("host-0{:05}.example.org:9100x", live.len()));
        Request::default().floats(&new, &[(20, 2.0)]).write(&store).await;
        live.push(new);
        live.sort();
        // It is known by now where to cut.
        let before = metrics.reads_given_up.get();
        let found = read(&store, matchers, TimeRange::ALL).await;
        assert!(found.keys().eq(live.iter()), "{matchers:?}: {found:?}");
        assert!(metrics.reads_given_up.get() <= before + 1, "{}", metrics.reads_given_up.get());
        store.close().await.expect("closed");
    }
    keyspace.drop().await;
}

/// Series of a metric in a window that is long closed.
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

async fn row_keys(keyspace: &TestKeyspace) -> usize {
    let rows: Vec<(Option<String>,)> = keyspace.rows("SELECT data_type FROM {k}.row_keys").await;
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
    store.delete(&named("m"), TimeRange::ALL).await.expect("deleted");
    for table in ["data_points", "tag_indexed_row_keys", "row_key_time_index"] {
        assert_eq!(count(&keyspace, table).await, 0, "{table}");
    }
    assert_eq!(row_keys(&keyspace).await, 0);
    assert!(read(&store, &named("m"), TimeRange::ALL).await.is_empty());
    // What is written then has all of its index rows.
    let again = labels(&[("__name__", "m"), ("host", "host-000007"), ("job", "node")]);
    Request::default().floats(&again, &[(WIDTH + 20, 1.0)]).write(&store).await;
    store.close().await.expect("closed");
    let other = keyspace.open().await;
    assert!(read(&other, &named("m"), TimeRange::ALL).await.keys().eq([&again]));
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
    let delete = async || store.delete(&selector, TimeRange::ALL).await;
    delete().await.expect("deleted");
    assert_eq!(row_keys(&keyspace).await, SERIES - 10_000 + 1);
    assert!(read(&store, &named("m"), TimeRange::ALL).await.keys().eq([&stays]));
    let again = labels(&[("__name__", "m"), ("host", "host-011999"), ("job", "node")]);
    Request::default().floats(&again, &[(WIDTH + 20, 1.0)]).write(&store).await;
    let other = keyspace.open().await;
    assert!(read(&other, &named("m"), TimeRange::ALL).await.keys().eq([&again, &stays]));
    other.close().await.expect("closed");
    // The rest goes with the next one.
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
