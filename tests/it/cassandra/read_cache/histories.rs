//! Random writes, deletes and reads: a store without a read cache is the model of a store with one.

use promkairos::chunk::ChunkBuilder;
use promkairos::kairos::{DataType, RowSpec, TimeUnit};
use promkairos::model::{Matcher, Point, ResetHint, TimeRange, Value};
use promkairos::storage::cassandra::{CassandraStore, Options, ReadCacheOptions};
use promkairos::storage::{SeriesRun, Store};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::deletes::now;
use super::super::keyspace::{Request, TestKeyspace, named};
use super::{Cached, HOUR, WIDTH, all, flush, histogram, neighbour_writes, series};
use crate::support::{long, seed};

/// Makes one random change to a series.
async fn happens(random: &mut StdRng, keyspace: &TestKeyspace, stores: [&CassandraStore; 2]) {
    let store = stores[random.random_range(0..2)];
    let series = series(["a", "b"][random.random_range(0..2)], random.random_range(0..4));
    let time = random_time(random);
    let float = [0.5, -0.0, f64::NAN, 7.0, f64::INFINITY][random.random_range(0..5)];
    match random.random_range(0..10) {
        0 => {
            let matchers =
                [Matcher::equal("__name__", series.get("__name__")), Matcher::equal("host", "h1")];
            let range = TimeRange::new(time, time + random.random_range(0..2 * WIDTH));
            store.delete(&matchers, range).await.expect("deleted");
        }
        1 => {
            let histogram = histogram(random.random_range(1..20), ResetHint::Unknown);
            Request::default().histogram(&series, time, histogram).write(store).await;
        }
        2 => {
            let mut chunks = ChunkBuilder::default();
            for at in 0..20 {
                let (timestamp, value) = (time + at * 1_000, Value::Float(at as f64));
                chunks.push(&Point { timestamp, start_timestamp: 0, value }, now());
            }
            let runs = [SeriesRun { labels: series, chunks: chunks.finish() }];
            store.ingest_flush(flush(runs.into())).await.expect("absorbed");
        }
        // A new row of another type.
        3 if time >= 0 => {
            let (row_time, offset) = store.row_spec().split(time);
            let row = (row_time.millis(), DataType::Long);
            let (cell, using) = ((offset.to_bytes(), &[10][..]), format!("TIMESTAMP {}", now()));
            neighbour_writes(keyspace, &series, row, cell, &using).await;
            // This write makes the row of the neighbour visible, as its own late write raises no epoch.
            Request::default().floats(&series, &[(time, float)]).write(store).await;
        }
        _ => {
            // Some runs are several chunks within a step of the cache.
            let (count, every) = [(30, 15_000), (400, 1_000)][random.random_range(0..2)];
            let points: Vec<(i64, f64)> = (0..count).map(|at| (time + at * every, float)).collect();
            Request::default().floats(&series, &points).write(store).await;
        }
    }
}

/// A time in some windows, at their edges, or at the edge of settled time.
fn random_time(random: &mut StdRng) -> i64 {
    match random.random_range(0..6) {
        0 => random.random_range(-2 * HOUR..HOUR),
        1 => random.random_range(1..4) * WIDTH + random.random_range(-500_000..500_000),
        2 => now() - 600_000 + random.random_range(-1_200_000..600_000),
        _ => WIDTH + random.random_range(0..3 * HOUR),
    }
}

/// The store without a cache is the model.
async fn random_histories(row_spec: RowSpec) {
    let cached = Cached::new().await;
    // The series cache may miss rows that a neighbour has just indexed, so it is off.
    let options = Options { series_cache_bytes: 0, row_spec, ..cached.keyspace.options() };
    let plain = cached.keyspace.open_with(options.clone()).await;
    // Small, so that files are evicted all the time.
    let small = ReadCacheOptions { bytes: 8_000, ..cached.options() };
    let store = cached.open_with(small, options).await;
    let mut random = StdRng::seed_from_u64(seed());
    for _ in 0..if long() { 2_000 } else { 80 } {
        if random.random_range(0..4) == 0 {
            happens(&mut random, &cached.keyspace, [&plain, &store.store]).await;
        }
        for _ in 0..3 {
            let start = random_time(&mut random);
            let length = [HOUR, 3 * HOUR, WIDTH, 3 * WIDTH][random.random_range(0..4)];
            let range = match random.random_range(0..8) {
                0 => TimeRange::ALL,
                _ => TimeRange::new(start, start + random.random_range(0..length)),
            };
            let matchers = [named("a"), named("b"), vec![]][random.random_range(0..3)].clone();
            let got = all(&store.store, &matchers, range).await;
            assert_eq!(got, all(&plain, &matchers, range).await, "{range:?} of {matchers:?}");
        }
    }
    let metrics = &store.metrics;
    assert!(metrics.read_cache_hits.get() > 0 && metrics.read_cache_misses.get() > 0);
    assert!(metrics.read_cache_evictions.get() > 0);
    assert!(metrics.read_cache_bytes.get() <= 8_000);
    assert_eq!(metrics.read_cache_damaged.get(), 0);
    cached.keyspace.drop().await;
}

#[tokio::test]
async fn random_histories_are_read_as_without_a_cache() {
    random_histories(RowSpec::DEFAULT).await;
}

#[tokio::test]
async fn random_histories_of_whole_seconds_are_too() {
    random_histories(RowSpec::new(TimeUnit::Seconds, WIDTH).expect("valid")).await;
}
