//! State that the handle of the log shares with the thread that writes it.
//!
//! Requests add records to the waiting round, and the thread takes the round. The lock of the state
//! is never held during a file operation. The checkpoint is written under its own lock, so that
//! disk and memory agree.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tracing::warn;

use super::checkpoint::{self, Checkpoint};
use super::mark;
use super::options::WalOptions;
use super::record::{HEADER_LEN, Header, SEAL_LEN};
use super::segment::{self, AppendError, Closed, Segment};
use promkairos_storage::StoreError;
use promkairos_telemetry::HeadMetrics;

/// The log as its handle and its thread see it.
pub(super) struct Log {
    pub(super) options: WalOptions,
    pub(super) key: u64,
    /// Whether the mark exists, or no mark is wanted.
    pub(super) is_marked: AtomicBool,
    /// As it is on disk, or is to be written next.
    pub(super) checkpoint: Mutex<Checkpoint>,
    pub(super) metrics: HeadMetrics,
    pub(super) state: Mutex<LogState>,
    pub(super) work: Condvar,
    /// Segments that take no more appends, with the last sequence in each; oldest first.
    pub(super) closed: Mutex<Vec<(u64, Closed)>>,
    /// Bytes of records in the segment being written.
    pub(super) active_bytes: AtomicU64,
}

/// Appended records that are not written yet, and whether more are accepted.
pub(super) struct LogState {
    /// Sequence of the next record.
    pub(super) next: u64,
    pub(super) round: Round,
    /// Begin a new segment before the next write.
    pub(super) roll: bool,
    /// Check again whether there is room, though no record waits.
    pub(super) probe: bool,
    /// Why the last round could not be written; the next success clears it.
    pub(super) full: Option<Arc<str>>,
    /// Bytes of that round: there is room again when as many fit.
    pub(super) refused_bytes: usize,
    /// Whether there is a segment for the next record.
    pub(super) is_laid_out: bool,
    /// Whether the checkpoint names that segment: then a record needs no more room than the segment has.
    pub(super) is_known: bool,
    /// When the room was last checked.
    pub(super) probed: Instant,
    pub(super) stop: bool,
    /// Why nothing is accepted any more.
    pub(super) failed: Option<Arc<str>>,
}

/// The records of one write and the requests that wait for it.
#[derive(Default)]
pub(super) struct Round {
    pub(super) bytes: Vec<u8>,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) waiters: Vec<Waiter>,
    /// In a round without records: the bytes that have to fit.
    pub(super) room: usize,
}

/// A request that waits for its record.
pub(super) struct Waiter {
    pub(super) done: oneshot::Sender<Result<Admission, Arc<str>>>,
    /// Held until the bytes are written, even if the request is gone.
    pub(super) room: Admission,
}

/// Room in the log's buffer for one record; see [`Wal::admit`](super::Wal::admit).
pub struct Admission {
    pub(super) _permit: OwnedSemaphorePermit,
}

impl Log {
    /// Bytes of the records in the log.
    pub(super) fn used_bytes(&self) -> u64 {
        let closed: u64 = self.closed.lock().iter().map(|(_, segment)| segment.end).sum();
        closed + self.active_bytes.load(Ordering::Relaxed)
    }

    /// Sets the metrics of the size.
    pub(super) fn publish_size(&self) {
        self.metrics.wal_bytes.set(self.used_bytes() as i64);
        self.metrics.wal_segments.set(self.closed.lock().len() as i64);
    }

    /// Writes the checkpoint of a log that has none, or one of an older version.
    pub(super) fn begin_checkpoint(&self, checkpoint: Checkpoint) {
        let WalOptions { dir, disk, .. } = &self.options;
        let written = checkpoint::write(disk.as_ref(), dir, checkpoint);
        if let Err(AppendError::Write(error) | AppendError::Sync(error)) = written {
            // A full disk must not prevent reading the log; a segment is in the checkpoint before
            // its first record is acknowledged.
            warn!("the checkpoint of the log cannot be written yet: {error}");
        }
    }

