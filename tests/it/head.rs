//! Tests: the head with its log, in front of a memory store that can be away.

mod flush_memory;
mod histories;
mod pressure;
mod refused;
mod repair;
mod spread;
mod wal;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use promkairos::limits::REFUSE_AT;
use promkairos::model::{Matcher, Point, TimeRange, Value};
use promkairos::storage::clusters::{Clusters, ReadCluster};
use promkairos::storage::head::wal::{self as log, Mark, Record, WalOptions};
use promkairos::storage::head::{Head, Options};
use promkairos::storage::memory::MemoryStore;
use promkairos::storage::{
    Flush, FlushOutcome, ListSize, SelectHints, SeriesQuery, SharedStore, Stats, Store, StoreError,
};
use promkairos::telemetry::{HeadMetrics, Metrics};
use tempfile::TempDir;

use crate::batch::Batch;
use crate::store::{Harness, Opening};
use crate::support::front::{Front, Fronted};
use crate::support::{DEADLINE, eventually};
use wal::FaultyDisk;

/// How a head ends before it is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restart {
    /// Closed: all data is in the store below.
    Close,
    /// Never flushed: all data is in the log.
    Crash,
    /// Flushed before each read.
    FlushBefore,
}

/// A head over a memory store for the conformance suite.
pub(crate) async fn harness(restart: Restart) -> Harness {
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    let mut options = options(&dir);
    match restart {
        Restart::Close => {}
        Restart::Crash => below.set(Mode::NoFlush),
        Restart::FlushBefore => options.flush_interval = Duration::from_micros(200),
    }
    let reopen = move || {
        let (options, below) = (options.clone(), below.clone());
        Box::pin(async move { Arc::new(open(options, &below).await) as SharedStore }) as Opening
    };
    Harness { store: reopen().await, reopen: Box::new(reopen), keep: vec![Box::new(dir)] }
}

fn options(dir: &TempDir) -> Options {
    let mut options = Options::new(dir.path());
    options.segment_bytes = 1 << 16;
    options
}

async fn open(options: Options, below: &Arc<Gate>) -> Head {
    let below = Arc::new(Fronted(below.clone()));
    open_over(options, below, HeadMetrics::default()).await.expect("the head opens")
}

/// Opens a head. If a dropped head on the same log still flushes, waits for the end of that flush.
pub(crate) async fn open_over(
    options: Options,
    below: SharedStore,
    metrics: HeadMetrics,
) -> Result<Head, StoreError> {
    let start = Instant::now();
    loop {
        match Head::open(options.clone(), below.clone(), metrics.clone()).await {
            Err(StoreError::Unavailable { what, .. })
                if what.contains("uses this log") && start.elapsed() < DEADLINE =>
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            opened => return opened,
        }
    }
}

/// Which calls a gate passes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Open = 0,
    /// Flushes fail.
    NoFlush = 1,
    /// Flushes are stored, but the answer is lost.
    FlushUnanswered = 2,
    /// Everything fails.
    Away = 3,
    /// Everything fails until the gate is asked whether it is ready. It denies that once more, and is open then.
    Returns = 4,
}

/// A memory store that can be away.
#[derive(Default)]
struct Gate {
    store: MemoryStore,
    mode: AtomicU8,
    /// Times and acceptance times of the points of flushes.
    stamps: std::sync::Mutex<Vec<(i64, i64)>>,
    /// How often the gate was asked whether it is ready while it was away.
    asked: AtomicU64,
}

impl Gate {
    fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }

    fn is(&self, mode: Mode) -> bool {
        self.mode.load(Ordering::SeqCst) == mode as u8
    }

    fn record_stamps(&self, run: &promkairos::storage::SeriesRun) {
        let mut stamps = self.stamps.lock().expect("no test panicked with it");
        for chunk in &run.chunks {
            let points = chunk.stamped_points().map(|entry| entry.expect("a good chunk"));
            stamps.extend(points.map(|entry| (entry.point.timestamp, entry.stamp)));
        }
    }
}

fn away() -> StoreError {
    StoreError::Unavailable { what: "away".into(), retry_after: Duration::from_secs(1) }
}

#[async_trait]
impl Front for Gate {
    fn behind(&self) -> Result<&dyn Store, StoreError> {
        if self.is(Mode::Away) || self.is(Mode::Returns) { Err(away()) } else { Ok(&self.store) }
    }

