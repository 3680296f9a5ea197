//! Group commit: one thread writes and syncs what many requests appended.
//!
//! A [`Commit`] is answered `Ok` only after the sync that covers its record. When a write fails
//! (disk full), the requests of that round fail, the file is put back, and the next
//! round tries again. After a failed sync nothing is accepted any more: the kernel may have
//! dropped the pages, and a second sync would lie.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot::{self, error::RecvError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{error, warn};

use super::checkpoint::{self, Checkpoint};
use super::record::{self, Entry, HEADER_LEN, Header, Record, SEAL_LEN};
use super::replay::Found;
use super::segment::{self, AppendError, Closed, Segment, io_error};
use super::{LogLock, WalOptions};
use crate::limits;
use crate::storage::StoreError;
use crate::telemetry::HeadMetrics;

/// The open log.
pub struct Wal {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Bytes that may wait to be written; a slow disk makes requests wait, not memory grow.
    admission: Arc<Semaphore>,
    /// The latest acceptance time that was in the log when it was opened.
    accepted: i64,
    lock: Mutex<Option<LogLock>>,
}

/// A record on its way to the disk.
#[must_use = "the record is durable only after `wait`"]
pub struct Commit {
    /// Its place in the log.
    pub sequence: u64,
    done: oneshot::Receiver<Result<Admission, Arc<str>>>,
}

/// Room in the log's buffer for one record; see [`Wal::admit`].
pub struct Admission {
    _permit: OwnedSemaphorePermit,
}

struct Shared {
    options: WalOptions,
    key: u64,
    /// As it lies on the disk, or shall lie there next.
    checkpoint: Mutex<Checkpoint>,
    metrics: HeadMetrics,
    state: Mutex<State>,
    work: Condvar,
    /// Segments that take no more appends, with the last sequence in each; oldest first.
    closed: Mutex<Vec<(u64, Closed)>>,
    /// Bytes of records in the segment being written.
    active_bytes: AtomicU64,
}

struct State {
    /// Sequence of the next record.
    next: u64,
    round: Round,
    /// Begin a new segment before the next write.
    roll: bool,
    /// Try whether there is room again, though no record waits.
    probe: bool,
    /// Why the last round could not be written; the next one that can clears it.
    full: Option<Arc<str>>,
    stop: bool,
    /// Why nothing is accepted any more.
    failed: Option<Arc<str>>,
}

/// The records of one write and the requests that wait for it.
#[derive(Default)]
struct Round {
    bytes: Vec<u8>,
    first: u64,
    last: u64,
    waiters: Vec<Waiter>,
}

struct Waiter {
    done: oneshot::Sender<Result<Admission, Arc<str>>>,
    /// Held until the bytes are written, even when the request has gone away.
    room: Admission,
}

impl Commit {
    /// Waits until the record is durable. Gives its room back, for what else is waiting of it.
    pub async fn wait(self) -> Result<Admission, StoreError> {
        Self::settled(self.done.await)
    }

    /// The same, on a thread that runs no tasks.
    pub fn wait_here(self) -> Result<Admission, StoreError> {
        Self::settled(self.done.blocking_recv())
    }

    fn settled(
        done: Result<Result<Admission, Arc<str>>, RecvError>,
    ) -> Result<Admission, StoreError> {
        match done {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(what)) => Err(unavailable(&what)),
            Err(_) => Err(unavailable("the log was closed")),
        }
    }
}

fn unavailable(what: &str) -> StoreError {
    StoreError::Unavailable { what: what.into(), retry_after: limits::RETRY_AFTER }
}

