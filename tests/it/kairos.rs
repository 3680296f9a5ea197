//! Tests: the byte format against the rows and answers of a real KairosDB 1.3.
//!
//! `tests/data/kairos/*.json` hold points sent to it (`cases`), all rows that it stored (`tables`)
//! and its answers for them (`answers`). Every row is computed from the cases and compared, and
//! decoded and encoded again.

use std::collections::{BTreeMap, BTreeSet};

use promkairos::kairos::cell::{
    Double, encode_double, encode_exemplar, encode_histogram, encode_legacy_double,
    encode_legacy_float, encode_legacy_long, encode_long, encode_string, exemplar_column,
};
use promkairos::kairos::index::{IndexedTags, LegacySlice, RowKeyRow, StringIndexRow, TagIndexRow};
use promkairos::kairos::{
    Cell, DataType, LegacyKind, Offset, RowKey, RowSpec, RowTime, TableName, Tags, TimeUnit,
};
use promkairos::model::TimeRange;
use serde_json::Value as Json;

/// The number of rows of all tables in each of the four files.
const ROWS: [(&str, usize); 4] =
    [("milliseconds", 165), ("seconds", 129), ("legacy", 166), ("legacy-rows", 20)];

#[test]
fn every_row_of_a_real_kairosdb() {
    for (name, want) in &ROWS[..3] {
        let file = load(name);
        let spec = read_spec(rows(&file["tables"], "spec"));
        let expected = Expected::of(spec, list(&file["cases"]));
        let mut compared = 2;
        for (table, check) in [
            ("data_points", check_data_points as fn(&Expected, &[Json])),
            ("row_key_time_index", check_time_index),
            ("row_keys", check_row_keys),
            ("tag_indexed_row_keys", check_tag_index),
            ("string_index", check_string_index),
        ] {
            let rows = rows(&file["tables"], table);
            check(&expected, rows);
            compared += rows.len();
        }
        assert_eq!(compared, *want, "{name}");
        assert_eq!(list_of_tables(&file).len(), 6, "{name}: a table that nobody compares");
    }
}

#[test]
fn every_answer_of_a_real_kairosdb() {
    let mut points = 0;
    for (name, _) in &ROWS[..3] {
        let file = load(name);
        let spec = read_spec(rows(&file["tables"], "spec"));
        let cells = rows(&file["tables"], "data_points").iter();
        let cells = cells.map(|row| (hex(&row["key"]), hex(&row["column1"]), hex(&row["value"])));
        points += check_answers(&series_of(spec, cells), &file["answers"]);
    }
    assert_eq!(points, 74 + 34 + 74);
}

#[test]
fn every_row_in_the_layout_before_1_0() {
    let (name, want) = ROWS[3];
    let file = load(name);
    let spec = RowSpec::parse("LEGACY", "1814400000").expect("valid");
    let cells: Vec<_> = list(&file["data_points"])
        .iter()
        .map(|row| (hex(&row[0]), hex(&row[1]), hex(&row[2])))
        .collect();
    let mut keys = BTreeSet::new();
    for (key, column, value) in &cells {
        let read = RowKey::decode(key).expect("a row key");
        assert_eq!(read.encode().as_ref(), Ok(key));
        let offset = Offset::from_bytes(column, spec.unit()).expect("a column");
        let (row_time, written) = spec.split(spec.timestamp(read.row_time, offset));
        assert_eq!(row_time, read.row_time);
        assert_eq!(written.with_legacy_kind(offset.legacy_kind()).to_bytes(), **column);
        let cell = Cell::decode(&read.data_type, offset, value).expect("a value");
        match read.data_type {
            DataType::Legacy => {
                assert_eq!(encode_legacy(&cell, value.len()), canonical(value), "{column:?}");
            }
            _ => assert_eq!(encode_cell(&cell), *value),
        }
        keys.insert(key.clone());
    }
    assert_eq!(check_answers(&series_of(spec, cells.iter().cloned()), &file["answers"]), 16);

    let index = list(&file["row_key_index"]);
    for row in index {
        let (partition, column) = (hex(&row[0]), hex(&row[1]));
        let read = RowKey::decode(&column).expect("a row key");
        assert_eq!(read.metric.as_bytes(), partition);
        assert_eq!(read.encode().as_ref(), Ok(&column));
        assert_eq!(hex(&row[2]), [0]);
        assert!(keys.remove(&column), "an index row for a row that is not there");
        let at = TimeRange::new(1_700_000_000_000, 1_700_000_000_000);
        let slices = LegacySlice::of(spec, &read.metric, at).expect("valid");
        assert!(slices.iter().any(|slice| slice.start <= column && column <= slice.end));
    }
    assert!(keys.is_empty(), "rows without an index row");

    let also = &file["also_in_new_index"];
    let key = in_place(row_key_row(also)).encode().expect("valid");
    assert!(cells.iter().any(|cell| cell.0 == key));
    assert_eq!(cells.len() + index.len() + 1, want);
}

