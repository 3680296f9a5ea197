//! Random histories of the whole embedded store, the log with the part files behind it, on a disk that
//! fails: errors of single operations, reads among them, short writes, failed syncs, a full disk, kill -9, power
//! cuts, damage; and with a clock that jumps by years.
//!
//! The law: what was acknowledged is found, with its bits, or a loud error says why not. What was refused may be
//! there or not, but nothing else may. A history is known by its seed, which is printed when it breaks the law.

mod disk;
mod quarantine;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use promkairos::model::{MatchOp, Matcher, Point, TimeRange, Value};
use promkairos::storage::embedded::{self, Parts};
use promkairos::storage::head::{Head, Options};
use promkairos::storage::{Clock, SelectHints, Store, StoreError};
use promkairos::telemetry::{HeadMetrics, StoreMetrics};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

use crate::batch::Batch;
use crate::head::open_over;
use crate::support::{long, seed};
use disk::PowerDisk;

const DAY: i64 = 86_400_000;
/// All points are of the days before.
const NOW: i64 = 19_004 * DAY;
/// No day of theirs ended so long before.
const RETENTION: Duration = Duration::from_secs(30 * 86_400);
const SERIES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// What may be found of a point: its bits, or nothing.
type Possible = Vec<Option<u64>>;

/// A store and what must be in it.
struct History {
    dir: TempDir,
    disk: PowerDisk,
    /// What the clock of the part files shows.
    clock: Arc<AtomicI64>,
    parts: Arc<Parts>,
    head: Head,
    points: BTreeMap<(&'static str, i64), Possible>,
    random: StdRng,
    value: f64,
}

/// What the histories met, so that they cannot be about nothing: faults, and for what is done how often it went
/// well and how often not.
#[derive(Debug, Default)]
struct Met {
    failed_operations: u32,
    failed_syncs: u32,
    no_room: u32,
    short_writes: u32,
    failed_reads: u32,
    kills: u32,
    cuts: u32,
    jumps: u32,
    writes: [u32; 2],
    deletes: [u32; 2],
    flushes: [u32; 2],
    maintained: [u32; 2],
    closed: [u32; 2],
    read: [u32; 2],
    opened: [u32; 2],
    damaged: [u32; 2],
}

/// Counts in the first place what went well, in the second what did not.
fn count(counts: &mut [u32; 2], went_well: bool) {
    counts[usize::from(!went_well)] += 1;
}

/// Seeds that once did not keep the law. Of a segment that the checkpoint knew half of the first record was taken
/// back; one without a record, which could not be removed, lay before another such.
const FOUND: [u64; 2] = [17_417_279_382_651_834_825, 17_417_279_382_651_834_873];

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_found_or_an_error_says_why_not() {
    let (first, histories) = (seed(), if long() { 5_000 } else { 200 });
    let mut met = Met::default();
    for seed in FOUND.into_iter().chain((0..histories).map(|number| first.wrapping_add(number))) {
        println!("history {seed}");
        let mut history = History::new(seed).await;
        for _ in 0..40 {
            history = history.step(&mut met).await;
        }
        history.end(&mut met).await;
    }
    println!("{met:?}");
    let faults = [
        met.failed_operations,
        met.failed_syncs,
        met.no_room,
        met.short_writes,
        met.failed_reads,
        met.kills,
        met.cuts,
        met.jumps,
        met.closed[0],
    ];
    let outcomes =
        [met.writes, met.deletes, met.flushes, met.maintained, met.read, met.opened, met.damaged];
    assert!(faults.iter().chain(outcomes.as_flattened()).all(|count| *count > 2), "{met:?}");
}

/// Opens the store; only the lock of its log is a real file, in `dir`.
async fn open(
    disk: &PowerDisk,
    dir: &Path,
    clock: &Arc<AtomicI64>,
) -> Result<(Arc<Parts>, Head), StoreError> {
    let shown = clock.clone();
    let options = embedded::Options {
        maintenance: None,
        retention: RETENTION,
        clock: Clock::new(move || shown.load(Ordering::SeqCst)),
        ..embedded::Options::default()
    };
    let (files, metrics) = (Arc::new(disk.clone()), StoreMetrics::default());
    let parts = Arc::new(Parts::open_with(files, &dir.join("parts"), options, metrics)?);
    let mut options = Options::new(dir);
    options.segment_bytes = 1 << 15;
    options.flush_interval = Duration::from_secs(1 << 20);
    options.disk = Arc::new(disk.clone());
    let head = open_over(options, parts.clone(), HeadMetrics::default()).await?;
    Ok((parts, head))
}

/// All that is found, by series and time.
async fn found(head: &Head) -> Result<BTreeMap<(String, i64), u64>, StoreError> {
    let selection = head.select(&[], TimeRange::ALL, &SelectHints::default()).await?;
    let chunks = selection.reader.read(0..selection.series.len()).await?;
    let mut found = BTreeMap::new();
    for (labels, chunks) in selection.series.iter().zip(chunks) {
        for chunk in chunks {
            for point in chunk.points() {
                let error = |error| StoreError::Invalid(format!("a chunk: {error}"));
                let Point { timestamp, value, .. } = point.map_err(error)?;
                let Value::Float(value) = value else { panic!("no histogram was written") };
                // Chunks are in order of acceptance: the later wins.
                found.insert((labels.get("host").to_owned(), timestamp), value.to_bits());
            }
        }
    }
    Ok(found)
}

impl History {
    async fn new(seed: u64) -> Self {
        let (dir, disk) = (tempfile::tempdir().expect("a folder"), PowerDisk::new(seed));
        let clock = Arc::new(AtomicI64::new(NOW));
        let (parts, head) = open(&disk, dir.path(), &clock).await.expect("a store is made");
        let random = StdRng::seed_from_u64(seed.rotate_left(32));
        Self { dir, disk, clock, parts, head, points: BTreeMap::new(), random, value: 0.0 }
    }

