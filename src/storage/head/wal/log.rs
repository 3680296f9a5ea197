//! What the handle of the log and the thread that writes it have in common.
//!
//! Requests put records into the round that is waiting, the thread takes it; the lock of the state
//! is never held over an operation on a file. The checkpoint is written under its own lock, so that
//! what lies on the disk is what memory says.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;
use tracing::warn;

use super::WalOptions;
use super::checkpoint::{self, Checkpoint};
use super::handle::Admission;
use super::mark;
use super::record::{HEADER_LEN, Header, SEAL_LEN};
use super::segment::{self, AppendError, Closed, Segment};
use crate::storage::StoreError;
use crate::telemetry::HeadMetrics;

/// The log as its handle and its thread see it.
pub(super) struct Log {
    pub(super) options: WalOptions,
    pub(super) key: u64,
    /// Whether the mark is there, or none is to be made.
    pub(super) is_marked: AtomicBool,
    /// As it lies on the disk, or shall lie there next.
    pub(super) checkpoint: Mutex<Checkpoint>,
    pub(super) metrics: HeadMetrics,
    pub(super) state: Mutex<State>,
    pub(super) work: Condvar,
    /// Segments that take no more appends, with the last sequence in each; oldest first.
    pub(super) closed: Mutex<Vec<(u64, Closed)>>,
    /// Bytes of records in the segment being written.
    pub(super) active_bytes: AtomicU64,
}

/// What is appended and not written yet, and whether more may be.
pub(super) struct State {
    /// Sequence of the next record.
    pub(super) next: u64,
    pub(super) round: Round,
    /// Begin a new segment before the next write.
    pub(super) roll: bool,
    /// Try whether there is room again, though no record waits.
    pub(super) probe: bool,
    /// Why the last round could not be written; the next one that can clears it.
    pub(super) full: Option<Arc<str>>,
    /// How many bytes that round had: there is room again when as many fit.
    pub(super) refused_bytes: usize,
    /// Whether there is a segment for the next record.
    pub(super) is_laid_out: bool,
    /// Whether the checkpoint knows of that segment: then a record takes no more room than there is in it.
    pub(super) is_known: bool,
    /// When it was last tried whether a record could be written.
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
    /// Of a round without records: the bytes that have to fit.
    pub(super) room: usize,
}

/// A request that waits for its record.
pub(super) struct Waiter {
    pub(super) done: oneshot::Sender<Result<Admission, Arc<str>>>,
    /// Held until the bytes are written, even when the request has gone away.
    pub(super) room: Admission,
}

impl Log {
    /// Bytes of the records in the log.
    pub(super) fn used_bytes(&self) -> u64 {
        let closed: u64 = self.closed.lock().iter().map(|(_, segment)| segment.end).sum();
        closed + self.active_bytes.load(Ordering::Relaxed)
    }

    /// Shows the size in the metrics.
    pub(super) fn publish_size(&self) {
        self.metrics.wal_bytes.set(self.used_bytes() as i64);
        self.metrics.wal_segments.set(self.closed.lock().len() as i64);
    }

    /// Writes the checkpoint of a log that has none, or one of an older version.
    pub(super) fn begin_checkpoint(&self, checkpoint: Checkpoint) {
        let WalOptions { dir, disk, .. } = &self.options;
        let written = checkpoint::write(disk.as_ref(), dir, checkpoint);
        if let Err(AppendError::Write(error) | AppendError::Sync(error)) = written {
            // A full disk must not keep what is there from being read; a segment that gets a
            // record is known before that is acknowledged.
            warn!("the checkpoint of the log cannot be written yet: {error}");
        }
    }

    /// Says beside a log that was there before there were marks that it is there.
    pub(super) fn begin_mark(&self) {
        let checkpoint = self.checkpoint.lock();
        if let Err(AppendError::Write(error) | AppendError::Sync(error)) = self.mark(*checkpoint) {
            // It is made before anything is acknowledged.
            warn!("the log cannot be marked yet: {error}");
        }
    }

    /// Says durably, if that is not said yet, that there is a log which has acknowledged records. By its checkpoint a
    /// start sees that it is still there.
    fn mark(&self, checkpoint: Checkpoint) -> Result<(), AppendError> {
        let WalOptions { dir, disk, .. } = &self.options;
        if !self.is_marked.load(Ordering::Relaxed) {
            checkpoint::write(disk.as_ref(), dir, checkpoint)?;
            mark::write(disk.as_ref(), dir)?;
            self.is_marked.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Notes durably that the segment has a record.
    pub(super) fn know_segment(&self, first: u64) -> Result<(), AppendError> {
        let WalOptions { dir, disk, .. } = &self.options;
        let mut checkpoint = self.checkpoint.lock();
        self.mark(*checkpoint)?;
        let next = Checkpoint { newest: first, ..*checkpoint };
        checkpoint::write(disk.as_ref(), dir, next)?;
        *checkpoint = next;
        Ok(())
    }

    /// Tries whether the checkpoint could be written, by writing it as it is, and the mark.
    pub(super) fn repeat_checkpoint(&self) -> Result<(), AppendError> {
        let WalOptions { dir, disk, .. } = &self.options;
        let checkpoint = self.checkpoint.lock();
        self.mark(*checkpoint)?;
        checkpoint::write(disk.as_ref(), dir, *checkpoint)
    }

    /// Notes durably that everything up to `through` is in the store below.
    pub(super) fn note_through(&self, through: u64) -> Result<(), StoreError> {
        let WalOptions { dir, disk, .. } = &self.options;
        let mut checkpoint = self.checkpoint.lock();
        let next = Checkpoint { through: through.max(checkpoint.through), ..*checkpoint };
        checkpoint::write(disk.as_ref(), dir, next).map_err(|error| error.at(dir))?;
        *checkpoint = next;
        Ok(())
    }

    /// The same. Gives the segments that hold
    /// no more than that, oldest first: they need not be there any longer.
    pub(super) fn checkpoint_through(&self, through: u64) -> Result<Vec<PathBuf>, StoreError> {
        let WalOptions { dir, disk, .. } = &self.options;
        let mut checkpoint = self.checkpoint.lock();
        let closed = self.closed.lock();
        let old = closed.iter().take_while(|(last, _)| *last <= through);
        let old: Vec<PathBuf> = old.map(|(_, segment)| segment.path.clone()).collect();
        drop(closed);
        // Not known any more before it is removed.
        let newest = dir.join(segment::name(checkpoint.newest));
        let newest = if old.contains(&newest) { 0 } else { checkpoint.newest };
        // Segments may be kept for longer than they have to be read back.
        let through = through.max(checkpoint.through);
        let next = Checkpoint { through, newest, ..*checkpoint };
        checkpoint::write(disk.as_ref(), dir, next).map_err(|error| error.at(dir))?;
        *checkpoint = next;
        Ok(old)
    }

    /// Makes the segment that begins with a round; `previous` is the last record before it.
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
