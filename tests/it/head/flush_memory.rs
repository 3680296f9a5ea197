//! Tests: a replayed log that exceeds the memory for it is flushed to the store below meanwhile.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use promkairos::model::Protocol;
use promkairos::wire;
use tokio::sync::Notify;

use super::*;

/// Records in the log of these tests. Every third one has the same time as the two before it.
const RECORDS: i64 = 60;
const SAMPLES: i64 = 50;
/// The record that is a delete.
const DELETED: i64 = 30;
const LIMIT: u64 = 1000;

/// A store below that records each flush.
#[derive(Default)]
struct Watched {
    store: Arc<MemoryStore>,
    metrics: HeadMetrics,
    /// Whether it keeps the last record of a flush, as part files do.
    keeps_position: bool,
    /// The number of flushes, from the first, that fail.
    fails: u64,
    /// The number of the flush that does not end, and whether the store takes it before.
    held: Option<(u64, bool)>,
    seen: Mutex<Vec<Seen>>,
    /// Whether that flush is held now.
    holds: AtomicBool,
    /// Ends the held flush.
    end: Notify,
}

/// A flush that came.
#[derive(Debug, Clone)]
struct Seen {
    /// Bytes in the head when the flush came.
    bytes: i64,
    /// Acceptance times of the points, rising.
    stamps: Vec<i64>,
}

impl Watched {
    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no test panicked with it").clone()
    }

    async fn hold(&self) -> StoreError {
        self.holds.store(true, Ordering::SeqCst);
        self.end.notified().await;
        away()
    }
}

#[async_trait]
impl Front for Watched {
    fn behind(&self) -> Result<&dyn Store, StoreError> {
        Ok(&*self.store)
    }

    async fn ingest_flush(&self, flush: Flush<'_>) -> Result<FlushOutcome, StoreError> {
        let Flush { through, runs, exemplars, days, metadata, pace } = flush;
        let runs: Vec<_> = runs.collect();
        let chunks = runs.iter().flat_map(|run| &run.chunks);
        let points = chunks.flat_map(|chunk| chunk.stamped_points());
        let mut stamps: Vec<i64> = points.map(|point| point.expect("a good chunk").stamp).collect();
        stamps.sort_unstable();
        let number = {
            let mut seen = self.seen.lock().expect("no test panicked with it");
            seen.push(Seen { bytes: self.metrics.bytes.get(), stamps });
            seen.len() as u64
        };
        if number <= self.fails {
            return Err(away());
        }
        match self.held {
            Some((held, false)) if number == held => return Err(self.hold().await),
            // The process counts as dead.
            Some((held, _)) if number > held => return Err(away()),
            _ => {}
        }
        let runs = Box::new(runs.into_iter());
        let flush = Flush { through, runs, exemplars, days, metadata, pace };
        let absorbed = self.store.ingest_flush(flush).await?;
        match self.held {
            Some((held, _)) if number == held => Err(self.hold().await),
            _ => Ok(absorbed),
        }
    }

    fn counted(&self, stats: Stats) -> Stats {
        let flushed_through = if self.keeps_position { stats.flushed_through } else { 0 };
        Stats { flushed_through, ..stats }
    }
}

/// Writes records: points of one of four series, and of one series that all records write at the
/// same time; and a delete in the middle.
async fn fill(dir: &TempDir) {
    let disk = options(dir).disk;
    let wal = WalOptions { dir: dir.path().into(), mark: Mark::None, segment_bytes: 1 << 12, disk };
    let wal = log::open(wal, HeadMetrics::default(), 0, &mut |_| Ok(())).expect("a log is made");
    for number in 0..RECORDS {
        let name = format!("m{}", number % 4);
        let mut batch = Batch::new().series(&[("__name__", &name)]);
        for sample in 0..SAMPLES {
            batch = batch.sample(T + number * SAMPLES + sample, number as f64);
        }
        let batch = batch.series(&[("__name__", "same")]).sample(T, number as f64);
        let raw = wire::encode_v2(&batch.build());
        let body = wire::snappy::compress(&raw).expect("small");
        let record = match number {
            DELETED => {
                let matchers = vec![Matcher::equal("__name__", "m1")];
                Record::Delete { range: TimeRange::ALL, matchers }
            }
            _ => Record::Write { protocol: Protocol::V2, rejected: vec![], body: &body },
        };
        let accepted = T + number / 3 + i64::from(number > DELETED);
        let commit = wal.append(wal.admit(1).await, accepted, record).expect("appended");
        commit.wait().await.expect("durable");
    }
    wal.close();
}

/// Compares a store with the data that [`fill`] wrote.
async fn check(store: &dyn Store) -> Result<(), String> {
    for series in 0..4 {
        let kept = |number: &i64| {
            let is_deleted = series == 1 && *number < DELETED;
            number % 4 == series && *number != DELETED && !is_deleted
        };
        let numbers = (0..RECORDS).filter(kept);
        let points = |number: i64| {
            (0..SAMPLES).map(move |sample| (T + number * SAMPLES + sample, number as f64))
        };
        let want: Vec<(i64, f64)> = numbers.flat_map(points).collect();
        let found = values(store, &format!("m{series}")).await.map_err(|e| e.to_string())?;
        if found != want {
            return Err(format!("m{series}: {} points, not {}", found.len(), want.len()));
        }
    }
    let same = values(store, "same").await.map_err(|error| error.to_string())?;
    if same != [(T, (RECORDS - 1) as f64)] {
        return Err(format!("same: {same:?}"));
    }
    Ok(())
}

