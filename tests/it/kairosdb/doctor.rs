//! The doctor in a keyspace that a real KairosDB and promkairos fill: sound data gives no finding, and the
//! rests of a metric that KairosDB deleted are found and fixed.

use std::collections::{BTreeMap, BTreeSet};

use promkairos::kairos::RowSpec;
use promkairos::model::{Labels, STALE_NAN_BITS, TimeRange};
use promkairos::storage::cassandra::doctor::Kind;
use promkairos::storage::cassandra::{CassandraStore, TagIndexOptions};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::Value as Json;

use super::both_ways::{AT, labels, tags, unique};
use super::points::{TAGS, cells, random_cases};
use crate::cassandra::doctor::{examine, examine_with, fixing, left, settings};
use crate::cassandra::keyspace::{OwnedExemplar, Request, TestKeyspace, hex, named, read};
use crate::support::kairosdb::{KairosDb, KairosSeries, TagMap};
use crate::support::{self, eventually};

/// A setting of KairosDB that indexes all tags of all metrics.
const INDEXED: &str =
    "datastore.cassandra.write_cluster.tag_indexed_row_key_lookup_metrics: [\"*\"]\n";

fn points(series: &[KairosSeries]) -> usize {
    series.iter().map(|series| series.values.len()).sum()
}

/// Random series of both, until KairosDB shows them.
async fn fill(kairosdb: &KairosDb, store: &CassandraStore) {
    let mut random = StdRng::seed_from_u64(support::seed());
    let many = if support::long() { 200 } else { 20 };
    let types = ["long", "double", "string"];
    let theirs = random_cases(&mut random, &unique("theirs"), &types, 30, many);
    // Few at a time: Cassandra refuses larger batches of index rows, and KairosDB loses them.
    for case in &theirs {
        let all: Vec<(i64, Json)> = case.points.clone().into_iter().collect();
        for some in all.chunks(20) {
            kairosdb.ingest(&case.metric, &case.tags, case.data_type, some).await;
            let last = some.last().map(|(time, _)| *time);
            let is_last = |(time, _): &(i64, Json)| Some(*time) == last;
            let shown = |series: &[KairosSeries]| {
                let mut of = series.iter().filter(|series| series.tags == case.tags);
                of.any(|series| series.values.iter().any(is_last))
            };
            kairosdb.query_until(&case.metric, &TAGS, shown).await;
        }
    }
    let ours = random_cases(&mut random, &unique("ours"), &["double"], 30, many);
    for case in &ours {
        let value = |value: &Json| value.as_f64().expect("a double");
        let all: Vec<(i64, f64)> = case.points.iter().map(|(t, v)| (*t, value(v))).collect();
        let series = Labels::from_pairs(case.labels()).expect("labels");
        Request::default().floats(&series, &all).write(store).await;
    }
    let metrics: BTreeSet<&str> = theirs.iter().map(|case| &*case.metric).collect();
    for metric in metrics {
        let of: Vec<_> = theirs.iter().filter(|case| case.metric == metric).collect();
        let want = cells(&of, RowSpec::DEFAULT);
        kairosdb.query_until(metric, &TAGS, |series| points(series) == want).await;
    }
}

/// A metric with points that KairosDB sees and points that it does not.
async fn fill_special(store: &CassandraStore, metric: &str) {
    let series = Labels::from_pairs(labels(metric)).expect("labels");
    let stale = f64::from_bits(STALE_NAN_BITS);
    let trace = Labels::from_pairs([("trace_id", "a")]).expect("labels");
    let exemplar = OwnedExemplar { labels: trace.as_bytes().to_vec(), value: 3.5, timestamp: AT };
    let request = Request::default().floats(&series, &[(AT, 1.5), (AT + 1, stale)]);
    request.exemplar(&series, exemplar).write(store).await;
}

