//! The doctor finds every defect that is made by hand; it fixes those that can be fixed, and finds them no more.

pub(crate) mod command;
mod coverage;
mod defects;
mod expiry;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use promkairos::kairos::{DataType, RowSpec, TimeUnit};
use promkairos::model::{Labels, MatchOp, TimeRange};
use promkairos::storage::cassandra::Options;
use promkairos::storage::cassandra::doctor::{
    Depth, Doctor, Kind, Largest, Partition, Progress, Report, Settings, Stage,
};
use promkairos::storage::{Store, StoreError};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use self::defects::{DEFECTS, Defect, stamp};
use super::keyspace::{Request, TestKeyspace, bits, key, labels, matcher, named, read};
use crate::support;

const WIDTH: i64 = 1_814_400_000;

pub(crate) fn settings() -> Settings {
    Settings {
        settled: Duration::ZERO,
        pause: Duration::ZERO,
        rate: None,
        slices: 3,
        ..Settings::default()
    }
}

pub(crate) fn fixing() -> Settings {
    let fix = Kind::ALL.into_iter().filter(|kind| kind.remedy().is_some()).collect();
    Settings { fix, ..settings() }
}

pub(crate) async fn examine(keyspace: &TestKeyspace, settings: Settings) -> Report {
    examine_with(keyspace.options(), settings).await
}

pub(crate) async fn examine_with(options: Options, settings: Settings) -> Report {
    let doctor = Doctor::connect(options, settings).await.expect("it connects");
    let mut progress = doctor.start();
    doctor.run(&mut progress, |_| Ok(())).await.expect("it runs to the end");
    progress.report
}

/// The report on a keyspace in which the index must lead to all data, whatever was done to it.
pub(crate) async fn examine_whole(options: Options) -> Report {
    let report = examine_with(options, settings()).await;
    assert!(report.facts.rows > 0, "{report:#?}");
    for kind in [Kind::UnindexedData, Kind::MissingTimeIndex, Kind::MissingName, Kind::TagIndexGap]
    {
        assert!(report.total(kind).is_none(), "{report:#?}");
    }
    report
}

/// The kinds of the remaining findings, by metric.
pub(crate) fn left(report: &Report) -> BTreeMap<String, BTreeSet<Kind>> {
    let mut left: BTreeMap<String, BTreeSet<Kind>> = BTreeMap::new();
    for (kind, metrics) in &report.findings {
        for (metric, group) in metrics {
            if group.left() > 0 {
                left.entry(metric.clone()).or_default().insert(*kind);
            }
        }
    }
    left
}

/// Every cell of every table with its write time.
async fn dump(keyspace: &TestKeyspace) -> Vec<String> {
    let mut all = Vec::new();
    for (table, columns) in [
        ("data_points", "key, column1, value, WRITETIME(value)"),
        ("row_key_index", "key, column1, value, WRITETIME(value)"),
        ("string_index", "key, column1, value, WRITETIME(value)"),
        ("row_key_time_index", "metric, table_name, row_time, value, WRITETIME(value), TTL(value)"),
        (
            "row_keys",
            "metric, table_name, row_time, data_type, tags, mtime, value, WRITETIME(value)",
        ),
        (
            "tag_indexed_row_keys",
            "metric, table_name, row_time, single_tag_pair, data_type, tag_collection_hash, tags, \
             mtime, value, WRITETIME(value)",
        ),
        ("spec", "spec_type, name, value, WRITETIME(value)"),
    ] {
        let cql = format!("SELECT JSON {columns} FROM {{k}}.{table}");
        let rows: Vec<(String,)> = keyspace.rows(&cql).await;
        all.extend(rows.into_iter().map(|(row,)| format!("{table} {row}")));
    }
    all.sort();
    // Remaining TTLs change with time, so they are cut off.
    all.iter().map(|row| row.split("\"ttl(value)\"").next().unwrap_or(row).to_owned()).collect()
}

/// Three series of a metric: floats over several windows, one of them open, with stale markers.
async fn fill(store: &dyn Store, metric: &str) -> Vec<Labels> {
    let stale = f64::from_bits(promkairos::model::STALE_NAN_BITS);
    let hosts = ["a", "b:1", "c"];
    let series: Vec<_> =
        hosts.iter().map(|host| labels(&[("__name__", metric), ("host", host)])).collect();
    let mut request = Request::default();
    for (at, series) in series.iter().enumerate() {
        let at = at as i64;
        let mut points = vec![(10 + at, 1.5), (20 + at, f64::INFINITY), (WIDTH + at, -2.0)];
        points.extend([(WIDTH + 30, stale), (9 * WIDTH, 1e300), (stamp() + WIDTH, 7.0)]);
        request = request.floats(series, &points);
    }
    request.write(store).await;
    series
}

