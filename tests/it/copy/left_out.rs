//! What a keyspace of a KairosDB holds that is none to us: the report names it, since the comparison sees it on
//! neither side.

use std::path::Path;

use promkairos::kairos::DataType;
use promkairos::model::METRIC_NAME;
use serde_json::Value as Json;

use super::{AT, copy, embedded, keyspace, said};
use crate::cassandra::keyspace::{Request, TestKeyspace, hex, key, labels};

const WIDTH: i64 = 1_814_400_000;

/// Three weeks with two series of ours, of which one has cells that nobody can read, a series of strings, and
/// one with a tag that is no label. The last two have no other series beside them.
async fn filled() -> TestKeyspace {
    let keys = TestKeyspace::new().await;
    let store = keys.open().await;
    let series = ["a", "b"].map(|job| labels(&[(METRIC_NAME, "good"), ("job", job)]));
    let points = [(AT, 1.0), (AT + 1, f64::NAN)];
    series.iter().fold(Request::default(), |all, one| all.floats(one, &points)).write(&store).await;
    let row_time = AT - AT % WIDTH;
    let bad = hex(&key(&series[1], row_time, DataType::Double));
    for (column, value) in [("00000008", "0102"), ("0000000801", "4045400000000000")] {
        let cql = "INSERT INTO {k}.data_points (key, column1, value) VALUES";
        keys.cql(&format!("{cql} (0x{bad}, 0x{column}, 0x{value})")).await;
    }
    for (metric, data_type, tags) in [
        ("text", "kairos_string", "'host': 'x'"),
        ("text", "kairos_string", "'host': 'y'"),
        ("plugged", "plugin", "'host': 'x'"),
        ("odd", "kairos_double", "'__name__': 'x'"),
    ] {
        keys.cql(&format!(
            "INSERT INTO {{k}}.row_keys (metric, table_name, row_time, data_type, tags) \
             VALUES ('{metric}', 'data_points', {row_time}, '{data_type}', {{{tags}}})"
        ))
        .await;
        keys.cql(&format!(
            "INSERT INTO {{k}}.row_key_time_index (metric, table_name, row_time) \
             VALUES ('{metric}', 'data_points', {row_time})"
        ))
        .await;
        keys.cql(&format!(
            "INSERT INTO {{k}}.string_index (key, column1, value) \
             VALUES (0x{}, '{metric}', 0x00)",
            hex(b"metric_names")
        ))
        .await;
    }
    keys
}

fn json(folder: &Path, arguments: &[&str]) -> Json {
    serde_json::from_str(&said(&copy(folder, &[arguments, &["--json"]].concat()))).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_none_to_us_is_counted_once_and_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = filled().await;
    let (source, target) = (keyspace(&keys.name), embedded(&folder.path().join("data")));
    let both = ["--from", &*source, "--to", &*target];
    let report = json(folder.path(), &both);
    assert_eq!(report["compared"]["differences"], 0, "{report}");
    let left_out = report["left_out"].as_object().expect("by reason");
    let counts: Vec<(&str, u64)> =
        left_out.iter().map(|(r, all)| (&**r, all["count"].as_u64().expect("a number"))).collect();
    assert_eq!(counts, [("column", 1), ("data_type", 3), ("labels", 1), ("value", 1)], "{report}");
    let first = |reason: &str| left_out[reason]["first"].as_str().expect("a text").to_owned();
    assert!(first("labels").starts_with("odd{__name__=\"x\"} kairos_double, 2023-"), "{report}");
    assert!(
        first("value").starts_with("{__name__=\"good\", job=\"b\"} kairos_double, "),
        "{report}"
    );
    assert!(first("value").ends_with(", column 0x00000008"), "{report}");
    // The text says it before it says that both are the same.
    let report = said(&copy(folder.path(), &[&both[..], &["--verify-only"]].concat()));
    let told = format!("{source} holds what is none to promkairos, and is left out:\n  column: 1 ");
    assert!(report.starts_with(&told), "{report}");
    assert!(
        report.contains("\n  data_type: 3 rows of series with a data type of others; "),
        "{report}"
    );
    assert!(report.contains("\nThe same on both sides: 4 points "), "{report}");
    // What is not selected is not told.
    let report =
        json(folder.path(), &[&both[..], &["--verify-only", "--match=good{job=\"a\"}"]].concat());
    assert_eq!(report["left_out"], serde_json::json!({}), "{report}");
    keys.drop().await;
}
