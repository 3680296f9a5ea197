//! The read cache beside a real KairosDB, which tells nobody of what it writes late.

use std::time::Duration;

use promkairos::kairos::TimeUnit;
use promkairos::model::TimeRange;
use promkairos::storage::cassandra::ReadCacheOptions;
use serde_json::json;

use super::both_ways::{AT, tags, unique};
use crate::cassandra::keyspace::{TestKeyspace, named, read};
use crate::cassandra::read_cache::{Cached, Opened};
use crate::support::eventually;
use crate::support::kairosdb::KairosDb;

/// The times of all points of a metric.
async fn times(opened: &Opened, metric: &str) -> Vec<i64> {
    let all = read(&opened.store, &named(metric), TimeRange::ALL).await;
    all.values().flatten().map(|point| point.timestamp).collect()
}

#[tokio::test]
async fn what_kairosdb_writes_late_is_seen_after_the_age_of_the_cache() {
    let kairosdb = KairosDb::shared(TimeUnit::Milliseconds).await;
    let cached = Cached::over(TestKeyspace::named(kairosdb.keyspace.clone()).await);
    let metric = &unique("late");
    let (young, short) = (cached.open().await, Duration::from_millis(1_500));
    let short = ReadCacheOptions { max_age: short, ..cached.options() };
    let short = cached.open_with(short, cached.keyspace.options()).await;
    kairosdb.ingest(metric, &tags(), "double", &[(AT, json!(0.5))]).await;
    kairosdb.query_until(metric, &["instance"], |all| all.len() == 1).await;
    for opened in [&young, &short] {
        assert_eq!(times(opened, metric).await, [AT]);
    }
    let rows = young.metrics.rows_read.get();
    // In the series and window that are there, so that it is only a row of data.
    kairosdb.ingest(metric, &tags(), "double", &[(AT + 1, json!(1.5))]).await;
    kairosdb
        .query_until(metric, &["instance"], |all| all.iter().any(|series| series.values.len() == 2))
        .await;
    eventually("the late point", async || {
        let times = times(&short, metric).await;
        if times == [AT, AT + 1] { Ok(()) } else { Err(format!("{times:?}")) }
    })
    .await;
    // An hour has not gone by.
    assert_eq!(times(&young, metric).await, [AT]);
    assert_eq!(young.metrics.rows_read.get(), rows);
}

/// The TTLs are those that KairosDB was asked for.
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