    async fn ingest_flush(&self, flush: Flush<'_>) -> Result<FlushOutcome, StoreError> {
        if self.is(Mode::NoFlush) {
            return Err(away());
        }
        let Flush { through, runs, exemplars, days, metadata, pace } = flush;
        let runs = Box::new(runs.inspect(|run| self.record_stamps(run)));
        let flush = Flush { through, runs, exemplars, days, metadata, pace };
        let absorbed = self.behind()?.ingest_flush(flush).await?;
        if self.is(Mode::FlushUnanswered) { Err(away()) } else { Ok(absorbed) }
    }

    async fn ready(&self) -> Result<(), StoreError> {
        let ready = self.behind().map(drop);
        self.asked.fetch_add(u64::from(ready.is_err()), Ordering::SeqCst);
        if self.is(Mode::Returns) {
            self.set(Mode::Open);
        }
        ready
    }

    fn counted(&self, stats: Stats) -> Stats {
        // Like Cassandra, it does not store the position.
        Stats { flushed_through: 0, ..stats }
    }
}

const T: i64 = 1_700_000_000_000;

fn one(name: &str, timestamp: i64, value: f64) -> Batch {
    Batch::new().series(&[("__name__", name)]).sample(timestamp, value)
}

async fn values(store: &dyn Store, name: &str) -> Result<Vec<(i64, f64)>, StoreError> {
    let matchers = [Matcher::equal("__name__", name)];
    let selection = store.select(&matchers, TimeRange::ALL, &SelectHints::default()).await?;
    let chunks = selection.reader.read(0..selection.series.len()).await?;
    let points = chunks.iter().flatten().flat_map(|chunk| chunk.points());
    let float = |point: Point| match point.value {
        Value::Float(value) => (point.timestamp, value),
        Value::Histogram(_) => panic!("no histogram was written"),
    };
    Ok(points.map(|point| float(point.expect("a good chunk"))).collect())
}

