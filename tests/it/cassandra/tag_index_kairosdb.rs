//! The tag index shared with a real KairosDB that indexes the same tags.

use std::collections::BTreeMap;

use promkairos::model::MatchOp::{Equal, NotEqual, Regex};
use promkairos::model::{Labels, Matcher, TimeRange};
use promkairos::storage::cassandra::{
    CassandraStore, JobKind, JobState, TagIndexOptions, WindowPath,
};
use scylla::value::CqlTimestamp;
use serde_json::json;

use super::keyspace::{Request, TestKeyspace, labels, matcher, named, read};
use crate::support::eventually;
use crate::support::kairosdb::KairosDb;

const LIST: &str = "datastore.cassandra.write_cluster.tag_indexed_row_key_lookup_metrics: \
                    { m: [host], n: [host], all: [], every: [\"*\"] }\n";

/// Tags of the series that both write; KairosDB accepts no series without a tag.
const SERIES: [&[(&str, &str)]; 4] = [
    &[("dc", "x"), ("host", "a")],
    &[("dc", "x"), ("host", "h:9100")],
    &[("dc", "y"), ("host", "a")],
    &[("dc", "x")],
];

async fn open(keyspace: &TestKeyspace) -> CassandraStore {
    let host = || ["host".to_owned()].into();
    let metrics = [("m", host()), ("n", host()), ("all", [].into()), ("every", [].into())];
    let metrics = metrics.map(|(metric, tags)| (metric.to_owned(), tags)).into();
    let mut options = keyspace.options();
    options.tag_index = TagIndexOptions { metrics, ..TagIndexOptions::default() };
    keyspace.open_with(options).await
}

fn series(metric: &str, tags: &[(&str, &str)]) -> Labels {
    let pairs: Vec<_> = tags.iter().copied().chain([("__name__", metric)]).collect();
    labels(&pairs)
}

async fn found(store: &CassandraStore, matchers: &[Matcher]) -> Vec<Labels> {
    read(store, matchers, TimeRange::ALL).await.into_keys().collect()
}

/// Rows of the tag index of a metric, without the metric.
async fn rows(keyspace: &TestKeyspace, metric: &str) -> Vec<String> {
    // A partition with only its static column left has one row of nulls.
    type Row = (
        String,
        CqlTimestamp,
        String,
        Option<i32>,
        Option<String>,
        Option<BTreeMap<String, String>>,
    );
    let cql = "SELECT metric, row_time, single_tag_pair, tag_collection_hash, data_type, tags \
               FROM {k}.tag_indexed_row_keys WHERE table_name = 'data_points' ALLOW FILTERING";
    let all: Vec<Row> = keyspace.rows(cql).await;
    let of = all.into_iter().filter(|row| row.0 == metric);
    let mut rows: Vec<String> = of
        .filter_map(|(_, time, pair, hash, data_type, tags)| {
            Some(format!("{} {pair} {} {} {:?}", time.0, hash?, data_type?, tags?))
        })
        .collect();
    rows.sort();
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn kairosdb_finds_by_tag_what_we_wrote_and_we_what_it_wrote() {
    let keyspace = TestKeyspace::new().await;
    let kairosdb = KairosDb::over(&keyspace.name, LIST).await;
    let store = open(&keyspace).await;
    // KairosDB and we write the same series, under names with the same indexed tags.
    for (theirs, ours) in [("m", "n"), ("all", "every")] {
        for (at, tags) in SERIES.iter().enumerate() {
            let map = tags.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            kairosdb.ingest(theirs, &map, "double", &[(1_000 + at as i64, json!(1.5))]).await;
            Request::default().floats(&series(ours, tags), &[(1_000, 1.5)]).write(&store).await;
        }
        kairosdb.query_until(theirs, &["dc", "host"], |found| found.len() == SERIES.len()).await;
        assert_eq!(rows(&keyspace, theirs).await, rows(&keyspace, ours).await, "{theirs} {ours}");
        assert!(!rows(&keyspace, ours).await.is_empty());
        by_tag(&kairosdb, &store, theirs, ours).await;
    }
    // By a tag that is not indexed we find series, and KairosDB finds none.
    for metric in ["m", "n"] {
        let theirs = kairosdb.query(metric, &[("dc", "x")], &["host"]).await.expect("an answer");
        assert_eq!(theirs.len(), 0, "{metric}");
        let matchers = [named(metric), vec![matcher("dc", Equal, "x")]].concat();
        assert_eq!(found(&store, &matchers).await.len(), 3);
        let both = [matchers, vec![matcher("host", Equal, "a")]].concat();
        assert_eq!(found(&store, &both).await, [series(metric, SERIES[0])]);
    }
    a_drop_takes_ours_only(&keyspace, &kairosdb, &store).await;
    drop(kairosdb);
    keyspace.drop().await;
}

/// After our drop KairosDB still finds its own series by tag, also where we wrote the same index row.
async fn a_drop_takes_ours_only(
    keyspace: &TestKeyspace,
    kairosdb: &KairosDb,
    store: &CassandraStore,
) {
    Request::default().floats(&series("m", SERIES[0]), &[(1_000, 1.5)]).write(store).await;
    let theirs = rows(keyspace, "m").await;
    store.configure_tag_index(BTreeMap::new());
    eventually("all may be dropped", async || {
        let begun = store.begin_tag_index_job("*", JobKind::Drop, 1_000).await;
        begun.map_err(|error| error.to_string())
    })
    .await;
    eventually("all were dropped", async || {
        let status = store.tag_index_status().await.map_err(|error| error.to_string())?;
        let job = &status.jobs["*"];
        if job.state == JobState::Done { Ok(()) } else { Err(format!("{job:?}")) }
    })
    .await;
    for (metric, left) in [("m", &theirs[..]), ("n", &[]), ("every", &[])] {
        assert_eq!(rows(keyspace, metric).await, left, "{metric}");
    }
    for metric in ["m", "all"] {
        let answer = kairosdb.query(metric, &[("host", "a")], &["dc"]).await;
        assert_eq!(answer.expect("an answer").len(), 2, "{metric}");
    }
}

/// Both find the series of both metrics by an indexed tag, and we read them through the index.
async fn by_tag(kairosdb: &KairosDb, store: &CassandraStore, theirs: &str, ours: &str) {
    for metric in [theirs, ours] {
        for (host, many) in [("a", 2), ("h:9100", 1), ("gone", 0)] {
            let answer = kairosdb.query(metric, &[("host", host)], &["dc", "host"]).await;
            assert_eq!(answer.expect("an answer").len(), many, "{metric} {host}");
            let matchers = [named(metric), vec![matcher("host", Equal, host)]].concat();
            assert_eq!(found(store, &matchers).await.len(), many, "{metric} {host}");
            let explanation = store.explain(&matchers, TimeRange::ALL).await.expect("explained");
            let through = |path: &WindowPath| matches!(path, WindowPath::TagIndex { .. });
            assert!(explanation.windows.iter().all(|window| window.paths.iter().all(through)));
        }
        let set = [named(metric), vec![matcher("host", Regex, "a|h:9100")]].concat();
        assert_eq!(found(store, &set).await.len(), 3);
        let without = [named(metric), vec![matcher("host", NotEqual, "a")]].concat();
        assert_eq!(found(store, &without).await.len(), 2);
    }
}
