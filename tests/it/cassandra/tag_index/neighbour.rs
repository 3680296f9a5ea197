//! Neighbours that write no index rows for tags: with `verify` they are detected at once, and with
//! `configured` by the audit.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use promkairos::kairos::DataType;
use promkairos::model::MatchOp::Equal;
use promkairos::model::{Labels, TimeRange};
use promkairos::storage::cassandra::{Options, TagIndexTrust};
use promkairos::storage::{ListSize, SeriesQuery, Store};
use promkairos::telemetry::{CassandraMetrics, Metrics};
use scylla::value::CqlTimestamp;

use super::super::keyspace::{TestKeyspace, key, matcher, named};
use super::jobs::build;
use super::{WIDTH, found, indexing, open, paths, scan, series, states, write};
use crate::support::eventually;

/// Writes a series as a neighbour that writes no index rows for tags.
pub(super) async fn neighbour_writes(keyspace: &TestKeyspace, series: &Labels, row_time: i64) {
    let tags: BTreeMap<String, String> = series
        .iter()
        .filter(|(name, _)| *name != "__name__")
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let metric = series.get("__name__");
    let time = CqlTimestamp(row_time);
    let insert = "INSERT INTO {k}.row_key_time_index (metric, table_name, row_time) \
                  VALUES (?, 'data_points', ?) USING TIMESTAMP 1";
    keyspace.cql_with(insert, (metric, time)).await;
    let insert = "INSERT INTO {k}.row_keys (metric, table_name, row_time, data_type, tags, mtime) \
                  VALUES (?, 'data_points', ?, 'kairos_double', ?, now()) USING TIMESTAMP 1";
    keyspace.cql_with(insert, (metric, time, tags)).await;
    let insert = "INSERT INTO {k}.data_points (key, column1, value) VALUES (?, ?, ?) \
                  USING TIMESTAMP 1";
    let row = key(series, row_time, DataType::Double);
    let (column, value) = (9_u32.to_be_bytes(), 1.0_f64.to_be_bytes());
    keyspace.cql_with(insert, (row, &column[..], &value[..])).await;
}

#[tokio::test]
async fn a_neighbour_without_index_rows_is_seen_where_nobody_vouches_for_it() {
    let keyspace = TestKeyspace::new().await;
    let store = open(&keyspace, &[("m", &["host"])]).await;
    let ours = series("m", &[("host", "a")]);
    write(&store, std::slice::from_ref(&ours), 1_000).await;
    let theirs = series("m", &[("host", "a"), ("by", "kairosdb")]);
    neighbour_writes(&keyspace, &theirs, 0).await;
    let matchers = [named("m"), vec![matcher("host", Equal, "a")]].concat();
    let mut options = indexing(&keyspace, &[("m", &["host"])]);
    options.tag_index.trust = TagIndexTrust::Verify;
    let verifying = keyspace.open_with(options).await;
    let all = scan(&[ours, theirs], &matchers);
    assert_eq!(found(&verifying, &matchers, TimeRange::ALL).await, all);
    assert_eq!(paths(&verifying, &matchers, TimeRange::ALL).await, ["host and row_keys"]);
    keyspace.drop().await;
}

/// Cached series are used while `mtime` does not change, but `mtime` does not show every write. So
/// they are used for at most 30 s or 50 times the read, as docs/kairosdb.md promises.
#[tokio::test]
async fn what_memory_hides_of_a_neighbour_it_does_not_hide_for_long() {
    let keyspace = TestKeyspace::new().await;
    let store = open(&keyspace, &[("m", &["host"])]).await;
    let ours = series("m", &[("host", "a")]);
    write(&store, std::slice::from_ref(&ours), 1_000).await;
    let mut options = indexing(&keyspace, &[("m", &["host"])]);
    options.tag_index.trust = TagIndexTrust::Verify;
    options.series_cache_bytes = 1 << 20;
    let verifying = keyspace.open_with(options).await;
    let matchers = [named("m"), vec![matcher("host", Equal, "a")]].concat();
    let (begin, read) = eventually("it is in memory", async || {
        let begin = Instant::now();
        found(&verifying, &named("m"), TimeRange::ALL).await;
        let read = Instant::now();
        match paths(&verifying, &matchers, TimeRange::ALL).await {
            paths if paths == ["memory"] => Ok((begin, read)),
            paths => Err(format!("{paths:?}")),
        }
    })
    .await;
    let promised = Duration::from_secs(30).max((read - begin) * 50);
    // The neighbour's `mtime` has an older stamp than ours, and loses.
    let theirs = series("m", &[("host", "a"), ("by", "kairosdb")]);
    neighbour_writes(&keyspace, &theirs, 0).await;
    assert_eq!(found(&verifying, &matchers, TimeRange::ALL).await, std::slice::from_ref(&ours));
    tokio::time::sleep(promised.saturating_sub(read.elapsed())).await;
    assert_eq!(
        found(&verifying, &matchers, TimeRange::ALL).await,
        scan(&[ours, theirs], &matchers)
    );
    keyspace.drop().await;
}