    async fn step(mut self, met: &mut Met) -> Self {
        match self.random.random_range(0..24) {
            0..9 => self.write(met).await,
            9 => self.delete(met).await,
            10 | 11 => {
                let flushed = self.head.flush().await;
                self.look(&mut met.flushes, "a flush", flushed);
            }
            12 => {
                let maintained = self.parts.maintain(self.clock.load(Ordering::SeqCst));
                self.look(&mut met.maintained, "maintenance", maintained);
            }
            13 => self.disk.fail(self.random.random_range(3..60)),
            14 => self.disk.fill(true),
            15 => self.disk.fill(false),
            16 => self.disk.cut_after(self.random.random_range(1..80)),
            17 => return self.restart(met).await,
            18 => self.jump(met),
            19 => self.disk.fail_reads(self.random.random_range(0..12)),
            20 | 21 => self.read(met).await,
            _ => return self.crash(met).await,
        }
        self
    }

    /// Counts how something ended, which may fail only where something of the disk has failed before.
    fn look(&self, counts: &mut [u32; 2], what: &str, outcome: Result<(), StoreError>) {
        count(counts, outcome.is_ok());
        if let Err(error) = outcome {
            assert!(self.disk.failed().any(), "{what} fails on a disk that did not: {error}");
        }
    }

    /// The clock is set right, or far ahead or back.
    fn jump(&mut self, met: &mut Met) {
        let years = [0, 1, 10, -1, -10][self.random.random_range(0..5)];
        self.clock.store(NOW + years * 365 * DAY, Ordering::SeqCst);
        met.jumps += u32::from(years != 0);
    }

    /// Reads on a disk that may fail: an error, or what may be, and all of it.
    async fn read(&mut self, met: &mut Met) {
        let found = found(&self.head).await;
        count(&mut met.read, found.is_ok());
        let Ok(mut found) = found else { return };
        for ((host, time), possible) in &self.points {
            let bits = found.remove(&((*host).to_owned(), *time));
            assert!(
                possible.contains(&bits),
                "{host} at {time}: {bits:?} is read, {possible:?} may be"
            );
        }
        assert!(found.is_empty(), "nobody wrote {found:?}");
    }

