//! Refusals of Cassandra: a row that is too large goes to quarantine; no other refusal is blamed on a row.

use std::path::Path;

use promkairos::limits::LABEL_LIMITS;
use promkairos::model::{Labels, TimeRange};
use promkairos::storage::cassandra::CassandraStore;
use promkairos::storage::{Store, StoreError};
use promkairos::wire;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::deletes::{flush_of, quarantined};
use super::doctor::examine_whole;
use super::keyspace::{Request, TestKeyspace, bits, labels, named, read};
use crate::support::load::{Load, compress};
use crate::support::promkairos::{Backend, Message, Promkairos};
use crate::support::proto;
use crate::support::{cassandra, eventually, seed};

const POINTS: &str = "CREATE TABLE {k}.data_points (key blob, column1 blob, value blob, \
                      PRIMARY KEY (key, column1))";

/// A store with a quarantine file for refused rows.
async fn open(keyspace: &TestKeyspace, quarantine: &Path) -> CassandraStore {
    let mut options = keyspace.options();
    options.quarantine = Some(quarantine.into());
    keyspace.open_with(options).await
}

fn two() -> [Labels; 2] {
    ["a", "b"].map(|job| labels(&[("__name__", "up"), ("job", job)]))
}

#[tokio::test]
async fn what_is_wrong_with_a_table_costs_no_point() {
    let folder = tempfile::tempdir().expect("a folder");
    let quarantine = folder.path().join("quarantine.jsonl");
    let keyspace = TestKeyspace::new().await;
    let store = open(&keyspace, &quarantine).await;
    let other_type = POINTS.replace("value blob", "value int");
    let damages: [&[&str]; 3] = [
        &["ALTER TABLE {k}.data_points DROP value"],
        &["DROP TABLE {k}.data_points"],
        &["DROP TABLE {k}.data_points", &other_type],
    ];
    for (time, damage) in (10..).zip(damages) {
        for cql in damage {
            keyspace.cql(cql).await;
        }
        let points = [(time, 1.5), (time + 100, f64::INFINITY)];
        // One row alone, then a batch of rows.
        for (series, points) in [(&two()[..1], &points[..1]), (&two()[..], &points[..])] {
            let error = store.ingest_flush(flush_of(series, points)).await;
            let error = error.expect_err("the table is not what it was");
            assert!(matches!(error, StoreError::Backend { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.contains(&format!("{}.data_points: ", keyspace.name)), "{text}");
            assert!(text.len() < 300, "{text}");
        }
        assert!(!quarantine.exists());
        keyspace.cql("DROP TABLE IF EXISTS {k}.data_points").await;
        keyspace.cql(POINTS).await;
        let absorbed = store.ingest_flush(flush_of(&two(), &points)).await.expect("mended");
        assert_eq!((absorbed.points, absorbed.refused), (4, 0));
        for series in &two() {
            let all = read(&store, &named("up"), TimeRange::ALL).await;
            let want = points.map(|(time, value): (i64, f64)| (time, value.to_bits()));
            let got = bits(&all[series]);
            assert!(want.iter().all(|point| got.contains(point)), "{got:?}");
        }
    }
    keyspace.drop().await;
}

#[tokio::test]
async fn a_row_that_is_too_large_is_refused_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let quarantine = folder.path().join("quarantine.jsonl");
    let keyspace = TestKeyspace::new().await;
    let store = open(&keyspace, &quarantine).await;
    // These tags fit into the key of the points, but not into the index row.
    let names: Vec<String> = (0..6000).map(|n| format!("t{n}")).collect();
    let tags = names.iter().map(|name| (&**name, "v"));
    let pairs: Vec<(&str, &str)> = tags.chain([("__name__", "up")]).collect();
    let (wide, [good, _]) = (labels(&pairs), two());
    let flush = flush_of(&[wide.clone(), good.clone()], &[(10, 1.5)]);
    let absorbed = store.ingest_flush(flush).await.expect("absorbed");
    assert_eq!((absorbed.points, absorbed.refused), (1, 1));
    let lines = quarantined(&quarantine);
    assert_eq!(lines.len(), 1);
    assert!(lines[0]["reason"].as_str().is_some_and(|why| why.contains("65535")), "{lines:?}");
    assert!(read(&store, &named("up"), TimeRange::ALL).await.contains_key(&good));
    assert_eq!(examine_whole(keyspace.options()).await.facts.rows, 1);
    keyspace.drop().await;
}

/// KairosDB escapes `:` and `=`, so a label set that is not too long can have a key that is. The sender gets
/// the error, whether Cassandra or the log acknowledges.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_too_long_is_the_fault_of_its_sender() {
    for backend in [Backend::cassandra_store(), Backend::cassandra_wal()] {
        let data = tempfile::tempdir().expect("a folder");
        let mut server = Promkairos::ready(data.path(), &backend, &[]).await;
        let a = "=".repeat(LABEL_LIMITS.value_bytes);
        // Keys of 65,536 bytes, and of a byte less.
        let [too_long, longest] = [":", "c"].map(|last| ":".repeat(16_367) + last);
        for (b, status) in [(&too_long, 400), (&longest, 204)] {
            let labels = labels(&[("__name__", "m"), ("a", &a), ("b", b)]);
            let request = Request::default().floats(&labels, &[(1_000, 1.5)]);
            let body = compress(&proto::Message(wire::encode_v1(&request.batch())));
            let answer = server.write(Message::V1, body).await.expect("an answer");
            assert_eq!(answer.status, status, "{answer:?}");
            let why = "the row key has 65536 bytes, Cassandra takes 65535 for series {__name__=";
            assert!(status != 400 || answer.body.starts_with(why), "{answer:?}");
        }
        let found = server.read("__name__", "m").await.expect("it can be read");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].labels["b"], longest);
        assert!(server.process.terminate().success(), "{}", server.process.log());
        examine_whole(backend.options()).await;
    }
}

