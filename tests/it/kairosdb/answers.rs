//! Recorded rows of a real KairosDB, written by CQL: promkairos answers what KairosDB answered.

use std::collections::{BTreeMap, BTreeSet};

use promkairos::kairos::{RowSpec, TimeUnit};
use promkairos::model::{Labels, METRIC_NAME, TimeRange, Value};
use promkairos::storage::cassandra::Options;
use promkairos::storage::{ListSize, SeriesQuery, Store};
use promkairos::telemetry::CassandraMetrics;
use scylla::value::CqlTimestamp;
use serde_json::Value as Json;

use crate::cassandra::keyspace::{Request, TestKeyspace, bits, named, read};
use crate::support;
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::remote_read::{LabelMap, Point, ReadSeries};

/// Values by time; KairosDB may have two values at one time, in two types.
type Values = BTreeMap<i64, Vec<f64>>;
/// Series by labels.
type Answer = BTreeMap<LabelMap, Values>;

/// The write time of all rows, in milliseconds.
const STAMP: i64 = 1_700_000_000_000;

#[tokio::test]
async fn milliseconds() {
    let file = load("milliseconds");
    let keyspace = filled(&file, TimeUnit::Milliseconds).await;
    assert_eq!(check_answers(&keyspace, &file["answers"]).await, 69);
}

#[tokio::test]
async fn seconds() {
    let file = load("seconds");
    let keyspace = filled(&file, TimeUnit::Seconds).await;
    assert_eq!(check_answers(&keyspace, &file["answers"]).await, 31);
}

#[tokio::test]
async fn writes_into_seconds_are_floored_and_counted() {
    let keyspace = TestKeyspace::new().await;
    let spec = open_as(&keyspace, TimeUnit::Seconds).await;
    let metrics = CassandraMetrics::default();
    let store = support::cassandra::open(keyspace.options(), &metrics).await;
    let up = Labels::from_pairs([(METRIC_NAME, "up")]).expect("labels");
    let row_time = spec.row_time(STAMP).millis();
    let points = [(row_time, 1.0), (row_time + 1_000, 2.0), (row_time + 1_999, 3.0)];
    Request::default().floats(&up, &points).write(&store).await;
    let all = read(&store, &named("up"), TimeRange::ALL).await;
    let want = [(row_time, 1.0f64.to_bits()), (row_time + 1_000, 3.0f64.to_bits())];
    assert_eq!(bits(&all[&up]), want);
    assert_eq!(metrics.floored.get(), 1);
    keyspace.drop().await;
}

#[tokio::test]
async fn legacy() {
    let file = load("legacy");
    let keyspace = filled(&file, TimeUnit::Legacy).await;
    assert_eq!(check_answers(&keyspace, &file["answers"]).await, 69);
    // The same rows without `spec`, as in an old cluster.
    keyspace.cql("TRUNCATE {k}.spec").await;
    assert_eq!(keyspace.open().await.row_spec().unit(), TimeUnit::Legacy);
    assert_eq!(check_answers(&keyspace, &file["answers"]).await, 69);
    let spec: Vec<(String,)> = keyspace.rows("SELECT name FROM {k}.spec").await;
    assert!(spec.is_empty(), "nothing is written into it: {spec:?}");
}

#[tokio::test]
async fn the_layout_before_1_0() {
    let file = load("legacy-rows");
    let keyspace = TestKeyspace::new().await;
    open_as(&keyspace, TimeUnit::Legacy).await;
    for table in ["data_points", "row_key_index"] {
        for row in list(&file[table]) {
            put_blobs(&keyspace, table, [&row[0], &row[1], &row[2]]).await;
        }
    }
    put_row_key(&keyspace, &file["also_in_new_index"]).await;
    for metric in file["answers"].as_object().expect("answers").keys() {
        let cql = "INSERT INTO {k}.string_index (key, column1, value) VALUES (?, ?, 0x00)";
        keyspace.cql_with(cql, (b"metric_names".to_vec(), metric)).await;
    }
    assert_eq!(check_series(&keyspace, &file["answers"]).await, 16);
    let store = keyspace.open().await;
    let query = |start, end| SeriesQuery {
        matchers: named("old.metric"),
        range: TimeRange::new(start, end),
        limit: ListSize::UNLIMITED,
    };
    let at = STAMP;
    assert_eq!(store.series(&query(at, at)).await.expect("series").items.len(), 1);
    let names = store.label_values(METRIC_NAME, &query(at, at)).await.expect("names").items;
    assert_eq!(names, ["old.metric"]);
    assert!(store.series(&query(0, 1)).await.expect("series").items.is_empty());
    // A delete removes the points, and the index entry of a row that closed long ago.
    store.delete(&named("old.metric"), TimeRange::ALL).await.expect("deleted");
    let left: Vec<(Vec<u8>,)> = keyspace.rows("SELECT key FROM {k}.row_key_index").await;
    let left: BTreeSet<String> =
        left.into_iter().map(|(key,)| String::from_utf8(key).expect("a name")).collect();
    assert_eq!(Vec::from_iter(left), ["old.escape", "old.typed"]);
    keyspace.drop().await;
}

