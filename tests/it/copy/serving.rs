//! A copy from a server under write load, as docs/copy.md prescribes it: samples up to `--end` are
//! copied over HTTP to Cassandra, and a kill -9 in the middle loses nothing.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use promkairos::model::METRIC_NAME;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::cut_off::Cut;
use super::{AT, DAY, copy, keyspace, over_cassandra, said, send};
use crate::cassandra::keyspace::{Request, labels};
use crate::support::promkairos::{Backend, Promkairos};
use crate::support::remote_read::ReadSeries;
use crate::support::{self, seed};

const SERIES: usize = 120;
const DAYS: i64 = 3;
const POINTS_A_DAY: i64 = 300;
const POINTS: usize = SERIES * (DAYS * POINTS_A_DAY) as usize;
/// The last time that is copied: the time of a sample that is stored before the copy begins.
const END: i64 = AT - AT % DAY + (DAYS - 1) * DAY + (POINTS_A_DAY - 1) * 60_000;
/// The times that are copied.
const OLDER: RangeInclusive<i64> = 0..=END;

/// Sends the samples before the copy: the series that are copied, and another one.
async fn older(server: &Promkairos) {
    let mut random = StdRng::seed_from_u64(seed());
    for day in 0..DAYS {
        let time = |at: i64| AT - AT % DAY + day * DAY + at * 60_000;
        // Values without a pattern, so that a day is more than one piece.
        let mut points = || -> Vec<(i64, f64)> {
            (0..POINTS_A_DAY).map(|at| (time(at), random.random())).collect()
        };
        let mut request = Request::default();
        for n in 0..SERIES {
            request =
                request.floats(&labels(&[(METRIC_NAME, "m"), ("n", &n.to_string())]), &points());
        }
        request = request.floats(&labels(&[(METRIC_NAME, "left_out")]), &points());
        send(server, &request).await;
    }
}

/// A sender that writes newer samples to the same series, and to new series, all the time.
#[derive(Default)]
struct Writer {
    requests: AtomicUsize,
    is_over: AtomicBool,
}

impl Writer {
    async fn write(&self, server: &Promkairos) {
        while !self.is_over.load(Ordering::Relaxed) {
            let at = self.requests.load(Ordering::Relaxed);
            let time = END + 1 + at as i64;
            let mut request = Request::default();
            for n in 0..=SERIES {
                let name = if n < SERIES { n.to_string() } else { format!("new{}", at % 50) };
                let series = labels(&[(METRIC_NAME, "m"), ("n", &name)]);
                request = request.floats(&series, &[(time, at as f64)]);
            }
            send(server, &request).await;
            self.requests.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

fn points(series: &[ReadSeries]) -> usize {
    series.iter().map(|series| series.points.len()).sum()
}

/// Starts the copy, kills it and resumes it; returns its report. The writer must have written during
/// both runs.
fn copied_at_the_second_try(cut: &Cut, folder: &Path, writer: &Writer) -> String {
    let before = writer.requests();
    cut.begin().kill();
    let first = cut.copied();
    assert!(0 < first && first < POINTS as u64, "{first}");
    let between = writer.requests();
    let report = said(&copy(folder, &cut.arguments()));
    let after = writer.requests();
    assert!(before < between && between < after, "{before}, {between}, {after} requests");
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_under_load_is_copied_to_cassandra_over_http() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = Promkairos::ready(&data, &Backend::Embedded, &["--flush-interval=1s"]).await;
    older(&server).await;
    let name = support::keyspace();
    let end = (END / 1_000).to_string();
    let (source, target) = (server.url(""), keyspace(&name));
    let cut = Cut::new(folder.path(), &source, &target, &["--match", "m", "--end", &end]);

    let writing = Arc::new(Writer::default());
    let copying = async {
        let (folder, writer) = (folder.path().to_owned(), Arc::clone(&writing));
        let copied = move || {
            let report = copied_at_the_second_try(&cut, &folder, &writer);
            assert!(!cut.state.exists());
            report
        };
        let copied = tokio::task::spawn_blocking(copied).await;
        writing.is_over.store(true, Ordering::Relaxed);
        copied.expect("it is copied")
    };
    let (report, ()) = tokio::join!(copying, writing.write(&server));
    // Each point is counted once, and points that were written meanwhile are not.
    assert!(report.starts_with(&format!("Copied {POINTS} points ({POINTS} floats, ")), "{report}");
    assert!(report.contains(&format!("The same on both sides: {POINTS} points")), "{report}");

    let over = Promkairos::ready(&folder.path().join("over"), &over_cassandra(&name), &[]).await;
    let got = over.read("__name__", ".+").await.expect("it can be read");
    let want = server.read_range("__name__", "m", OLDER).await.expect("it can be read");
    assert_eq!((want.len(), points(&want)), (SERIES, POINTS));
    assert!(got == want, "{} series, {} points", got.len(), points(&got));
    // The source also has the points that were acknowledged meanwhile.
    let all = server.read("__name__", "m").await.expect("it can be read");
    assert_eq!(points(&all), POINTS + writing.requests() * (SERIES + 1));
}
