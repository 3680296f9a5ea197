//! The tag index: what is written, what is read through it, and that every way of selecting
//! series gives what a scan of all of them gives.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use promkairos::kairos::DataType;
use promkairos::model::MatchOp::{Equal, NotEqual, NotRegex, Regex};
use promkairos::model::{Labels, MatchOp, Matcher, TimeRange};
use promkairos::storage::cassandra::{
    CassandraStore, Job, JobKind, JobState, Options, TagIndexOptions, TagIndexTrust, TagStatus,
    WindowPath,
};
use promkairos::storage::{SeriesQuery, Store};
use promkairos::telemetry::CassandraMetrics;
use scylla::value::CqlTimestamp;

use super::keyspace::{Request, TestKeyspace, key, labels, matcher, named, read};
use crate::support::eventually;

const WIDTH: i64 = 1_814_400_000;

/// Tags by metric.
type List<'a> = &'a [(&'a str, &'a [&'a str])];

fn list(metrics: List<'_>) -> BTreeMap<String, BTreeSet<String>> {
    let tags = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect();
    metrics.iter().map(|(metric, list)| ((*metric).to_owned(), tags(list))).collect()
}

fn indexing(keyspace: &TestKeyspace, metrics: List<'_>) -> Options {
    let refresh = Duration::from_millis(50);
    let tag_index =
        TagIndexOptions { metrics: list(metrics), refresh, ..TagIndexOptions::default() };
    // Nothing in memory: what is there is not looked up in any index.
    Options { tag_index, series_cache_bytes: 0, ..keyspace.options() }
}

async fn open(keyspace: &TestKeyspace, metrics: List<'_>) -> CassandraStore {
    keyspace.open_with(indexing(keyspace, metrics)).await.expect("the store opens")
}

fn series(metric: &str, tags: &[(&str, &str)]) -> Labels {
    let pairs: Vec<_> = tags.iter().copied().chain([("__name__", metric)]).collect();
    labels(&pairs)
}

/// Series of one metric with tags that are there or not, and values that look alike.
fn some_series(metric: &str) -> Vec<Labels> {
    let mut all = vec![series(metric, &[]), series(metric, &[("other", "a")])];
    for host in ["a", "b", "a=b", "h:9100", "ä"] {
        all.push(series(metric, &[("host", host)]));
        for dc in ["x", "y"] {
            all.push(series(metric, &[("host", host), ("dc", dc), ("job", "j")]));
        }
    }
    all
}

async fn write(store: &CassandraStore, all: &[Labels], at: i64) {
    let add = |request: Request, series: &Labels| {
        request.floats(series, &[(at, 1.0), (at + 1, f64::NAN)])
    };
    all.iter().fold(Request::default(), add).write(store).await;
}

/// The series that the store finds, sorted.
async fn found(store: &CassandraStore, matchers: &[Matcher], range: TimeRange) -> Vec<Labels> {
    let by_data: Vec<Labels> = read(store, matchers, range).await.into_keys().collect();
    let query = SeriesQuery { matchers: matchers.to_vec(), range, limit: 0 };
    let by_index = store.series(&query).await.expect("series").items;
    assert_eq!(by_data, by_index);
    by_data
}

fn scan(all: &[Labels], matchers: &[Matcher]) -> Vec<Labels> {
    let passes = |series: &&Labels| matchers.iter().all(|m| m.matches(series.get(m.name())));
    let mut all: Vec<Labels> = all.iter().filter(passes).cloned().collect();
    all.sort();
    all
}

/// The tags by which the windows of the range are read, one a window; none = `row_keys`.
async fn paths(store: &CassandraStore, matchers: &[Matcher], range: TimeRange) -> Vec<String> {
    let explanation = store.explain(matchers, range).await.expect("an explanation");
    let name = |path: &WindowPath| match path {
        WindowPath::TagIndex { tag, .. } => tag.clone(),
        WindowPath::Memory => "memory".to_owned(),
        WindowPath::RowKeys => "row_keys".to_owned(),
    };
    let of = |window: &promkairos::storage::cassandra::WindowExplanation| {
        window.paths.iter().map(name).collect::<Vec<_>>().join(" and ")
    };
    explanation.windows.iter().filter(|w| w.table_name == "data_points").map(of).collect()
}

/// Matchers, and the tags that they can use.
type Case = (Vec<(&'static str, MatchOp, &'static str)>, &'static [&'static str]);

/// Each kind of matcher.
fn cases() -> Vec<Case> {
    vec![
        (vec![("host", Equal, "a")], &["host"]),
        (vec![("host", Equal, "h:9100")], &["host"]),
        (vec![("host", Equal, "a=b")], &["host"]),
        (vec![("host", Equal, "gone")], &["host"]),
        (vec![("host", Regex, "a|ä|gone")], &["host"]),
        (vec![("host", Regex, "a.*")], &[]),
        (vec![("host", Regex, "a|")], &[]),
        (vec![("host", Equal, "")], &[]),
        (vec![("host", NotEqual, "a")], &[]),
        (vec![("host", NotEqual, "")], &[]),
        (vec![("host", NotRegex, "a|b")], &[]),
        (vec![("dc", Equal, "x")], &["dc"]),
        (vec![("dc", Equal, "x"), ("host", Equal, "b")], &["host", "dc"]),
        (vec![("dc", Equal, "x"), ("host", NotEqual, "b")], &["dc"]),
        (vec![("dc", Equal, "x"), ("host", Regex, "b|a"), ("job", Regex, ".+")], &["dc", "host"]),
        (vec![("job", Equal, "j"), ("host", Regex, ".*9100")], &["job"]),
    ]
}

#[tokio::test]
async fn every_matcher_finds_what_a_scan_finds_whatever_is_indexed() {
    let configurations: [(List<'_>, &[&str]); 4] = [
        (&[], &[]),
        (&[("m", &["host"])], &["host"]),
        (&[("m", &[])], &["host", "dc", "job"]),
        (&[("*", &[])], &["host", "dc", "job"]),
    ];
    for (metrics, indexed) in configurations {
        let keyspace = TestKeyspace::new().await;
        let store = open(&keyspace, metrics).await;
        let all = some_series("m");
        write(&store, &all, 1_000).await;
        write(&store, &some_series("n"), 1_000).await;
        for (case, usable) in cases() {
            let tags = case.iter().map(|(name, op, value)| matcher(name, *op, value));
            let matchers: Vec<Matcher> = named("m").into_iter().chain(tags).collect();
            let got = found(&store, &matchers, TimeRange::ALL).await;
            assert_eq!(got, scan(&all, &matchers), "{metrics:?} {case:?}");
            let path = paths(&store, &matchers, TimeRange::ALL).await;
            let through: Vec<&&str> = usable.iter().filter(|tag| indexed.contains(*tag)).collect();
            match &through[..] {
                [] => assert_eq!(path, ["row_keys"], "{metrics:?} {case:?}"),
                tags => {
                    let used = path.len() == 1 && tags.iter().any(|tag| **tag == path[0]);
                    assert!(used, "{metrics:?} {case:?}: {path:?}");
                }
            }
        }
        store.close().await.expect("closes");
        keyspace.drop().await;
    }
}

#[tokio::test]
async fn index_rows_are_those_of_kairosdb() {
    let keyspace = TestKeyspace::new().await;
    let store = open(&keyspace, &[("m", &["host"])]).await;
    let request = Request::default()
        .floats(&series("m", &[("dc", "x"), ("host", "b:1")]), &[(5, 1.0), (6, f64::NAN)])
        .floats(&series("m", &[("dc", "x")]), &[(5, 1.0)])
        .floats(&series("n", &[("host", "a")]), &[(5, 1.0)]);
    request.write(&store).await;
    type Row =
        (String, String, CqlTimestamp, String, i32, String, BTreeMap<String, String>, String);
    let rows: Vec<Row> = keyspace
        .rows(
            "SELECT metric, table_name, row_time, single_tag_pair, tag_collection_hash, data_type, \
             tags, value FROM {k}.tag_indexed_row_keys",
        )
        .await;
    let tags: BTreeMap<String, String> =
        [("dc", "x"), ("host", "b:1")].map(|(n, v)| (n.into(), v.into())).into();
    let row = |table: &str, data_type: &str| -> Row {
        let (zero, pair) = (CqlTimestamp(0), "host=b:1".to_owned());
        let hash = -1_336_815_236;
        ("m".into(), table.into(), zero, pair, hash, data_type.into(), tags.clone(), String::new())
    };
    let mut rows = rows;
    rows.sort_by(|a, b| a.1.cmp(&b.1));
    assert_eq!(rows, [row("data_points", "kairos_double"), row("prometheus", "prom_double")]);
    keyspace.drop().await;
}

#[tokio::test]
async fn windows_from_before_are_read_from_row_keys() {
    let keyspace = TestKeyspace::new().await;
    let before = open(&keyspace, &[]).await;
    let old = some_series("m");
    write(&before, &old, 1_000).await;
    before.close().await.expect("closes");
    let store = open(&keyspace, &[("m", &["host"])]).await;
    // A new series in the old window, and all of them in a new one.
    let late = series("m", &[("host", "a"), ("late", "1")]);
    write(&store, std::slice::from_ref(&late), 2_000).await;
    write(&store, &old, WIDTH + 1_000).await;
    let matchers = [named("m"), vec![matcher("host", Equal, "a")]].concat();
    assert_eq!(paths(&store, &matchers, TimeRange::ALL).await, ["row_keys", "host"]);
    let all = [&old[..], &[late]].concat();
    assert_eq!(found(&store, &matchers, TimeRange::new(0, WIDTH - 1)).await, scan(&all, &matchers));
    let new = TimeRange::new(WIDTH, 2 * WIDTH);
    assert_eq!(found(&store, &matchers, new).await, scan(&old, &matchers));
    keyspace.drop().await;
}

#[tokio::test]
async fn no_step_is_taken_before_every_adapter_has_taken_the_last() {
    let keyspace = TestKeyspace::new().await;
    let mut asleep = indexing(&keyspace, &[]);
    asleep.tag_index.refresh = Duration::from_secs(3600);
    let asleep = keyspace.open_with(asleep).await.expect("opens");
    let store = open(&keyspace, &[("m", &["host"])]).await;
    let (first, second) =
        (series("m", &[("host", "a")]), series("m", &[("host", "a"), ("n", "2")]));
    let matchers = [named("m"), vec![matcher("host", Equal, "a")]].concat();
    write(&asleep, std::slice::from_ref(&first), 1_000).await;
    let rows = "SELECT metric FROM {k}.tag_indexed_row_keys";
    assert_eq!(keyspace.rows::<(String,)>(rows).await, [], "it does not know yet");
    assert_eq!(paths(&store, &matchers, TimeRange::ALL).await, ["row_keys"]);
    assert_eq!(found(&store, &matchers, TimeRange::ALL).await, std::slice::from_ref(&first));
    // Configured or not, it does as the keyspace says once it has looked.
    asleep.configure_tag_index(list(&[]));
    write_until_indexed(&keyspace, &asleep, &second).await;
    let new = TimeRange::new(WIDTH, 2 * WIDTH);
    eventually("the index is read", async || {
        let path = paths(&store, &matchers, new).await;
        if path == ["host"] { Ok(()) } else { Err(format!("{path:?}")) }
    })
    .await;
    assert_eq!(found(&store, &matchers, new).await, std::slice::from_ref(&second));
    assert_eq!(found(&store, &matchers, TimeRange::ALL).await, [first, second]);
    // Nobody wants it any more: first nobody reads it, then nobody writes it.
    store.configure_tag_index(list(&[]));
    eventually("the index is left", async || {
        let path = paths(&store, &matchers, new).await;
        if path == ["row_keys"] { Ok(()) } else { Err(format!("{path:?}")) }
    })
    .await;
    keyspace.drop().await;
}

/// Writes in new windows until there are index rows.
async fn write_until_indexed(keyspace: &TestKeyspace, store: &CassandraStore, series: &Labels) {
    let mut at = WIDTH;
    eventually("the adapter has seen the list", async || {
        let document = "SELECT value FROM {k}.service_index WHERE service = 'prometheus' \
                        AND service_key = 'tag_index'";
        let document: Vec<(String,)> = keyspace.rows(document).await;
        let is_open = document.iter().any(|(text,)| text.contains("\"readable\""));
        if is_open { Ok(()) } else { Err(format!("{document:?}")) }
    })
    .await;
    write(store, std::slice::from_ref(series), at + 5).await;
    at += 5;
    let rows = "SELECT metric FROM {k}.tag_indexed_row_keys";
    assert_eq!(keyspace.rows::<(String,)>(rows).await.len(), 2, "at {at}");
}

/// Puts a series as a neighbour does that writes no index rows for tags.
async fn neighbour_writes(keyspace: &TestKeyspace, series: &Labels, row_time: i64) {
    let tags: BTreeMap<String, String> = series
        .iter()
        .filter(|(name, _)| *name != "__name__")
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let metric = series.get("__name__");
    let time = CqlTimestamp(row_time);
    let insert = "INSERT INTO {k}.row_key_time_index (metric, table_name, row_time) \
                  VALUES (?, 'data_points', ?) USING TIMESTAMP 1";
    keyspace.cql_with(insert, (metric, time)).await;
    let insert = "INSERT INTO {k}.row_keys (metric, table_name, row_time, data_type, tags, mtime) \
                  VALUES (?, 'data_points', ?, 'kairos_double', ?, now()) USING TIMESTAMP 1";
    keyspace.cql_with(insert, (metric, time, tags)).await;
    let insert = "INSERT INTO {k}.data_points (key, column1, value) VALUES (?, ?, ?) \
                  USING TIMESTAMP 1";
    let row = key(series, row_time, DataType::Double);
    let (column, value) = (9_u32.to_be_bytes(), 1.0_f64.to_be_bytes());
    keyspace.cql_with(insert, (row, &column[..], &value[..])).await;
}

#[tokio::test]
async fn a_neighbour_without_index_rows_is_seen_where_nobody_vouches_for_it() {
    let keyspace = TestKeyspace::new().await;
    let store = open(&keyspace, &[("m", &["host"])]).await;
    let ours = series("m", &[("host", "a")]);
    write(&store, std::slice::from_ref(&ours), 1_000).await;
    let theirs = series("m", &[("host", "a"), ("by", "kairosdb")]);
    neighbour_writes(&keyspace, &theirs, 0).await;
    let matchers = [named("m"), vec![matcher("host", Equal, "a")]].concat();
    let mut options = indexing(&keyspace, &[("m", &["host"])]);
    options.tag_index.trust = TagIndexTrust::Verify;
    let verifying = keyspace.open_with(options).await.expect("opens");
    let all = scan(&[ours, theirs], &matchers);
    assert_eq!(found(&verifying, &matchers, TimeRange::ALL).await, all);
    assert_eq!(paths(&verifying, &matchers, TimeRange::ALL).await, ["host and row_keys"]);
    keyspace.drop().await;
}

/// The state of the tags as `metric/tag state`, and the windows that are out of use.
async fn states(store: &CassandraStore) -> Vec<(String, Vec<i64>)> {
    let status = store.tag_index_status().await.expect("a status");
    let of = |tag: TagStatus| (format!("{}/{} {}", tag.metric, tag.tag, tag.state), tag.gaps);
    status.tags.into_iter().map(of).collect()
}

#[tokio::test]
async fn the_audit_takes_a_window_with_a_gap_out_of_use_until_it_is_built() {
    let keyspace = TestKeyspace::new().await;
    let mut options = indexing(&keyspace, &[("m", &["host"])]);
    options.tag_index.audit_interval = Duration::from_millis(100);
    let metrics = CassandraMetrics::default();
    let store = CassandraStore::open(options, metrics.clone()).await.expect("opens");
    let ours = series("m", &[("host", "a")]);
    write(&store, std::slice::from_ref(&ours), 1_000).await;
    write(&store, std::slice::from_ref(&ours), WIDTH + 1_000).await;
    let theirs = series("m", &[("host", "a"), ("by", "kairosdb")]);
    neighbour_writes(&keyspace, &theirs, 0).await;
    let matchers = [named("m"), vec![matcher("host", Equal, "a")]].concat();
    let all = scan(&[ours, theirs], &matchers);
    eventually("the audit finds the gap", async || {
        let path = paths(&store, &matchers, TimeRange::ALL).await;
        if path == ["row_keys", "host"] { Ok(()) } else { Err(format!("{path:?}")) }
    })
    .await;
    assert_eq!(metrics.tag_index_gaps.get(), 1);
    assert_eq!(states(&store).await, [("m/host readable".into(), vec![0])]);
    assert_eq!(found(&store, &matchers, TimeRange::ALL).await, all);
    build(&store, "m").await;
    assert_eq!(states(&store).await, [("m/host readable".into(), vec![])]);
    assert_eq!(paths(&store, &matchers, TimeRange::ALL).await, ["host", "host"]);
    assert_eq!(found(&store, &matchers, TimeRange::ALL).await, all);
    keyspace.drop().await;
}

/// Builds the index of a metric and waits for the end.
async fn build(store: &CassandraStore, metric: &str) -> Job {
    store.begin_tag_index_job(metric, JobKind::Build, 100_000).await.expect("it begins");
    ended(store, metric).await
}

async fn ended(store: &CassandraStore, metric: &str) -> Job {
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
    // Its tasks end, and it says nothing to anybody: as if it were killed.
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
    assert_eq!(ended(&store, "m").await.state, JobState::Done);
    let rows = "SELECT metric, data_type FROM {k}.tag_indexed_row_keys";
    let left: Vec<(String, Option<String>)> = keyspace.rows(rows).await;
    // The static column of a partition stays and leads to nothing.
    let left: Vec<_> = left.into_iter().filter(|(_, data_type)| data_type.is_some()).collect();
    assert!(!left.is_empty() && left.iter().all(|(metric, _)| metric == "n"), "{left:?}");
    let matchers = [named("m"), vec![matcher("host", Equal, "a")]].concat();
    let want = scan(&some_series("m"), &matchers);
    assert_eq!(found(&store, &matchers, TimeRange::ALL).await, want);
    keyspace.drop().await;
}

#[tokio::test]
async fn a_delete_takes_our_index_rows_and_leaves_those_of_a_neighbour() {
    let keyspace = TestKeyspace::new().await;
    let store = open(&keyspace, &[("m", &["host"])]).await;
    let (a, b) = (series("m", &[("host", "a"), ("dc", "x")]), series("m", &[("dc", "x")]));
    write(&store, &[a.clone(), b.clone()], 1_000).await;
    // A neighbour that indexes more tags hashes more tags, and remembers what it wrote.
    let neighbour = "INSERT INTO {k}.tag_indexed_row_keys (metric, table_name, row_time, \
                     single_tag_pair, data_type, tag_collection_hash, tags, mtime) VALUES ('m', \
                     'data_points', 0, 'host=a', 'kairos_double', 77, \
                     {'host': 'a', 'dc': 'x'}, now()) USING TIMESTAMP 1";
    keyspace.cql(neighbour).await;
    let matchers = [named("m"), vec![matcher("host", Equal, "a")]].concat();
    let once = found(&store, &matchers, TimeRange::ALL).await;
    assert_eq!(once, std::slice::from_ref(&a));
    store.delete(&matchers, TimeRange::new(0, WIDTH - 1)).await.expect("deleted");
    let rows = "SELECT single_tag_pair, tag_collection_hash FROM {k}.tag_indexed_row_keys";
    let mut left: Vec<(String, Option<i32>)> = keyspace.rows(rows).await;
    left.retain(|(_, hash)| hash.is_some());
    assert_eq!(left, [("host=a".to_owned(), Some(77))]);
    write(&store, std::slice::from_ref(&a), 2_000).await;
    assert_eq!(paths(&store, &matchers, TimeRange::ALL).await, ["host"]);
    assert_eq!(found(&store, &matchers, TimeRange::ALL).await, [a]);
    keyspace.drop().await;
}

#[tokio::test]
async fn what_is_in_memory_and_good_is_not_looked_up_in_the_index() {
    let keyspace = TestKeyspace::new().await;
    let all = some_series("m");
    let writer = open(&keyspace, &[("m", &["host"])]).await;
    write(&writer, &all, 1_000).await;
    writer.close().await.expect("closes");
    let memory =
        Options { series_cache_bytes: 1 << 20, ..indexing(&keyspace, &[("m", &["host"])]) };
    let store = keyspace.open_with(memory).await.expect("opens");
    let matchers = [named("m"), vec![matcher("host", Equal, "a")]].concat();
    assert_eq!(paths(&store, &matchers, TimeRange::ALL).await, ["host"]);
    // A read of all rows brings them to memory; nobody has written since.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(found(&store, &named("m"), TimeRange::ALL).await, scan(&all, &named("m")));
    assert_eq!(paths(&store, &matchers, TimeRange::ALL).await, ["memory"]);
    assert_eq!(found(&store, &matchers, TimeRange::ALL).await, scan(&all, &matchers));
    // Somebody has: what is in memory may be too little, and the index is shorter than all rows.
    let new = series("m", &[("host", "a"), ("new", "1")]);
    let other = open(&keyspace, &[("m", &["host"])]).await;
    write(&other, std::slice::from_ref(&new), 1_000).await;
    assert_eq!(paths(&store, &matchers, TimeRange::ALL).await, ["host"]);
    let all = [&all[..], &[new]].concat();
    assert_eq!(found(&store, &matchers, TimeRange::ALL).await, scan(&all, &matchers));
    keyspace.drop().await;
}
