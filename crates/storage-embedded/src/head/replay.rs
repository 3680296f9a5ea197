//! Replay: reads the log back into memory when a head is opened.
//!
//! A replay applies no policy: it repeats what was accepted, in the order of the log. A delete is
//! applied to memory at its position. The store below gets each delete again before anything else,
//! since the replay may hand down points that the delete had removed there. One thread reads and
//! decompresses, one decodes, one applies.
//!
//! When memory is full, the data read so far are handed to the store below. The same happens when the process is near
//! its memory limit; then series leave memory too, since the log may have more series than there is room for. The log
//! is cut only after all of it was read: if the process is killed before, the next one reads the log again, from the
//! position that the store below has, and repeats the work. If the store below takes nothing, the server starts all
//! the same: reading goes on over the limit, with a warning. The log then has about what the previous process had in
//! memory, which took writes up to a multiple of the limit.

use std::sync::Arc;

use tokio::runtime::Handle;
use tracing::{info, warn};

use super::blocking::blocking;
use super::handing_down::{HandingDown, PendingDelete};
use super::options::Options;
use super::prepared::{Judge, Prepared};
use super::recent_samples::{RecentSamples, Resolved};
use super::repeater::Repeater;
use super::unsynced_records::{Held, UnsyncedRecords, starts_of};
use super::wal::{self, Wal, WalOptions};
use super::wal_prefetch::{self, Change, Message, Read, undecodable};
use promkairos_model::{Protocol, ShownSize, Target};
use promkairos_storage::{Level, Pressure, RatePacer, SharedStore, Starts, StoreError};
use promkairos_telemetry::HeadMetrics;
use promkairos_wire::{self, Policy};

/// Each thread may have one part in this number of the memory limit ready for the next thread.
const SHARE: u64 = 16;

/// Reads the log back into memory, and hands data down when memory is full.
struct Replay {
    memory: Arc<RecentSamples>,
    /// Applies the writes.
    repeater: Repeater,
    down: HandingDown,
    keeps_stamps: bool,
    flush_memory: u64,
    /// With more bytes in memory a snapshot is handed down.
    full_at: u64,
    /// Memory limit and memory use of the process.
    pressure: Arc<Pressure>,
    /// Runs calls of the store below, which wait.
    runtime: Handle,
    metrics: HeadMetrics,
    /// A buffer for decoding.
    arena: Vec<u8>,
    /// The last record that was taken.
    last: u64,
    /// The latest acceptance time.
    stamp: i64,
    /// The servers of the store below, before the first snapshot went there.
    starts: Option<Starts>,
    /// Whether it ends if memory is full and the store below takes nothing, or goes on over the limit.
    ends_when_refused: bool,
}

/// What the log held.
pub(super) struct ReadBack {
    pub(super) memory: Arc<RecentSamples>,
    pub(super) down: HandingDown,
    /// No later acceptance time may be before this.
    pub(super) stamp: i64,
    /// Records that earlier processes handed down and the store below may lose.
    pub(super) held: UnsyncedRecords,
    /// What the replay handed down and may be lost.
    pub(super) handed_down: Option<Held>,
}

/// Opens the log and reads back the records behind `flushed`, which the store below does not have yet.
pub(super) async fn read_back(
    options: &Options,
    below: SharedStore,
    metrics: HeadMetrics,
    flushed: u64,
) -> Result<(Wal, ReadBack), StoreError> {
    let replay = Replay::new(options, below, metrics)?;
    let options = options.clone();
    blocking(move || replay.read(&options, flushed)).await?
}

