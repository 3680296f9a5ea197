//! Changes below the read cache: writes, deletes and expiry, and when reads see them.

use std::collections::BTreeMap;
use std::time::Duration;

use promkairos::chunk::ChunkBuilder;
use promkairos::kairos::DataType;
use promkairos::model::{Point, TimeRange, Value};
use promkairos::storage::cassandra::ReadCacheOptions;
use promkairos::storage::{SeriesRun, Store};
use promkairos::telemetry::Metrics;

use super::super::deletes::now;
use super::super::keyspace::{Request, TestKeyspace, bits, key, named, read};
use super::{All, Cached, HOUR, WIDTH, all, flush, neighbour_writes, series};
use crate::support::eventually;
use crate::support::promkairos::statements;

/// Every change that another process, or this one, may make to settled points.
#[tokio::test]
async fn late_writes_and_deletes_are_seen_at_once() {
    let cached = Cached::new().await;
    let (other, store) = (cached.keyspace.open().await, cached.open().await);
    let up = series("up", 1);
    let all: TimeRange = TimeRange::ALL;
    Request::default().floats(&up, &[(10, 1.0), (WIDTH, 2.0)]).write(&other).await;
    Request::default().floats(&series("other", 1), &[(10, 1.0)]).write(&other).await;
    let mut expected = BTreeMap::from([(10, 1.0f64), (WIDTH, 2.0)]);
    let check = async |expected: &BTreeMap<i64, f64>| {
        // The second read is answered from the cache.
        for is_again in [false, true] {
            let before = store.metrics.rows_read.get();
            let found = read(&store.store, &named("up"), all).await.remove(&up);
            let want: Vec<_> =
                expected.iter().map(|(time, value)| (*time, value.to_bits())).collect();
            assert_eq!(bits(&found.unwrap_or_default()), want);
            assert!(!is_again || store.metrics.rows_read.get() == before, "read again");
        }
    };
    check(&expected).await;
    read(&store.store, &named("other"), all).await;
    for (round, writer) in [&other, &store.store, &other].into_iter().enumerate() {
        let value = round as f64 + 10.0;
        // A changed value, a new point and a new window.
        let points = [(10, value), (20 + round as i64, value), (WIDTH * (3 + round as i64), value)];
        Request::default().floats(&up, &points).write(writer).await;
        expected.extend(points);
        check(&expected).await;
        writer.delete(&named("up"), TimeRange::new(0, 10)).await.expect("deleted");
        expected.remove(&10);
        check(&expected).await;
        // A flush, as from a log in front.
        let mut chunks = ChunkBuilder::default();
        let point = Point { timestamp: 10, start_timestamp: 0, value: Value::Float(value + 0.5) };
        chunks.push(&point, now());
        let runs = vec![SeriesRun { labels: up.clone(), chunks: chunks.finish() }];
        writer.ingest_flush(flush(runs)).await.expect("absorbed");
        expected.insert(10, value + 0.5);
        check(&expected).await;
        writer.delete_accepted(&named("up"), TimeRange::new(20, 20), now()).await.expect("deleted");
        expected.remove(&20);
        check(&expected).await;
    }
    // The cached points of the other metric are still valid.
    let (_, rows) = store.rows_read(&named("other"), all).await;
    assert_eq!(rows, 0);
    cached.keyspace.drop().await;
}

/// This holds for any number of points, and when the flush fails.
#[tokio::test]
async fn a_flush_raises_an_epoch_before_its_first_late_point_and_after_its_last() {
    let (keyspace, metrics) = (TestKeyspace::new().await, Metrics::new());
    let store = crate::support::cassandra::open(keyspace.options(), &metrics.cassandra).await;
    let raised = || statements(&metrics.encode(), "raise_epoch");
    let run = |name, number, first: i64, points: i64| {
        let mut chunks = ChunkBuilder::default();
        for timestamp in first..first + points {
            let value = Value::Float(timestamp as f64);
            chunks.push(&Point { timestamp, start_timestamp: 0, value }, now());
        }
        SeriesRun { labels: series(name, number), chunks: chunks.finish() }
    };
    // `many` has several times the points that are written at a time.
    let mut runs: Vec<SeriesRun> = (0..30).map(|number| run("many", number, 0, 2_000)).collect();
    runs.extend([run("fresh", 0, now() + HOUR, 10), run("one", 0, 5, 1)]);
    runs.sort_by(|a, b| a.labels.cmp(&b.labels));
    let absorbed = store.ingest_flush(flush(runs)).await.expect("absorbed");
    assert_eq!((absorbed.points, raised()), (60_011, 4));
    keyspace.cql("DROP TABLE {k}.data_points").await;
    let runs = vec![run("many", 0, 0, 10), run("one", 0, 5, 1)];
    store.ingest_flush(flush(runs)).await.expect_err("there is no table");
    assert_eq!(raised(), 8);
    keyspace.drop().await;
}

