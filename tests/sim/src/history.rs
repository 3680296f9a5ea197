//! Random histories: requests, deletes, flushes, compaction and stops, on a disk that fails, with a
//! clock that jumps and limits on memory and log; errors of single operations, short writes, failed
//! syncs, a full disk, kill -9, power cuts, misdirected writes, and damage to files.
//!
//! Each history keeps the law of this crate, or ends with an error that says where it was broken.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use promkairos::model::{
    Counts, Histogram, MatchOp, Matcher, MetricType, ResetHint, Span, TimeRange,
};
use promkairos::storage::{Store, StoreError};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

use crate::batch::Batch;
use crate::disk::PowerDisk;
use crate::met::{Met, Outcomes};
use crate::model::{Content, DAY, DAYS, Model, NOW, Outcome};
use crate::store::{Bounds, Opened, open};

const SERIES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const FAMILIES: [&str; 3] = ["m", "n", "o"];
/// Steps of a history.
const STEPS: usize = 40;

/// A store and its possible content.
struct History {
    dir: TempDir,
    disk: PowerDisk,
    /// The time of the part files' clock.
    clock: Arc<AtomicI64>,
    bounds: Bounds,
    store: Opened,
    model: Model,
    random: StdRng,
    /// Counts values, so that no value is used twice.
    value: u32,
}

/// Runs the history of a seed; an error says how it broke the law.
pub async fn run(seed: u64, met: &mut Met) -> Result<(), String> {
    let mut history = History::new(seed).await?;
    for _ in 0..STEPS {
        history = history.step(met).await?;
    }
    history.end(met).await
}

fn at<E: Display>(what: &'static str) -> impl Fn(E) -> String {
    move |error| format!("{what}: {error}")
}