#[test]
fn every_example_of_the_format_page() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/FORMAT.md");
    let page = std::fs::read_to_string(page).expect("the page is in the tree");
    let (_, examples) = page.split_once("```hex\n").expect("a block of examples");
    let (examples, _) = examples.split_once("```").expect("the end of the block");
    let (_, offset) = RowSpec::DEFAULT.split(7);
    let mut seen = BTreeSet::new();
    for line in examples.lines() {
        let (name, digits) = line.split_once(' ').expect("a type and its bytes");
        let (data_type, value) = (DataType::parse(name), hex(&digits.into()));
        let cell = Cell::decode(&data_type, offset, &value).expect("as the page says");
        assert_eq!(encode_cell(&cell), value, "{line}");
        if let Cell::Exemplar { labels, .. } = &cell {
            let column = exemplar_column(offset, labels);
            let digits: String = column.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(page.contains(&format!("`{digits}`")), "column {digits}");
        }
        assert_eq!(data_type.table_name(), TableName::Prometheus);
        seen.insert(name);
    }
    assert_eq!(Vec::from_iter(seen), ["prom_double", "prom_exemplar", "prom_histogram"]);
}

/// The canonical form of a value that old writers could write longer or with another flag.
fn canonical(value: &[u8]) -> Vec<u8> {
    match value {
        [0x00, 0x80] => vec![0x80],
        [0x00, double @ ..] if double.len() == 8 => [&[2], double].concat(),
        other => other.to_vec(),
    }
}

/// Only the length tells whether a float or a double was stored.
fn encode_legacy(cell: &Cell, length: usize) -> Vec<u8> {
    match cell {
        Cell::Long(long) => encode_legacy_long(*long),
        Cell::Double(Double(double)) if length == 5 => encode_legacy_float(*double as f32).into(),
        Cell::Double(Double(double)) => encode_legacy_double(*double).into(),
        other => panic!("not a number: {other:?}"),
    }
}

/// The rows that KairosDB must have stored for the cases.
struct Expected {
    spec: RowSpec,
    /// Cells by row key and column. Of several points in one cell, sent in one millisecond,
    /// Cassandra keeps the one with the greatest bytes.
    cells: BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>>,
    keys: Vec<RowKey>,
}

impl Expected {
    fn of(spec: RowSpec, cases: &[Json]) -> Self {
        let mut expected = Self { spec, cells: BTreeMap::new(), keys: Vec::new() };
        for case in cases {
            let tags = read_tags(&case["tags"]);
            for point in list(&case["points"]) {
                let timestamp = point[0].as_i64().expect("a timestamp");
                let (data_type, value) = encode_point(case["type"].as_str(), &point[1]);
                let (row_time, offset) = spec.split(timestamp);
                let metric = text(&case["name"]).into();
                let key = RowKey { metric, row_time, data_type, tags: tags.clone() };
                let cell = (key.encode().expect("a valid key"), offset.to_bytes().to_vec());
                let kept = expected.cells.entry(cell).or_default();
                *kept = value.max(std::mem::take(kept));
                expected.keys.push(key);
            }
        }
        expected
    }

    fn rows<T: Ord>(&self, row: impl Fn(&RowKey) -> Vec<T>) -> BTreeSet<T> {
        self.keys.iter().flat_map(row).collect()
    }
}

fn encode_point(data_type: Option<&str>, value: &Json) -> (DataType, Vec<u8>) {
    match (data_type, value) {
        (Some("string"), value) => {
            (DataType::String, encode_string(text(value)).expect("a short text"))
        }
        // Without a type, KairosDB takes a number with a decimal point for a double.
        (Some("long") | None, value) if value.is_i64() => {
            (DataType::Long, encode_long(value.as_i64().expect("an integer")))
        }
        (Some("double") | None, value) => {
            let double = value.as_f64().expect("a number");
            assert_eq!(DataType::of_float(double), DataType::Double);
            (DataType::Double, encode_double(double).to_vec())
        }
        other => panic!("unknown point {other:?}"),
    }
}

