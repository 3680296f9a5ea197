//! Builds and drops: what they cover, also under load and while processes start and end.

use std::collections::BTreeMap;

use promkairos::model::MatchOp::Equal;
use promkairos::model::{Matcher, TimeRange};
use promkairos::storage::Store;
use promkairos::storage::cassandra::{CassandraStore, Job, JobKind, JobState, Options};
use promkairos::telemetry::CassandraMetrics;
use scylla::value::CqlTimestamp;

use super::super::dead_rows::bury;
use super::super::keyspace::{TestKeyspace, matcher, named};
use super::existing::{forget_window, now, remember_window};
use super::neighbour::neighbour_writes;
use super::{
    WIDTH, cases, found, indexing, list, open, paths, scan, series, some_series, states, write,
};
use crate::support::{self, eventually};

/// Builds the index of a metric and waits for the end of the job.
pub(super) async fn build(store: &CassandraStore, metric: &str) -> Job {
    store.begin_tag_index_job(metric, JobKind::Build, 100_000).await.expect("it begins");
    ended(store, metric).await
}

/// Waits for the end of a job.
pub(super) async fn ended(store: &CassandraStore, metric: &str) -> Job {
    eventually("the job ends", async || {
        let mut jobs = store.tag_index_status().await.expect("a status").jobs;
        match jobs.remove(metric) {
            Some(job) if job.state != JobState::Running => Ok(job),
            job => Err(format!("{job:?}")),
        }
    })
    .await
}

#[tokio::test]
async fn a_build_covers_older_windows_while_everything_runs() {
    let keyspace = TestKeyspace::new().await;
    let old = some_series("m");
    let before = keyspace.open().await;
    for window in 0..4 {
        write(&before, &old, window * WIDTH + 1_000).await;
    }
    before.close().await.expect("closes");
    let store = open(&keyspace, &[("m", &[])]).await;
    let matchers = [named("m"), vec![matcher("host", Equal, "a")]].concat();
    let range = TimeRange::new(0, 4 * WIDTH - 1);
    assert_eq!(paths(&store, &matchers, range).await, ["row_keys"; 4]);
    store.begin_tag_index_job("m", JobKind::Build, 20).await.expect("it begins");
    let mut all = old;
    for number in 0..5 {
        let new = series("m", &[("host", "a"), ("new", &number.to_string())]);
        write(&store, std::slice::from_ref(&new), number * WIDTH / 2 + 2_000).await;
        all.push(new);
        assert_eq!(found(&store, &matchers, range).await, scan(&all, &matchers));
    }
    let job = ended(&store, "m").await;
    assert_eq!((job.state, job.windows_done, job.windows), (JobState::Done, 8, 8));
    assert!(job.rows >= 4 * 2 * 17, "{job:?}");
    assert_eq!(paths(&store, &matchers, range).await, ["host"; 4]);
    for (case, _) in cases() {
        let tags = case.iter().map(|(name, op, value)| matcher(name, *op, value));
        let matchers: Vec<Matcher> = named("m").into_iter().chain(tags).collect();
        assert_eq!(found(&store, &matchers, range).await, scan(&all, &matchers), "{case:?}");
    }
    keyspace.drop().await;
}

#[tokio::test]
async fn a_job_goes_on_in_another_process() {
    let keyspace = TestKeyspace::new().await;
    let all = some_series("m");
    let before = keyspace.open().await;
    for window in 0..6 {
        write(&before, &all, window * WIDTH + 1_000).await;
    }
    before.close().await.expect("closes");
    let store = open(&keyspace, &[("m", &["host"])]).await;
    store.begin_tag_index_job("m", JobKind::Build, 100).await.expect("it begins");
    let half = eventually("half of it is done", async || {
        let jobs = store.tag_index_status().await.expect("a status").jobs;
        match jobs.get("m") {
            Some(job) if job.windows_done >= 3 => Ok(job.windows_done),
            job => Err(format!("{job:?}")),
        }
    })
    .await;
    // The tasks of the store end without a word, as in a killed process.
    drop(store);
    let matchers = [named("m"), vec![matcher("host", Equal, "a")]].concat();
    let range = TimeRange::new(0, 6 * WIDTH - 1);
    let next = open(&keyspace, &[("m", &["host"])]).await;
    assert_eq!(found(&next, &matchers, range).await, scan(&all, &matchers));
    assert_eq!(paths(&next, &matchers, range).await, ["row_keys"; 6]);
    let job = ended(&next, "m").await;
    assert_eq!((job.state, job.windows_done), (JobState::Done, 12));
    let done_again = job.rows - 12 * 17;
    assert!(half < 12 && done_again <= 2 * 17, "it began anew: {job:?}");
    assert_eq!(paths(&next, &matchers, range).await, ["host"; 6]);
    assert_eq!(found(&next, &matchers, range).await, scan(&all, &matchers));
    keyspace.drop().await;
}

