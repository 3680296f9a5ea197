//! The read cache beside a real KairosDB, which does not announce its late writes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use promkairos::kairos::TimeUnit;
use promkairos::model::{METRIC_NAME, TimeRange};
use promkairos::storage::Clock;
use promkairos::storage::cassandra::ReadCacheOptions;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use super::both_ways::{AT, tags, unique};
use crate::cassandra::keyspace::{Request, TestKeyspace, labels, named, read};
use crate::cassandra::read_cache::{Cached, Opened};
use crate::support::kairosdb::KairosDb;
use crate::support::{self, eventually};

/// How long points are used after their first read.
const FIRST: Duration = Duration::from_secs(10);

/// The times of all points of a metric.
async fn times(opened: &Opened, metric: &str) -> Vec<i64> {
    let all = read(&opened.store, &named(metric), TimeRange::ALL).await;
    all.values().flatten().map(|point| point.timestamp).collect()
}

/// Both write into settled time, in random order, and the points are read through a cache whose clock is moved.
/// Points of a promkairos are visible at once, and points of a KairosDB as soon as the earlier read has expired.
#[tokio::test]
async fn unions_of_both_writers_are_seen_when_what_was_read_is_over() {
    let kairosdb = KairosDb::shared(TimeUnit::Milliseconds).await;
    let cached = Cached::over(TestKeyspace::named(kairosdb.keyspace.clone()).await);
    let metric = &unique("union");
    let time = Arc::new(AtomicI64::new(0));
    let shown = time.clone();
    let clock = Clock::new(move || shown.load(Ordering::Relaxed));
    let options = ReadCacheOptions { min_age: FIRST, clock, ..cached.options() };
    let store = cached.open_with(options, cached.keyspace.options()).await;
    let series = labels(&[(METRIC_NAME, metric), ("instance", &tags()["instance"])]);
    let mut random = StdRng::seed_from_u64(support::seed());
    let (mut all, mut by_kairosdb) = (BTreeSet::new(), 0);
    for round in 0..12 {
        let at = AT + random.random_range(0..100_000);
        if !all.insert(at) {
            continue;
        }
        let is_ours = round % 3 == 0 || random.random();
        match is_ours {
            true => {
                Request::default().floats(&series, &[(at, 0.5)]).write(&store.store).await;
            }
            false => {
                by_kairosdb += 1;
                kairosdb.ingest(metric, &tags(), "double", &[(at, json!(0.5))]).await;
                let count = all.len();
                kairosdb
                    .query_until(metric, &["instance"], |found| {
                        found.iter().map(|series| series.values.len()).sum::<usize>() == count
                    })
                    .await;
                // All earlier reads expire then: the points were changed each time.
                time.fetch_add(FIRST.as_millis() as i64, Ordering::Relaxed);
            }
        }
        assert!(times(&store, metric).await.into_iter().eq(all.iter().copied()), "{round}");
        let rows = store.metrics.rows_read.get();
        assert!(times(&store, metric).await.into_iter().eq(all.iter().copied()), "{round}");
        assert_eq!(store.metrics.rows_read.get(), rows, "a second read comes from the cache");
    }
    assert!(by_kairosdb > 0);
    // Unchanged points are used twice as long after each read.
    for doublings in 1..5 {
        time.fetch_add(FIRST.as_millis() as i64 * (1 << (doublings - 1)), Ordering::Relaxed);
        let rows = store.metrics.rows_read.get();
        times(&store, metric).await;
        assert!(store.metrics.rows_read.get() > rows, "{doublings}");
        let rows = store.metrics.rows_read.get();
        time.fetch_add(FIRST.as_millis() as i64 * (1 << doublings) - 1, Ordering::Relaxed);
        times(&store, metric).await;
        assert_eq!(store.metrics.rows_read.get(), rows, "{doublings}");
        time.fetch_sub(FIRST.as_millis() as i64 * (1 << doublings) - 1, Ordering::Relaxed);
    }
}

/// Points expire by the TTL of the request to KairosDB.
#[tokio::test]
async fn what_kairosdb_wrote_with_a_time_to_live_goes() {
    let kairosdb = KairosDb::shared(TimeUnit::Milliseconds).await;
    let cached = Cached::over(TestKeyspace::named(kairosdb.keyspace.clone()).await);
    let (metric, store) = (&unique("short"), cached.open().await);
    kairosdb.ingest(metric, &tags(), "long", &[(AT, json!(1))]).await;
    kairosdb.ingest_for(metric, &tags(), "long", &[(AT + 1, json!(2))], 8).await;
    kairosdb
        .query_until(metric, &["instance"], |all| all.iter().any(|series| series.values.len() == 2))
        .await;
    assert!(times(&store, metric).await.starts_with(&[AT]));
    eventually("one is gone", async || {
        let times = times(&store, metric).await;
        if times == [AT] { Ok(()) } else { Err(format!("{times:?}")) }
    })
    .await;
}
