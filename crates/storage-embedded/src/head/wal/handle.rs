//! The open log, as requests use it: they append records and wait until the records are durable.
//!
//! A [`Commit`] is answered `Ok` only after the sync that covers its record. The number of bytes
//! that wait to be written is bounded. The thread of [`super::writer`] writes files; this module
//! only removes segments whose records are in the store below.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tokio::sync::Semaphore;
use tokio::sync::oneshot::{self, error::RecvError};
use tracing::error;

use super::checkpoint::Checkpoint;
use super::log::{Admission, Log, LogState, Round, Waiter};
use super::mark::{self, Mark};
use super::options::WalOptions;
use super::record::{self, Entry, Record};
use super::replay::Found;
use super::segment::{self, Closed};
use super::writer::Writer;
use promkairos_model::limits;
use promkairos_storage::log_files::LogFiles;
use promkairos_storage::{FolderLock, StoreError};
use promkairos_telemetry::HeadMetrics;

/// The open log.
pub struct Wal {
    log: Arc<Log>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Limits bytes that wait to be written: a slow disk makes requests wait, not memory grow.
    admission: Arc<Semaphore>,
    /// The latest acceptance time that was in the log when it was opened.
    accepted: i64,
    /// Locked while segments are removed.
    forgetting: Mutex<()>,
    lock: Mutex<Option<FolderLock>>,
}

/// A record on its way to the disk.
#[must_use = "the record is durable only after `wait`"]
pub struct Commit {
    /// Its position in the log.
    pub sequence: u64,
    done: oneshot::Receiver<Result<Admission, Arc<str>>>,
}

impl Commit {
    /// Waits until the record is durable. Returns its room, since its write may still wait to be applied.
    pub async fn wait(self) -> Result<Admission, StoreError> {
        Self::settled(self.done.await)
    }

    /// As [`Self::wait`], on a thread that runs no tasks.
    pub fn wait_here(self) -> Result<Admission, StoreError> {
        Self::settled(self.done.blocking_recv())
    }

    fn settled(
        done: Result<Result<Admission, Arc<str>>, RecvError>,
    ) -> Result<Admission, StoreError> {
        match done {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(what)) => Err(StoreError::unavailable(&*what)),
            Err(_) => Err(StoreError::unavailable("the log was closed")),
        }
    }
}

impl Wal {
    pub(super) fn start(
        options: WalOptions,
        metrics: HeadMetrics,
        found: Found,
        stored: Option<Checkpoint>,
        after: u64,
        lock: FolderLock,
    ) -> Result<Self, StoreError> {
        let last = found.last;
        // Random like the seeds of hashers: senders must not be able to guess it.
        let random = || RandomState::new().build_hasher().finish();
        let known = stored.map(|stored| stored.key).filter(|key| *key != 0);
        let key = found.key.or(known).unwrap_or_else(random);
        let through = stored.unwrap_or_default().through;
        let checkpoint = Checkpoint { through, newest: found.newest, key };
        let is_marked = match options.mark {
            Mark::Beside => mark::is_there(options.disk.as_ref(), &options.dir)?,
            Mark::None => true,
        };
        let has_records = !found.segments.is_empty();
        let log = Arc::new(Log {
            options,
            key,
            is_marked: AtomicBool::new(is_marked),
            checkpoint: Mutex::new(checkpoint),
            metrics,
            state: Mutex::new(LogState {
                next: last.max(after) + 1,
                round: Round::default(),
                roll: false,
                probe: false,
                full: None,
                refused_bytes: 0,
                is_laid_out: false,
                is_known: false,
                probed: Instant::now(),
                stop: false,
                failed: None,
            }),
            work: Condvar::new(),
            closed: Mutex::new(found.segments),
            active_bytes: AtomicU64::new(0),
        });
        log.publish_size();
        if stored != Some(checkpoint) {
            log.begin_checkpoint(checkpoint);
        }
        if has_records {
            log.begin_mark();
        }
        let mut writer = Writer::new(log.clone(), last);
        writer.begin();
        let thread = std::thread::Builder::new()
            .name("wal".into())
            .spawn(move || writer.run())
            .map_err(|source| StoreError::io(&log.options.dir, source))?;
        let admission = Arc::new(Semaphore::new(limits::MAX_WAL_WAITING_BYTES));
        Ok(Self {
            log,
            thread: Mutex::new(Some(thread)),
            admission,
            accepted: found.accepted,
            forgetting: Mutex::default(),
            lock: Mutex::new(Some(lock)),
        })
    }

    /// Waits until there is room for a record of about `bytes`.
    pub async fn admit(&self, bytes: usize) -> Admission {
        let bytes = bytes.clamp(1, limits::MAX_WAL_WAITING_BYTES) as u32;
        let permit = self.admission.clone().acquire_many_owned(bytes).await;
        Admission { _permit: permit.expect("the semaphore is never closed") }
    }

