//! Tests: a write or delete that the log refuses leaves no trace: not in memory, not in the store
//! below, not after a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use promkairos::model::{Matcher, MetricType, TimeRange};
use promkairos::storage::head::{Head, Options};
use promkairos::storage::{ListSize, SelectHints, SeriesQuery, Store, StoreError};
use promkairos::telemetry::HeadMetrics;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

use super::wal::FaultyDisk;
use super::{Gate, Mode, T, one, open, options, put, values};
use crate::batch::Batch;
use crate::support::front::Fronted;
use crate::support::seed;

/// How the disk fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// No space is left.
    Full,
    /// Syncs fail.
    NoSync,
}

/// How the process ends after the refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// SIGTERM: all data in memory is flushed.
    Close,
    /// kill -9: the log is replayed.
    Crash,
}

fn faulty(dir: &TempDir) -> (Options, FaultyDisk) {
    let disk = FaultyDisk::default();
    (Options { disk: Arc::new(disk.clone()), ..options(dir) }, disk)
}

async fn refused(head: &Head, batch: &Batch) {
    match head.write(batch.build()).await {
        Err(StoreError::Unavailable { .. }) => {}
        other => panic!("{other:?} on a disk that refuses"),
    }
}

async fn names(store: &dyn Store) -> Vec<String> {
    let query = SeriesQuery { matchers: vec![], range: TimeRange::ALL, limit: ListSize::UNLIMITED };
    let series = store.series(&query).await.expect("readable").items;
    series.iter().map(|labels| labels.to_string()).collect()
}

/// All data that a reader can read.
#[derive(Debug, PartialEq)]
struct Seen {
    names: Vec<String>,
    up: Vec<(i64, f64)>,
    exemplars: usize,
    metadata: usize,
}