    async fn write(&mut self, met: &mut Met) {
        let (mut batch, mut written) = (Batch::new(), Vec::new());
        for _ in 0..self.random.random_range(1..5) {
            let host = SERIES[self.random.random_range(0..SERIES.len())];
            batch = batch.series(&[("__name__", "m"), ("host", host)]);
            for _ in 0..self.random.random_range(1..40) {
                // Some times come again, in another request or in the same.
                let time = 19_000 * DAY + self.random.random_range(0..400) * (DAY / 100);
                self.value += 1.0;
                batch = batch.sample(time, self.value);
                written.push(((host, time), self.value.to_bits()));
            }
        }
        let acknowledged = self.head.write(batch.build()).await.is_ok();
        count(&mut met.writes, acknowledged);
        for (point, bits) in written {
            let possible = self.points.entry(point).or_insert_with(|| vec![None]);
            if acknowledged {
                possible.clear();
            }
            possible.push(Some(bits));
        }
    }

    async fn delete(&mut self, met: &mut Met) {
        let host = SERIES[self.random.random_range(0..SERIES.len())];
        let matcher = Matcher::new(MatchOp::Equal, "host", host).expect("a matcher");
        let start = 19_000 * DAY + self.random.random_range(0..400) * (DAY / 100);
        let range = TimeRange::new(start, start + DAY / 2);
        let deleted = self.head.delete(&[matcher], range).await.is_ok();
        count(&mut met.deletes, deleted);
        let inside =
            self.points.iter_mut().filter(|((of, time), _)| *of == host && range.contains(*time));
        for (_, possible) in inside {
            if deleted {
                possible.clear();
            }
            possible.push(None);
        }
    }

    /// Closed as far as the disk lets it, and opened again on a sound disk.
    async fn restart(self, met: &mut Met) -> Self {
        let closed = self.head.close().await;
        self.look(&mut met.closed, "a close", closed);
        self.crash(met).await
    }

    /// A kill, or a power cut; then all must be there, and the disk is sound.
    async fn crash(mut self, met: &mut Met) -> Self {
        let failed = self.disk.failed();
        met.failed_operations += failed.operations;
        met.failed_syncs += failed.syncs;
        met.no_room += failed.full;
        met.short_writes += failed.short_writes;
        met.failed_reads += failed.reads;
        let disk = match self.random.random_bool(0.5) {
            true => {
                met.cuts += 1;
                self.disk.after_cut()
            }
            false => {
                met.kills += 1;
                self.disk.after_kill()
            }
        };
        let Self { dir, clock, points, mut random, value, head, parts, .. } = self;
        drop((head, parts));
        // First on a disk that does not read all: that is told, and takes nothing away.
        disk.fail_reads(random.random_range(0..40));
        let opened = open(&disk, dir.path(), &clock).await;
        count(&mut met.opened, opened.is_ok());
        drop(opened);
        disk.fail_reads(0);
        let opened = open(&disk, dir.path(), &clock).await;
        let (parts, head) = opened.expect("nothing is damaged");
        let mut history = Self { dir, disk, clock, parts, head, points, random, value };
        history.check().await.expect("nothing is damaged");
        history
    }

    /// Compares all that is found with what may be. From now on it is known what is there.
    async fn check(&mut self) -> Result<(), StoreError> {
        let mut found = found(&self.head).await?;
        for ((host, time), possible) in &mut self.points {
            let bits = found.remove(&((*host).to_owned(), *time));
            assert!(
                possible.contains(&bits),
                "{host} at {time}: {bits:?} is found, {possible:?} may be"
            );
            *possible = vec![bits];
        }
        assert!(found.is_empty(), "nobody wrote {found:?}");
        Ok(())
    }

    /// Closed soundly, and then one file is damaged.
    async fn end(self, met: &mut Met) {
        let history = self.crash(met).await;
        let closed = history.head.close().await;
        closed.expect("the disk is sound");
        let Self { dir, disk, clock, points, random, value, head, parts } = history;
        drop((head, parts));
        let disk = disk.after_kill();
        let what = disk.damage();
        println!("damage: {what}");
        let opened = match open(&disk, dir.path(), &clock).await {
            Ok((parts, head)) => {
                let mut history = Self { dir, disk, clock, parts, head, points, random, value };
                history.check().await
            }
            Err(error) => Err(error),
        };
        count(&mut met.damaged, opened.is_ok());
    }
}
