//! Deletes beside a real KairosDB: series that either deletes can be written again at once by both.

use std::time::{Duration, SystemTime};

use promkairos::kairos::TimeUnit;
use promkairos::model::Labels;
use promkairos::storage::cassandra::Options;
use promkairos::telemetry::CassandraMetrics;
use serde_json::json;

use super::both_ways::{AT, Both, labels, tags, unique};
use super::points::{kairosdb_shows, of_promkairos, send, store_shows};
use crate::cassandra::keyspace::Request;
use crate::delete_command;
use crate::support::kairosdb::KairosDb;
use crate::support::{self, eventually};

pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.expect("after 1970").as_millis() as i64
}

/// One metric in a window that closed long ago, and one in the current window.
fn windows() -> [(String, i64); 2] {
    [(unique("closed"), AT), (unique("open"), now())]
}

/// Waits until the program shows points of a metric at these times and no others.
async fn promkairos_shows(both: &Both, metric: &str, times: &[i64]) {
    eventually(&format!("{metric} has points at {times:?}"), async || {
        let all = of_promkairos(&both.server, metric).await?;
        let found: Vec<i64> = all.values().flat_map(|points| points.keys().copied()).collect();
        if found == times { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

async fn both_show(both: &Both, metric: &str, times: &[i64]) {
    kairosdb_shows(&both.kairosdb, metric, times).await;
    promkairos_shows(both, metric, times).await;
}

/// Both write to one series, KairosDB also in a type that we do not write.
async fn both_write(both: &Both, metric: &str, time: i64) -> [i64; 3] {
    both.kairosdb.ingest(metric, &tags(), "double", &[(time, json!(0.5))]).await;
    both.kairosdb.ingest(metric, &tags(), "long", &[(time + 1, json!(2))]).await;
    send(&both.server, &labels(metric), &[(time + 2, 1.5)]).await;
    [time, time + 1, time + 2]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_promkairos_deletes_both_can_write_again() {
    let both = Both::start_with(TimeUnit::Milliseconds, &["--enable-admin-api=true"]).await;
    let (folder, url) = (tempfile::tempdir().expect("a folder"), both.server.url(""));
    for (metric, time) in windows() {
        for round in 0..3 {
            let times = both_write(&both, &metric, time + 10 * round).await;
            both_show(&both, &metric, &times).await;
            let end = (time + 1_000).to_string();
            let asked = ["--match", &metric, "--start=0", "--end", &end, "--server", &url];
            let deleted = delete_command::delete(folder.path(), &asked);
            assert!(delete_command::said(&deleted).starts_with("Deleted what "));
            both_show(&both, &metric, &[]).await;
        }
    }
}

#[tokio::test]
async fn what_kairosdb_deletes_both_can_write_again() {
    let kairosdb = KairosDb::shared(TimeUnit::Milliseconds).await;
    // Index rows that KairosDB deleted are detected by a recheck, here before every write.
    let options = support::cassandra::options(support::cassandra(), &kairosdb.keyspace);
    let options = Options { index_recheck: Duration::ZERO, ..options };
    let store = support::cassandra::open(options, &CassandraMetrics::default()).await;
    for (metric, time) in windows() {
        let series = Labels::from_pairs(labels(&metric)).expect("labels");
        for time in [time, time + 10, time + 20] {
            kairosdb.ingest(&metric, &tags(), "double", &[(time, json!(0.5))]).await;
            kairosdb.ingest(&metric, &tags(), "long", &[(time + 1, json!(2))]).await;
            Request::default().floats(&series, &[(time + 2, 1.5)]).write(&store).await;
            let times = [time, time + 1, time + 2];
            kairosdb_shows(&kairosdb, &metric, &times).await;
            store_shows(&store, &metric, &times).await;
            kairosdb.delete(&metric).await;
            kairosdb_shows(&kairosdb, &metric, &[]).await;
            store_shows(&store, &metric, &[]).await;
        }
    }
}