/// A metric whose series have only NaN and stale markers, as some summaries do.
async fn fill_nan(store: &dyn Store) {
    let nan = labels(&[("__name__", "nan"), ("quantile", "0.5")]);
    let stale = f64::from_bits(promkairos::model::STALE_NAN_BITS);
    let points = [(WIDTH - 5, f64::NAN), (WIDTH + 5, stale)];
    Request::default().floats(&nan, &points).write(store).await;
}

#[tokio::test]
async fn what_we_wrote_is_sound() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open_with(Options { ttl_seconds: 400_000, ..keyspace.options() }).await;
    fill(&store, "m").await;
    fill_nan(&store).await;
    let before = dump(&keyspace).await;
    for settings in [settings(), Settings { depth: Depth::Index, ..settings() }, fixing()] {
        let report = examine(&keyspace, settings).await;
        assert_eq!(left(&report), BTreeMap::new());
        assert!(report.findings.is_empty(), "{report:?}");
        assert_eq!(report.facts.row_keys, report.facts.rows);
        assert_eq!(report.facts.names_without_data, 0);
        let largest = report.facts.metrics.iter().next().expect("a metric");
        assert_eq!((largest.size, &*largest.entry.metric), (3, "m"));
        assert_eq!(largest.entry.tags, [("host".into(), 3)]);
    }
    assert_eq!(dump(&keyspace).await, before, "nothing is written where nothing is wrong");
    keyspace.drop().await;
}

#[tokio::test]
async fn each_defect_is_found_and_mended() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    for defect in DEFECTS {
        let metric = defect.name;
        let series = fill(&store, metric).await;
        let before = read(&store, &named(metric), TimeRange::ALL).await;
        let kept = (defect.make)(&keyspace, metric, &series).await;
        let want = BTreeMap::from([(metric.to_owned(), BTreeSet::from([defect.kind]))]);
        let report = examine(&keyspace, settings()).await;
        assert_eq!(left(&report), want, "{metric}: {report:#?}");
        let report = examine(&keyspace, fixing()).await;
        assert_eq!(left(&report), BTreeMap::new(), "{metric}: {report:#?}");
        assert!(report.total(defect.kind).is_some_and(|total| total.fixed > 0), "{metric}");
        let mended = dump(&keyspace).await;
        let report = examine(&keyspace, fixing()).await;
        assert!(report.findings.is_empty(), "{metric}: {report:#?}");
        assert_eq!(dump(&keyspace).await, mended, "{metric}: the second time nothing changes");
        // A new store, since the old one remembers the index.
        let after = read(&keyspace.open().await, &named(metric), TimeRange::ALL).await;
        if kept == defects::Kept::All {
            assert_eq!(after.len(), before.len(), "{metric}");
            for (labels, points) in before {
                assert_eq!(bits(&after[&labels]), bits(&points), "{metric}");
            }
        }
    }
    keyspace.drop().await;
}

/// Only queries by name find data that is in no list, native histograms and NaN too.
#[tokio::test]
async fn lists_of_names_that_are_gone_are_written_again() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    fill(&store, "m").await;
    fill_nan(&store).await;
    let all = [matcher("__name__", MatchOp::Regex, ".+")];
    let before = read(&store, &all, TimeRange::ALL).await;
    assert_eq!(before.len(), 4);
    let own = "DELETE FROM {k}.string_index USING TIMESTAMP {now} \
               WHERE key = 0x70726f6d6574686575735f6d65747269635f6e616d6573";
    for (gone, found) in [(own, 3), ("TRUNCATE {k}.string_index", 0)] {
        defects::delete(&keyspace, gone).await;
        let store = keyspace.open().await;
        assert_eq!(read(&store, &all, TimeRange::ALL).await.len(), found, "{gone}");
        let name = || BTreeSet::from([Kind::MissingName]);
        let want = BTreeMap::from([("m".to_owned(), name()), ("nan".to_owned(), name())]);
        assert_eq!(left(&examine(&keyspace, settings()).await), want, "{gone}");
        let report = examine(&keyspace, fixing()).await;
        assert_eq!(left(&report), BTreeMap::new(), "{gone}: {report:#?}");
        let after = read(&keyspace.open().await, &all, TimeRange::ALL).await;
        for (labels, points) in &before {
            assert_eq!(bits(&after[labels]), bits(points), "{gone}");
        }
        assert!(examine(&keyspace, fixing()).await.findings.is_empty(), "{gone}");
    }
    keyspace.drop().await;
}