async fn replay(dir: &Path, below: &Arc<Watched>) -> Head {
    let mut options = Options::new(dir);
    options.segment_bytes = 1 << 16;
    options.flush_memory = LIMIT;
    options.keeps_stamps = true;
    let metrics = below.metrics.clone();
    open_over(options, Arc::new(Fronted(below.clone())), metrics).await.expect("the head opens")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_larger_than_memory_goes_down_while_it_is_read() {
    for fails in [0, 2] {
        let dir = tempfile::tempdir().expect("a folder");
        fill(&dir).await;
        let below = Arc::new(Watched { fails, ..Watched::default() });
        let head = replay(dir.path(), &below).await;
        let seen = below.seen();
        let taken = &seen[fails as usize..];
        assert!(taken.len() >= 4, "{} flushes", taken.len());
        // Records of one time are not separated: three at most, each of less than 200 bytes. After
        // each failure the head may hold as much again.
        let most = (LIMIT as i64 + 3 * 200) * (1 + fails as i64);
        let peak = seen.iter().map(|flush| flush.bytes).max();
        assert!(peak.is_some_and(|peak| peak > LIMIT as i64 && peak < most), "{peak:?} bytes");
        assert!(below.metrics.bytes.get() < most, "what is left");
        for pair in taken.windows(2) {
            let (last, first) = (pair[0].stamps.last(), pair[1].stamps.first());
            assert!(last < first, "a time is in two flushes: {last:?} {first:?}");
        }
        check(&head).await.expect("all is there");
        let through = log::checkpoint(dir.path(), &*options(&dir).disk).expect("readable");
        assert!(through > 0, "the log was cut");
        drop(head);
        let head = replay(dir.path(), &below).await;
        check(&head).await.expect("all is there after a restart");
        head.close().await.expect("closed");
        check(&*below.store).await.expect("all went down");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_while_the_log_goes_down_loses_and_repeats_nothing() {
    for (held, taken, keeps_position) in [
        (1, false, true),
        (1, true, false),
        (3, true, true),
        (3, false, false),
        (5, true, false),
        (5, true, true),
    ] {
        let dir = tempfile::tempdir().expect("a folder");
        fill(&dir).await;
        let held = Some((held, taken));
        let killed = Arc::new(Watched { held, keeps_position, ..Watched::default() });
        let (path, below) = (dir.path().to_owned(), killed.clone());
        let opening = tokio::spawn(async move { replay(&path, &below).await });
        eventually("the flush is held", async || match killed.holds.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err(format!("{} flushes", killed.seen().len())),
        })
        .await;
        // The folder as it is if the process is killed now.
        let left = tempfile::tempdir().expect("a folder");
        for entry in std::fs::read_dir(dir.path()).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a file");
            std::fs::copy(&path, left.path().join(name)).expect("copied");
        }
        let store = killed.store.clone();
        let next = Arc::new(Watched { store, keeps_position, ..Watched::default() });
        let head = replay(left.path(), &next).await;
        check(&head).await.unwrap_or_else(|what| panic!("{held:?}: {what}"));
        head.close().await.expect("closed");
        check(&*next.store).await.unwrap_or_else(|what| panic!("{held:?}: {what}"));
        killed.end.notify_one();
        drop(opening.await.expect("the first head opens in the end"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_below_that_is_away_does_not_keep_a_large_log_from_being_read() {
    let dir = tempfile::tempdir().expect("a folder");
    fill(&dir).await;
    let below = Arc::new(Gate::default());
    below.set(Mode::Away);
    let metrics = HeadMetrics::default();
    let mut options = Options { flush_memory: LIMIT, ..options(&dir) };
    // Far longer than this test waits.
    options.flush_backoff = (Duration::from_secs(24 * 3600), Duration::from_secs(24 * 3600));
    let front: SharedStore = Arc::new(Fronted(below.clone()));
    let head = Head::open(options, front, metrics.clone()).await.expect("the head opens");
    let (bytes, failures) = (metrics.bytes.get(), metrics.flush_failures.get());
    assert!(bytes > 4 * LIMIT as i64, "{bytes} bytes");
    // One attempt for each limit of memory, not for each record; the background task may try too.
    assert!((2..RECORDS as u64 / 2).contains(&failures), "{failures} attempts");
    below.set(Mode::Open);
    eventually("the store is back and has all", async || check(&below.store).await).await;
    check(&head).await.expect("all is there");
}

/// Only the flush itself finds that the store was away.
#[tokio::test]
async fn a_store_that_is_back_at_once_is_not_waited_for() {
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    let mut options = options(&dir);
    options.flush_interval = Duration::from_millis(50);
    // Far longer than this test waits.
    options.flush_backoff = (Duration::from_secs(24 * 3600), Duration::from_secs(24 * 3600));
    let front: SharedStore = Arc::new(Fronted(below.clone()));
    let metrics = HeadMetrics::default();
    let head = Head::open(options, front, metrics.clone()).await.expect("the head opens");
    below.set(Mode::Returns);
    put(&head, &one("m", T, 1.0)).await;
    eventually("the store has it", async || match values(&below.store, "m").await {
        Ok(values) if values == [(T, 1.0)] => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert_eq!(metrics.flush_failures.get(), 1);
}
