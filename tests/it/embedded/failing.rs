//! Tests: flushes and merges that keep failing on a disk without room for new files are reported until they work, and
//! a head in front is not ready meanwhile. Its log is on another disk.

use std::sync::Arc;
use std::time::Duration;

use promkairos::storage::Clock;
use promkairos::storage::head;
use promkairos::telemetry::HeadMetrics;

use super::*;
use crate::batch::Batch;
use crate::head::open_over;
use crate::support::eventually;

/// A store whose maintenance thread retries soon, at a time long after all points.
fn kept_in_order(disk: &SimulatedDisk) -> Arc<Parts> {
    let options = Options {
        maintenance: Some(Duration::from_millis(2)),
        clock: Clock::new(|| LATER),
        ..options()
    };
    let files = Arc::new(disk.clone());
    let store = Parts::open_with(files, Path::new(DIR), options, StoreMetrics::default());
    Arc::new(store.expect("it opens"))
}

/// Writes parts of one day that are due for a merge.
async fn unmerged(disk: &SimulatedDisk) {
    let store = open(disk).expect("a new store opens");
    for number in 0..4 {
        let runs = vec![(labels(&[("job", "a")]), vec![vec![point(number)]])];
        let through = number.cast_unsigned() + 1;
        let step = Step::Absorb { through, runs, exemplars: vec![], metadata: vec![] };
        apply(&store, &step).await.expect("nothing fails");
    }
    assert_eq!(parts(disk), 4);
}

fn parts(disk: &SimulatedDisk) -> usize {
    disk.names().iter().filter(|name| name.ends_with(".part")).count()
}

async fn says(what: &str, said: impl Fn() -> Option<String>, beginning: Option<&str>) {
    eventually(what, async || {
        let said = said();
        let as_wanted = match (&said, beginning) {
            (Some(said), Some(beginning)) => {
                said.starts_with(beginning) && said.contains(" times in a row: ")
            }
            (said, _) => said.is_none() && beginning.is_none(),
        };
        if as_wanted { Ok(()) } else { Err(format!("{said:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn merges_that_keep_failing_are_said_until_they_work() {
    let disk = SimulatedDisk::default();
    unmerged(&disk).await;
    disk.fill(true);
    let store = kept_in_order(&disk);
    let log = tempfile::tempdir().expect("a folder");
    let head = open_over(head::Options::new(log.path()), store.clone(), HeadMetrics::default());
    let head = head.await.expect("it opens");
    says("merges fail", || store.failing(), Some("maintenance of the embedded store")).await;
    let why = head.ready().await.expect_err("not ready").to_string();
    assert!(why.contains("no storage space") || why.contains(DIR), "{why}");
    // Writes are accepted nevertheless.
    head.write(Batch::new().series(&[("__name__", "m")]).sample(7, 1.0).build())
        .await
        .expect("taken");
    disk.fill(false);
    says("merges work", || store.failing(), None).await;
    head.ready().await.expect("ready again");
    eventually("one part is left", async || match parts(&disk) {
        1 => Ok(()),
        more => Err(more.to_string()),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flushes_that_keep_failing_are_said_until_they_work() {
    let disk = SimulatedDisk::default();
    let store = kept_in_order(&disk);
    let log = tempfile::tempdir().expect("a folder");
    let mut options = head::Options::new(log.path());
    options.flush_interval = Duration::from_millis(1);
    options.flush_spread = Duration::ZERO;
    options.flush_backoff = (Duration::from_millis(1), Duration::from_millis(1));
    let head = open_over(options, store.clone(), HeadMetrics::default()).await;
    let head = Arc::new(head.expect("it opens"));
    for round in 0..2 {
        disk.fill(true);
        let batch = Batch::new().series(&[("__name__", "m")]).sample(round, 1.0);
        head.write(batch.build()).await.expect("the log has room");
        says("flushes fail", || head.failing(), Some("a flush")).await;
        head.ready().await.expect_err("not ready");
        disk.fill(false);
        says("flushes work", || head.failing(), None).await;
        head.ready().await.expect("ready again");
    }
    head.close().await.expect("closed");
}

/// A flush that is given up at the end leaves all points in the log, and the store can be opened again.
#[tokio::test(flavor = "multi_thread")]
async fn a_close_that_has_no_time_leaves_all_in_the_log() {
    let (disk, log) = (SimulatedDisk::default(), tempfile::tempdir().expect("a folder"));
    let store = kept_in_order(&disk);
    let options = head::Options::new(log.path());
    let head = open_over(options.clone(), store.clone(), HeadMetrics::default());
    let head = head.await.expect("it opens");
    let mut batch = Batch::new();
    for number in 0..500 {
        batch = batch.series(&[("__name__", "m"), ("n", &number.to_string())]).sample(7, 1.0);
    }
    head.write(batch.build()).await.expect("taken");
    head.close_by(std::time::Instant::now()).await.expect("the log has all");
    drop(head);
    // No thread uses the disk any more.
    store.close().await.expect("closed");
    drop(store);
    let store = kept_in_order(&disk);
    let head = open_over(options, store, HeadMetrics::default()).await.expect("it opens again");
    let found = head.select(&[], TimeRange::ALL, &SelectHints::default()).await.expect("read");
    assert_eq!(found.series.len(), 500);
    head.close().await.expect("closed");
}