impl Wal {
    pub(super) fn start(
        options: WalOptions,
        metrics: HeadMetrics,
        found: Found,
        stored: Option<Checkpoint>,
        after: u64,
        lock: LogLock,
    ) -> Result<Self, StoreError> {
        let last = found.last;
        // Random, as the standard library seeds its hashers: only unguessable to senders.
        let random = || RandomState::new().build_hasher().finish();
        let known = stored.map(|stored| stored.key).filter(|key| *key != 0);
        let key = found.key.or(known).unwrap_or_else(random);
        let through = stored.unwrap_or_default().through;
        let checkpoint = Checkpoint { through, newest: found.newest, key };
        let shared = Arc::new(Shared {
            options,
            key,
            checkpoint: Mutex::new(checkpoint),
            metrics,
            state: Mutex::new(State {
                next: last.max(after) + 1,
                round: Round::default(),
                roll: false,
                probe: false,
                full: None,
                stop: false,
                failed: None,
            }),
            work: Condvar::new(),
            closed: Mutex::new(found.segments),
            active_bytes: AtomicU64::new(0),
        });
        shared.publish_size();
        if stored != Some(checkpoint) {
            shared.begin_checkpoint(checkpoint);
        }
        let writer = Writer { shared: shared.clone(), segment: None, known: false, last };
        let thread = std::thread::Builder::new()
            .name("wal".into())
            .spawn(move || writer.run())
            .map_err(|source| io_error(&shared.options.dir, source))?;
        let admission = Arc::new(Semaphore::new(limits::MAX_WAL_WAITING_BYTES));
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
            admission,
            accepted: found.accepted,
            lock: Mutex::new(Some(lock)),
        })
    }

    /// Waits until there is room for a record of about `bytes`.
    pub async fn admit(&self, bytes: usize) -> Admission {
        let bytes = bytes.clamp(1, limits::MAX_WAL_WAITING_BYTES) as u32;
        let permit = self.admission.clone().acquire_many_owned(bytes).await;
        Admission { _permit: permit.expect("the semaphore is never closed") }
    }

    /// Appends a record to the next round. The caller orders calls as the records shall be.
    pub fn append(
        &self,
        room: Admission,
        accepted: i64,
        record: Record<'_>,
    ) -> Result<Commit, StoreError> {
        let mut state = self.shared.state.lock();
        if let Some(what) = &state.failed {
            return Err(unavailable(what));
        }
        let sequence = state.next;
        let (sender, done) = oneshot::channel();
        let round = &mut state.round;
        record::encode(&mut round.bytes, self.shared.key, &Entry { sequence, accepted, record });
        if round.waiters.is_empty() {
            round.first = sequence;
        }
        round.last = sequence;
        round.waiters.push(Waiter { done: sender, room });
        state.next += 1;
        drop(state);
        self.shared.work.notify_one();
        Ok(Commit { sequence, done })
    }

    /// The latest acceptance time, in milliseconds, of all records that were in the log when it
    /// was opened, those skipped included; 0 = there were none.
    pub fn accepted(&self) -> i64 {
        self.accepted
    }

    /// Sequence of the last record that was appended.
    pub fn last(&self) -> u64 {
        self.shared.state.lock().next - 1
    }

    /// Bytes of the records in the log.
    pub fn used_bytes(&self) -> u64 {
        self.shared.used_bytes()
    }

    /// Whether records are accepted. While the disk is full each call also lets the writer try
    /// again, so that a server that nobody writes to becomes ready by itself.
    pub fn ready(&self) -> Result<(), StoreError> {
        let mut state = self.shared.state.lock();
        if let Some(what) = &state.failed {
            return Err(unavailable(what));
        }
        let Some(what) = state.full.clone() else { return Ok(()) };
        state.probe = true;
        drop(state);
        self.shared.work.notify_one();
        Err(unavailable(&what))
    }

    /// Lets the next record begin a new segment, so that [`Wal::forget`] can remove all before it.
    pub fn roll(&self) {
        self.shared.state.lock().roll = true;
        self.shared.work.notify_one();
    }

    /// Notes that everything up to `through` is in the store below, and removes the segments that
    /// hold nothing else.
    pub fn forget(&self, through: u64) -> Result<(), StoreError> {
        if self.shared.state.lock().stop {
            // The folder may be another process's by now.
            return Err(unavailable("the log is closed"));
        }
        let WalOptions { dir, disk, .. } = &self.shared.options;
        let mut checkpoint = self.shared.checkpoint.lock();
        let mut closed = self.shared.closed.lock();
        let newest = dir.join(segment::name(checkpoint.newest));
        // Not known any more before it is removed.
        let gone = closed.iter().any(|(last, s)| *last <= through && s.path == newest);
        let newest = if gone { 0 } else { checkpoint.newest };
        let next = Checkpoint { through, newest, ..*checkpoint };
        checkpoint::write(disk.as_ref(), dir, next).map_err(|error| error.at(dir))?;
        *checkpoint = next;
        // From the oldest on: a crash in between must not leave a hole.
        while let Some((last, segment)) = closed.first() {
            if *last > through {
                break;
            }
            let path = &segment.path;
            disk.remove(path).map_err(|source| io_error(path, source))?;
            closed.remove(0);
        }
        drop((closed, checkpoint));
        self.shared.publish_size();
        Ok(())
    }

    /// Writes and syncs what is waiting, ends the thread and gives the lock back. Nothing is
    /// accepted afterwards.
    pub fn close(&self) {
        self.shared.state.lock().stop = true;
        self.shared.work.notify_one();
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

impl Shared {
    fn used_bytes(&self) -> u64 {
        let closed: u64 = self.closed.lock().iter().map(|(_, segment)| segment.end).sum();
        closed + self.active_bytes.load(Ordering::Relaxed)
    }

    fn publish_size(&self) {
        self.metrics.wal_bytes.set(self.used_bytes() as i64);
        self.metrics.wal_segments.set(self.closed.lock().len() as i64);
    }
}

/// The thread's own part.
struct Writer {
    shared: Arc<Shared>,
    segment: Option<Segment>,
    /// Whether the checkpoint knows of the segment.
    known: bool,
    /// Last sequence written; what the next segment's header names.
    last: u64,
}

impl Writer {
    fn run(mut self) {
        while let Some((round, roll)) = self.next_round() {
            if roll {
                self.close_segment();
            }
            let Some(round) = round else { continue };
            let result = self.commit(&round);
            let answer = match &result {
                Ok(()) => Ok(()),
                Err(AppendError::Write(error)) => {
                    Err(format!("the log cannot be written: {error}"))
                }
                Err(AppendError::Sync(error)) => Err(self.fail(error)),
            };
            let answer = answer.map_err(Arc::<str>::from);
            self.shared.state.lock().full = answer.as_ref().err().cloned();
            if let Err(what) = &answer {
                self.shared.metrics.wal_failures.inc();
                warn!("{what}; {} requests are refused", round.waiters.len());
            }
            // Before the answers: else a kill between the two leaves an acknowledged record that
            // looks like a torn tail once it is damaged.
            if let (Ok(()), Some(segment)) = (&result, &mut self.segment) {
                segment.seal(self.last);
            }
            for Waiter { done, room } in round.waiters {
                // Who waited may have gone away; the record stays all the same.
                let _ = done.send(answer.clone().map(|()| room));
            }
            self.shared.publish_size();
        }
        self.close_segment();
    }

    /// Waits for records, a roll or the end. A probe is a round without records.
    fn next_round(&self) -> Option<(Option<Round>, bool)> {
        let mut state = self.shared.state.lock();
        loop {
            let roll = std::mem::take(&mut state.roll);
            let probe = std::mem::take(&mut state.probe) && state.full.is_some();
            if !state.round.waiters.is_empty() {
                return Some((Some(std::mem::take(&mut state.round)), roll));
            }
            if probe {
                let (first, last) = (state.next, self.last);
                return Some((Some(Round { first, last, ..Round::default() }), roll));
            }
            if roll {
                return Some((None, roll));
            }
            if state.stop {
                state.failed.get_or_insert_with(|| "the log is closed".into());
                return None;
            }
            self.shared.work.wait(&mut state);
        }
    }

    fn commit(&mut self, round: &Round) -> Result<(), AppendError> {
        if let Some(what) = &self.shared.state.lock().failed {
            return Err(AppendError::Write(io::Error::other(what.to_string())));
        }
        if self.segment.as_ref().is_some_and(|segment| !segment.has_room(round.bytes.len())) {
            self.close_segment();
        }
        let segment = match &mut self.segment {
            Some(segment) => segment,
            none => {
                self.known = false;
                none.insert(self.shared.create_segment(round, self.last)?)
            }
        };
        let begin = Instant::now();
        segment.append(&round.bytes)?;
        self.shared.metrics.wal_commit_seconds.observe(begin.elapsed().as_secs_f64());
        // After its first record is durable, and before that is acknowledged.
        if !self.known && !round.bytes.is_empty() {
            if let Err(error) = self.shared.know_segment(segment.first()) {
                match &error {
                    AppendError::Write(_) => {
                        segment.take_back()?;
                        // Gives back the space that it has reserved: the checkpoint may need it.
                        self.close_segment();
                    }
                    AppendError::Sync(_) => {
                        // The checkpoint may know the segment or not, so it has to stay, and must
                        // not bring back what is refused. On a disk that does not take the gap
                        // either, a restart may.
                        if let Err(AppendError::Write(e) | AppendError::Sync(e)) =
                            segment.void(round.last)
                        {
                            warn!("refused records stay in the log and may come back: {e}");
                        }
                        self.last = round.last;
                    }
                }
                return Err(error);
            }
            self.known = true;
        }
        self.last = round.last;
        self.shared.active_bytes.store(segment.end(), Ordering::Relaxed);
        Ok(())
    }

    /// The segment takes no more appends: everything in it is synced already but its last seal.
    fn close_segment(&mut self) {
        let Some(segment) = self.segment.take() else { return };
        if segment.first() > self.last {
            // Without a record: the next segment may get the same name.
            let _ = self.shared.options.disk.remove(segment.path());
            self.shared.active_bytes.store(0, Ordering::Relaxed);
            return;
        }
        match segment.finish() {
            Ok(closed) => {
                let mut list = self.shared.closed.lock();
                list.push((self.last, closed));
                self.shared.active_bytes.store(0, Ordering::Relaxed);
            }
            Err(AppendError::Write(error) | AppendError::Sync(error)) => {
                self.fail(&error);
            }
        }
    }

    /// Nothing is accepted from now on.
    fn fail(&self, error: &io::Error) -> String {
        let what = format!("a sync of the log failed, a restart is needed: {error}");
        error!("{what}");
        self.shared.state.lock().failed = Some(what.as_str().into());
        what
    }
}

impl Shared {
    /// Writes the checkpoint of a log that has none, or one of an older version.
    fn begin_checkpoint(&self, checkpoint: Checkpoint) {
        let WalOptions { dir, disk, .. } = &self.options;
        let written = checkpoint::write(disk.as_ref(), dir, checkpoint);
        if let Err(AppendError::Write(error) | AppendError::Sync(error)) = written {
            // A full disk must not keep what is there from being read; a segment that gets a
            // record is known before that is acknowledged.
            warn!("the checkpoint of the log cannot be written yet: {error}");
        }
    }

    fn know_segment(&self, first: u64) -> Result<(), AppendError> {
        let WalOptions { dir, disk, .. } = &self.options;
        let mut checkpoint = self.checkpoint.lock();
        let next = Checkpoint { newest: first, ..*checkpoint };
        checkpoint::write(disk.as_ref(), dir, next)?;
        *checkpoint = next;
        Ok(())
    }

    fn create_segment(&self, round: &Round, previous: u64) -> Result<Segment, AppendError> {
        let needed = (HEADER_LEN + round.bytes.len() + SEAL_LEN) as u64;
        let WalOptions { dir, disk, segment_bytes } = &self.options;
        let bytes = needed.max(*segment_bytes);
        let header = Header { first: round.first, previous, key: self.key, bytes };
        Segment::create(disk.as_ref(), dir, header, needed)
    }
}