async fn see(store: &dyn Store) -> Seen {
    let exemplars = store.exemplars(&[], TimeRange::ALL, usize::MAX).await.expect("readable");
    Seen {
        names: names(store).await,
        up: values(store, "up").await.expect("readable"),
        exemplars: exemplars.iter().map(|(_, exemplars)| exemplars.len()).sum(),
        metadata: store.metadata(None, usize::MAX).await.expect("readable").len(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_log_refuses_is_never_seen() {
    for refusal in [Refusal::Full, Refusal::NoSync] {
        for end in [End::Close, End::Crash] {
            refuse_and_end(refusal, end).await;
        }
    }
}

async fn refuse_and_end(refusal: Refusal, end: End) {
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    let (options, disk) = faulty(&dir);
    let metrics = HeadMetrics::default();
    let store = Arc::new(Fronted(below.clone()));
    let head = Head::open(options.clone(), store, metrics.clone()).await.expect("the head opens");
    put(&head, &one("up", T, 1.0)).await;
    let before = see(&head).await;
    assert_eq!(before.up, [(T, 1.0)]);
    let memory = || (metrics.bytes.get(), metrics.series.get(), metrics.late_points.get());
    let used = memory();
    disk.set(|faults| match refusal {
        Refusal::Full => faults.space = Some(0),
        Refusal::NoSync => faults.sync_fails = true,
    });
    for round in 0..20 {
        let batch = Batch::new()
            .series(&[("__name__", "up")])
            .sample(T, 2.0)
            .sample(T + 1 + round, 3.0)
            .sample(T - 1, 4.0)
            .exemplar(T, 1.0, &[("trace", "x")])
            .metadata("up", MetricType::Gauge, "help", "unit");
        refused(&head, &batch).await;
        refused(&head, &one(&format!("new{round}"), T, 1.0)).await;
        let everything = [Matcher::equal("__name__", "up")];
        head.delete(&everything, TimeRange::ALL).await.expect_err("a delete is refused too");
        assert_eq!(see(&head).await, before, "{refusal:?}");
        assert_eq!(memory(), used, "{refusal:?} costs memory");
    }
    disk.set(|faults| (faults.space, faults.sync_fails) = (None, false));
    let mut want = before.up.clone();
    if refusal == Refusal::Full {
        // The head recovers by itself.
        put(&head, &one("up", T + 1, 5.0)).await;
        want.push((T + 1, 5.0));
    } else {
        head.ready().await.expect_err("a restart is needed");
    }
    match end {
        End::Close => head.close().await.expect("closed"),
        End::Crash => {}
    }
    drop(head);
    let head = open(options, &below).await;
    let want = Seen { up: want, ..before };
    assert_eq!(see(&head).await, want, "{refusal:?} {end:?}");
    head.flush().await.expect("flushed");
    assert_eq!(see(&below.store).await, want, "{refusal:?} {end:?}");
}

/// A full disk refuses at each step: segment, record, seal, checkpoint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_length_of_a_full_disk_leaves_a_trace() {
    let mut refusals = 0;
    for space in (0..400).step_by(7) {
        let dir = tempfile::tempdir().expect("a folder");
        let below = Arc::new(Gate::default());
        let (options, disk) = faulty(&dir);
        let head = open(options.clone(), &below).await;
        put(&head, &one("up", T, 1.0)).await;
        // The next record begins a segment.
        head.flush().await.expect("flushed");
        disk.set(|faults| faults.space = Some(space));
        let mut want = vec![(T, 1.0)];
        for value in [2.0, 3.0] {
            match head.write(one("up", T, value).build()).await {
                Ok(_) => want = vec![(T, value)],
                Err(StoreError::Unavailable { .. }) => refusals += 1,
                Err(error) => panic!("{error}"),
            }
            assert_eq!(values(&head, "up").await.expect("readable"), want, "{space} bytes");
        }
        // The folder as a crash would leave it now.
        let copy = tempfile::tempdir().expect("a folder");
        copy_files(dir.path(), copy.path());
        let crashed = Options { dir: copy.path().into(), ..options };
        let crashed = open(crashed, &below).await;
        assert_eq!(values(&crashed, "up").await.expect("readable"), want, "{space} bytes");
    }
    assert!(refusals > 20, "{refusals} refusals");
}

fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        std::fs::copy(&path, to.join(path.file_name().expect("a file"))).expect("copied");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_request_went_away_is_in_memory_as_in_the_log() {
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    below.set(Mode::NoFlush);
    let head = open(options(&dir), &below).await;
    for i in 0..50 {
        put(&head, &one("m", T + i, 0.0)).await;
        let batch = one("m", T + i, 1.0);
        // Polled once, the write is on its way to the log; then its request is dropped.
        let gone = head.write(batch.build()).now_or_never();
        assert!(gone.is_none_or(|written| written.is_ok()));
    }
    // This record follows all of them in the log, so it is applied after them.
    put(&head, &one("n", T, 0.0)).await;
    let live = values(&head, "m").await.expect("readable");
    let want: Vec<(i64, f64)> = (0..50).map(|i| (T + i, 1.0)).collect();
    assert_eq!(live, want);
    drop(head);
    let head = open(options(&dir), &below).await;
    assert_eq!(values(&head, "m").await.expect("readable"), want);
}

/// What a writer of a history knows of its own series.
#[derive(Default)]
struct Written {
    name: String,
    points: BTreeMap<i64, f64>,
    /// Refused values; every value is written once.
    refused: BTreeSet<u64>,
    /// Series whose writes were all refused.
    refused_names: BTreeSet<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_random_history_on_a_disk_that_is_full_at_times_shows_what_was_acknowledged() {
    let seed = seed();
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    let (mut options, disk) = faulty(&dir);
    options.flush_interval = Duration::from_millis(1);
    options.flush_backoff = (Duration::from_millis(1), Duration::from_millis(1));
    let head = Arc::new(open(options.clone(), &below).await);
    let done = Arc::new(AtomicBool::new(false));
    let (seen, weather) = {
        let (reader, ended) = (head.clone(), done.clone());
        let seen = tokio::spawn(async move { read_all(&reader, &ended).await });
        let (disk, below, ended) = (disk.clone(), below.clone(), done.clone());
        let rng = StdRng::seed_from_u64(seed);
        let weather = tokio::spawn(async move { change_weather(rng, &disk, &below, &ended).await });
        (seen, weather)
    };
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..4u64 {
        let (head, rng) = (head.clone(), StdRng::seed_from_u64(seed ^ (number + 1)));
        writers.spawn(async move { write_history(&head, number, rng).await });
    }
    let histories = writers.join_all().await;
    done.store(true, Ordering::SeqCst);
    weather.await.expect("no panic");
    let seen = seen.await.expect("no panic");
    let refusals: usize = histories.iter().map(|written| written.refused.len()).sum();
    assert!(refusals > 0 && histories.iter().all(|written| !written.points.is_empty()));
    drop(head);
    let head = open(options, &below).await;
    let names = names(&head).await;
    for written in &histories {
        let want: Vec<(i64, f64)> = written.points.clone().into_iter().collect();
        assert_eq!(values(&head, &written.name).await.expect("readable"), want);
        assert!(written.refused.is_disjoint(&seen), "a refused value was read");
        for name in &written.refused_names {
            assert!(!names.iter().any(|series| series.contains(name)), "{name} in {names:?}");
        }
    }
    head.flush().await.expect("flushed");
    for written in &histories {
        let want: Vec<(i64, f64)> = written.points.clone().into_iter().collect();
        let found = values(&below.store, &written.name).await.expect("readable");
        assert_eq!(found, want);
    }
}

/// Now and then fills the disk, and makes the store below refuse flushes.
async fn change_weather(mut rng: StdRng, disk: &FaultyDisk, below: &Gate, done: &AtomicBool) {
    while !done.load(Ordering::SeqCst) {
        let space = rng.random_bool(0.5).then(|| rng.random_range(0..600));
        disk.set(|faults| faults.space = space);
        below.set(if rng.random_bool(0.2) { Mode::NoFlush } else { Mode::Open });
        for _ in 0..rng.random_range(1..40) {
            tokio::task::yield_now().await;
        }
    }
    disk.set(|faults| faults.space = None);
    below.set(Mode::Open);
}

/// Reads all data again and again; returns the bits of all values read.
async fn read_all(head: &Head, done: &AtomicBool) -> BTreeSet<u64> {
    let mut seen = BTreeSet::new();
    while !done.load(Ordering::SeqCst) {
        let selected = head.select(&[], TimeRange::ALL, &SelectHints::default()).await;
        let selected = selected.expect("readable");
        let read = selected.reader.read(0..selected.series.len()).await.expect("readable");
        for point in read.iter().flatten().flat_map(|chunk| chunk.points()) {
            match point.expect("a good chunk").value {
                promkairos::model::Value::Float(value) => seen.insert(value.to_bits()),
                promkairos::model::Value::Histogram(_) => panic!("none was written"),
            };
        }
    }
    seen
}

/// Writes to one series, and reads it after each answer. Returns the points that must exist.
async fn write_history(head: &Head, number: u64, mut rng: StdRng) -> Written {
    let name = format!("m{number}");
    let mut written = Written { name: name.clone(), ..Written::default() };
    for step in 0..400u64 {
        let value = (number * 1_000_000 + step + 1) as f64;
        let at = T + rng.random_range(0..30);
        let new = format!("new_{number}_{step}_");
        let batch = one(&name, at, value).series(&[("__name__", &new)]).sample(at, value);
        match head.write(batch.build()).await {
            Ok(_) => {
                written.points.insert(at, value);
            }
            Err(StoreError::Unavailable { .. }) => {
                written.refused.insert(value.to_bits());
                written.refused_names.insert(new);
            }
            Err(error) => panic!("{error}"),
        }
        let want: Vec<(i64, f64)> = written.points.clone().into_iter().collect();
        assert_eq!(values(head, &name).await.expect("readable"), want, "{name} after {step}");
    }
    written
}