/// A partition of the legacy index that spans 1970, where times sort wrongly as bytes.
#[tokio::test]
async fn legacy_rows_on_both_sides_of_1970() {
    use promkairos::kairos::{DataType, RowKey, cell::encode_legacy_long};
    let keyspace = TestKeyspace::new().await;
    let spec = open_as(&keyspace, TimeUnit::Legacy).await;
    let series = Labels::from_pairs([(METRIC_NAME, "old"), ("host", "a")]).expect("labels");
    let times = [-3_000_000_000_i64, -7, -1, 0, 1, 4_000_000_000];
    for time in times {
        let (row_time, offset) = spec.split(time);
        let key = crate::cassandra::keyspace::key(&series, row_time.millis(), DataType::Legacy);
        let row_key = RowKey::decode(&key).expect("a key");
        let (metric, column) = (row_key.metric.as_bytes().to_vec(), key.clone());
        let cql = "INSERT INTO {k}.row_key_index (key, column1, value) VALUES (?, ?, 0x00)";
        keyspace.cql_with(cql, (metric, column)).await;
        let cql = "INSERT INTO {k}.data_points (key, column1, value) VALUES (?, ?, ?)";
        let value = encode_legacy_long(time);
        keyspace.cql_with(cql, (key, offset.to_bytes().to_vec(), value)).await;
    }
    let store = keyspace.open().await;
    for (start, end) in [(i64::MIN, i64::MAX), (-8, 0), (-7, -1), (0, 1), (-2_999_999_999, -8)] {
        let found = read(&store, &named("old"), TimeRange::new(start, end)).await;
        let found: Vec<i64> = found.values().flatten().map(|point| point.timestamp).collect();
        let inside = |time: &i64| (start..=end).contains(time);
        assert_eq!(found, Vec::from_iter(times.into_iter().filter(inside)), "{start} to {end}");
    }
    // Times 0 and 1 are in the same row.
    for (metric, want) in [("old", vec![("old", 5)]), ("new", vec![])] {
        let explained = store.explain(&named(metric), TimeRange::ALL).await.expect("explained");
        let read = explained.legacy.iter().map(|read| (&*read.metric, read.rows));
        assert_eq!((explained.windows, read.collect::<Vec<_>>()), (vec![], want));
    }
    keyspace.drop().await;
}

/// Opens the keyspace, which creates its tables with this unit of time.
pub(super) async fn open_as(keyspace: &TestKeyspace, unit: TimeUnit) -> RowSpec {
    let width = match unit {
        TimeUnit::Seconds => 1_814_400,
        TimeUnit::Milliseconds | TimeUnit::Legacy => RowSpec::DEFAULT.width(),
    };
    let row_spec = RowSpec::new(unit, width).expect("valid");
    let options = Options { row_spec, ..keyspace.options() };
    let store = keyspace.open_with(options).await;
    assert_eq!(store.row_spec(), row_spec);
    row_spec
}

/// A keyspace with the recorded rows of a file.
async fn filled(file: &Json, unit: TimeUnit) -> TestKeyspace {
    let keyspace = TestKeyspace::new().await;
    let spec = open_as(&keyspace, unit).await;
    let tables = &file["tables"];
    for row in list(&tables["spec"]) {
        let want = match text(&row["name"]) {
            "row_width" => spec.width().to_string(),
            _ => unit.as_str().to_owned(),
        };
        assert_eq!(text(&row["value"]), want);
    }
    for row in list(&tables["data_points"]) {
        put_blobs(&keyspace, "data_points", [&row["key"], &row["column1"], &row["value"]]).await;
    }
    for row in list(&tables["string_index"]) {
        let cql = "INSERT INTO {k}.string_index (key, column1, value) VALUES (?, ?, ?)";
        let values = (bytes(&row["key"]), text(&row["column1"]), bytes(&row["value"]));
        keyspace.cql_with(cql, values).await;
    }
    for row in list(&tables["row_key_time_index"]) {
        put_row_time(&keyspace, row).await;
    }
    for row in list(&tables["row_keys"]) {
        put_row_key(&keyspace, row).await;
    }
    keyspace
}

async fn put_blobs(keyspace: &TestKeyspace, table: &str, row: [&Json; 3]) {
    let cql = format!(
        "INSERT INTO {{k}}.{table} (key, column1, value) VALUES (?, ?, ?) USING TIMESTAMP {STAMP}"
    );
    keyspace.cql_with(&cql, &row.map(bytes)[..]).await;
}

async fn put_row_time(keyspace: &TestKeyspace, row: &Json) {
    let cql = "INSERT INTO {k}.row_key_time_index (metric, table_name, row_time) \
               VALUES (?, 'data_points', ?)";
    let row_time = CqlTimestamp(row["row_time"].as_i64().expect("a time"));
    keyspace.cql_with(cql, (text(&row["metric"]), row_time)).await;
}

