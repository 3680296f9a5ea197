//! Deletes, and the flushes of a head.

use std::sync::Arc;

use promkairos::chunk::ChunkBuilder;
use promkairos::model::{Exemplar, Labels, Matcher, Metadata, MetricType, Point, TimeRange, Value};
use promkairos::storage::{Flush, SeriesRun, Store};
use scylla::value::CqlTimestamp;

use super::keyspace::{Request, TestKeyspace, bits, labels, named, read};

const WIDTH: i64 = 1_814_400_000;

pub(super) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.expect("after 1970").as_millis() as i64
}

#[tokio::test]
async fn a_delete_takes_what_it_should_and_a_new_write_is_seen_at_once() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let (a, b) =
        (labels(&[("__name__", "up"), ("job", "a")]), labels(&[("__name__", "up"), ("job", "b")]));
    let points = [(10, 1.0), (20, f64::NAN), (30, 3.0), (WIDTH + 10, 4.0), (2 * WIDTH, 5.0)];
    Request::default().floats(&a, &points).floats(&b, &points).write(&store).await;
    let job_a = [Matcher::equal("__name__", "up"), Matcher::equal("job", "a")];
    store.delete(&job_a, TimeRange::new(20, 2 * WIDTH - 1)).await.expect("deleted");
    let all = read(&store, &named("up"), TimeRange::ALL).await;
    assert_eq!(bits(&all[&a]), [(10, 1.0f64.to_bits()), (2 * WIDTH, 5.0f64.to_bits())]);
    assert_eq!(bits(&all[&b]).len(), 5);
    // The window from WIDTH on was wholly in the range and closed long ago: the index row of `a` is gone.
    let cql = "SELECT tags['job'] FROM {k}.row_keys WHERE metric = 'up' \
               AND table_name = 'data_points' AND row_time = 1814400000";
    assert_eq!(keyspace.rows::<(String,)>(cql).await, [("b".into(),)]);
    Request::default().floats(&a, &[(30, 6.0), (WIDTH + 10, 7.0)]).write(&store).await;
    let all = read(&store, &job_a, TimeRange::ALL).await;
    let want = [(10, 1.0), (30, 6.0), (WIDTH + 10, 7.0), (2 * WIDTH, 5.0)];
    assert_eq!(bits(&all[&a]), want.map(|(time, value): (i64, f64)| (time, value.to_bits())));
    store.delete(&[], TimeRange::ALL).await.expect("deleted");
    assert!(read(&store, &[], TimeRange::ALL).await.is_empty());
    let left: Vec<(String,)> = keyspace.rows("SELECT metric FROM {k}.row_key_time_index").await;
    assert!(left.is_empty(), "{left:?}");
    keyspace.drop().await;
}

/// This holds for any range: the delete checks whether the closed window has other points.
#[tokio::test]
async fn index_rows_go_with_the_last_point_of_a_closed_window() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let (a, b) =
        (labels(&[("__name__", "up"), ("job", "a")]), labels(&[("__name__", "up"), ("job", "b")]));
    Request::default()
        .floats(&a, &[(10, 1.0), (20, 2.0)])
        .floats(&b, &[(10, 1.0)])
        .write(&store)
        .await;
    store.delete(&named("up"), TimeRange::new(9, 11)).await.expect("deleted");
    let cql = "SELECT tags['job'] FROM {k}.row_keys";
    assert_eq!(keyspace.rows::<(Option<String>,)>(cql).await, [(Some("a".into()),)]);
    store.delete(&named("up"), TimeRange::new(19, 21)).await.expect("deleted");
    // Only the static column of the window is left.
    assert_eq!(keyspace.rows::<(Option<String>,)>(cql).await, [(None,)]);
    let left: Vec<(String,)> = keyspace.rows("SELECT metric FROM {k}.row_key_time_index").await;
    assert!(left.is_empty(), "{left:?}");
    keyspace.drop().await;
}