fn check_data_points(expected: &Expected, rows: &[Json]) {
    let mut stored = BTreeMap::new();
    for row in rows {
        let (key, column, value) = (hex(&row["key"]), hex(&row["column1"]), hex(&row["value"]));
        let read = RowKey::decode(&key).expect("a row key");
        assert_eq!(read.encode().as_ref(), Ok(&key));
        let offset = Offset::from_bytes(&column, expected.spec.unit()).expect("a column");
        if expected.spec.unit() == TimeUnit::Legacy {
            assert_eq!(offset.legacy_kind(), LegacyKind::Long, "typed rows leave the bit free");
        }
        assert_eq!(offset.to_bytes(), *column);
        let cell = Cell::decode(&read.data_type, offset, &value).expect("a value");
        assert_eq!(encode_cell(&cell), value);
        stored.insert((key, column), value);
    }
    assert_eq!(stored.len(), rows.len());
    assert_eq!(stored, expected.cells);
}

fn encode_cell(cell: &Cell) -> Vec<u8> {
    match cell {
        Cell::Long(long) => encode_long(*long),
        Cell::Double(Double(double)) => encode_double(*double).to_vec(),
        Cell::Text(text) => encode_string(text).expect("a short text"),
        Cell::Histogram { histogram, start_timestamp } => {
            encode_histogram(histogram, *start_timestamp).expect("a valid histogram")
        }
        Cell::Exemplar { labels, value } => encode_exemplar(labels, value.0),
        Cell::Unknown => panic!("a type of another plug-in"),
    }
}

fn check_time_index(expected: &Expected, rows: &[Json]) {
    let print = |metric: &str, table_name: TableName, row_time: RowTime| {
        (metric.to_owned(), table_name.as_str(), row_time.millis())
    };
    let stored: BTreeSet<_> = rows
        .iter()
        .map(|row| print(text(&row["metric"]), table_name(row), row_time(row)))
        .collect();
    assert_eq!(stored.len(), rows.len());
    assert_eq!(
        stored,
        expected.rows(|key| vec![print(&key.metric, key.data_type.table_name(), key.row_time)])
    );
}

fn check_row_keys(expected: &Expected, rows: &[Json]) {
    let encode = |row: RowKeyRow| in_place(row).encode().expect("a valid key");
    let stored: BTreeSet<_> = rows.iter().map(row_key_row).map(encode).collect();
    assert_eq!(stored.len(), rows.len());
    assert_eq!(stored, expected.rows(|key| vec![encode(RowKeyRow::of(key))]));
}

/// The configuration of the KairosDB that wrote the rows.
fn indexed_tags(metric: &str) -> IndexedTags {
    match metric {
        "idx.all" => IndexedTags::All,
        "idx.one" => IndexedTags::Only(["host".into()].into()),
        _ => IndexedTags::Only(BTreeSet::new()),
    }
}

fn check_tag_index(expected: &Expected, rows: &[Json]) {
    let print = |row: TagIndexRow| {
        let key = in_place(row.row).encode().expect("valid");
        (row.single_tag_pair.to_string(), row.tag_collection_hash, key)
    };
    let stored: BTreeSet<_> = rows
        .iter()
        .map(|row| {
            let hash = row["tag_collection_hash"].as_i64().expect("a hash");
            TagIndexRow {
                single_tag_pair: text(&row["single_tag_pair"]).into(),
                tag_collection_hash: hash.try_into().expect("32 bits"),
                row: row_key_row(row),
            }
        })
        .map(print)
        .collect();
    assert_eq!(stored.len(), rows.len());
    let of = |key: &RowKey| {
        let rows = TagIndexRow::of(key, &indexed_tags(&key.metric));
        rows.into_iter().map(print).collect()
    };
    assert_eq!(stored, expected.rows(of));
}

fn check_string_index(expected: &Expected, rows: &[Json]) {
    let mut stored = BTreeSet::new();
    for row in rows {
        let (key, metric) = (hex(&row["key"]), text(&row["column1"]));
        let list = TableName::ALL.into_iter().find(|list| StringIndexRow::key(*list) == key);
        assert_eq!(hex(&row["value"]), [0]);
        stored.insert((list.expect("the list of metric names").as_str(), metric.to_owned()));
    }
    assert_eq!(stored.len(), rows.len());
    // The cases do not contain its own metrics, and the name that was inserted before its first
    // start so that it took the keyspace for an old one.
    stored.retain(|(_, metric)| !metric.starts_with("kairosdb.") && metric != "old.metric");
    let print = |row: StringIndexRow| (row.table_name.as_str(), row.metric.to_string());
    assert_eq!(stored, expected.rows(|key| vec![print(StringIndexRow::of(key))]));
}

