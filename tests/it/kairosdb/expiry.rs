//! Times to live beside a real KairosDB: expired rows of one side hide no live data of the other.

use std::collections::BTreeSet;

use promkairos::kairos::{RowSpec, TimeUnit};
use promkairos::model::Labels;
use promkairos::storage::cassandra::{CassandraStore, Options, TagIndexOptions};
use serde_json::json;

use super::both_ways::{AT, tags, unique};
use super::points::{kairosdb_shows, store_shows};
use crate::cassandra::keyspace::{Request, TestKeyspace};
use crate::support::eventually;
use crate::support::kairosdb::{KairosDb, TagMap};

/// Rows of one second, so that index rows expire while the test waits.
const ROW: i64 = 1_000;
/// The TTL in seconds of the short-lived side.
const SHORT: u32 = 3;
/// A setting that makes KairosDB index all tags, and find series by tag only through its tag index.
const ALL_TAGS: &str =
    "datastore.cassandra.write_cluster.tag_indexed_row_key_lookup_metrics: [\"*\"]\n";

struct Expiring {
    kairosdb: KairosDb,
    keyspace: TestKeyspace,
}

impl Expiring {
    async fn start() -> Self {
        let keyspace = TestKeyspace::new().await;
        // KairosDB takes the row width of an existing keyspace.
        let row_spec = RowSpec::new(TimeUnit::Milliseconds, ROW).expect("valid");
        let options = Options { row_spec, ..keyspace.options() };
        keyspace.open_with(options).await;
        let kairosdb = KairosDb::over(&keyspace.name, ALL_TAGS).await;
        Self { kairosdb, keyspace }
    }

    async fn store(&self, ttl_seconds: u32) -> CassandraStore {
        let tag_index = TagIndexOptions {
            metrics: [("*".to_owned(), BTreeSet::new())].into(),
            ..TagIndexOptions::default()
        };
        let options = Options { ttl_seconds, tag_index, ..self.keyspace.options() };
        self.keyspace.open_with(options).await
    }

    /// Waits until both sides show points at these times and no others, KairosDB also by tag.
    async fn both_show(&self, metric: &str, times: &[i64]) {
        kairosdb_shows(&self.kairosdb, metric, times).await;
        let by_tag = self.kairosdb.query(metric, &[("instance", "h:9100")], &["instance"]).await;
        let by_tag = by_tag.expect("an answer").into_iter().flat_map(|series| series.values);
        assert_eq!(by_tag.map(|(time, _)| time).collect::<Vec<_>>(), times, "{metric} by tag");
        // A new store, which remembers nothing.
        store_shows(&self.store(0).await, metric, times).await;
    }

    /// A point of a series that ends when the points of the short-lived side expire.
    fn last() -> (TagMap, i64) {
        (TagMap::from([("instance".to_owned(), "last".to_owned())]), AT + 2)
    }

    async fn kairosdb_writes(&self, metric: &str, (tags, time): (&TagMap, i64), ttl: u32) {
        self.kairosdb.ingest_for(metric, tags, "double", &[(time, json!(0.5))], ttl).await;
        self.kairosdb
            .query_until(metric, &["instance"], |all| {
                all.iter().flat_map(|series| &series.values).any(|(at, _)| *at == time)
            })
            .await;
    }

    /// Waits until no index row leads to the last series any more.
    async fn expired(&self, metric: &str) {
        type Row = (String, Option<TagMap>);
        let (last, _) = Self::last();
        eventually(&format!("what expires of {metric} is gone"), async || {
            let mut left = 0;
            for table in ["row_keys", "tag_indexed_row_keys"] {
                let cql = format!("SELECT metric, tags FROM {{k}}.{table}");
                let rows: Vec<Row> = self.keyspace.rows(&cql).await;
                let is_last = |row: &&Row| row.0 == metric && row.1.as_ref() == Some(&last);
                left += rows.iter().filter(is_last).count();
            }
            if left == 0 { Ok(()) } else { Err(format!("{left} are left")) }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_time_to_live_hides_what_the_other_keeps() {
    let expiring = Expiring::start().await;
    let (keeping, forgetting) = (expiring.store(0).await, expiring.store(SHORT).await);
    // Both in one row, once with each side first.
    for we_come_first in [true, false] {
        let (ours, theirs) = (AT, AT + 1);
        let (last, at) = Expiring::last();
        for (name, store, ttl, kept) in
            [("theirs.is.short", &keeping, SHORT, ours), ("ours.is.short", &forgetting, 0, theirs)]
        {
            let metric = &unique(name);
            let with = |tags: &TagMap| {
                let name = ("__name__".to_owned(), metric.clone());
                Labels::from_pairs(tags.clone().into_iter().chain([name])).expect("labels")
            };
            let request = Request::default().floats(&with(&tags()), &[(ours, 1.5)]);
            if we_come_first {
                request.write(store).await;
            }
            expiring.kairosdb_writes(metric, (&tags(), theirs), ttl).await;
            if !we_come_first {
                request.write(store).await;
            }
            match ttl {
                0 => drop(Request::default().floats(&with(&last), &[(at, 0.5)]).write(store).await),
                ttl => expiring.kairosdb_writes(metric, (&last, at), ttl).await,
            }
            expiring.expired(metric).await;
            expiring.both_show(metric, &[kept]).await;
        }
    }
    let Expiring { kairosdb, keyspace } = expiring;
    drop(kairosdb);
    keyspace.drop().await;
}