async fn put(head: &Head, batch: &Batch) {
    head.write(batch.build()).await.expect("acknowledged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_comes_back_ends_the_wait_after_a_failed_flush() {
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    let mut options = options(&dir);
    options.flush_interval = Duration::from_millis(1);
    // Far longer than this test waits.
    options.flush_backoff = (Duration::from_secs(24 * 3600), Duration::from_secs(24 * 3600));
    let head = open(options, &below).await;
    below.set(Mode::Away);
    put(&head, &one("up", T, 1.0)).await;
    eventually("a flush fails, and the store is seen to be away after it", async || {
        match below.asked.load(Ordering::SeqCst) {
            0 => Err("not asked".into()),
            _ => Ok(()),
        }
    })
    .await;
    below.set(Mode::Open);
    eventually("the point is in the store below", async || {
        match values(&below.store, "up").await {
            Ok(points) if points == [(T, 1.0)] => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_below_that_is_away_loses_nothing_and_ends_at_the_limit() {
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    let mut options = options(&dir);
    options.wal_limit = 200_000;
    let (metrics, front) = (Metrics::new(), Arc::new(Fronted(below.clone())));
    let head = open_over(options.clone(), front, metrics.head.clone()).await.expect("it opens");
    below.set(Mode::Away);
    let mut written = 0;
    let refused = loop {
        let mut batch = Batch::new();
        for series in 0..40 {
            batch = batch.series(&[("__name__", "m"), ("i", &format!("{written}-{series}"))]);
            batch = batch.sample(T, f64::from(written));
        }
        match head.write(batch.build()).await {
            Ok(outcome) => assert_eq!(outcome.samples, 40),
            Err(error) => break error,
        }
        written += 1;
    };
    assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused}");
    let why = "of at most 195.3KiB not in the store below yet, which is the setting wal-limit";
    assert!(refused.to_string().contains(why), "{refused}");
    assert_eq!(reached(&metrics, "wal-limit"), 1);
    assert!(written > 50);
    assert!(matches!(head.ready().await, Err(StoreError::Unavailable { .. })));
    assert_eq!(reached(&metrics, "wal-limit"), 1, "who only asks is not refused");
    assert!(head.flush().await.is_err());
    drop(head);
    // The next process opens the log, still without the store below.
    let head = open(options, &below).await;
    assert!(head.ready().await.is_err());
    assert!(values(&head, "m").await.is_err(), "never silently less");
    below.set(Mode::Open);
    head.flush().await.expect("the store is back");
    head.ready().await.expect("there is room again");
    put(&head, &one("n", T, 1.0)).await;
    let found = values(&head, "m").await.expect("readable");
    assert_eq!(found.len(), 40 * written as usize);
    let in_store = values(&below.store, "m").await.expect("readable");
    assert_eq!(in_store.len(), found.len());
}

/// How often the limit of this setting was reached.
fn reached(metrics: &Metrics, setting: &str) -> u64 {
    let page = metrics.encode();
    let head = format!("promkairos_limits_reached_total{{limit=\"{setting}\"}} ");
    let count = page.lines().find_map(|line| line.strip_prefix(&head)).expect(setting);
    count.parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn points_that_find_no_way_down_end_at_the_limit_of_memory() {
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    let mut options = options(&dir);
    options.flush_memory = 1_000;
    let (metrics, front) = (Metrics::new(), Arc::new(Fronted(below.clone())));
    let head = open_over(options, front, metrics.head.clone()).await.expect("it opens");
    below.set(Mode::NoFlush);
    let mut written = 0;
    let refused = loop {
        match head.write(one("m", T + written, written as f64).build()).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 100_000, "nothing is refused");
    };
    assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused}");
    let why = "and at most 4000 bytes may, which is 4 times the setting flush-memory";
    assert!(refused.to_string().ends_with(why), "{refused}");
    assert_eq!((reached(&metrics, "flush-memory"), reached(&metrics, "wal-limit")), (1, 0));
    assert!(head.ready().await.is_err());
    assert_eq!(reached(&metrics, "flush-memory"), 1, "who only asks is not refused");
    below.set(Mode::Open);
    head.flush().await.expect("the store takes it");
    put(&head, &one("m", T + written, 1.0)).await;
    let found = values(&head, "m").await.expect("readable");
    assert_eq!(found.len() as i64, written + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unanswered_flush_and_a_crash_repeat_what_was_flushed() {
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    let head = open(options(&dir), &below).await;
    below.set(Mode::FlushUnanswered);
    put(&head, &one("m", T, 1.0)).await;
    head.flush().await.expect_err("the answer is lost");
    put(&head, &one("m", T, 2.0)).await;
    put(&head, &one("m", T + 1, 3.0)).await;
    put(&head, &one("m", T - 1, 4.0)).await;
    let want = [(T - 1, 4.0), (T, 2.0), (T + 1, 3.0)];
    assert_eq!(values(&head, "m").await.expect("readable"), want);
    drop(head);
    let head = open(options(&dir), &below).await;
    assert_eq!(values(&head, "m").await.expect("readable"), want);
    below.set(Mode::Open);
    head.close().await.expect("closed");
    assert_eq!(values(&below.store, "m").await.expect("readable"), want);
    let head = open(options(&dir), &below).await;
    assert_eq!(values(&head, "m").await.expect("readable"), want);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_that_the_store_below_does_not_take_is_not_accepted() {
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    let head = open(options(&dir), &below).await;
    put(&head, &one("m", T, 1.0)).await;
    head.flush().await.expect("flushed");
    put(&head, &one("m", T + 1, 2.0)).await;
    below.set(Mode::Away);
    let matchers = [Matcher::equal("__name__", "m")];
    head.delete(&matchers, TimeRange::ALL).await.expect_err("the store below is away");
    below.set(Mode::Open);
    let want = [(T, 1.0), (T + 1, 2.0)];
    assert_eq!(values(&head, "m").await.expect("readable"), want);
    drop(head);
    let head = open(options(&dir), &below).await;
    assert_eq!(values(&head, "m").await.expect("readable"), want);
    head.delete(&matchers, TimeRange::ALL).await.expect("deleted");
    assert_eq!(values(&head, "m").await.expect("readable"), []);
    assert_eq!(values(&below.store, "m").await.expect("readable"), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_in_the_log_is_repeated_before_anything_is_read_or_flushed() {
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    let head = open(options(&dir), &below).await;
    put(&head, &one("n", T, 1.0)).await;
    head.flush().await.expect("flushed");
    let matchers = [Matcher::equal("__name__", "m")];
    head.delete(&matchers, TimeRange::ALL).await.expect("deleted");
    put(&head, &one("m", T + 1, 2.0)).await;
    drop(head);
    // As if a replay had flushed the point again and was killed before it reached the delete.
    let again = async || {
        below.store.write(one("m", T, 1.0).build()).await.expect("written");
    };
    again().await;
    below.set(Mode::Away);
    let head = open(options(&dir), &below).await;
    assert!(values(&head, "m").await.is_err());
    below.set(Mode::Open);
    assert_eq!(values(&head, "m").await.expect("readable"), [(T + 1, 2.0)]);
    drop(head);
    again().await;
    let head = open(options(&dir), &below).await;
    put(&head, &one("m", T, 3.0)).await;
    head.flush().await.expect("flushed");
    let want = [(T, 3.0), (T + 1, 2.0)];
    assert_eq!(values(&below.store, "m").await.expect("readable"), want);
    assert_eq!(values(&head, "n").await.expect("readable"), [(T, 1.0)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_no_part_in_a_flush_or_a_query_keeps_neither_waiting() {
    let dir = tempfile::tempdir().expect("a folder");
    let [below, old, metadata] = std::array::from_fn(|_| Arc::new(Gate::default()));
    let store = |gate: &Arc<Gate>| Arc::new(Fronted(gate.clone())) as SharedStore;
    let range = TimeRange::new(0, T);
    let clusters = Clusters {
        write: store(&below),
        read: vec![ReadCluster { name: "old".into(), range, store: store(&old) }],
        metadata: Some(store(&metadata)),
    };
    let head = open_over(options(&dir), Arc::new(clusters), HeadMetrics::default()).await;
    let head = head.expect("the head opens");
    put(&head, &one("m", T + 1, 1.0)).await;
    old.set(Mode::Away);
    metadata.set(Mode::Away);
    let matchers = [Matcher::equal("__name__", "m")];
    let refused = head.delete(&matchers, TimeRange::ALL).await.expect_err("one of them is away");
    assert!(refused.to_string().contains("read cluster \"old\""), "{refused}");
    put(&head, &one("m", T + 2, 2.0)).await;
    head.flush().await.expect("there is no metadata");
    assert_eq!(values(&below.store, "m").await.expect("readable"), [(T + 1, 1.0), (T + 2, 2.0)]);
    let later = TimeRange::new(T + 1, T + 9);
    let found = head.select(&matchers, later, &SelectHints::default()).await;
    assert_eq!(found.expect("the one that is away has no part in it").series.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn points_keep_the_time_of_their_acceptance_through_a_replay() {
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    below.set(Mode::NoFlush);
    let mut options = options(&dir);
    options.keeps_stamps = true;
    let head = open(options.clone(), &below).await;
    for i in 0..5 {
        put(&head, &one("m", T + i, 1.0)).await;
        put(&head, &one("m", T - i, 1.0)).await;
    }
    assert!(head.flush().await.is_err());
    drop(head);
    let head = open(options.clone(), &below).await;
    below.set(Mode::FlushUnanswered);
    assert!(head.flush().await.is_err());
    drop(head);
    let head = open(options, &below).await;
    below.set(Mode::Open);
    head.flush().await.expect("flushed");
    let stamps = below.stamps.lock().expect("no panic").clone();
    let (first, second) = stamps.split_at(stamps.len() / 2);
    assert!(!first.is_empty() && first.iter().all(|(_, stamp)| *stamp > T));
    assert_eq!(first, second, "each attempt brings the same times");
}

/// The clock has gone back, so it does not separate the writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_shares_its_time_with_one_of_an_earlier_flush() {
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    let mut options = options(&dir);
    options.keeps_stamps = true;
    let later = 5_000_000_000_000;
    let disk = options.disk.clone();
    let wal = WalOptions { dir: dir.path().into(), mark: Mark::None, segment_bytes: 1 << 16, disk };
    let wal = log::open(wal, HeadMetrics::default(), 0, &mut |_| Ok(())).expect("a log is made");
    let room = wal.admit(1).await;
    let record = Record::Delete { range: TimeRange::ALL, matchers: vec![] };
    wal.append(room, later, record).expect("appended").wait().await.expect("durable");
    drop(wal);
    let head = Arc::new(open(options, &below).await);
    let take = || std::mem::take(&mut *below.stamps.lock().expect("no panic"));
    put(&head, &one("m0", T, -1.0)).await;
    head.flush().await.expect("flushed");
    let mut flushed = take().last().expect("a point").1;
    let mut flushes = 1;
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let head = head.clone();
        tasks.spawn(async move {
            for i in 0..100 {
                put(&head, &one(&format!("m{writer}"), T, f64::from(i))).await;
            }
        });
    }
    loop {
        if let Some(written) = tasks.try_join_next() {
            written.expect("all writes were acknowledged");
        }
        let done = tasks.is_empty();
        head.flush().await.expect("flushed");
        let stamps: Vec<i64> = take().into_iter().map(|(_, stamp)| stamp).collect();
        if let (Some(first), Some(last)) = (stamps.iter().min(), stamps.iter().max()) {
            assert!(*first > flushed.max(later), "{first} after {flushed}");
            flushed = *last;
            flushes += 1;
        }
        if done {
            break;
        }
    }
    assert!(flushes > 1, "{flushes} flushes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn points_of_a_flush_that_failed_count_as_memory() {
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    below.set(Mode::NoFlush);
    let mut options = options(&dir);
    options.flush_memory = 10_000;
    let most = options.flush_memory * REFUSE_AT;
    let head = open(options, &below).await;
    let mut samples = 0;
    loop {
        let mut batch = Batch::new().series(&[("__name__", "m")]);
        for _ in 0..100 {
            batch = batch.sample(T + samples, 1.0);
            samples += 1;
        }
        if head.write(batch.build()).await.is_err() {
            break;
        }
        head.flush().await.expect_err("the store below takes no flush");
        assert!(samples as u64 * 2 <= most + 400, "{samples} samples are in memory");
    }
    below.set(Mode::Open);
    head.flush().await.expect("flushed");
    put(&head, &one("m", T + samples, 1.0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_the_log_refuses_is_an_error_and_the_next_one_works() {
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    let disk = FaultyDisk::default();
    let mut options = options(&dir);
    options.disk = Arc::new(disk.clone());
    let head = open(options.clone(), &below).await;
    disk.set(|faults| faults.space = Some(0));
    let error = head.write(one("m", T, 1.0).build()).await.expect_err("the disk is full");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    disk.set(|faults| faults.space = None);
    put(&head, &one("m", T, 2.0)).await;
    disk.set(|faults| faults.sync_fails = true);
    head.write(one("m", T + 1, 3.0).build()).await.expect_err("the sync fails");
    disk.set(|faults| faults.sync_fails = false);
    head.ready().await.expect_err("a restart is needed");
    drop(head);
    let head = open(options, &below).await;
    let found = values(&head, "m").await.expect("readable");
    assert_eq!(found.first(), Some(&(T, 2.0)));
}

#[tokio::test(flavor = "current_thread")]
async fn no_file_of_the_log_is_touched_by_a_thread_that_answers_requests() {
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    let disk = FaultyDisk::default();
    let options = Options { disk: Arc::new(disk.clone()), ..options(&dir) };
    let head = open(options, &below).await;
    put(&head, &one("m", T, 1.0)).await;
    head.flush().await.expect("flushed");
    head.delete(&[], TimeRange::ALL).await.expect("deleted");
    head.close().await.expect("closed");
    let own = std::thread::current().id();
    disk.set(|faults| {
        assert!(!faults.threads.is_empty() && !faults.threads.contains(&own));
    });
}

/// The metric counts points; reasons are kept only for some of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn points_that_the_store_below_can_never_take_are_counted() {
    let keyspace = crate::cassandra::keyspace::TestKeyspace::new().await;
    let store: SharedStore = Arc::new(keyspace.open().await);
    let (dir, metrics) = (tempfile::tempdir().expect("a folder"), HeadMetrics::default());
    let head = Head::open(options(&dir), store, metrics.clone()).await.expect("the head opens");
    let mut batch = Batch::new();
    for series in ["a\0b", "up"] {
        batch = batch.series(&[("__name__", series)]);
        for i in 0..30 {
            batch = batch.sample(T + i, 0.5);
        }
    }
    put(&head, &batch).await;
    // A busy Cassandra may need a second attempt.
    eventually("flushed", async || head.flush().await.map_err(|error| error.to_string())).await;
    assert_eq!(metrics.refused.get(), 30);
    drop(head);
    keyspace.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_acknowledged_is_read_while_others_write_and_flush() {
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    let mut options = options(&dir);
    options.flush_interval = Duration::from_millis(1);
    let head = Arc::new(open(options, &below).await);
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let head = head.clone();
        tasks.spawn(async move {
            let name = format!("m{writer}");
            for i in 0..60i32 {
                // Every third point is out of order.
                let at = if i % 3 == 2 { T + i64::from(i) - 100 } else { T + i64::from(i) };
                put(&head, &one(&name, at, f64::from(i))).await;
                let found = values(&*head, &name).await.expect("readable");
                assert_eq!(found.len() as i32, i + 1, "{name} after {i}: {found:?}");
                assert!(found.contains(&(at, f64::from(i))));
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("a writer that saw all it wrote");
    }
    let all = head.select(&[], TimeRange::ALL, &SelectHints::default()).await.expect("readable");
    assert_eq!(all.series.len(), 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_selection_stays_as_it_was() {
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    let head = open(options(&dir), &below).await;
    for i in 0..300 {
        put(&head, &one("m", T + i, i as f64)).await;
    }
    let selection =
        head.select(&[], TimeRange::ALL, &SelectHints::default()).await.expect("selected");
    head.flush().await.expect("flushed");
    head.delete(&[], TimeRange::ALL).await.expect("deleted");
    put(&head, &one("m", T + 1000, 0.0)).await;
    let chunks = selection.reader.read(0..1).await.expect("readable");
    assert_eq!(chunks[0].iter().map(|chunk| usize::from(chunk.count)).sum::<usize>(), 300);
    assert_eq!(values(&head, "m").await.expect("readable"), [(T + 1000, 0.0)]);
}

/// Six rounds with a flush each: `live` is written in all rounds, each of 70 other series in one or two successive
/// ones. Returns the number of series in memory after each round.
async fn come_and_go(head: &Head, metrics: &HeadMetrics) -> Vec<i64> {
    let mut counts = Vec::new();
    for round in 0..6i32 {
        let at = T + i64::from(round);
        put(head, &one("live", at, 1.0)).await;
        for i in 0..20 {
            put(head, &one(&format!("m{}", i + round * 10), at, 1.0)).await;
        }
        head.flush().await.expect("flushed");
        counts.push(metrics.series.get());
    }
    counts
}

async fn names(head: &Head) -> usize {
    let query = SeriesQuery { matchers: vec![], range: TimeRange::ALL, limit: ListSize::UNLIMITED };
    head.label_values("__name__", &query).await.expect("readable").items.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn series_that_nobody_writes_to_leave_memory_and_come_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let (below, metrics) = (Arc::new(Gate::default()), HeadMetrics::default());
    let front = Arc::new(Fronted(below.clone()));
    let head = open_over(options(&dir), front, metrics.clone()).await.expect("the head opens");
    // The flush of a round keeps the series written in it, and no older ones.
    assert_eq!(come_and_go(&head, &metrics).await, [21; 6]);
    // The store below still has the others.
    assert_eq!(names(&head).await, 71);
    for (name, last) in [("m0", 0), ("m5", 0), ("m15", 1), ("live", 5)] {
        put(&head, &one(name, T + 100, 2.0)).await;
        let found = values(&head, name).await.expect("readable");
        assert_eq!(found.last(), Some(&(T + 100, 2.0)), "{name}");
        assert_eq!(found[found.len() - 2], (T + last, 1.0), "{name}");
    }
    assert_eq!(metrics.series.get(), 21 + 3);
    head.flush().await.expect("flushed");
    assert_eq!(metrics.series.get(), 4);
    for i in 0..70 {
        let again = [0, 5, 15].contains(&i);
        let want = if (10..60).contains(&i) { 2 } else { 1 } + usize::from(again);
        let found = values(&head, &format!("m{i}")).await.expect("readable");
        assert_eq!(found.len(), want, "m{i}");
    }
    assert_eq!(values(&head, "live").await.expect("readable").len(), 7);
    // Memory keeps nothing of series that were flushed and left it, so a delete below removes them.
    below.store.delete(&[], TimeRange::ALL).await.expect("deleted");
    put(&head, &one("live", T + 101, 2.0)).await;
    assert_eq!(names(&head).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn series_stay_in_memory_for_their_time_however_many_flushes_there_are() {
    let dir = tempfile::tempdir().expect("a folder");
    let (below, metrics) = (Arc::new(Gate::default()), HeadMetrics::default());
    let front = Arc::new(Fronted(below.clone()));
    let mut options = options(&dir);
    // Far longer than this test takes.
    options.series_stay = Duration::from_secs(24 * 3600);
    let head = open_over(options, front, metrics.clone()).await.expect("the head opens");
    assert_eq!(come_and_go(&head, &metrics).await, [21, 31, 41, 51, 61, 71]);
}