#[tokio::test]
async fn index_rows_of_a_live_window_stay() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let up = labels(&[("__name__", "up")]);
    let time = now();
    Request::default().floats(&up, &[(time, 1.0)]).write(&store).await;
    store.delete(&named("up"), TimeRange::ALL).await.expect("deleted");
    assert!(keyspace.data_points().await.is_empty());
    let index: Vec<(String,)> = keyspace.rows("SELECT data_type FROM {k}.row_keys").await;
    assert_eq!(index.len(), 1);
    Request::default().floats(&up, &[(time, 2.0)]).write(&store).await;
    let all = read(&store, &named("up"), TimeRange::ALL).await;
    assert_eq!(bits(&all[&up]), [(time, 2.0f64.to_bits())]);
    keyspace.drop().await;
}

/// A KairosDB remembers the index rows that it wrote until it stops.
#[tokio::test]
async fn index_rows_that_a_neighbour_wrote_too_stay() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let [a, b] = ["a", "b"].map(|job| labels(&[("__name__", "up"), ("job", job)]));
    Request::default().floats(&a, &[(1, 1.0), (WIDTH, 1.0)]).write(&store).await;
    Request::default().floats(&b, &[(1, 1.0)]).write(&store).await;
    for cql in [
        "INSERT INTO {k}.row_keys (metric, table_name, row_time, data_type, tags, mtime) VALUES \
         ('up', 'data_points', 0, 'kairos_double', {'job': 'a'}, now()) USING TIMESTAMP 1",
        "INSERT INTO {k}.row_key_time_index (metric, table_name, row_time) VALUES \
         ('up', 'data_points', 1814400000) USING TIMESTAMP 1",
    ] {
        keyspace.cql(cql).await;
    }
    store.delete(&named("up"), TimeRange::ALL).await.expect("deleted");
    let cql = "SELECT tags['job'], value FROM {k}.row_keys";
    let mut left: Vec<(Option<String>, Option<String>)> = keyspace.rows(cql).await;
    left.retain(|(job, _)| job.is_some());
    assert_eq!(left, [(Some("a".into()), None)]);
    let mut left: Vec<(CqlTimestamp,)> =
        keyspace.rows("SELECT row_time FROM {k}.row_key_time_index").await;
    left.sort();
    assert_eq!(left, [(CqlTimestamp(0),), (CqlTimestamp(WIDTH),)]);
    // Later writes have index rows that last as long as their data, for every reader.
    Request::default().floats(&a, &[(2, 2.0)]).write(&store).await;
    let all = read(&keyspace.open().await, &named("up"), TimeRange::ALL).await;
    assert_eq!(bits(&all[&a]), [(2, 2.0f64.to_bits())]);
    keyspace.drop().await;
}

#[tokio::test]
async fn index_rows_that_another_adapter_may_remember_stay() {
    let keyspace = TestKeyspace::new().await;
    let (store, other) = (keyspace.open().await, keyspace.open().await);
    let up = labels(&[("__name__", "up")]);
    Request::default().floats(&up, &[(1, 1.0)]).write(&other).await;
    store.delete(&named("up"), TimeRange::ALL).await.expect("deleted");
    // The other store relies on the rows that it remembers.
    Request::default().floats(&up, &[(2, 2.0)]).write(&other).await;
    let want = [(2, 2.0f64.to_bits())];
    assert_eq!(bits(&read(&store, &named("up"), TimeRange::ALL).await[&up]), want);
    other.close().await.expect("closed");
    store.delete(&named("up"), TimeRange::ALL).await.expect("deleted");
    let left: Vec<(String,)> = keyspace.rows("SELECT metric FROM {k}.row_key_time_index").await;
    assert!(left.is_empty(), "{left:?}");
    keyspace.drop().await;
}

/// Index rows of many closed windows, for a delete that takes a while.
const WINDOWS: i64 = 300;

/// Two series in each of [`WINDOWS`] windows.
async fn fill_windows(store: &dyn Store) -> [Labels; 2] {
    let series = ["a", "b"].map(|job| labels(&[("__name__", "old"), ("job", job)]));
    let points: Vec<_> = (0..WINDOWS).map(|window| (window * WIDTH, 1.0)).collect();
    let [a, b] = &series;
    Request::default().floats(a, &points).floats(b, &points).write(store).await;
    series
}

async fn windows_left(keyspace: &TestKeyspace) -> i64 {
    let cql = "SELECT COUNT(*) FROM {k}.row_key_time_index WHERE metric = 'old'";
    keyspace.rows::<(i64,)>(cql).await[0].0
}

