//! Data of a KairosDB keyspace that promkairos cannot represent: the report names it, since the comparison finds it
//! on neither side.

use std::process::Output;

use promkairos::kairos::DataType;
use promkairos::model::METRIC_NAME;
use serde_json::Value as Json;

use super::{AT, copy, embedded, keyspace, said, text};
use crate::cassandra::keyspace::{Request, TestKeyspace, hex, key, labels};

const WIDTH: i64 = 1_814_400_000;
/// 2020-04-30 in microseconds.
const FAR: i64 = 1_588_233_300_000_000;

/// A keyspace with two series of ours, one of them with unreadable cells; series of types that are no numbers; a series
/// with a tag that is no label; and a series whose times are microseconds.
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
    // Microseconds that a KairosDB took for milliseconds.
    let far_row = FAR - FAR % WIDTH;
    let far = labels(&[(METRIC_NAME, "far\u{1b}")]);
    let (row, offset) = (hex(&key(&far, far_row, DataType::Double)), FAR - far_row);
    let cql = "INSERT INTO {k}.data_points (key, column1, value) VALUES";
    keys.cql(&format!("{cql} (0x{row}, 0x{offset:08x}, 0x4045400000000000)")).await;
    for (metric, row_time, data_type, tags) in [
        ("text", row_time, "kairos_string", "'host': 'x'"),
        ("text", row_time, "kairos_string", "'host': 'y'"),
        ("plugged", row_time, "plugin", "'host': 'x'"),
        ("odd", row_time, "kairos_double", "'__name__': 'x'"),
        ("far\u{1b}", far_row, "kairos_double", ""),
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

/// The report of a copy that left something out.
#[track_caller]
fn not_all(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", text(output));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_none_to_us_is_counted_once_and_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = filled().await;
    let (source, target) = (keyspace(&keys.name), embedded(&folder.path().join("data")));
    let both = ["--from", &*source, "--to", &*target];
    let report = not_all(&copy(folder.path(), &[&both[..], &["--json"]].concat()));
    assert!(!report.contains('\u{1b}'), "{report}");
    let report: Json = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["compared"]["differences"], 0, "{report}");
    let left_out = report["left_out"].as_object().expect("by reason");
    let counts: Vec<(&str, u64)> =
        left_out.iter().map(|(r, all)| (&**r, all["count"].as_u64().expect("a number"))).collect();
    let want = [("column", 1), ("data_type", 3), ("labels", 1), ("time", 1), ("value", 1)];
    assert_eq!(counts, want, "{report}");
    let first = |reason: &str| left_out[reason]["first"].as_str().expect("a text").to_owned();
    assert!(first("labels").starts_with("odd{__name__=\"x\"} kairos_double, 2023-"), "{report}");
    assert!(
        first("value").starts_with("{__name__=\"good\", job=\"b\"} kairos_double, "),
        "{report}"
    );
    assert!(first("value").ends_with(", column 0x00000008"), "{report}");
    assert_eq!(first("time"), format!("{{__name__=\"far\\u001b\"}} at {FAR} ms"));
    // The report lists the left-out data first, and then says that the rest is the same.
    let verify = [&both[..], &["--verify-only"]].concat();
    let report = not_all(&copy(folder.path(), &verify));
    let begin = format!("Left out of {source}, and not in {target}:\n  column: 1 ");
    assert!(report.starts_with(&begin), "{report}");
    assert!(
        report.contains("\n  data_type: 3 rows of series with a data type of others; "),
        "{report}"
    );
    assert!(report.contains("\n  time: 1 points outside of the years 1 to 9999; "), "{report}");
    assert!(
        report.contains("\nWhat can be copied is the same on both sides: 4 points "),
        "{report}"
    );
    let end = format!(
        "NOT ALL of {source} is in {target}: column, data_type, labels, time, value (above)."
    );
    assert!(report.contains(&end), "{report}");
    // Allowed kinds are no fault.
    let most =
        ["column", "data_type", "labels", "value"].map(|one| format!("--allow-left-out={one}"));
    let most: Vec<&str> = most.iter().map(String::as_str).collect();
    let report = not_all(&copy(folder.path(), &[&verify[..], &most].concat()));
    assert!(report.ends_with("Where that is no loss: --allow-left-out=time\n"), "{report}");
    said(&copy(folder.path(), &[&verify[..], &most, &["--allow-left-out=time"]].concat()));
    said(&copy(folder.path(), &[&verify[..], &["--allow-left-out=all"]].concat()));
    // Points after `--end` are no fault either.
    let until = ["--end=2000000000", "--match={__name__=~\"far.*|good\",job!=\"b\"}"];
    said(&copy(folder.path(), &[&verify[..], &until].concat()));
    // Only selected data is reported.
    let only = [&verify[..], &["--match=good{job=\"a\"}", "--json"]].concat();
    let report: Json = serde_json::from_str(&said(&copy(folder.path(), &only))).expect("JSON");
    assert_eq!(report["left_out"], serde_json::json!({}), "{report}");
    keys.drop().await;
}
