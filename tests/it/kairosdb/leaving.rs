//! Leaving promkairos by the steps of docs/kairosdb.md: KairosDB continues alone, and a later return to
//! promkairos works without the removed data.

use std::collections::{BTreeMap, BTreeSet};

use promkairos::model::{Labels, MatchOp, TimeRange};
use promkairos::storage::cassandra::doctor::Kind;
use serde_json::json;

use super::both_ways::{AT, labels, tags, unique};
use super::deletes::now;
use super::points::{kairosdb_shows, send, store_shows};
use crate::cassandra::doctor::{examine, fixing, left, settings};
use crate::cassandra::keyspace::{Request, TestKeyspace, matcher, named, read};
use crate::support;
use crate::support::kairosdb::KairosDb;
use crate::support::promkairos::{Backend, Promkairos};

/// The CQL statements of the page.
fn statements() -> Vec<String> {
    const PAGE: &str = include_str!("../../../docs/kairosdb.md");
    let (_, rest) = PAGE.split_once("```sql\n").expect("statements");
    let (block, _) = rest.split_once("```").expect("their end");
    let filled = block.replace("kairosdb.", "{k}.").replace("NOW", &now().to_string());
    filled.split_terminator(";\n").map(|statement| statement.trim().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn kairosdb_goes_on_alone() {
    let keyspace = TestKeyspace::new().await;
    let kairosdb = KairosDb::over(&keyspace.name, "").await;
    let data = tempfile::tempdir().expect("a folder");
    let (address, name) = (support::cassandra(), keyspace.name.clone());
    let backend = Backend::CassandraWal { address, keyspace: name };
    let mut server = Promkairos::ready(data.path(), &backend, &["--flush-interval=1h"]).await;
    let metric = &unique("left");
    kairosdb.ingest(metric, &tags(), "long", &[(AT, json!(1))]).await;
    send(&server, &labels(metric), &[(AT + 1, 1.5), (AT + 2, f64::NAN)]).await;
    // The end of the program flushes its log to Cassandra.
    let process = &mut server.process;
    assert!(process.terminate().success(), "{}", process.log());
    kairosdb_shows(&kairosdb, metric, &[AT, AT + 1]).await;
    let statements = statements();
    assert_eq!(statements.len(), 5, "{statements:?}");
    for statement in statements {
        keyspace.cql(&statement).await;
    }
    let ours: Vec<(Option<String>,)> = keyspace
        .rows("SELECT key FROM {k}.service_index WHERE service = 'prometheus' ALLOW FILTERING")
        .await;
    assert!(ours.iter().all(|(key,)| key.is_none()), "{ours:?}");
    // KairosDB does not need the removed rows. A returning promkairos does, and the doctor reports them.
    let report = examine(&keyspace, settings()).await;
    let want = BTreeMap::from([(metric.clone(), BTreeSet::from([Kind::MissingName]))]);
    assert_eq!(left(&report), want, "{report:#?}");
    let names = "SELECT column1 FROM {k}.string_index WHERE key = \
                 0x70726f6d6574686575735f6d65747269635f6e616d6573";
    assert!(keyspace.rows::<(String,)>(names).await.is_empty());
    kairosdb.ingest(metric, &tags(), "double", &[(AT + 3, json!(2.5))]).await;
    kairosdb_shows(&kairosdb, metric, &[AT, AT + 1, AT + 3]).await;
    kairosdb.delete(metric).await;
    kairosdb_shows(&kairosdb, metric, &[]).await;
    // promkairos is back: only data that KairosDB cannot see is left, and both continue.
    let store = keyspace.open().await;
    let all = [matcher("__name__", MatchOp::Regex, &format!("{metric}.*"))];
    assert!(read(&store, &all, TimeRange::ALL).await.is_empty(), "no list has it");
    let report = examine(&keyspace, fixing()).await;
    assert_eq!(left(&report), BTreeMap::new(), "{report:#?}");
    assert_eq!(read(&store, &all, TimeRange::ALL).await.len(), 1);
    let left = read(&store, &named(metric), TimeRange::ALL).await;
    assert_eq!(left.values().flatten().map(|p| p.timestamp).collect::<Vec<_>>(), [AT + 2]);
    let series = Labels::from_pairs(labels(metric)).expect("labels");
    Request::default().floats(&series, &[(AT + 4, 4.5)]).write(&store).await;
    kairosdb.ingest(metric, &tags(), "long", &[(AT + 5, json!(5))]).await;
    kairosdb_shows(&kairosdb, metric, &[AT + 4, AT + 5]).await;
    store_shows(&store, metric, &[AT + 2, AT + 4, AT + 5]).await;
    drop(kairosdb);
    keyspace.drop().await;
}
