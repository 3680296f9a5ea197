//! A KairosDB whose configuration equals or differs from ours: its own file, its list of indexed tags,
//! its unit of time.

use std::time::Duration;

use promkairos::kairos::TimeUnit;
use promkairos::model::MatchOp::Equal;
use promkairos::model::{Labels, METRIC_NAME, TimeRange};
use promkairos::storage::cassandra::{CassandraStore, Options, TagIndexTrust};
use promkairos::telemetry::CassandraMetrics;
use serde_json::json;

use super::answers::open_as;
use super::both_ways::{AT, unique};
use super::points::send;
use crate::cassandra::keyspace::{Request, TestKeyspace, matcher, read};
use crate::support::kairosdb::{KairosDb, TagMap, default_configuration};
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::remote_read::LabelMap;
use crate::support::{self, eventually};

/// The default file of KairosDB 1.3, with the changes that every operator makes.
#[tokio::test(flavor = "multi_thread")]
async fn the_file_of_a_kairosdb_is_taken_over() {
    let (keyspace, data) = (TestKeyspace::new().await, tempfile::tempdir().expect("a folder"));
    let mut text = default_configuration();
    for (entry, ours) in [
        ("keyspace: \"kairosdb\"", format!("keyspace: \"{}\"", keyspace.name)),
        (
            "cql_host_list: [\"localhost\"]",
            format!("cql_host_list: [\"{}\"]", support::cassandra()),
        ),
        (
            "tag_indexed_row_key_lookup_metrics: []",
            "tag_indexed_row_key_lookup_metrics: { m: [\"host\"] }".to_owned(),
        ),
        ("#datapoint_ttl: 31536000", "datapoint_ttl: 31536000".to_owned()),
    ] {
        assert!(text.contains(entry), "{entry}");
        text = text.replacen(entry, &ours, 1);
    }
    let file = data.path().join("kairosdb.conf");
    std::fs::write(&file, text).expect("written");
    let taken = format!("--kairosdb-config={}", file.display());
    let flags = ["--store=cassandra", &taken];
    let server = Promkairos::ready(data.path(), &Backend::Embedded, &flags).await;
    let series = [(METRIC_NAME, "m"), ("host", "a"), ("job", "j")];
    let series: LabelMap =
        series.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
    send(&server, &series, &[(AT, 1.0)]).await;
    let pairs = "SELECT single_tag_pair FROM {k}.tag_indexed_row_keys";
    assert_eq!(keyspace.rows::<(String,)>(pairs).await, [("host=a".to_owned(),)]);
    let cells = "SELECT TTL(value) FROM {k}.data_points";
    let cells = keyspace.rows::<(Option<i32>,)>(cells).await;
    assert!(matches!(cells[..], [(Some(31_000_000..=31_536_000),)]), "{cells:?}");
    keyspace.drop().await;
}

/// A KairosDB without the list of our indexed tags: with `verify` its series are found at once, with
/// `configured` after the audit has detected them.
#[tokio::test(flavor = "multi_thread")]
async fn a_kairosdb_without_the_list_is_found_by_tags_too() {
    // A separate keyspace: an index is used after every adapter of the keyspace has seen it.
    let keyspace = TestKeyspace::new().await;
    let kairosdb = KairosDb::over(&keyspace.name, "").await;
    let metric = unique("unlisted");
    let options = |trust| {
        let mut options = Options { series_cache_bytes: 0, ..keyspace.options() };
        options.tag_index.metrics = [(metric.clone(), ["host".to_owned()].into())].into();
        options.tag_index.trust = trust;
        options
    };
    let series = |by: &str| {
        Labels::from_pairs([(METRIC_NAME, &*metric), ("by", by), ("host", "a")]).expect("labels")
    };
    let metrics = CassandraMetrics::default();
    let mut configured = options(TagIndexTrust::Configured);
    configured.tag_index.audit_interval = Duration::from_millis(100);
    let configured = support::cassandra::open(configured, &metrics).await;
    Request::default().floats(&series("us"), &[(AT, 1.0)]).write(&configured).await;
    let tags: TagMap =
        [("by", "kairosdb"), ("host", "a")].map(|(n, v)| (n.into(), v.into())).into();
    kairosdb.ingest(&metric, &tags, "double", &[(AT, json!(2.0))]).await;
    kairosdb.query_until(&metric, &["by"], |series| series.len() == 2).await;

    let matchers = [matcher(METRIC_NAME, Equal, &metric), matcher("host", Equal, "a")];
    let both = [series("kairosdb"), series("us")];
    let found = async |store: &CassandraStore| -> Vec<Labels> {
        read(store, &matchers, TimeRange::ALL).await.into_keys().collect()
    };
    let verifying = options(TagIndexTrust::Verify);
    let verifying = support::cassandra::open(verifying, &CassandraMetrics::default()).await;
    assert_eq!(found(&verifying).await, both);
    eventually("the audit finds out", async || {
        let found = found(&configured).await;
        let gaps = metrics.tag_index_gaps.get();
        if found == both && gaps == 1 { Ok(()) } else { Err(format!("{found:?} {gaps}")) }
    })
    .await;
    drop((configured, verifying, kairosdb));
    keyspace.drop().await;
}

/// Writes into a keyspace in seconds lose digits; a warning at the start says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_keyspace_in_seconds_is_warned_of() {
    for (unit, warnings) in [(TimeUnit::Seconds, 1), (TimeUnit::Milliseconds, 0)] {
        let (keyspace, data) = (TestKeyspace::new().await, tempfile::tempdir().expect("a folder"));
        open_as(&keyspace, unit).await;
        let (address, name) = (support::cassandra(), keyspace.name.clone());
        let backend = Backend::CassandraStore { address, keyspace: name };
        let server = Promkairos::ready(data.path(), &backend, &[]).await;
        let log = server.process.log();
        let said = |line: &&str| line.contains("WARN") && line.contains("counts seconds");
        assert_eq!(log.lines().filter(said).count(), warnings, "{log}");
        drop(server);
        keyspace.drop().await;
    }
}