/// Several metrics with several random defects each.
#[tokio::test]
async fn random_defects_are_found_and_mended() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let mut random = StdRng::seed_from_u64(support::seed());
    let mut want: BTreeMap<String, BTreeSet<Kind>> = BTreeMap::new();
    let metrics = if support::long() { 60 } else { 12 };
    for number in 0..metrics {
        let metric = format!("m{number}");
        let series = fill(&store, &metric).await;
        if random.random_range(0..4) > 0 {
            let defect: &Defect = DEFECTS.choose(&mut random).expect("some");
            (defect.make)(&keyspace, &metric, &series).await;
            want.insert(metric, BTreeSet::from([defect.kind]));
        }
    }
    let slices = random.random_range(1..40);
    let report = examine(&keyspace, Settings { slices, ..settings() }).await;
    assert_eq!(left(&report), want, "{report:#?}");
    let report = examine(&keyspace, Settings { slices, ..fixing() }).await;
    assert_eq!(left(&report), BTreeMap::new(), "{report:#?}");
    let mended = dump(&keyspace).await;
    let report = examine(&keyspace, fixing()).await;
    assert!(report.findings.is_empty(), "{report:#?}");
    assert_eq!(dump(&keyspace).await, mended);
    keyspace.drop().await;
}

#[tokio::test]
async fn what_cannot_be_mended_is_for_information() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let series = fill(&store, "m").await;
    // Stamped in microseconds, as by a program that sets no write time.
    let row = key(&series[0], 0, DataType::Double);
    let cql = "INSERT INTO {k}.data_points (key, column1, value) VALUES (?, ?, ?)";
    let value = 2.5f64.to_be_bytes().to_vec();
    keyspace.cql_with(cql, (&row, 9u32.to_be_bytes().to_vec(), &value)).await;
    keyspace.cql_with(cql, (vec![1u8, 2, 3], vec![0u8; 4], &value)).await;
    // Deleted with a stamp in microseconds: every later write there is hidden for ever.
    keyspace
        .cql(
            "DELETE FROM {k}.row_keys WHERE metric = 'm' AND table_name = 'data_points' \
             AND row_time = 1814400000 AND data_type = 'kairos_double' AND tags = {'host': 'c'}",
        )
        .await;
    let want = BTreeMap::from([
        (String::new(), BTreeSet::from([Kind::UnreadableKey])),
        ("m".to_owned(), BTreeSet::from([Kind::LaterStamp, Kind::UnindexedData])),
    ]);
    let report = examine(&keyspace, settings()).await;
    assert_eq!(left(&report), want);
    assert_eq!(report.findings[&Kind::LaterStamp]["m"].found, 1, "{report:#?}");
    let report = examine(&keyspace, fixing()).await;
    assert_eq!(left(&report), want);
    assert_eq!(report.findings[&Kind::UnindexedData]["m"].resisted, 1);
    keyspace.drop().await;
}

#[tokio::test]
async fn nothing_of_an_open_window_is_too_much() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let series = fill(&store, "m").await;
    let day = Settings { settled: Duration::from_secs(24 * 3600), ..fixing() };
    let now = RowSpec::DEFAULT.row_time(stamp());
    // A closed window whose index changed today; the open window; the next window.
    for row_time in [0, now.millis(), now.millis() + WIDTH] {
        defects::delete_data(&keyspace, &series[0], row_time).await;
    }
    let before = dump(&keyspace).await;
    let report = examine(&keyspace, day).await;
    assert!(report.findings.is_empty(), "{report:#?}");
    assert_eq!(dump(&keyspace).await, before);
    let report = examine(&keyspace, settings()).await;
    assert_eq!(report.total(Kind::IndexWithoutData).map(|total| total.found), Some(2));
    keyspace.drop().await;
}

#[tokio::test]
async fn spec_is_written_only_where_the_columns_are_those_of_legacy() {
    for (unit, is_mended) in [(TimeUnit::Legacy, true), (TimeUnit::Milliseconds, false)] {
        let keyspace = TestKeyspace::new().await;
        let row_spec = RowSpec::new(unit, WIDTH).expect("valid");
        let options = Options { row_spec, ..keyspace.options() };
        let store = keyspace.open_with(options).await;
        let up = labels(&[("__name__", "up")]);
        let points: Vec<(i64, f64)> = (0..99).map(|n| (n * 7, n as f64)).collect();
        Request::default().floats(&up, &points).write(&store).await;
        keyspace
            .cql(&format!(
                "DELETE FROM {{k}}.spec USING TIMESTAMP {} \
                               WHERE spec_type = 'cluster_config'",
                stamp()
            ))
            .await;
        let spec = BTreeMap::from([(String::new(), BTreeSet::from([Kind::MissingSpec]))]);
        assert_eq!(left(&examine(&keyspace, settings()).await), spec);
        let report = examine(&keyspace, fixing()).await;
        assert_eq!(left(&report), if is_mended { BTreeMap::new() } else { spec }, "{report:#?}");
        let rows: Vec<(String,)> = keyspace.rows("SELECT value FROM {k}.spec").await;
        assert_eq!(rows.len(), if is_mended { 2 } else { 0 });
        keyspace.drop().await;
    }
}

