//! `promkairos doctor` as a command: what it prints, its exit code, its state file.

use std::path::Path;
use std::process::{Command, Output};

use promkairos::model::Labels;

use super::super::keyspace::{Request, TestKeyspace, labels};
use super::defects::DEFECTS;
use super::fill;
use crate::support;

/// Runs it in a folder.
pub(crate) fn doctor(keyspace: &TestKeyspace, folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_promkairos"))
        .current_dir(folder)
        .args(["doctor", "--log-level=warn", "--rate=0", "--settled=0s", "--pause=0s"])
        .args(["--cassandra-contact-points", &support::cassandra()])
        .args(["--cassandra-keyspace", &keyspace.name])
        .args(arguments)
        .output()
        .expect("it runs")
}

#[track_caller]
fn said(output: &Output, code: i32) -> &str {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert_eq!(errors, "", "no bar and no log where there is no terminal");
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exit_code_says_whether_something_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let series = fill(&store, "m").await;
    let sound = doctor(&keyspace, folder.path(), &[]);
    let text = said(&sound, 0);
    assert!(text.starts_with(&format!("Keyspace {}: MILLISECONDS", keyspace.name)), "{text}");
    assert!(text.ends_with("\nNothing is wrong.\n"), "{text}");

    (DEFECTS[0].make)(&keyspace, "m", &series).await;
    let broken = doctor(&keyspace, folder.path(), &[]);
    let text = said(&broken, 1);
    assert!(text.contains("\nunindexed-data: 1\n"), "{text}");
    assert!(text.contains("\n    m{host=\"b:1\"} kairos_double, 1970-01-22T00:00:00Z\n"), "{text}");
    assert!(
        text.ends_with("\n1 findings; promkairos doctor --fix can try to mend 1 of them.\n"),
        "{text}"
    );

    let json = doctor(&keyspace, folder.path(), &["--json", "--fix=missing-name"]);
    let json: serde_json::Value = serde_json::from_str(said(&json, 1)).expect("JSON");
    assert_eq!(json["findings"]["unindexed-data"]["m"]["found"], 1, "{json}");
    assert_eq!(json["findings"]["unindexed-data"]["m"]["fixed"], 0, "{json}");
    assert_eq!(json["facts"]["metrics"][0]["metric"], "m", "{json}");

    let fixed = doctor(&keyspace, folder.path(), &["--fix=unindexed-data"]);
    let text = said(&fixed, 0);
    assert!(text.contains("\nunindexed-data: 1, 1 mended\n"), "{text}");
    assert!(text.ends_with("\nAll is mended.\n"), "{text}");
    assert!(said(&doctor(&keyspace, folder.path(), &[]), 0).ends_with("\nNothing is wrong.\n"));
    keyspace.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_of_another_check_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let keyspace = TestKeyspace::new().await;
    fill(&keyspace.open().await, "m").await;
    let path = folder.path().join("state");
    let with_state =
        |more: &[&str]| doctor(&keyspace, folder.path(), &[&["--state", "state"], more].concat());
    said(&with_state(&[]), 0);
    assert!(!path.exists(), "a check that has ended keeps no state");
    for (text, reason) in [
        ("{}", "state: not the state of a check: missing field `keyspace`"),
        (
            "{\"keyspace\":\"another\",\"fix\":[],\"depth\":\"cells\",\"slices\":256,\
             \"stage\":\"data\",\"next\":7,\
             \"gathered\":{\"indexed\":{},\"unindexed\":[],\"reported\":[]},\
             \"report\":{\"findings\":{},\"others\":{},\"facts\":{\"rows\":0,\"cells\":0,\
             \"row_keys\":0,\"tag_index_rows\":0,\"legacy_rows\":0,\"names_without_data\":0,\
             \"notes\":[],\"wide\":[],\"metrics\":[]}}}",
            "state: the state of a check of another keyspace, or with other settings",
        ),
    ] {
        std::fs::write(&path, text).expect("written");
        let refused = with_state(&[]);
        let error = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{error}");
        assert!(error.contains(reason), "{error}");
    }
    // The same state with the name of this keyspace is resumed: its data was checked already.
    let text = std::fs::read_to_string(&path).expect("it stays");
    let own = text.replace("another", &keyspace.name).replace("\"data\"", "\"row-keys\"");
    std::fs::write(&path, own).expect("written");
    let output = with_state(&["--json"]);
    let json: serde_json::Value = serde_json::from_str(said(&output, 0)).expect("JSON");
    assert_eq!(json["facts"]["rows"], 0, "{json}");
    assert!(!path.exists());
    keyspace.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn label_sets_are_cut_and_say_how_long_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let keyspace = TestKeyspace::new().await;
    let (long, name) = ("v".repeat(16_000), "n".repeat(1_000));
    let series: Labels = labels(&[("__name__", &name), ("host", &long)]);
    let request = Request::default().floats(&series, &[(10, 1.5)]);
    let outcome = request.write(&keyspace.open().await).await;
    assert_eq!(outcome.samples, 1, "{outcome:?}");
    let flags = ["--wide=0", &format!("--config={}", folder.path().join("listed").display())];
    let listed = format!("tag_indexed_row_key_lookup_metrics = [\"{name}\"]\n");
    std::fs::write(folder.path().join("listed"), listed).expect("written");
    let output = doctor(&keyspace, folder.path(), &flags);
    let text = said(&output, 1);
    assert!(text.contains("\ntag-index-gap: 1\n"), "{text}");
    assert!(text.contains("… (1000 bytes): 1\n"), "{text}");
    assert!(text.contains("… (16005 bytes): nnn"), "{text}");
    assert!(text.contains("… (17009 bytes) kairos_double, 1970-01-01T00:00:00Z\n"), "{text}");
    assert!(text.lines().all(|line| line.len() < 1_000), "{text}");
    keyspace.drop().await;
}
