//! A copy that is interrupted by a signal, by kill -9 or by a Cassandra that dies, and then resumed.

use std::path::{Path, PathBuf};
use std::time::Instant;

use promkairos::model::METRIC_NAME;
use serde_json::Value as Json;

use super::{AT, All, DAY, command, copy, embedded, keyspace, made, over_cassandra, said, text};
use crate::cassandra::keyspace::{Request, labels};
use crate::support::cassandra::OwnCassandra;
use crate::support::process::Process;
use crate::support::promkairos::Promkairos;
use crate::support::{self, DEADLINE};

const SERIES: u32 = 60;
const DAYS: i64 = 4;
const POINTS: usize = SERIES as usize * 300 * DAYS as usize;

/// An embedded store with points of four days.
async fn large(data: &Path) -> All {
    let mut requests = Vec::new();
    for day in 0..DAYS {
        let mut request = Request::default();
        for n in 0..SERIES {
            let series = labels(&[(METRIC_NAME, "m"), ("n", &n.to_string())]);
            let time = |at: i64| AT - AT % DAY + day * DAY + at * 60_000;
            let points: Vec<(i64, f64)> =
                (0..300).map(|at| (time(at), f64::from(n) + at as f64 / 8.0)).collect();
            request = request.floats(&series, &points);
        }
        requests.push(request);
    }
    made(data, &requests).await;
    let all = All::in_folder(data).await;
    assert_eq!(all.points(), POINTS);
    all
}

/// A copy in small pieces that keeps its progress in the file `state`.
pub(super) struct Cut {
    folder: PathBuf,
    arguments: Vec<String>,
    /// The file with its progress.
    pub(super) state: PathBuf,
}

impl Cut {
    pub(super) fn new(folder: &Path, from: &str, to: &str, more: &[&str]) -> Self {
        let state = folder.join("state");
        let fixed = ["--from", from, "--to", to, "--at-once", "1", "--state"];
        let mut arguments: Vec<String> = fixed.iter().map(|text| (*text).to_owned()).collect();
        arguments.push(state.display().to_string());
        arguments.extend(more.iter().map(|text| (*text).to_owned()));
        Self { folder: folder.to_owned(), arguments, state }
    }

    pub(super) fn arguments(&self) -> Vec<&str> {
        self.arguments.iter().map(String::as_str).collect()
    }

    /// The number of copied points by the progress file; 0 without the file.
    pub(super) fn copied(&self) -> u64 {
        let Ok(bytes) = std::fs::read(&self.state) else { return 0 };
        let json: Json = serde_json::from_slice(&bytes).expect("it is replaced as a whole");
        json["progress"]["totals"]["floats"].as_u64().expect("a number")
    }

    /// Starts the copy and waits until its progress grows.
    pub(super) fn begin(&self) -> Process {
        let before = self.copied();
        let mut process = Process::start("copy", &mut command(&self.folder, &self.arguments()));
        let start = Instant::now();
        while self.copied() <= before {
            assert!(process.ended().is_none(), "it ended:\n{}", process.log());
            assert!(start.elapsed() < DEADLINE, "nothing is copied:\n{}", process.log());
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        process
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_was_ended_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let all = large(&data).await;
    let name = support::keyspace();
    let (source, target) = (embedded(&data), keyspace(&name));
    let cut = Cut::new(folder.path(), &source, &target, &[]);
    let mut asked = cut.begin();
    let status = asked.terminate();
    assert_eq!(status.code(), Some(1), "{}", asked.log());
    assert!(
        asked.log().contains("stopped; the same command goes on from what "),
        "{}",
        asked.log()
    );
    let first = cut.copied();
    assert!(0 < first && first < POINTS as u64, "{first}");
    cut.begin().kill();
    let second = cut.copied();
    assert!(first < second && second < POINTS as u64, "{first}, {second}");
    // A copy with other arguments does not resume from this progress.
    let other = [&cut.arguments()[..], &["--match", "m"]].concat();
    let refused = copy(folder.path(), &other);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("the progress of another copy, from "), "{}", text(&refused));
    assert_eq!(cut.copied(), second);
    let report = said(&copy(folder.path(), &cut.arguments()));
    // Each point is counted once.
    assert!(report.starts_with(&format!("Copied {POINTS} points ({POINTS} floats, ")), "{report}");
    assert!(report.contains(&format!("The same on both sides: {POINTS} points")), "{report}");
    assert!(!cut.state.exists());
    let over = folder.path().join("over");
    let server = Promkairos::ready(&over, &over_cassandra(&name), &[]).await;
    assert_eq!(All::of(&server).await, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_dies_ends_the_copy_and_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let all = large(&data).await;
    let cassandra = tokio::task::spawn_blocking(OwnCassandra::start).await.expect("it starts");
    let target = format!("cassandra:{}/copied", cassandra.address());
    let source = embedded(&data);
    let impatient = ["--patience", "1s", "--cassandra-request-timeout", "10s"];
    let prepared = ["--from", &source, "--to", &target, "--match", "nothing"];
    said(&copy(folder.path(), &prepared));
    let cut = Cut::new(folder.path(), &source, &target, &impatient);
    let mut process = cut.begin();
    cassandra.kill();
    let status = process.wait();
    assert_eq!(status.code(), Some(1), "{}", process.log());
    assert!(process.log().contains("the same command goes on from what "), "{}", process.log());
    let copied = cut.copied();
    assert!(0 < copied && copied < POINTS as u64, "{copied}");
    cassandra.start_again();
    let patient = Cut::new(folder.path(), &source, &target, &[]);
    let report = said(&copy(folder.path(), &patient.arguments()));
    assert!(report.starts_with(&format!("Copied {POINTS} points")), "{report}");
    assert!(report.contains(&format!("The same on both sides: {POINTS} points")), "{report}");
    // The copy back into a folder is complete too.
    let back = folder.path().join("back");
    said(&copy(folder.path(), &["--from", &target, "--to", &embedded(&back)]));
    assert_eq!(All::in_folder(&back).await, all);
}

/// The log of the embedded store keeps the acknowledged points.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_into_a_folder_that_was_killed_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let all = large(&first).await;
    let (source, target) = (embedded(&first), embedded(&second));
    let cut = Cut::new(folder.path(), &source, &target, &[]);
    cut.begin().kill();
    let report = said(&copy(folder.path(), &cut.arguments()));
    assert!(report.starts_with(&format!("Copied {POINTS} points")), "{report}");
    assert_eq!(All::in_folder(&second).await, all);
}