#[tokio::test]
async fn settings_of_tables_are_looked_at() {
    let keyspace = TestKeyspace::by_hand().await;
    keyspace
        .cql(
            "CREATE TABLE {k}.data_points (key blob, column1 blob, value blob, \
             PRIMARY KEY ((key), column1)) WITH COMPACT STORAGE",
        )
        .await;
    let store = keyspace.open().await;
    fill(&store, "m").await;
    keyspace
        .cql(
            "ALTER TABLE {k}.row_keys WITH compaction = {'class': 'TimeWindowCompactionStrategy', \
             'compaction_window_size': '7', 'compaction_window_unit': 'DAYS'}",
        )
        .await;
    let report = examine(&keyspace, settings()).await;
    let resolution = BTreeSet::from([Kind::CompactionResolution]);
    assert_eq!(left(&report), BTreeMap::from([(String::new(), resolution)]));
    assert!(report.facts.notes.iter().any(|note| note.starts_with("data_points is WITH COMPACT")));
    assert_eq!(left(&examine(&keyspace, fixing()).await), BTreeMap::new());
    assert!(examine(&keyspace, fixing()).await.findings.is_empty());
    let cql = "SELECT compaction['compaction_window_size'], compaction['timestamp_resolution'] \
               FROM system_schema.tables WHERE keyspace_name = '{k}' AND table_name = 'row_keys'";
    let want = [("7".to_owned(), "MILLISECONDS".to_owned())];
    assert_eq!(keyspace.rows::<(String, String)>(cql).await, want);
    keyspace.drop().await;
}

/// Partitions written long ago are not hot, whatever their size.
#[tokio::test]
async fn partitions_that_are_written_to_now_are_listed() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let series = |name| labels(&[("__name__", name), ("host", "a")]);
    let points: Vec<(i64, f64)> = (0..20).map(|n| (n, 1.0)).collect();
    Request::default().floats(&series("now"), &points).write(&store).await;
    Request::default().floats(&series("before"), &[(0, 1.0)]).write(&store).await;
    let row = key(&series("before"), 0, DataType::Double);
    let insert = "INSERT INTO {k}.data_points (key, column1, value) VALUES (?, ?, ?) \
                  USING TIMESTAMP 1600000000000";
    for column in 1..40_u32 {
        let (column, value) = ((column << 1).to_be_bytes(), 1.0_f64.to_be_bytes());
        keyspace.cql_with(insert, (&row[..], &column[..], &value[..])).await;
    }
    let report = examine(&keyspace, Settings { wide: 10, hot: 10, ..settings() }).await;
    let listed = |list: &Largest<Partition>| -> Vec<(u64, String)> {
        list.iter().map(|known| (known.size, known.entry.key[..4].to_owned())).collect()
    };
    assert_eq!(listed(&report.facts.wide), [(40, "befo".into()), (20, "now{".into())]);
    assert_eq!(listed(&report.facts.hot), [(20, "now{".into())]);
    keyspace.drop().await;
}

#[tokio::test]
async fn wide_partitions_are_listed() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let wide = labels(&[("__name__", "wide"), ("host", "a")]);
    let points: Vec<(i64, f64)> = (0..300).map(|n| (n, 1.0)).collect();
    Request::default().floats(&wide, &points).write(&store).await;
    fill(&store, "m").await;
    let report = examine(&keyspace, Settings { wide: 100, ..settings() }).await;
    let listed: Vec<_> = report.facts.wide.iter().collect();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!((listed[0].size, &*listed[0].entry.table), (300, "data_points"));
    assert!(listed[0].entry.key.starts_with("wide{host=\"a\"} kairos_double"), "{listed:?}");
    keyspace.drop().await;
}