#[tokio::test]
async fn a_delete_whose_caller_went_away_ends_and_hides_nothing() {
    let keyspace = TestKeyspace::new().await;
    let store = Arc::new(keyspace.open().await);
    let [a, _] = fill_windows(&*store).await;
    let deleting = Arc::clone(&store);
    let delete = tokio::spawn(async move { deleting.delete(&named("old"), TimeRange::ALL).await });
    while windows_left(&keyspace).await == WINDOWS {}
    delete.abort();
    let points: Vec<_> = (0..WINDOWS).map(|window| (window * WIDTH + 1, 2.0)).collect();
    Request::default().floats(&a, &points).write(&*store).await;
    store.close().await.expect("closed");
    // The task has ended: nothing is left of `b`, and every reader of the index finds `a`.
    let cql = "SELECT tags['job'] FROM {k}.row_keys";
    let mut left: Vec<(Option<String>,)> = keyspace.rows(cql).await;
    left.dedup();
    assert_eq!(left, [(Some("a".into()),)]);
    let other = keyspace.open().await;
    let all = read(&other, &named("old"), TimeRange::ALL).await;
    let want: Vec<_> = points.iter().map(|(time, value)| (*time, value.to_bits())).collect();
    assert_eq!(bits(&all[&a]), want);
    assert_eq!(all.len(), 1);
    keyspace.drop().await;
}

fn run(points: &[(i64, f64, i64)]) -> Vec<promkairos::chunk::Chunk> {
    let mut builder = ChunkBuilder::default();
    for (timestamp, value, stamp) in points {
        let value = Value::Float(*value);
        builder.push(&Point { timestamp: *timestamp, start_timestamp: 0, value }, *stamp);
    }
    builder.finish()
}

/// A flush of these runs and nothing else.
pub(super) fn flush(runs: Vec<SeriesRun>) -> Flush<'static> {
    let (exemplars, days, metadata, pace) = Default::default();
    Flush { through: 1, runs: Box::new(runs.into_iter()), exemplars, days, metadata, pace }
}

#[tokio::test]
async fn a_flush_of_very_many_exemplars_and_families_comes_back_whole() {
    const EXEMPLARS: i64 = 45_000;
    const FAMILIES: usize = 2_500;
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let series = ["a", "b"].map(|job| labels(&[("__name__", "rpc"), ("job", job)]));
    let exemplar = |n: i64| Exemplar {
        labels: labels(&[("trace_id", &format!("{n:016x}"))]),
        value: n as f64,
        timestamp: n / 2,
    };
    let half = EXEMPLARS / 2;
    let exemplars: Vec<(Labels, Vec<Exemplar>)> = vec![
        (series[0].clone(), (0..half).map(exemplar).collect()),
        (series[1].clone(), (half..EXEMPLARS).map(exemplar).collect()),
    ];
    let metadata = |n: usize| {
        let kind = MetricType::Counter;
        (format!("f{n:06}"), Metadata { kind, help: format!("help {n}"), unit: String::new() })
    };
    let metadata: Vec<(String, Metadata)> = (0..FAMILIES).map(metadata).collect();
    let (sent, families) = (exemplars.clone(), metadata.clone());
    let flush = Flush { exemplars, metadata, ..flush(Vec::new()) };
    assert_eq!(store.ingest_flush(flush).await.expect("absorbed").refused, 0);
    let found =
        store.exemplars(&named("rpc"), TimeRange::ALL, usize::MAX).await.expect("exemplars");
    // Not `assert_eq`, which would print all of them.
    assert!(found == sent, "{} series", found.len());
    assert!(store.metadata(None, usize::MAX).await.expect("metadata") == families);
    keyspace.drop().await;
}