type Point = (i64, String);
type Series = BTreeMap<(String, BTreeMap<String, String>), Vec<Point>>;

/// The points of all rows as KairosDB merges them: by metric and tags, over all types.
fn series_of(spec: RowSpec, cells: impl Iterator<Item = (Vec<u8>, Vec<u8>, Vec<u8>)>) -> Series {
    let mut series = Series::new();
    for (key, column, value) in cells {
        let key = RowKey::decode(&key).expect("a row key");
        let offset = Offset::from_bytes(&column, spec.unit()).expect("a column");
        let value = match Cell::decode(&key.data_type, offset, &value).expect("a value") {
            Cell::Long(long) => long.to_string(),
            Cell::Double(Double(double)) => print_double(double),
            Cell::Text(text) => text,
            other => panic!("KairosDB does not answer {other:?}"),
        };
        let tags = key.tags.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        let points = series.entry((key.metric.to_string(), tags)).or_default();
        points.push((spec.timestamp(key.row_time, offset), value));
    }
    series.values_mut().for_each(|points| points.sort());
    series
}

/// KairosDB prints whole doubles as integers, and −0 as 0.
fn print_double(double: f64) -> String {
    if double == 0.0 { "0".into() } else { format!("{double}") }
}

fn check_answers(series: &Series, answers: &Json) -> usize {
    let mut answered = Series::new();
    for (metric, answer) in answers.as_object().expect("an object") {
        let list_of_series = answer.get("series").unwrap_or(answer);
        for one in list(list_of_series) {
            let tags = one["tags"].as_object().expect("an object").iter();
            let tags = tags.map(|(name, values)| (name.clone(), text(&values[0]).to_owned()));
            let points = list(&one["values"]).iter().map(|point| {
                let value = match &point[1] {
                    Json::String(text) => text.clone(),
                    number if number.is_i64() => number.to_string(),
                    number => print_double(number.as_f64().expect("a number")),
                };
                (point[0].as_i64().expect("a timestamp"), value)
            });
            let mut points: Vec<Point> = points.collect();
            points.sort();
            answered.insert((metric.clone(), tags.collect()), points);
        }
    }
    assert_eq!(*series, answered);
    answered.values().map(Vec::len).sum()
}

fn read_spec(rows: &[Json]) -> RowSpec {
    assert_eq!(rows.len(), 2);
    let value = |name: &str| {
        let row = rows.iter().find(|row| row["name"] == name).expect("a row of spec");
        assert_eq!(row["spec_type"], "cluster_config");
        text(&row["value"])
    };
    let spec = RowSpec::parse(value("row_time_unit"), value("row_width")).expect("a valid spec");
    assert_eq!(spec.unit().as_str(), value("row_time_unit"));
    assert_eq!(spec.width().to_string(), value("row_width"));
    spec
}

/// The key of a row that is under the table name of its type.
fn in_place(row: RowKeyRow) -> RowKey {
    assert!(row.is_in_place(), "a type of KairosDB");
    row.key
}

fn row_key_row(row: &Json) -> RowKeyRow {
    RowKeyRow {
        table_name: row.get("table_name").map_or(TableName::DataPoints, |_| table_name(row)),
        key: RowKey {
            metric: text(&row["metric"]).into(),
            row_time: row_time(row),
            data_type: DataType::parse(text(&row["data_type"])),
            tags: read_tags(&row["tags"]),
        },
    }
}

fn read_tags(tags: &Json) -> Tags {
    let tags = tags.as_object().expect("an object").iter();
    Tags::from_pairs(tags.map(|(name, value)| (&**name, text(value)))).expect("unique names")
}

fn table_name(row: &Json) -> TableName {
    TableName::parse(text(&row["table_name"])).expect("a known table name")
}

fn row_time(row: &Json) -> RowTime {
    RowTime::from_stored(row["row_time"].as_i64().expect("a row time"))
}

fn load(name: &str) -> Json {
    let path = format!("{}/tests/data/kairos/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(&path).expect("the file is in the tree");
    serde_json::from_slice(&bytes).expect("valid JSON")
}

fn list_of_tables(file: &Json) -> Vec<&String> {
    file["tables"].as_object().expect("an object").keys().collect()
}

fn rows<'a>(tables: &'a Json, name: &str) -> &'a [Json] {
    list(&tables[name])
}

fn list(json: &Json) -> &[Json] {
    json.as_array().expect("a list")
}

fn text(json: &Json) -> &str {
    json.as_str().expect("a text")
}

fn hex(json: &Json) -> Vec<u8> {
    let digits = text(json);
    assert!(digits.len().is_multiple_of(2), "odd number of digits");
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}