#[tokio::test]
async fn a_check_goes_on_where_it_was_cut_off() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    for number in 0..8 {
        let metric = format!("m{number}");
        let series = fill(&store, &metric).await;
        (DEFECTS[number % DEFECTS.len()].make)(&keyspace, &metric, &series).await;
    }
    let whole = examine(&keyspace, settings()).await;
    assert!(left(&whole).len() == 8, "{whole:#?}");
    let mut kept: Option<String> = None;
    let mut runs = 0;
    let report = loop {
        runs += 1;
        let doctor = Doctor::connect(keyspace.options(), settings()).await.expect("it connects");
        let mut progress = match &kept {
            Some(json) => serde_json::from_str::<Progress>(json).expect("a progress"),
            None => doctor.start(),
        };
        assert!(progress.continues(&doctor.start()));
        let mut parts = 0;
        let result = doctor.run(&mut progress, |progress| {
            parts += 1;
            kept = Some(serde_json::to_string(progress).expect("JSON"));
            if parts == 3 { Err(StoreError::Limit("cut off".into())) } else { Ok(()) }
        });
        if result.await.is_ok() {
            break progress.report;
        }
    };
    assert!(runs > 5, "{runs}");
    assert_eq!(left(&report), left(&whole));
    assert_eq!(report.facts, whole.facts);
    keyspace.drop().await;
}

/// Runs a check that is interrupted after each part and resumed from its state.
async fn examine_in_pieces(keyspace: &TestKeyspace, settings: &Settings) -> Report {
    let mut kept: Option<String> = None;
    loop {
        let doctor = Doctor::connect(keyspace.options(), settings.clone()).await;
        let doctor = doctor.expect("it connects");
        let mut progress = match &kept {
            Some(json) => serde_json::from_str::<Progress>(json).expect("a progress"),
            None => doctor.start(),
        };
        let result = doctor.run(&mut progress, |progress| {
            kept = Some(serde_json::to_string(progress).expect("JSON"));
            Err(StoreError::Limit("cut off".into()))
        });
        let ended = result.await.is_ok();
        if ended || progress.stage == Stage::Done {
            return progress.report;
        }
    }
}

#[tokio::test]
async fn what_many_rows_miss_is_counted_once_however_often_a_check_is_cut_off() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    for kind in ["no_time", "no_name"] {
        let defect = DEFECTS.iter().find(|defect| defect.name == kind).expect("one");
        let series = fill(&store, kind).await;
        (defect.make)(&keyspace, kind, &series).await;
    }
    let settings = Settings { slices: 5, ..settings() };
    for report in
        [examine(&keyspace, settings.clone()).await, examine_in_pieces(&keyspace, &settings).await]
    {
        for kind in [Kind::MissingTimeIndex, Kind::MissingName] {
            assert_eq!(report.total(kind).map(|total| total.found), Some(1), "{report:#?}");
        }
    }
    keyspace.drop().await;
}

/// A window whose data has no row in `row_keys` needs its time index row: without that row the data
/// would be even harder to find again.
#[tokio::test]
async fn the_time_index_of_unindexed_data_stays_however_often_a_check_is_cut_off() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let series = labels(&[("__name__", "m"), ("host", "b:1")]);
    Request::default().floats(&series, &[(WIDTH + 1, 1.0)]).write(&store).await;
    let defect = DEFECTS.iter().find(|defect| defect.name == "no_row_key").expect("one");
    (defect.make)(&keyspace, "m", std::slice::from_ref(&series)).await;
    let before = dump(&keyspace).await;
    let fix = BTreeSet::from([Kind::IndexWithoutData]);
    let settings = Settings { fix, ..settings() };
    let report = examine_in_pieces(&keyspace, &settings).await;
    let want = BTreeMap::from([("m".to_owned(), BTreeSet::from([Kind::UnindexedData]))]);
    assert_eq!(left(&report), want, "{report:#?}");
    assert_eq!(dump(&keyspace).await, before);
    keyspace.drop().await;
}

#[tokio::test]
async fn what_is_no_keyspace_of_kairosdb_is_refused_and_nothing_is_made() {
    let keyspace = TestKeyspace::new().await;
    let connect = async || Doctor::connect(keyspace.options(), settings()).await.map(drop);
    let error = connect().await.expect_err("there is none").to_string();
    assert!(error.contains("there is no table data_points"), "{error}");
    let cql = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = '{k}'";
    assert!(keyspace.rows::<(String,)>(cql).await.is_empty());
    let keyspace = TestKeyspace::by_hand().await;
    keyspace.cql("CREATE TABLE {k}.spec (a int PRIMARY KEY)").await;
    let error = Doctor::connect(keyspace.options(), settings()).await.map(drop);
    let error = error.expect_err("not KairosDB's").to_string();
    assert!(error.contains("spec is not KairosDB's: unexpected column a"), "{error}");
    keyspace.drop().await;
}