/// Hands records of the log down again, as a replay would; returns the number of points. Uses a
/// memory of its own, with at most a quarter of the points of a flush.
pub(super) fn hand_down_again(
    options: &Options,
    below: SharedStore,
    read: impl FnOnce(&mut wal::Visit<'_>) -> Result<(), StoreError>,
) -> Result<u64, StoreError> {
    let mut replay = Replay::new(options, below, HeadMetrics::default())?;
    replay.flush_memory /= 4;
    replay.full_at = replay.flush_memory;
    replay.ends_when_refused = true;
    replay.take_all(read)?;
    replay.repeater.settle()?;
    let runtime = replay.runtime.clone();
    runtime.block_on(replay.hand_down())?;
    Ok(replay.repeater.finish())
}

impl Replay {
    fn new(
        options: &Options,
        below: SharedStore,
        metrics: HeadMetrics,
    ) -> Result<Self, StoreError> {
        let pressure = options.pressure.clone();
        let memory = Arc::new(RecentSamples::new(metrics.clone(), options.series_stay, pressure));
        let flush_memory = options.flush_memory;
        let share = options.pressure.limit() / SHARE;
        Ok(Self {
            down: HandingDown::new(memory.clone(), below, metrics.clone()),
            repeater: Repeater::start(memory.clone(), share)?,
            memory,
            keeps_stamps: options.keeps_stamps,
            flush_memory,
            full_at: flush_memory,
            pressure: options.pressure.clone(),
            runtime: Handle::current(),
            metrics,
            arena: Vec::new(),
            last: 0,
            stamp: 0,
            starts: None,
            ends_when_refused: false,
        })
    }

    /// Opens the log and reads back records that are not in the store below yet.
    fn read(mut self, options: &Options, flushed: u64) -> Result<(Wal, ReadBack), StoreError> {
        let wal_options = WalOptions {
            dir: options.dir.clone(),
            mark: options.mark,
            segment_bytes: options.segment_bytes.min(options.wal_limit / 8).max(1 << 16),
            disk: options.disk.clone(),
        };
        let after = wal::checkpoint(&options.dir, options.disk.as_ref())?.max(flushed);
        self.down.through = after;
        let metrics = self.metrics.clone();
        let log = self.take_all(|hand_on| wal::read(wal_options, after, hand_on))?;
        // Before the log is cut: if this fails, the next start must find all of the log.
        let held = UnsyncedRecords::read(&options.dir, &options.disk)?;
        let wal = log.start(metrics)?;
        // Includes records in the store below: stamps never fall, whatever the clock does. A flush
        // may have used the last one.
        self.stamp = self.stamp.max(wal.accepted().saturating_add(1));
        let Self { memory, repeater, mut down, stamp, metrics, starts, .. } = self;
        let points = repeater.finish();
        metrics.replayed_points.inc_by(points);
        if points > 0 {
            info!(points, "read back from the log");
        }
        let handed_down = down.uncut.zip(starts);
        let handed_down = handed_down.map(|(through, starts)| Held::new(after, through, starts));
        if let Some(through) = down.uncut {
            let cut = match handed_down {
                Some(_) => wal.note_through(through),
                None => wal.forget(through),
            };
            match cut {
                Ok(()) => down.uncut = None,
                // The next flush tries again.
                Err(error) => warn!("the log cannot be cut: {error}"),
            }
        }
        Ok((wal, ReadBack { memory, down, stamp, held, handed_down }))
    }

    /// Runs `read` on this thread and takes its records on another thread.
    fn take_all<T>(
        &mut self,
        read: impl FnOnce(&mut wal::Visit<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let (reading, taking) = wal_prefetch::channel(self.pressure.limit() / SHARE);
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("replay".into());
            let thread = thread.spawn_scoped(scope, || taking.each(|read| self.take(read)));
            let what = "the thread that takes what is read from the log does not start";
            let thread = thread.map_err(|error| StoreError::backend(what, error))?;
            let log = read(&mut |entry| reading.hand_on(entry));
            drop(reading);
            // If taking a record failed, that error is the reason why reading ended.
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            log
        })
    }

    fn take(&mut self, read: &Read) -> Result<(), StoreError> {
        // Only if time has advanced: if two snapshots had points of one acceptance time, a store
        // below could not tell which is later.
        if read.accepted > self.stamp && self.is_full()? {
            self.make_room()?;
        }
        self.last = read.sequence;
        self.stamp = self.stamp.max(read.accepted);
        match &read.change {
            Change::Write { protocol, rejected, message } => {
                let write = self.decode(*protocol, message, rejected, read.sequence)?;
                let stamp = if self.keeps_stamps { read.accepted } else { 0 };
                self.repeater.write(write, stamp)?;
            }
            Change::Delete { range, matchers } => {
                self.repeater.settle()?;
                self.memory.delete(matchers, range)?;
                // As when it was accepted: no later write shares its time.
                self.stamp = self.stamp.max(read.accepted + 1);
                let (matchers, range) = (matchers.clone(), *range);
                let delete = PendingDelete { matchers, range, accepted: read.accepted };
                self.down.deletes.push(delete);
            }
        }
        Ok(())
    }

    /// Decodes a message and finds its series.
    fn decode(
        &mut self,
        protocol: Protocol,
        message: &Message,
        rejected: &[Target],
        sequence: u64,
    ) -> Result<Prepared, StoreError> {
        let policy = Policy::Replay(rejected);
        let batch =
            promkairos_wire::decode_message(protocol, message.bytes(), &mut self.arena, policy);
        let batch = batch.map_err(|error| undecodable(sequence, error))?;
        let Resolved { write, judged, .. } = self.memory.resolve(batch, Judge::Replay);
        if let Some(reject) = judged.rejections.kept().first() {
            let what = format!("record {sequence} of the log was accepted, but: {reject}");
            return Err(StoreError::Invalid(what));
        }
        Ok(write)
    }

    fn is_full(&self) -> Result<bool, StoreError> {
        if self.repeater.waiting_bytes() + self.memory.bytes() <= self.full_at && !self.is_short() {
            return Ok(false);
        }
        // Only now the size is known.
        self.repeater.settle()?;
        Ok(self.memory.bytes() > self.full_at || self.is_short())
    }

    /// Whether the process is near its memory limit and a good part of that is here. Counted, since
    /// series come more often than the process is measured.
    fn is_short(&self) -> bool {
        let waiting = self.repeater.waiting_series_bytes();
        let ((whole, flush), limit) = (self.memory.whole_bytes(), self.pressure.limit());
        let (whole, flush) = (waiting + whole, waiting + flush);
        // A process takes as many series as there is room for with their flush.
        let is_tight = self.pressure.level() > Level::Ample;
        let is_short = if is_tight { whole > limit / 4 } else { whole + flush > limit / 8 * 7 };
        self.down.pending.is_none() && is_short
    }

    /// Hands memory down. The repeater must have settled.
    fn make_room(&mut self) -> Result<(), StoreError> {
        let (runtime, is_short) = (self.runtime.clone(), self.is_short());
        match runtime.block_on(self.hand_down()) {
            Ok(()) => {
                if is_short {
                    self.memory.leave_all();
                }
                self.metrics.flushes.inc();
                self.full_at = self.flush_memory;
            }
            Err(error) if self.ends_when_refused => return Err(error),
            Err(error) => {
                self.metrics.flush_failures.inc();
                let bytes = self.memory.bytes();
                // Tried again later, not with every record.
                self.full_at = bytes + self.flush_memory;
                warn!(
                    memory = %ShownSize::of(bytes),
                    limit = %ShownSize::of(self.flush_memory),
                    "the log is read back over the memory limit, a flush failed: {error}"
                );
            }
        }
        Ok(())
    }

    async fn hand_down(&mut self) -> Result<(), StoreError> {
        self.down.repeat_deletes().await?;
        if self.starts.is_none() {
            self.starts = starts_of(&self.down.below).await?;
        }
        self.down.hand_down(|_| RatePacer::default()).await?;
        self.memory.begin_flush();
        self.down.pending = Some(self.last);
        self.down.hand_down(|_| RatePacer::default()).await
    }
}