/// Writes a row of `row_keys` and the time index row that leads to it.
async fn put_row_key(keyspace: &TestKeyspace, row: &Json) {
    put_row_time(keyspace, row).await;
    let cql = "INSERT INTO {k}.row_keys (metric, table_name, row_time, data_type, tags, mtime) \
               VALUES (?, 'data_points', ?, ?, ?, now())";
    let row_time = CqlTimestamp(row["row_time"].as_i64().expect("a time"));
    let tags: BTreeMap<&str, &str> = row["tags"]
        .as_object()
        .expect("tags")
        .iter()
        .map(|(name, value)| (name.as_str(), text(value)))
        .collect();
    let values = (text(&row["metric"]), row_time, text(&row["data_type"]), tags);
    keyspace.cql_with(cql, values).await;
}

/// Compares by metric and over all metrics, through the store and through the running program.
async fn check_answers(keyspace: &TestKeyspace, answers: &Json) -> usize {
    let points = check_series(keyspace, answers).await;
    let store = keyspace.open().await;
    let all = read(&store, &[], TimeRange::ALL).await;
    assert_eq!(all.values().map(Vec::len).sum::<usize>(), points, "over the list of names");
    points
}

/// Compares each metric; returns the number of points.
async fn check_series(keyspace: &TestKeyspace, answers: &Json) -> usize {
    let store = keyspace.open().await;
    let data = tempfile::tempdir().expect("a folder");
    let (address, name) = (support::cassandra(), keyspace.name.clone());
    let backend = Backend::CassandraStore { address, keyspace: name };
    let server = Promkairos::ready(data.path(), &backend, &[]).await;
    let mut points = 0;
    for (metric, answer) in answers.as_object().expect("answers") {
        let want = answer_of(metric, answer);
        let ours = read(&store, &named(metric), TimeRange::ALL).await;
        let ours = ours.into_iter().map(|(labels, points)| {
            let labels = labels.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
            let value = |value: &Value| match value {
                Value::Float(value) => *value,
                Value::Histogram(_) => panic!("a histogram"),
            };
            let points = points.iter().map(|p| (p.timestamp, value(&p.value)));
            (labels, points.collect())
        });
        points += compare(metric, &want, ours.collect());
        let range = i64::MIN / 2..=i64::MAX / 2;
        let read = server.read_range(METRIC_NAME, metric, range).await.expect("an answer");
        compare(metric, &want, read.into_iter().map(floats).collect());
    }
    points
}

/// The numbers of a KairosDB answer; other values are left out.
fn answer_of(metric: &str, answer: &Json) -> Answer {
    let series = answer.get("series").unwrap_or(answer);
    let mut all = Answer::new();
    for series in list(series) {
        let mut labels = LabelMap::from([(METRIC_NAME.to_owned(), metric.to_owned())]);
        for (name, values) in series["tags"].as_object().expect("tags") {
            labels.insert(name.clone(), text(&values[0]).to_owned());
        }
        let mut values = Values::new();
        for point in list(&series["values"]) {
            if let Some(value) = point[1].as_f64() {
                values.entry(point[0].as_i64().expect("a time")).or_default().push(value);
            }
        }
        if !values.is_empty() {
            all.insert(labels, values);
        }
    }
    all
}

/// Of two values at one time our answer has the double, since all rows have the same write time.
/// KairosDB's answer has the double last.
#[track_caller]
fn compare(metric: &str, want: &Answer, ours: BTreeMap<LabelMap, BTreeMap<i64, f64>>) -> usize {
    let want: BTreeMap<LabelMap, BTreeMap<i64, f64>> = want
        .iter()
        .map(|(labels, values)| {
            let last = |values: &Vec<f64>| *values.last().expect("a value");
            (labels.clone(), values.iter().map(|(time, all)| (*time, last(all))).collect())
        })
        .collect();
    assert_eq!(ours, want, "{metric}");
    ours.values().map(BTreeMap::len).sum()
}

fn floats(series: ReadSeries) -> (LabelMap, BTreeMap<i64, f64>) {
    let points = series.points.into_iter().map(|(time, point)| match point {
        Point::Float(bits) => (time, f64::from_bits(bits)),
        Point::Histogram(_) => panic!("a histogram"),
    });
    (series.labels, points.collect())
}

fn load(name: &str) -> Json {
    let path = format!("{}/tests/data/kairos/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).expect("JSON")
}

fn list(json: &Json) -> &[Json] {
    json.as_array().expect("a list")
}

fn text(json: &Json) -> &str {
    json.as_str().expect("a text")
}

fn bytes(json: &Json) -> Vec<u8> {
    let digits = text(json).as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("hex"), 16);
    digits.map(|pair| byte(pair).expect("hex")).collect()
}