#[tokio::test]
async fn a_flush_carries_the_stamps_of_acceptance() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let up = labels(&[("__name__", "up"), ("job", "a")]);
    let early = now() - 60_000;
    let mut chunks = run(&[(10, 1.0, early), (20, 2.0, early + 1), (30, f64::NAN, early + 2)]);
    chunks.extend(run(&[(20, 9.0, early + 3)]));
    let runs = vec![SeriesRun { labels: up.clone(), chunks: chunks.clone() }];
    let absorbed = store.ingest_flush(flush(runs)).await.expect("absorbed");
    assert_eq!((absorbed.points, absorbed.refused), (4, 0));
    let want = [(10, 1.0), (20, 9.0), (30, f64::NAN)].map(|(t, v): (i64, f64)| (t, v.to_bits()));
    assert_eq!(bits(&read(&store, &named("up"), TimeRange::ALL).await[&up]), want);
    let cql = "SELECT column1, WRITETIME(value) FROM {k}.data_points";
    let mut stamps: Vec<(Vec<u8>, i64)> = keyspace.rows(cql).await;
    stamps.sort();
    let stamps: Vec<i64> = stamps.into_iter().map(|(_, stamp)| stamp - early).collect();
    assert_eq!(stamps, [0, 3, 2]);
    // A repeated flush does not undo a later write.
    Request::default().floats(&up, &[(10, 5.0)]).write(&store).await;
    store.ingest_flush(flush(vec![SeriesRun { labels: up.clone(), chunks }])).await.expect("again");
    let all = read(&store, &named("up"), TimeRange::new(10, 10)).await;
    assert_eq!(bits(&all[&up]), [(10, 5.0f64.to_bits())]);
    // A delete hides only the points that were accepted before it.
    store.delete_accepted(&named("up"), TimeRange::ALL, early + 2).await.expect("deleted");
    let want = [(10, 5.0f64.to_bits()), (20, 9.0f64.to_bits())];
    assert_eq!(bits(&read(&store, &named("up"), TimeRange::ALL).await[&up]), want);
    keyspace.drop().await;
}

/// The same floats of every series, accepted now.
pub(super) fn flush_of(series: &[Labels], points: &[(i64, f64)]) -> Flush<'static> {
    let stamp = now();
    let stamped: Vec<_> = points.iter().map(|(time, value)| (*time, *value, stamp)).collect();
    let one = |labels: &Labels| SeriesRun { labels: labels.clone(), chunks: run(&stamped) };
    flush(series.iter().map(one).collect())
}

/// The lines of a quarantine file.
pub(super) fn quarantined(file: &std::path::Path) -> Vec<serde_json::Value> {
    let lines = std::fs::read_to_string(file).expect("the quarantine file");
    lines.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

#[tokio::test]
async fn a_flush_puts_what_cannot_be_stored_into_quarantine_and_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let quarantine = folder.path().join("quarantine.jsonl");
    let keyspace = TestKeyspace::new().await;
    let mut options = keyspace.options();
    options.quarantine = Some(quarantine.clone());
    let store = keyspace.open_with(options).await;
    let good = labels(&[("__name__", "up")]);
    let bad = labels(&[("__name__", "a\0b"), ("job", "x")]);
    let stamp = now();
    let points = run(&[(10, 1.5, stamp), (20, f64::INFINITY, stamp + 1)]);
    let flushed = || {
        let runs = [&bad, &good];
        let run = |labels: &Labels| SeriesRun { labels: labels.clone(), chunks: points.clone() };
        flush(runs.map(run).into())
    };
    let absorbed = store.ingest_flush(flushed()).await.expect("absorbed");
    assert_eq!((absorbed.points, absorbed.refused, absorbed.reasons.len()), (2, 2, 1));
    assert_eq!(bits(&read(&store, &named("up"), TimeRange::ALL).await[&good]).len(), 2);
    let lines = quarantined(&quarantine);
    let values = [
        ("kairos_double", serde_json::json!(1.5)),
        ("prom_double", serde_json::json!("7ff0000000000000")),
    ];
    for (at, (data_type, value)) in values.into_iter().enumerate() {
        let want = serde_json::json!({
            "metric": "a\0b", "tags": {"job": "x"}, "timestamp": 10 + 10 * at as i64,
            "data_type": data_type, "value": value, "stamp": stamp + at as i64,
            "reason": lines[at]["reason"],
        });
        assert_eq!(lines[at], want);
        assert!(lines[at]["reason"].as_str().is_some_and(|why| why.contains("NUL")), "{lines:?}");
    }
    // A repeated flush stores nothing twice.
    store.ingest_flush(flushed()).await.expect("absorbed again");
    assert_eq!(quarantined(&quarantine), lines);
    keyspace.drop().await;
}
