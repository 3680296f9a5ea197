//! Group commit: one thread writes and syncs the records of many requests.
//!
//! A round is answered `Ok` only after the sync that covers it. If a write fails (disk full), the requests of that
//! round fail, the file is restored, and the next round tries again. After a failed sync nothing is accepted any
//! more: the kernel may have dropped the pages, and a second sync would report success. The same holds once the file
//! is no longer where a restart would look for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tracing::{error, warn};

use super::log::{Log, LogState, Round, Waiter};
use super::options::WalOptions;
use super::segment::{AppendError, Segment};
use promkairos_telemetry::Throttle;

/// The state of the thread.
pub(super) struct Writer {
    log: Arc<Log>,
    segment: Option<Segment>,
    /// Whether the checkpoint names the segment.
    known: bool,
    /// Last sequence written; the header of the next segment names it.
    last: u64,
    refusals: Throttle,
}

impl Writer {
    /// `last` is the last sequence in the log.
    pub(super) fn new(log: Arc<Log>, last: u64) -> Self {
        Self { log, segment: None, known: false, last, refusals: Throttle::default() }
    }

    /// Creates the first segment, so that a lack of disk space is known before requests come.
    pub(super) fn begin(&mut self) {
        let probe = self.probe(&self.log.state.lock());
        self.settle(probe);
    }

    /// Works until the log is closed.
    pub(super) fn run(mut self) {
        while let Some((round, roll)) = self.next_round() {
            // A segment without a record stays open: it has nothing to cut off.
            if roll && self.segment.as_ref().is_some_and(|segment| segment.first() <= self.last) {
                self.close_segment();
                let mut state = self.log.state.lock();
                (state.is_laid_out, state.is_known) = (false, false);
            }
            if let Some(round) = round {
                self.settle(round);
            }
        }
        self.close_segment();
    }

    /// Commits a round and answers its waiting requests.
    fn settle(&mut self, round: Round) {
        let result = self.commit(&round);
        let answer = match &result {
            Ok(()) => Ok(()),
            Err(AppendError::Write(error)) => Err(format!("the log cannot be written: {error}")),
            Err(AppendError::Sync(error)) => Err(self.fail(error)),
        };
        let answer = answer.map_err(Arc::<str>::from);
        let mut state = self.log.state.lock();
        state.full = answer.as_ref().err().cloned();
        state.refused_bytes = if answer.is_ok() { 0 } else { round.bytes.len().max(round.room) };
        state.is_laid_out = self.segment.is_some();
        state.is_known = self.known && state.is_laid_out;
        drop(state);
        if let Err(what) = &answer {
            self.log.metrics.wal_failures.inc();
            if let Some(refused) = self.refusals.count(round.waiters.len() as u64, Instant::now()) {
                warn!(requests_refused = refused, "{what}");
            }
        }
        // Sealed before the answers: after a kill in between, a damaged acknowledged record would
        // look like a torn tail.
        if let (Ok(()), Some(segment)) = (&result, &mut self.segment)
            && !round.bytes.is_empty()
        {
            segment.seal(self.last);
        }
        for Waiter { done, room } in round.waiters {
            // The request may be gone; the record stays all the same.
            let _ = done.send(answer.clone().map(|()| room));
        }
        self.log.publish_size();
    }

    /// A round without records: only checks that a record could be written, of any size if none was refused.
    fn probe(&self, state: &LogState) -> Round {
        let room = state.refused_bytes.max(usize::from(state.is_laid_out));
        Round { first: state.next, last: self.last, room, ..Round::default() }
    }

    /// Waits for records, a roll or the end.
    fn next_round(&self) -> Option<(Option<Round>, bool)> {
        let mut state = self.log.state.lock();
        loop {
            let roll = std::mem::take(&mut state.roll);
            let probe = std::mem::take(&mut state.probe);
            let probe = probe && (state.full.is_some() || !state.is_known);
            if !state.round.waiters.is_empty() {
                return Some((Some(std::mem::take(&mut state.round)), roll));
            }
            if probe {
                state.probed = Instant::now();
                return Some((Some(self.probe(&state)), roll));
            }
            if roll {
                return Some((None, roll));
            }
            if state.stop {
                state.failed.get_or_insert_with(|| "the log is closed".into());
                return None;
            }
            self.log.work.wait(&mut state);
        }
    }

    fn commit(&mut self, round: &Round) -> Result<(), AppendError> {
        if let Some(what) = &self.log.state.lock().failed {
            return Err(AppendError::Write(io::Error::other(what.to_string())));
        }
        let needed = round.bytes.len().max(round.room);
        if self.segment.as_ref().is_some_and(|segment| !segment.has_room(needed)) {
            self.close_segment();
        }
        let segment = match &mut self.segment {
            Some(segment) => segment,
            none => {
                self.known = false;
                none.insert(self.log.create_segment(round, self.last)?)
            }
        };
        let begin = Instant::now();
        segment.append(&round.bytes)?;
        self.log.metrics.wal_commit_seconds.observe(begin.elapsed().as_secs_f64());
        // After its first record is durable, and before that record is acknowledged.
        if !self.known && !round.bytes.is_empty() {
            if let Err(error) = self.log.know_segment(segment.first()) {
                match &error {
                    AppendError::Write(_) => {
                        segment.take_back()?;
                        // Releases its reserved space: the checkpoint may need it.
                        self.close_segment();
                    }
                    AppendError::Sync(_) => {
                        // The checkpoint may name the segment or not. So the segment must stay,
                        // without the refused records. If the disk does not take the gap either, a
                        // restart may bring them back.
                        let WalOptions { dir, disk, .. } = &self.log.options;
                        let voided = segment.void(disk.as_ref(), dir, round.last);
                        if let Err(AppendError::Write(e) | AppendError::Sync(e)) = voided {
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
        if !round.bytes.is_empty() {
            self.log.active_bytes.store(segment.end, Ordering::Relaxed);
        }
        if round.room > 0 {
            self.try_room(round.room)?;
        }
        Ok(())
    }

    /// Checks that `bytes` would fit, and a checkpoint beside them.
    fn try_room(&mut self, bytes: usize) -> Result<(), AppendError> {
        let Some(segment) = &mut self.segment else { return Ok(()) };
        segment.try_room(bytes)?;
        let has_record = segment.first() <= self.last;
        match self.log.repeat_checkpoint() {
            Ok(()) => Ok(()),
            // The checkpoint has not changed, whichever file is in place.
            Err(AppendError::Write(error) | AppendError::Sync(error)) => {
                if !has_record {
                    // Releases its reserved space.
                    self.close_segment();
                }
                Err(AppendError::Write(error))
            }
        }
    }

    /// Closes the segment: everything in it is synced except its last seal.
    fn close_segment(&mut self) {
        let Some(segment) = self.segment.take() else { return };
        if segment.first() > self.last {
            // Without a record: the next segment may get the same name.
            let _ = self.log.options.disk.remove(&segment.path);
            self.log.active_bytes.store(0, Ordering::Relaxed);
            return;
        }
        match segment.finish() {
            Ok(closed) => {
                let mut list = self.log.closed.lock();
                list.push((self.last, closed));
                self.log.active_bytes.store(0, Ordering::Relaxed);
            }
            Err(AppendError::Write(error) | AppendError::Sync(error)) => {
                self.fail(&error);
            }
        }
    }

    /// Refuses everything from now on.
    fn fail(&self, error: &io::Error) -> String {
        let what = format!("the log cannot be relied on any more, a restart is needed: {error}");
        error!("{what}");
        self.log.state.lock().failed = Some(what.as_str().into());
        what
    }
}