impl History {
    async fn new(seed: u64) -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(at("a folder for the lock"))?;
        let (disk, clock) = (PowerDisk::new(seed), Arc::new(AtomicI64::new(NOW)));
        let mut random = StdRng::seed_from_u64(seed.rotate_left(32));
        let bounds = Bounds {
            flush_memory: [64 << 10, 1 << 20, 512 << 20][random.random_range(0..3)],
            wal_limit: [1 << 18, 8 << 30][random.random_range(0..2)],
            segment: [1 << 12, 1 << 15][random.random_range(0..2)],
        };
        let store = open(&disk, dir.path(), &clock, bounds).await.map_err(at("the first start"))?;
        let model = Model::default();
        Ok(Self { dir, disk, clock, bounds, store, model, random, value: 0 })
    }

    async fn step(mut self, met: &mut Met) -> Result<Self, String> {
        match self.random.random_range(0..24) {
            0..9 => self.write(met).await,
            9 => self.delete(met).await,
            10 | 11 => {
                let flushed = self.store.head.flush().await;
                self.look(&mut met.flushes, "a flush", flushed)?;
            }
            12 => {
                let maintained = self.store.parts.maintain(self.clock.load(Ordering::SeqCst));
                self.look(&mut met.maintained, "maintenance", maintained)?;
            }
            13 => self.disk.fail(self.random.random_range(3..60)),
            14 => self.disk.fill(true),
            15 => self.disk.fill(false),
            16 => self.disk.cut_after(self.random.random_range(1..80)),
            17 => return self.restart(met).await,
            18 => self.jump(met),
            19 => self.disk.fail_reads(self.random.random_range(0..12)),
            20 | 21 => self.read(met).await?,
            _ => return self.crash(met).await,
        }
        Ok(self)
    }

    /// Counts an outcome, which may be an error only if the disk has failed before.
    fn look(
        &self,
        outcomes: &mut Outcomes,
        what: &str,
        outcome: Result<(), StoreError>,
    ) -> Result<(), String> {
        outcomes.count(&outcome);
        match outcome {
            Err(error) if !self.disk.failed().any() => {
                Err(format!("{what} fails on a disk that did not: {error}"))
            }
            _ => Ok(()),
        }
    }

    /// Sets the clock right, or far ahead or back.
    fn jump(&mut self, met: &mut Met) {
        let years = [0, 1, 10, -1, -10][self.random.random_range(0..5)];
        self.clock.store(NOW + years * 365 * DAY, Ordering::SeqCst);
        met.jumps += u32::from(years != 0);
    }

    /// Reads on a disk that may fail: returns an error, or everything that must be there.
    async fn read(&mut self, met: &mut Met) -> Result<(), String> {
        let found = self.store.found().await;
        met.read.count(&found);
        found.map_or(Ok(()), |found| self.model.compare(&found).map_err(at("a read")))
    }

    fn time(&mut self) -> i64 {
        // Some times repeat, in another request or in the same one.
        DAYS.start * DAY + self.random.random_range(0..100 * (DAYS.end - DAYS.start)) * (DAY / 100)
    }

    fn next(&mut self) -> u32 {
        self.value += 1;
        self.value
    }

    async fn write(&mut self, met: &mut Met) {
        let (mut batch, mut points, mut exemplars) = (Batch::new(), Vec::new(), Vec::new());
        for _ in 0..self.random.random_range(1..5) {
            let host = SERIES[self.random.random_range(0..SERIES.len())];
            batch = batch.series(&[("__name__", "m"), ("host", host)]);
            // Within a request a float replaces a histogram at the same time, so a series has only one of the kinds.
            let histograms = self.random.random_bool(0.2);
            for _ in 0..self.random.random_range(1..40) {
                let (time, value) = (self.time(), self.next());
                let key = (host.to_owned(), time);
                let known =
                    points.iter().find(|(other, _): &&((String, i64), Content)| *other == key);
                let long = (value % 3 == 0).then(|| (1 << 53) + i64::from(value));
                let content = match (histograms, long) {
                    (true, _) => Content::Histogram(value.into()),
                    (false, Some(long)) => Content::Long(long),
                    (false, None) => Content::Float(f64::from(value).to_bits()),
                };
                let is_mixed = known
                    .is_some_and(|(_, other)| matches!(other, Content::Histogram(_)) != histograms);
                if is_mixed {
                    continue;
                }
                batch = match (histograms, long) {
                    (true, _) => batch.histogram(time, histogram(value.into())),
                    (false, Some(long)) => batch.long(time, long),
                    (false, None) => batch.sample(time, value.into()),
                };
                points.push((key, content));
            }
            if self.random.random_bool(0.3) {
                let (time, value) = (self.time(), f64::from(self.next()));
                let trace = format!("t{}", self.random.random_range(0..3));
                batch = batch.exemplar(time, value, &[("trace_id", &trace)]);
                exemplars.push(((host.to_owned(), time, trace), value.to_bits()));
            }
        }
        let mut metadata = None;
        if self.random.random_bool(0.2) {
            let family = FAMILIES[self.random.random_range(0..FAMILIES.len())];
            let help = format!("help {}", self.next());
            batch = batch.metadata(family, MetricType::Counter, &help, "");
            metadata = Some((family.to_owned(), help));
        }
        let written = self.store.head.write(batch.build()).await;
        met.writes.count(&written);
        let outcome = outcome(&written);
        points.into_iter().for_each(|(key, value)| self.model.point(key, value, outcome));
        exemplars.into_iter().for_each(|(key, value)| self.model.exemplar(key, value, outcome));
        if let Some((family, help)) = metadata {
            self.model.metadata(family, help, outcome);
        }
    }

    async fn delete(&mut self, met: &mut Met) {
        let host = SERIES[self.random.random_range(0..SERIES.len())];
        let start = self.time();
        let range = TimeRange::new(start, start + DAY / 2);
        let Ok(matcher) = Matcher::new(MatchOp::Equal, "host", host) else { return };
        let deleted = self.store.head.delete(&[matcher], range).await;
        met.deletes.count(&deleted);
        self.model.delete(host, range, outcome(&deleted));
    }

    /// Closes the store as far as the disk allows, and opens it again on a sound disk.
    async fn restart(self, met: &mut Met) -> Result<Self, String> {
        let closed = self.store.head.close().await;
        self.look(&mut met.closed, "a close", closed)?;
        self.crash(met).await
    }

    /// A kill or a power cut; then everything must be found, on a sound disk.
    async fn crash(mut self, met: &mut Met) -> Result<Self, String> {
        met.add(self.disk.failed());
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
        let Self { dir, clock, bounds, model, mut random, value, store, .. } = self;
        store.end().await;
        // First on a disk with failing reads: an error reports them, and nothing is removed.
        disk.fail_reads(random.random_range(0..40));
        let opened = open(&disk, dir.path(), &clock, bounds).await;
        met.opened.count(&opened);
        if let Ok(opened) = opened {
            opened.end().await;
        }
        disk.fail_reads(0);
        let store = open(&disk, dir.path(), &clock, bounds).await;
        let store = store.map_err(at("a start on a sound disk"))?;
        let mut history = Self { dir, disk, clock, bounds, store, model, random, value };
        history.check().await.map_err(at("after a kill or a power cut"))?;
        Ok(history)
    }

    /// Compares everything found with what may be found. From now on the content is known.
    async fn check(&mut self) -> Result<(), String> {
        let found = self.store.found().await.map_err(at("damaged"))?;
        self.model.compare(&found)?;
        self.model.settle(&found);
        Ok(())
    }

    /// Damages a file of a closed store, or misdirects a write and then kills: the next start and
    /// read find everything, or end with an error.
    async fn end(self, met: &mut Met) -> Result<(), String> {
        let mut history = self.crash(met).await?;
        match history.random.random_bool(0.5) {
            true => history.store.head.close().await.map_err(at("a close on a sound disk"))?,
            false => history.misdirect(met).await,
        }
        let Self { dir, disk, clock, bounds, store, model, .. } = history;
        let misdirected = disk.misdirected();
        store.end().await;
        let disk = disk.after_kill();
        let what = misdirected.unwrap_or_else(|| disk.damage());
        let found = match open(&disk, dir.path(), &clock, bounds).await {
            Ok(opened) => opened.found().await,
            Err(error) => Err(error),
        };
        met.damaged.count(&found);
        match found {
            Ok(found) => model.compare(&found).map_err(|error| format!("after {what}: {error}")),
            Err(_) => Ok(()),
        }
    }

    /// A few changes, one of whose writes is misdirected.
    async fn misdirect(&mut self, met: &mut Met) {
        let writes = self.random.random_range(1..12);
        self.disk.misdirect(writes);
        for _ in 0..4 {
            self.write(met).await;
            if self.random.random_bool(0.4) {
                // It may fail: the data that it reads back may be damaged.
                met.flushes.count(&self.store.head.flush().await);
            }
        }
        met.misdirected += u32::from(self.disk.misdirected().is_some());
    }
}

fn outcome<T, E>(result: &Result<T, E>) -> Outcome {
    match result {
        Ok(_) => Outcome::Acknowledged,
        Err(_) => Outcome::Refused,
    }
}

/// A gauge histogram with one bucket.
fn histogram(count: u64) -> Histogram {
    Histogram {
        schema: 3,
        zero_threshold: 0.001,
        sum: count as f64,
        reset_hint: ResetHint::Gauge,
        positive_spans: vec![Span { offset: 0, length: 1 }],
        negative_spans: vec![],
        custom_values: vec![],
        counts: Counts::Integer {
            count,
            zero_count: 0,
            positive: vec![count as i64],
            negative: vec![],
        },
    }
}