#[tokio::test]
async fn a_drop_takes_the_rows_of_what_is_no_longer_indexed() {
    let keyspace = TestKeyspace::new().await;
    let store = open(&keyspace, &[("m", &["host"]), ("n", &[])]).await;
    write(&store, &some_series("m"), 1_000).await;
    write(&store, &some_series("n"), 1_000).await;
    let begin = async |metric: &str, kind| {
        let begun = store.begin_tag_index_job(metric, kind, 1_000).await;
        begun.map_err(|error| error.to_string())
    };
    let refused = begin("m", JobKind::Drop).await.expect_err("refused");
    assert!(refused.contains("m is in tag_indexed_row_key_lookup_metrics"), "{refused}");
    let refused = begin("o", JobKind::Build).await.expect_err("refused");
    assert_eq!(refused, "o is not in tag_indexed_row_key_lookup_metrics");
    store.configure_tag_index(list(&[("n", &[])]));
    eventually("it may be dropped", async || begin("m", JobKind::Drop).await).await;
    let job = ended(&store, "m").await;
    assert!(job.state == JobState::Done && job.deleted > 0, "{job:?}");
    // No row is left to delete.
    begin("m", JobKind::Drop).await.expect("it begins");
    let again = ended(&store, "m").await;
    assert_eq!((again.state, again.rows, again.deleted), (JobState::Done, job.rows, 0));
    let rows = "SELECT metric, data_type FROM {k}.tag_indexed_row_keys";
    let left: Vec<(String, Option<String>)> = keyspace.rows(rows).await;
    // The static column of a partition stays, without rows.
    let left: Vec<_> = left.into_iter().filter(|(_, data_type)| data_type.is_some()).collect();
    assert!(!left.is_empty() && left.iter().all(|(metric, _)| metric == "n"), "{left:?}");
    let matchers = [named("m"), vec![matcher("host", Equal, "a")]].concat();
    let want = scan(&some_series("m"), &matchers);
    assert_eq!(found(&store, &matchers, TimeRange::ALL).await, want);
    keyspace.drop().await;
}

#[tokio::test]
async fn a_build_covers_what_no_list_and_no_time_index_has() {
    for (list, target) in [("*", "*"), ("gone", "gone")] {
        let keyspace = TestKeyspace::new().await;
        let (before, at) = (keyspace.open().await, now());
        for window in 0..2 {
            write(&before, &some_series("m"), window * WIDTH + 1_000).await;
            write(&before, &some_series("unlisted"), window * WIDTH + 1_000).await;
        }
        write(&before, &some_series("gone"), at).await;
        before.close().await.expect("closes");
        for table in ["metric_names", "prometheus_metric_names"] {
            let cql = format!(
                "DELETE FROM {{k}}.string_index WHERE key = textAsBlob('{table}') \
                 AND column1 = 'unlisted'"
            );
            keyspace.cql(&cql).await;
        }
        forget_window(&keyspace, "gone").await;
        let store = open(&keyspace, &[(list, &[])]).await;
        let job = build(&store, target).await;
        assert_eq!((job.state, job.error), (JobState::Done, None));
        remember_window(&keyspace, "gone", at).await;
        for (metric, windows) in [("m", 2), ("unlisted", 2), ("gone", 1)] {
            let matchers = [named(metric), vec![matcher("host", Equal, "a")]].concat();
            let path = if list == "*" || metric == list { "host" } else { "row_keys" };
            let path = vec![path; windows];
            assert_eq!(paths(&store, &matchers, TimeRange::ALL).await, path, "{target} {metric}");
            for (case, _) in cases() {
                let tags = case.iter().map(|(name, op, value)| matcher(name, *op, value));
                let matchers: Vec<Matcher> = named(metric).into_iter().chain(tags).collect();
                let want = scan(&some_series(metric), &matchers);
                let got = found(&store, &matchers, TimeRange::ALL).await;
                assert_eq!(got, want, "{target} {metric} {case:?}");
            }
        }
        keyspace.drop().await;
    }
}