    /// Appends a record to the next round. Records are in the order of the calls.
    pub fn append(
        &self,
        room: Admission,
        accepted: i64,
        record: Record<'_>,
    ) -> Result<Commit, StoreError> {
        let mut state = self.log.state.lock();
        if let Some(what) = &state.failed {
            return Err(StoreError::unavailable(&**what));
        }
        let sequence = state.next;
        let (sender, done) = oneshot::channel();
        let round = &mut state.round;
        record::encode(&mut round.bytes, self.log.key, &Entry { sequence, accepted, record });
        if round.waiters.is_empty() {
            round.first = sequence;
        }
        round.last = sequence;
        round.waiters.push(Waiter { done: sender, room });
        state.next += 1;
        drop(state);
        self.log.work.notify_one();
        Ok(Commit { sequence, done })
    }

    /// The latest acceptance time, in milliseconds, of all records in the log when it was opened,
    /// including skipped ones; 0 = there were none.
    pub fn accepted(&self) -> i64 {
        self.accepted
    }

    /// Sequence of the last record that was appended.
    pub fn last(&self) -> u64 {
        self.log.state.lock().next - 1
    }

    /// Bytes of the records in the log.
    pub fn used_bytes(&self) -> u64 {
        self.log.used_bytes()
    }

    /// Whether records are accepted. While the disk is full, each call also makes the writer try
    /// again, so that a server without writes becomes ready by itself. If there is no segment for
    /// the next record, the writer creates one, so that a lack of disk space is known before a
    /// request relies on it. The first record of a segment needs a little more room, which the
    /// writer checks now and then.
    pub fn ready(&self) -> Result<(), StoreError> {
        let mut state = self.log.state.lock();
        if let Some(what) = &state.failed {
            return Err(StoreError::unavailable(&**what));
        }
        let full = state.full.clone();
        let is_due = !state.is_known && state.probed.elapsed() >= limits::LOG_PROBE;
        if full.is_none() && state.is_laid_out && !is_due {
            return Ok(());
        }
        state.probe = true;
        drop(state);
        self.log.work.notify_one();
        full.map_or(Ok(()), |what| Err(StoreError::unavailable(&*what)))
    }

    /// Whether nothing is accepted until a restart.
    pub fn has_failed(&self) -> bool {
        self.log.state.lock().failed.is_some()
    }

    /// Checks that the files of the log are where the next start looks for them: they may have been
    /// moved or removed.
    pub fn check_files(&self) -> Result<(), StoreError> {
        let WalOptions { dir, disk, .. } = &self.log.options;
        let listed = disk.list(dir).map_err(|source| StoreError::io(dir, source))?;
        let path = |(_, segment): &(u64, Closed)| segment.path.clone();
        let closed: Vec<PathBuf> = self.log.closed.lock().iter().map(path).collect();
        let newest = self.log.checkpoint.lock().newest;
        let newest = (newest > 0).then(|| dir.join(segment::name(newest)));
        let is_listed = |path: &PathBuf| listed.iter().any(|name| path.ends_with(name));
        match closed.into_iter().chain(newest).find(|path| !is_listed(path)) {
            Some(gone) => Err(StoreError::io(&gone, ErrorKind::NotFound.into())),
            None => Ok(()),
        }
    }

    /// Makes the next round begin a new segment, so that [`Wal::forget`] can remove the segments
    /// before it. Waiting records go into the new segment too, and stay until the next time.
    pub fn roll(&self) {
        self.log.state.lock().roll = true;
        self.log.work.notify_one();
    }

    /// Records that everything up to `through` is in the store below, and keeps the segments.
    pub fn note_through(&self, through: u64) -> Result<(), StoreError> {
        self.check_open()?;
        self.log.note_through(through)
    }

    fn check_open(&self) -> Result<(), StoreError> {
        match self.log.state.lock().stop {
            // Another process may own the folder by now.
            true => Err(StoreError::unavailable("the log is closed")),
            false => Ok(()),
        }
    }

    /// The closed segments from the record behind `after` to `through`, and later ones. `None` =
    /// the segment with `through` still takes appends; it is closed for a later call.
    pub(super) fn closed_between(&self, after: u64, through: u64) -> Option<Vec<Closed>> {
        let closed = self.log.closed.lock();
        if closed.last().is_none_or(|(last, _)| *last < through) {
            drop(closed);
            self.roll();
            return None;
        }
        let wanted = closed.iter().filter(|(last, _)| *last > after);
        Some(wanted.map(|(_, segment)| segment.clone()).collect())
    }

    /// The file layer.
    pub(super) fn disk(&self) -> Arc<dyn LogFiles> {
        self.log.options.disk.clone()
    }

    /// Records that everything up to `through` is in the store below, and removes the segments
    /// without later records.
    pub fn forget(&self, through: u64) -> Result<(), StoreError> {
        self.check_open()?;
        let _forgetting = self.forgetting.lock();
        // Oldest first: a crash in between must not leave a hole. Removing a large file may take
        // long, and the writer waits for both locks of the log, so neither is held meanwhile.
        for path in self.log.checkpoint_through(through)? {
            let removed = self.log.options.disk.remove(&path);
            removed.map_err(|source| StoreError::io(&path, source))?;
            self.log.closed.lock().remove(0);
        }
        self.log.publish_size();
        Ok(())
    }

    /// Writes and syncs waiting records, ends the thread and releases the lock, for good.
    pub fn close(&self) {
        self.log.state.lock().stop = true;
        self.log.work.notify_one();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            error!("the thread that writes the log panicked");
        }
        *self.lock.lock() = None;
    }
}

impl Drop for Wal {
    fn drop(&mut self) {
        self.close();
    }
}