/// Points of a type that Prometheus lacks are left out and counted, whichever index leads to them.
#[tokio::test]
async fn types_that_are_left_out_are_counted_on_both_paths() {
    for (tags, path) in [(&[][..], "row_keys"), (&["host"][..], "host")] {
        let keyspace = TestKeyspace::new().await;
        let telemetry = Metrics::new();
        let list: &[(&str, &[&str])] = if tags.is_empty() { &[] } else { &[("m", tags)] };
        // In a window that does not fit into the cache, some rows are counted twice.
        let options = Options { series_cache_bytes: 1 << 20, ..indexing(&keyspace, list) };
        let store = crate::support::cassandra::open(options, &telemetry.cassandra).await;
        let ours = series("m", &[("host", "a")]);
        write(&store, std::slice::from_ref(&ours), 1_000).await;
        for data_type in ["kairos_string", "kairos_complex"] {
            let cql = format!(
                "INSERT INTO {{k}}.row_keys (metric, table_name, row_time, data_type, tags) \
                 VALUES ('m', 'data_points', 0, '{data_type}', {{'host': 'a'}}) USING TIMESTAMP 1"
            );
            keyspace.cql(&cql).await;
            let cql = format!(
                "INSERT INTO {{k}}.tag_indexed_row_keys (metric, table_name, row_time, \
                 single_tag_pair, data_type, tag_collection_hash, tags) VALUES ('m', \
                 'data_points', 0, 'host=a', '{data_type}', 7, {{'host': 'a'}}) USING TIMESTAMP 1"
            );
            keyspace.cql(&cql).await;
        }
        let matchers = [named("m"), vec![matcher("host", Equal, "a")]].concat();
        let query = SeriesQuery {
            matchers: matchers.clone(),
            range: TimeRange::ALL,
            limit: ListSize::UNLIMITED,
        };
        assert_eq!(store.series(&query).await.expect("series").items, [ours], "{path}");
        let skipped = "promkairos_cassandra_skipped_total{reason=\"data_type\"} 2\n";
        let text = telemetry.encode();
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("skipped")).collect();
        assert!(text.contains(skipped), "{path}: {lines:#?}");
        if path == "host" {
            assert_eq!(paths(&store, &matchers, TimeRange::ALL).await, [path]);
        }
        keyspace.drop().await;
    }
}

#[tokio::test]
async fn the_audit_takes_a_window_with_a_gap_out_of_use_until_it_is_built() {
    let keyspace = TestKeyspace::new().await;
    let mut options = indexing(&keyspace, &[("m", &["host"])]);
    options.tag_index.audit_interval = Duration::from_millis(100);
    let metrics = CassandraMetrics::default();
    let store = crate::support::cassandra::open(options, &metrics).await;
    let ours = series("m", &[("host", "a")]);
    write(&store, std::slice::from_ref(&ours), 1_000).await;
    write(&store, std::slice::from_ref(&ours), WIDTH + 1_000).await;
    let theirs = series("m", &[("host", "a"), ("by", "kairosdb")]);
    neighbour_writes(&keyspace, &theirs, 0).await;
    let matchers = [named("m"), vec![matcher("host", Equal, "a")]].concat();
    let all = scan(&[ours, theirs], &matchers);
    eventually("the audit finds the gap", async || {
        let path = paths(&store, &matchers, TimeRange::ALL).await;
        if path == ["row_keys", "host"] { Ok(()) } else { Err(format!("{path:?}")) }
    })
    .await;
    assert_eq!(metrics.tag_index_gaps.get(), 1);
    assert_eq!(states(&store).await, [("m/host readable".into(), vec![0])]);
    assert_eq!(found(&store, &matchers, TimeRange::ALL).await, all);
    build(&store, "m").await;
    assert_eq!(states(&store).await, [("m/host readable".into(), vec![])]);
    assert_eq!(paths(&store, &matchers, TimeRange::ALL).await, ["host", "host"]);
    assert_eq!(found(&store, &matchers, TimeRange::ALL).await, all);
    keyspace.drop().await;
}

/// The neighbour's series is the last of more pairs than one round compares.
#[tokio::test]
async fn the_audit_goes_through_all_pairs_of_a_window() {
    let keyspace = TestKeyspace::new().await;
    let mut options = indexing(&keyspace, &[("m", &["host"])]);
    options.tag_index.audit_interval = Duration::from_millis(100);
    let store = keyspace.open_with(options).await;
    let ours: Vec<Labels> = (0..600).map(|n| series("m", &[("host", &format!("h{n}"))])).collect();
    write(&store, &ours, 1_000).await;
    let theirs = series("m", &[("host", "z")]);
    neighbour_writes(&keyspace, &theirs, 0).await;
    let matchers = [named("m"), vec![matcher("host", Equal, "z")]].concat();
    assert_eq!(found(&store, &matchers, TimeRange::ALL).await, []);
    eventually("the audit finds the gap", async || {
        let path = paths(&store, &matchers, TimeRange::ALL).await;
        if path == ["row_keys"] { Ok(()) } else { Err(format!("{path:?}")) }
    })
    .await;
    assert_eq!(found(&store, &matchers, TimeRange::ALL).await, [theirs]);
    keyspace.drop().await;
}