/// The expiry of a KairosDB row is unknown; an index row that expires first would hide it.
#[tokio::test]
async fn a_build_writes_rows_that_last_as_long_as_what_they_lead_to() {
    let keyspace = TestKeyspace::new().await;
    let ttl = |options: Options| Options { ttl_seconds: 400_000, ..options };
    let before = keyspace.open_with(ttl(keyspace.options())).await;
    let ours = series("m", &[("host", "a")]);
    let theirs = series("m", &[("host", "a"), ("by", "kairosdb")]);
    neighbour_writes(&keyspace, &theirs, 0).await;
    write(&before, std::slice::from_ref(&ours), 1_000).await;
    before.close().await.expect("closes");
    let options = ttl(indexing(&keyspace, &[("m", &["host"])]));
    let store = keyspace.open_with(options).await;
    assert_eq!(build(&store, "m").await.state, JobState::Done);
    type Row = (BTreeMap<String, String>, Option<i32>);
    let ttls = async |table: &str| {
        let cql = format!(
            "SELECT tags, TTL(value) FROM {{k}}.{table} WHERE metric = 'm' \
             AND table_name = 'data_points' ALLOW FILTERING"
        );
        let rows: Vec<Row> = keyspace.rows(&cql).await;
        let of = |by: bool| {
            let mut rows = rows.iter().filter(|(tags, _)| tags.contains_key("by") == by);
            rows.next().unwrap_or_else(|| panic!("{table}: {rows:?}")).1
        };
        (of(false), of(true))
    };
    let (ours, theirs) = ttls("row_keys").await;
    let (tag_of_ours, tag_of_theirs) = ttls("tag_indexed_row_keys").await;
    assert_eq!((theirs, tag_of_theirs), (None, None));
    let (ours, tag) = (ours.expect("it ends"), tag_of_ours.expect("it ends"));
    assert!(ours > 400_000 && tag.abs_diff(ours) < 60, "{ours} {tag}");
    keyspace.drop().await;
}

/// More tombstones than Cassandra reads past; the windows with them are neighbours on its ring.
const DEAD: i32 = 110_000;

#[tokio::test]
async fn a_build_of_all_metrics_gets_past_deleted_windows() {
    let (keyspace, metrics) = (TestKeyspace::new().await, CassandraMetrics::default());
    let before = keyspace.open().await;
    for metric in ["m", "n"] {
        write(&before, &some_series(metric), 1_000).await;
    }
    before.close().await.expect("closes");
    let row_keys = "DELETE FROM {k}.row_keys WHERE metric = ? AND table_name = 'data_points' AND row_time = ? \
                    AND data_type = 'kairos_double' AND tags = {'host': 'a'}";
    let row_times = "DELETE FROM {k}.row_key_time_index WHERE metric = ? AND table_name = 'data_points' \
                     AND row_time = ?";
    for cql in [row_keys, row_times] {
        bury(&keyspace, DEAD, cql, |at| (format!("dead_{at}"), CqlTimestamp(0))).await;
    }
    let options = indexing(&keyspace, &[("*", &["host"])]);
    let store = support::cassandra::open(options, &metrics).await;
    let states = states(&store).await;
    assert!(states.iter().all(|(tag, _)| tag.ends_with("readable")), "{states:?}");
    assert!(metrics.reads_given_up.get() > 0, "there are fewer tombstones than the test needs");
    let job = build(&store, "*").await;
    assert_eq!((job.state, job.windows_done), (JobState::Done, 4));
    let matchers = [named("m"), vec![matcher("host", Equal, "a")]].concat();
    let range = TimeRange::new(0, WIDTH - 1);
    assert_eq!(paths(&store, &matchers, range).await, ["host"]);
    assert_eq!(found(&store, &matchers, range).await, scan(&some_series("m"), &matchers));
    keyspace.drop().await;
}
