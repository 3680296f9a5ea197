//! The differences that a comparison finds, and the selection of series and times.

use promkairos::model::METRIC_NAME;

use super::{AT, All, DAY, copy, embedded, keyspace, made, over_cassandra, said, send, text};
use crate::cassandra::keyspace::{OwnedExemplar, Request, TestKeyspace, labels};
use crate::support;
use crate::support::promkairos::Promkairos;

#[tokio::test(flavor = "multi_thread")]
async fn every_difference_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let series = labels(&[(METRIC_NAME, "up"), ("job", "a")]);
    let request =
        Request::default().floats(&series, &[(AT, 1.0), (AT + 1_000, 2.0), (AT + DAY, 3.0)]);
    made(&data, &[request]).await;
    let name = support::keyspace();
    let (source, target) = (embedded(&data), keyspace(&name));
    said(&copy(folder.path(), &["--from", &source, "--to", &target]));
    let compare = || copy(folder.path(), &["--from", &source, "--to", &target, "--verify-only"]);
    let report = said(&compare());
    assert!(report.starts_with("The same on both sides: 3 points (checksum "), "{report}");

    let keys = TestKeyspace::named(name.clone()).await;
    let rows = keys.data_points().await;
    assert_eq!(rows.len(), 3, "{rows:?}");
    let check = |lines: &[&str], last: &str| {
        let output = compare();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        let report = String::from_utf8(output.stdout).expect("UTF-8");
        let found: Vec<&str> = report.lines().collect();
        let (end, listed) = found.split_last().expect("lines");
        let tail = |line: &&str| line.split_once("Z on: ").map(|(_, tail)| tail.to_owned());
        let listed: Vec<String> = listed.iter().filter_map(tail).collect();
        assert_eq!(listed, lines, "{report}");
        assert!(end.starts_with(last), "{report}");
    };
    let (key, column, _) = &rows[0];
    // 42.5 as a KairosDB double.
    keys.cql(&format!(
        "UPDATE {{k}}.data_points SET value = 0x4045400000000000 \
         WHERE key = 0x{key} AND column1 = 0x{column}"
    ))
    .await;
    check(&["points: 1 different"], "1 differences: 3 points");
    keys.cql(&format!(
        "DELETE FROM {{k}}.data_points WHERE key = 0x{key} AND column1 = 0x{column}"
    ))
    .await;
    check(&["points: 1 missing"], "1 differences: 3 points");
    // Other points of the series, and another series.
    let server = Promkairos::ready(&folder.path().join("s"), &over_cassandra(&name), &[]).await;
    let more = Request::default()
        .floats(&series, &[(AT + DAY + 1, 4.0)])
        .floats(&labels(&[(METRIC_NAME, "up"), ("job", "b")]), &[(AT + DAY, 1.0)]);
    send(&server, &more).await;
    check(
        &["points: 1 missing", "points: 1 too many", "points: 1 too many"],
        "3 differences, 2 of them only more in ",
    );
    let allowing = ["--from", &source, "--to", &target, "--verify-only", "--allow-more"];
    assert_eq!(copy(folder.path(), &allowing).status.code(), Some(1), "a point is missing");
    // Only selected data is compared.
    let only = ["--start", "1700086400", "--end", "1700086400", "--match", "up{job=\"a\"}"];
    let base = ["--from", &source, "--to", &target, "--verify-only"];
    let report = said(&copy(folder.path(), &[&base[..], &only].concat()));
    assert!(report.starts_with("The same on both sides: 1 points"), "{report}");
}

/// Exemplars of days without selected points: in the source, and in the target alone.
#[tokio::test(flavor = "multi_thread")]
async fn exemplars_are_copied_and_compared_whatever_day_they_are_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, back) = (folder.path().join("data"), folder.path().join("back"));
    let series = labels(&[(METRIC_NAME, "up"), ("job", "a")]);
    let exemplar = |timestamp: i64| OwnedExemplar {
        labels: labels(&[("trace_id", "t")]).as_bytes().to_vec(),
        value: 0.5,
        timestamp,
    };
    let request = Request::default()
        .floats(&series, &[(AT, 1.0)])
        .exemplar(&series, exemplar(AT - 9 * DAY))
        .exemplar(&series, exemplar(AT + 70 * DAY));
    made(&data, &[request]).await;
    let before = All::in_folder(&data).await;
    let (source, there, target) =
        (embedded(&data), keyspace(&support::keyspace()), embedded(&back));
    for (from, to) in [(&source, &there), (&there, &target)] {
        let report = said(&copy(folder.path(), &["--from", from, "--to", to]));
        assert!(report.contains(" histograms), 2 exemplars and"), "{report}");
        assert!(report.ends_with(" and 2 exemplars.\n"), "{report}");
    }
    assert_eq!(All::in_folder(&back).await, before);
    let more = Request::default().exemplar(&series, exemplar(AT + 33 * DAY));
    made(&back, &[more]).await;
    let compare = ["--from", &source, "--to", &target, "--verify-only"];
    let output = copy(folder.path(), &compare);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let report = String::from_utf8(output.stdout).expect("UTF-8");
    let want = format!(
        "exemplars: 1 too many\nNothing is missing and nothing different in {target}, which has more.\n\
         1 differences, 1 of them only more in {target}: 1 points"
    );
    assert!(report.contains(&want), "{report}");
    assert_eq!(said(&copy(folder.path(), &[&compare[..], &["--allow-more"]].concat())), report);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_asked_for_is_copied() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let mut request = Request::default();
    for (metric, job) in [("up", "a"), ("up", "b"), ("down", "a"), ("other", "a")] {
        let points: Vec<(i64, f64)> = (0..10).map(|n| (AT + n * DAY / 2, n as f64)).collect();
        request = request.floats(&labels(&[(METRIC_NAME, metric), ("job", job)]), &points);
    }
    made(&first, &[request]).await;
    let (source, target) = (embedded(&first), embedded(&second));
    let (start, end) = (AT + DAY, AT + 3 * DAY);
    let (start, end) = (format!("{}", start / 1_000), format!("{}", end / 1_000));
    // The first two selectors overlap.
    let arguments = [
        "--from",
        &source,
        "--to",
        &target,
        "--match",
        "up",
        "--match",
        "{job=\"a\",__name__!=\"other\"}",
        "--match",
        "nothing",
        "--start",
        &start,
        "--end",
        &end,
        "--at-once",
        "1",
    ];
    let report = said(&copy(folder.path(), &arguments));
    assert!(
        report.starts_with("Copied 15 points (15 floats, 0 histograms), 0 exemplars"),
        "{report}"
    );
    assert!(report.contains("The same on both sides: 15 points"), "{report}");
    let all = All::in_folder(&second).await;
    let found: Vec<(&str, &str, Vec<i64>)> = all
        .series
        .iter()
        .map(|s| (&*s.labels[METRIC_NAME], &*s.labels["job"], s.points.keys().copied().collect()))
        .collect();
    let times: Vec<i64> = (2..=6).map(|n| AT + n * DAY / 2).collect();
    let want = [("down", "a"), ("up", "a"), ("up", "b")];
    let want: Vec<_> = want.iter().map(|(metric, job)| (*metric, *job, times.clone())).collect();
    assert_eq!(found, want);
}