async fn beside_kairosdb(settings_of_kairosdb: &'static str, tag_index: TagIndexOptions) {
    let keyspace = TestKeyspace::new().await;
    let kairosdb = KairosDb::over(&keyspace.name, settings_of_kairosdb).await;
    let mut options = keyspace.options();
    options.tag_index = tag_index;
    let store = keyspace.open_with(options).await;
    fill(&kairosdb, &store).await;
    let (deleted, kept) = (&unique("deleted"), &unique("kept"));
    for metric in [deleted, kept] {
        fill_special(&store, metric).await;
    }
    let report = examine(&keyspace, fixing()).await;
    assert!(report.findings.is_empty(), "{report:#?}");
    assert!(report.facts.rows > 100, "{report:#?}");
    assert_eq!(report.facts.tag_index_rows > 0, !settings_of_kairosdb.is_empty());
    // Points that KairosDB does not know are left.
    kairosdb.query_until(deleted, &["instance"], |series| points(series) == 1).await;
    kairosdb.delete(deleted).await;
    kairosdb.query_until(deleted, &["instance"], |series| points(series) == 0).await;
    let want = BTreeMap::from([(deleted.clone(), BTreeSet::from([Kind::Leftover]))]);
    let report = examine(&keyspace, settings()).await;
    assert_eq!(left(&report), want, "{report:#?}");
    assert_eq!(left(&examine(&keyspace, fixing()).await), BTreeMap::new());
    let report = examine(&keyspace, fixing()).await;
    assert!(report.findings.is_empty(), "{report:#?}");
    // The keyspace accepts the metric again, from both.
    let store = keyspace.open().await;
    assert_eq!(read(&store, &named(deleted), TimeRange::ALL).await.len(), 0);
    assert_eq!(read(&store, &named(kept), TimeRange::ALL).await.len(), 1);
    kairosdb.ingest(deleted, &tags(), "long", &[(AT + 2, Json::from(2))]).await;
    fill_special(&store, deleted).await;
    kairosdb.query_until(deleted, &["instance"], |series| points(series) == 2).await;
    drop(kairosdb);
    keyspace.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keyspace_of_both_is_sound() {
    beside_kairosdb("", TagIndexOptions::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keyspace_of_both_with_its_tag_index_is_sound() {
    let metrics = [("*".to_owned(), BTreeSet::new())].into();
    beside_kairosdb(INDEXED, TagIndexOptions { metrics, ..TagIndexOptions::default() }).await;
}

/// KairosDB sends the index rows of a batch of points as one batch and ignores the result. Cassandra
/// refuses batches over 50 KiB, which a few long tags in the tag index exceed.
#[tokio::test(flavor = "multi_thread")]
async fn what_kairosdb_lost_of_its_index_is_found_again() {
    let keyspace = TestKeyspace::new().await;
    let kairosdb = KairosDb::over(&keyspace.name, INDEXED).await;
    let metric = &unique("lost");
    let tags: TagMap = (0..8).map(|n| (format!("t{n}"), "v".repeat(1_000))).collect();
    kairosdb.ingest(metric, &tags, "long", &[(AT, Json::from(7))]).await;
    // KairosDB stores the point and does not find it.
    eventually("the point is stored", async || {
        let stored = keyspace.data_points().await;
        if stored.iter().any(|(key, ..)| key.contains(&hex(metric.as_bytes()))) {
            return Ok(());
        }
        Err(format!("{} rows", stored.len()))
    })
    .await;
    let found = kairosdb.query(metric, &[], &["t0"]).await.expect("an answer");
    assert_eq!(points(&found), 0);
    let report = examine(&keyspace, fixing()).await;
    assert!(report.findings[&Kind::UnindexedData].contains_key(metric), "{report:#?}");
    assert_eq!(left(&report), BTreeMap::new());
    kairosdb.query_until(metric, &["t0"], |series| points(series) == 1).await;
    let store = keyspace.open().await;
    assert_eq!(read(&store, &named(metric), TimeRange::ALL).await.len(), 1);
    drop(kairosdb);
    keyspace.drop().await;
}

/// After KairosDB begins to index a metric, it finds no older data by the tags of that metric.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_there_before_kairosdb_indexed_it_is_found_by_tag_again() {
    let keyspace = TestKeyspace::new().await;
    let kairosdb = KairosDb::over(&keyspace.name, INDEXED).await;
    let metric = &unique("before");
    let series = Labels::from_pairs(labels(metric)).expect("labels");
    let store = keyspace.open().await;
    Request::default().floats(&series, &[(AT, 1.5)]).write(&store).await;
    let by_tag = [("instance", "h:9100")];
    let found = kairosdb.query(metric, &by_tag, &["instance"]).await.expect("an answer");
    assert_eq!(points(&found), 0);
    let mut options = keyspace.options();
    options.tag_index.metrics = [("*".to_owned(), BTreeSet::new())].into();
    let report = examine_with(options, fixing()).await;
    assert_eq!(report.total(Kind::TagIndexGap).map(|total| total.fixed), Some(1), "{report:#?}");
    let found = kairosdb.query(metric, &by_tag, &["instance"]).await.expect("an answer");
    assert_eq!(points(&found), 1);
    drop(kairosdb);
    keyspace.drop().await;
}