/// A server whose clock is behind still raises its own epoch.
#[tokio::test]
async fn an_epoch_does_not_depend_on_the_clock_of_another() {
    let cached = Cached::new().await;
    let (other, store) = (cached.keyspace.open().await, cached.open().await);
    let up = series("up", 1);
    Request::default().floats(&up, &[(10, 1.0)]).write(&other).await;
    // The epoch of a server whose clock is an hour ahead.
    let cql = format!(
        "INSERT INTO {{k}}.service_index (service, service_key, key, value) VALUES \
         ('prometheus_read_cache', 'up', 'ffff', 'x') USING TIMESTAMP {}",
        now() + HOUR
    );
    cached.keyspace.cql(&cql).await;
    for value in 0..5 {
        Request::default().floats(&up, &[(10, f64::from(value))]).write(&other).await;
        let found = read(&store.store, &named("up"), TimeRange::ALL).await;
        assert_eq!(bits(&found[&up]), [(10, f64::from(value).to_bits())]);
    }
    cached.keyspace.drop().await;
}

/// A KairosDB chooses the TTL of each point.
#[tokio::test]
async fn points_go_when_they_expire() {
    let cached = Cached::new().await;
    let (plain, store) = (cached.keyspace.open().await, cached.open().await);
    let up = series("up", 1);
    Request::default().floats(&up, &[(10, 1.0)]).write(&plain).await;
    for (column, seconds) in [(20u32, 3), (30, 1_000), (40, 6)] {
        let using = format!("TIMESTAMP {} AND TTL {seconds}", now());
        let (row, cell) = ((0, DataType::Long), (column.to_be_bytes(), &[6][..]));
        neighbour_writes(&cached.keyspace, &up, row, cell, &using).await;
    }
    let times = |all: &All| all.get(&up).map(|points| points.len()).unwrap_or_default();
    let mut seen = Vec::new();
    eventually("what expires is gone", async || {
        // The model is read first: points that it no longer returns must not come from the cache either.
        let want = all(&plain, &named("up"), TimeRange::ALL).await;
        let got = all(&store.store, &named("up"), TimeRange::ALL).await;
        assert!(times(&got) <= times(&want), "{got:?}, {want:?}");
        seen.push(times(&got));
        if times(&got) == 2 { Ok(()) } else { Err(format!("{got:?}")) }
    })
    .await;
    // The remaining points are cached again, since they live for long.
    let (got, _) = store.rows_read(&named("up"), TimeRange::ALL).await;
    let (again, rows) = store.rows_read(&named("up"), TimeRange::ALL).await;
    assert_eq!((times(&got), times(&again), rows), (2, 2, 0), "{seen:?}");
    assert!(seen.is_sorted_by(|a, b| a >= b), "{seen:?}");
    cached.keyspace.drop().await;
}

#[tokio::test]
async fn what_is_old_is_read_again() {
    let cached = Cached::new().await;
    let plain = cached.keyspace.open().await;
    let short = ReadCacheOptions { max_age: Duration::from_millis(1_500), ..cached.options() };
    let short = cached.open_with(short, cached.keyspace.options()).await;
    let store = cached.open().await;
    let up = series("up", 1);
    Request::default().floats(&up, &[(10, 1.0)]).write(&plain).await;
    let before = all(&plain, &named("up"), TimeRange::ALL).await;
    for opened in [&short, &store] {
        assert_eq!(all(&opened.store, &named("up"), TimeRange::ALL).await, before);
    }
    // A late write of a neighbour raises no epoch.
    let (column, using) = (15u32.to_be_bytes().to_vec(), format!("TIMESTAMP {}", now()));
    let cql = format!(
        "INSERT INTO {{k}}.data_points (key, column1, value) VALUES (?, ?, ?) USING {using}"
    );
    let value = 2.5f64.to_be_bytes().to_vec();
    cached.keyspace.cql_with(&cql, (key(&up, 0, DataType::Double), column, value)).await;
    let after = all(&plain, &named("up"), TimeRange::ALL).await;
    assert_ne!(before, after);
    eventually("it is seen", async || {
        let got = all(&short.store, &named("up"), TimeRange::ALL).await;
        if got == after { Ok(()) } else { Err(format!("{got:?}")) }
    })
    .await;
    assert_eq!(
        all(&store.store, &named("up"), TimeRange::ALL).await,
        before,
        "an hour has not gone by"
    );
    cached.keyspace.drop().await;
}
