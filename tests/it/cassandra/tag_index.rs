//! The tag index: its rows, reads through it, and that every way to select series returns the same
//! as a scan of all series.

mod drops;
mod existing;
mod jobs;
mod neighbour;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use promkairos::model::MatchOp::{Equal, NotEqual, NotRegex, Regex};
use promkairos::model::{Labels, MatchOp, Matcher, TimeRange};
use promkairos::storage::cassandra::{
    CassandraStore, Options, TagIndexOptions, TagStatus, WindowPath,
};
use promkairos::storage::{ListSize, SeriesQuery, Store};
use scylla::value::CqlTimestamp;

use super::keyspace::{Request, TestKeyspace, labels, matcher, named, read};
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
    // Without the series cache, which would answer instead of the index.
    Options { tag_index, series_cache_bytes: 0, ..keyspace.options() }
}

async fn open(keyspace: &TestKeyspace, metrics: List<'_>) -> CassandraStore {
    keyspace.open_with(indexing(keyspace, metrics)).await
}

fn series(metric: &str, tags: &[(&str, &str)]) -> Labels {
    let pairs: Vec<_> = tags.iter().copied().chain([("__name__", metric)]).collect();
    labels(&pairs)
}

/// Series of one metric with and without certain tags, and with similar values.
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
    let query = SeriesQuery { matchers: matchers.to_vec(), range, limit: ListSize::UNLIMITED };
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

/// The tag by which each window of the range is read; none = `row_keys`.
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

/// The states of the tags as `metric/tag state`, each with the windows that are out of use.
async fn states(store: &CassandraStore) -> Vec<(String, Vec<i64>)> {
    let status = store.tag_index_status().await.expect("a status");
    let of = |tag: TagStatus| (format!("{}/{} {}", tag.metric, tag.tag, tag.state), tag.gaps);
    status.tags.into_iter().map(of).collect()
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

/// Each tag has more rows than the search for the most selective tag reads; the tag with more values
/// has fewer rows.
#[tokio::test]
async fn of_large_tags_the_one_with_the_fewest_rows_is_read() {
    let keyspace = TestKeyspace::new().await;
    let store = open(&keyspace, &[("m", &["host", "dc"])]).await;
    let dc = |n: usize| match n {
        0..300 => "x",
        300 => "y",
        301 => "z",
        _ => "w",
    };
    let all: Vec<Labels> = (0..600)
        .map(|n| {
            let host = if n < 300 { "a" } else { "b" };
            series("m", &[("host", host), ("dc", dc(n)), ("n", &n.to_string())])
        })
        .collect();
    let finite = |request: Request, series: &Labels| request.floats(series, &[(1_000, 1.0)]);
    all.iter().fold(Request::default(), finite).write(&store).await;
    for (tags, path, rows) in [
        // Probed: 2 * 257 rows of hosts, 257 + 1 + 1 rows of dcs; then all 302 rows of the dcs are read.
        ([("host", Regex, "a|b"), ("dc", Regex, "x|y|z")], "dc", 2 * 257 + 259 + 302),
        ([("host", Regex, "a|b"), ("dc", Regex, "y|z|gone")], "dc", 2 * 257 + 2),
        // Equally selective: the first.
        ([("host", Equal, "a"), ("dc", Equal, "x")], "host", 2 * 257 + 300),
    ] {
        let tags = tags.iter().map(|(name, op, value)| matcher(name, *op, value));
        let matchers: Vec<Matcher> = named("m").into_iter().chain(tags).collect();
        let explanation = store.explain(&matchers, TimeRange::ALL).await.expect("explained");
        let read: Vec<usize> = explanation.windows.iter().map(|window| window.rows).collect();
        assert_eq!(paths(&store, &matchers, TimeRange::ALL).await, [path], "{matchers:?}");
        assert_eq!(read, [rows], "{matchers:?}");
        assert_eq!(found(&store, &matchers, TimeRange::ALL).await, scan(&all, &matchers));
    }
    keyspace.drop().await;
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
    // A new series in the old window, and all series in a new window.
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
    let asleep = keyspace.open_with(asleep).await;
    let store = open(&keyspace, &[("m", &["host"])]).await;
    let (first, second) =
        (series("m", &[("host", "a")]), series("m", &[("host", "a"), ("n", "2")]));
    let matchers = [named("m"), vec![matcher("host", Equal, "a")]].concat();
    write(&asleep, std::slice::from_ref(&first), 1_000).await;
    let rows = "SELECT metric FROM {k}.tag_indexed_row_keys";
    assert_eq!(keyspace.rows::<(String,)>(rows).await, [], "it does not know yet");
    assert_eq!(paths(&store, &matchers, TimeRange::ALL).await, ["row_keys"]);
    assert_eq!(found(&store, &matchers, TimeRange::ALL).await, std::slice::from_ref(&first));
    // Whatever its own list, a store follows the keyspace after a refresh.
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
    // No list has the tag any more: first all reads of the index stop, then all writes.
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

#[tokio::test]
async fn a_delete_takes_our_index_rows_and_leaves_those_of_a_neighbour() {
    let keyspace = TestKeyspace::new().await;
    let store = open(&keyspace, &[("m", &["host"])]).await;
    let (a, b) = (series("m", &[("host", "a"), ("dc", "x")]), series("m", &[("dc", "x")]));
    write(&store, &[a.clone(), b.clone()], 1_000).await;
    // A neighbour that indexes more tags hashes more tags, and remembers its rows.
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
    let store = keyspace.open_with(memory).await;
    let matchers = [named("m"), vec![matcher("host", Equal, "a")]].concat();
    assert_eq!(paths(&store, &matchers, TimeRange::ALL).await, ["host"]);
    // A read of all rows fills the cache, after the last write is old enough.
    eventually("it is in memory", async || {
        assert_eq!(found(&store, &named("m"), TimeRange::ALL).await, scan(&all, &named("m")));
        match paths(&store, &matchers, TimeRange::ALL).await {
            paths if paths == ["memory"] => Ok(()),
            paths => Err(format!("{paths:?}")),
        }
    })
    .await;
    assert_eq!(found(&store, &matchers, TimeRange::ALL).await, scan(&all, &matchers));
    // After a new write the cached series may be incomplete, and the index is shorter than all rows.
    let new = series("m", &[("host", "a"), ("new", "1")]);
    let other = open(&keyspace, &[("m", &["host"])]).await;
    write(&other, std::slice::from_ref(&new), 1_000).await;
    assert_eq!(paths(&store, &matchers, TimeRange::ALL).await, ["host"]);
    let all = [&all[..], &[new]].concat();
    assert_eq!(found(&store, &matchers, TimeRange::ALL).await, scan(&all, &matchers));
    keyspace.drop().await;
}