#[tokio::test]
async fn a_histogram_without_a_cell_is_refused_alone() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let [up, _] = two();
    let mut misshapen = super::points::integer();
    misshapen.positive_spans.clear();
    let request = Request::default()
        .floats(&up, &[(1, 1.0)])
        .histogram(&up, 2, misshapen)
        .histogram(&up, 3, super::points::integer());
    let outcome = request.write(&store).await;
    assert_eq!((outcome.samples, outcome.histograms), (1, 1));
    let rejection = outcome.rejections.kept()[0].to_string();
    assert!(rejection.contains("spans") && rejection.contains("up"), "{rejection}");
    let all = read(&store, &named("up"), TimeRange::ALL).await;
    assert_eq!(all[&up].iter().map(|point| point.timestamp).collect::<Vec<_>>(), [1, 3]);
    keyspace.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_dropped_under_the_log_is_loud_and_loses_nothing() {
    let backend = Backend::cassandra_wal();
    let Backend::CassandraWal { keyspace, .. } = &backend else { panic!("{backend:?}") };
    let keyspace = TestKeyspace { name: keyspace.clone(), ..TestKeyspace::new().await };
    let (data, load) = (tempfile::tempdir().expect("a folder"), Load::default());
    let mut random = StdRng::seed_from_u64(seed());
    let mut server = Promkairos::ready(data.path(), &backend, &["--flush-interval=1s"]).await;
    // With a log the server is ready before it has opened Cassandra.
    eventually("the tables are there", async || {
        let cql = format!("SELECT key FROM {}.data_points LIMIT 1", keyspace.name);
        let known = keyspace.session.query_unpaged(cql, ()).await;
        let open = server.process.log().contains("Cassandra is there");
        if known.is_ok() && open { Ok(()) } else { Err(format!("{known:?}")) }
    })
    .await;

    keyspace.cql("DROP TABLE {k}.data_points").await;
    for _ in 0..5 {
        assert_eq!(load.send(&server, &mut random).await.expect("it answers"), 204);
    }
    let table = format!("{}.data_points", keyspace.name);
    eventually("/-/ready names the table", async || match server.get("/-/ready").await {
        Ok((503, body)) if body.contains(&table) && body.contains("does not exist") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    eventually("the log names the table", async || {
        let log = server.process.log();
        let loud = |line: &str| line.contains("ERROR") && line.contains(&table);
        if log.lines().any(loud) { Ok(()) } else { Err(log) }
    })
    .await;
    assert!(!data.path().join("cassandra/quarantine.jsonl").exists());

    keyspace.cql(POINTS).await;
    server.wait_ready().await;
    load.check(&server).await;
    assert!(server.process.terminate().success(), "{}", server.process.log());
    let direct = Backend::CassandraStore { address: cassandra(), keyspace: keyspace.name.clone() };
    let other = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(other.path(), &direct, &[]).await;
    load.check(&server).await;
    drop(server);
    keyspace.drop().await;
}
