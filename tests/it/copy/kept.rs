//! A copy does not change its source, and a comparison changes neither side.

use std::path::Path;

use promkairos::model::METRIC_NAME;

use super::{AT, All, DAY, copy, embedded, keyspace, made, said, text};
use crate::cassandra::keyspace::{Request, TestKeyspace, labels};
use crate::support;

/// Makes a store of a point a day, from 2023 on.
async fn made_of_days(data: &Path, days: i64) {
    let points: Vec<(i64, f64)> = (0..days).map(|day| (AT + day * DAY, day as f64)).collect();
    made(data, &[Request::default().floats(&labels(&[(METRIC_NAME, "up")]), &points)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retention_takes_nothing_from_a_source_or_from_what_is_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let [first, second, third] = ["first", "second", "third"].map(|name| folder.path().join(name));
    made_of_days(&first, 5).await;
    let before = All::in_folder(&first).await;
    assert_eq!(before.points(), 5);
    let (source, target) = (embedded(&first), embedded(&second));
    said(&copy(folder.path(), &["--from", &source, "--to", &target]));
    let compare = ["--from", &source, "--to", &target, "--verify-only", "--retention=30d"];
    let report = said(&copy(folder.path(), &compare));
    assert!(report.starts_with("The same on both sides: 5 points (checksum "), "{report}");
    assert_eq!(All::in_folder(&first).await, before);
    assert_eq!(All::in_folder(&second).await, before);
    // The retention of the target holds: points that it would remove at once are refused and stay in the source.
    let refused =
        copy(folder.path(), &["--from", &source, "--to", &embedded(&third), "--retention=30d"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    let why = "is more than 30d old, which is the setting retention";
    assert!(text(&refused).contains(why), "{}", text(&refused));
    assert_eq!(All::in_folder(&first).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_compared_has_to_be_there_and_is_not_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, absent) = (folder.path().join("data"), folder.path().join("absent"));
    made_of_days(&data, 1).await;
    let name = support::keyspace();
    for target in [embedded(&absent), keyspace(&name)] {
        let arguments = ["--from", &embedded(&data), "--to", &target, "--verify-only"];
        let output = copy(folder.path(), &[&arguments[..], &["--patience=1s"]].concat());
        assert!(!output.status.success(), "{}", text(&output));
    }
    assert!(!absent.exists());
    let keys = TestKeyspace::named(name.clone()).await;
    let cql = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = '{k}'";
    assert!(keys.rows::<(String,)>(cql).await.is_empty(), "{name} was made");
}

/// A service could not replace files that root writes into its folder.
#[tokio::test(flavor = "multi_thread")]
async fn root_is_refused_in_the_folder_of_another_user() {
    let folder = tempfile::tempdir().expect("a folder");
    let [data, other] = ["data", "other"].map(|name| folder.path().join(name));
    made_of_days(&data, 1).await;
    made_of_days(&other, 1).await;
    // Only root can change the owner, and other users are not refused.
    let is_root = std::os::unix::fs::chown(&data, Some(65_533), None).is_ok();
    let code = Some(if is_root { 2 } else { 0 });
    let names = || {
        let files = std::fs::read_dir(data.join("embedded/wal")).expect("a log");
        let name = |file: std::io::Result<std::fs::DirEntry>| file.expect("a file").file_name();
        files.map(name).collect::<std::collections::BTreeSet<_>>()
    };
    let before = names();
    let refused = |output: &std::process::Output| {
        assert_eq!(output.status.code(), code, "{}", text(output));
        let why = "belongs to the user '#65533', who could not use what root writes there";
        assert_eq!(text(output).contains(why), is_root, "{}", text(output));
    };
    let (source, target) = (embedded(&data), embedded(&other));
    refused(&copy(folder.path(), &["--from", &source, "--to", &target]));
    refused(&copy(folder.path(), &["--from", &target, "--to", &source]));
    let repair = std::process::Command::new(env!("CARGO_BIN_EXE_promkairos"))
        .args(["wal", "repair", "--data-dir"])
        .arg(&data)
        .output();
    refused(&repair.expect("it runs"));
    if is_root {
        assert_eq!(names(), before);
    }
}