    /// Writes the mark of a log from before there were marks.
    pub(super) fn begin_mark(&self) {
        let checkpoint = self.checkpoint.lock();
        if let Err(AppendError::Write(error) | AppendError::Sync(error)) = self.mark(*checkpoint) {
            // It is written before anything is acknowledged.
            warn!("the log cannot be marked yet: {error}");
        }
    }

    /// Writes the mark durably unless it exists. The checkpoint is written before: by it a start
    /// sees that the log still exists.
    fn mark(&self, checkpoint: Checkpoint) -> Result<(), AppendError> {
        let WalOptions { dir, disk, .. } = &self.options;
        if !self.is_marked.load(Ordering::Relaxed) {
            checkpoint::write(disk.as_ref(), dir, checkpoint)?;
            mark::write(disk.as_ref(), dir)?;
            self.is_marked.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Records durably that the segment has a record.
    pub(super) fn know_segment(&self, first: u64) -> Result<(), AppendError> {
        let WalOptions { dir, disk, .. } = &self.options;
        let mut checkpoint = self.checkpoint.lock();
        self.mark(*checkpoint)?;
        let next = Checkpoint { newest: first, ..*checkpoint };
        checkpoint::write(disk.as_ref(), dir, next)?;
        *checkpoint = next;
        Ok(())
    }

    /// Checks that the checkpoint and the mark can be written, by writing the checkpoint unchanged.
    pub(super) fn repeat_checkpoint(&self) -> Result<(), AppendError> {
        let WalOptions { dir, disk, .. } = &self.options;
        let checkpoint = self.checkpoint.lock();
        self.mark(*checkpoint)?;
        checkpoint::write(disk.as_ref(), dir, *checkpoint)
    }

    /// Records durably that everything up to `through` is in the store below.
    pub(super) fn note_through(&self, through: u64) -> Result<(), StoreError> {
        let WalOptions { dir, disk, .. } = &self.options;
        let mut checkpoint = self.checkpoint.lock();
        let next = Checkpoint { through: through.max(checkpoint.through), ..*checkpoint };
        checkpoint::write(disk.as_ref(), dir, next).map_err(|error| error.at(dir))?;
        *checkpoint = next;
        Ok(())
    }

    /// Records the same. Returns the segments without later records, oldest first, for removal.
    pub(super) fn checkpoint_through(&self, through: u64) -> Result<Vec<PathBuf>, StoreError> {
        let WalOptions { dir, disk, .. } = &self.options;
        let mut checkpoint = self.checkpoint.lock();
        let closed = self.closed.lock();
        let old = closed.iter().take_while(|(last, _)| *last <= through);
        let old: Vec<PathBuf> = old.map(|(_, segment)| segment.path.clone()).collect();
        drop(closed);
        // The checkpoint must not name a segment that is removed.
        let newest = dir.join(segment::name(checkpoint.newest));
        let newest = if old.contains(&newest) { 0 } else { checkpoint.newest };
        // Segments may be kept after their records are in the store below.
        let through = through.max(checkpoint.through);
        let next = Checkpoint { through, newest, ..*checkpoint };
        checkpoint::write(disk.as_ref(), dir, next).map_err(|error| error.at(dir))?;
        *checkpoint = next;
        Ok(old)
    }

    /// Creates the segment that begins with a round; `previous` is the last record before it.
    pub(super) fn create_segment(
        &self,
        round: &Round,
        previous: u64,
    ) -> Result<Segment, AppendError> {
        let needed = (HEADER_LEN + round.bytes.len().max(round.room) + SEAL_LEN) as u64;
        let WalOptions { dir, disk, segment_bytes, .. } = &self.options;
        let bytes = needed.max(*segment_bytes);
        let header = Header { first: round.first, previous, key: self.key, bytes };
        Segment::create(disk.as_ref(), dir, header, needed)
    }
}
