//! Flushes, which hand samples to the store below, and the task that flushes in the background.
//!
//! A flush hands its snapshot, all points up to one position in the order of acceptance, to the
//! store below as sorted runs. Only after `Ok` it moves the checkpoint, evicts the snapshot and
//! removes log segments, or holds them for a while ([`super::unsynced_records`]). The position is
//! the last appended record: memory begins the flush after it applied everything committed up to
//! there, and nothing behind it.
//!
//! No later point has the acceptance time of a point in the snapshot: at equal times a store below
//! could not tell which is later. A failed flush is tried again with the same snapshot. Deletes and
//! flushes exclude each other ([`super::deletes`]).
//!
//! A flush that only the interval started is spread over a time. It goes on at full speed once the
//! log is half full, memory is above its flush size or short, or a caller waits for the flush or
//! for its lock. Repetitions are never spread.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;
use tracing::{error, warn};

use super::applier::{Step, answered};
use super::blocking::blocking;
use super::flusher::WhenEmpty;
use super::handing_down::HandingDown;
use super::inner::Inner;
use super::options::Options;
use super::unsynced_records::{Held, starts_of};
use promkairos_model::limits::RETURN_PROBE;
use promkairos_storage::{Level, RatePacer, StoreError};

/// Flushes at the interval and when woken, until the head is dropped.
pub(super) fn spawn(inner: &Arc<Inner>) {
    let head = Arc::downgrade(inner);
    let Options { flush_interval, flush_spread, flush_backoff, .. } = inner.options;
    let times = (flush_interval, flush_spread);
    tokio::spawn(flush_for_ever(head, inner.wake.clone(), times, flush_backoff));
}

async fn flush_for_ever(
    head: Weak<Inner>,
    wake: Arc<Notify>,
    (interval, spread): (Duration, Duration),
    (first, longest): (Duration, Duration),
) {
    let (mut backoff, mut was_away) = (None, false);
    // Flushes begin at the interval, but never sooner than half of it after the previous flush.
    let mut rest = interval;
    loop {
        let over = match backoff {
            // A wake-up does not bring the store back.
            Some(backoff) => {
                let _ = timeout(backoff, comes_back(&head, was_away)).await;
                Duration::ZERO
            }
            None => match timeout(rest, wake.notified()).await {
                Ok(()) => Duration::ZERO,
                Err(_) => spread,
            },
        };
        let Some(head) = head.upgrade() else { return };
        let begin = Instant::now();
        match head.flush(WhenEmpty::Skip, over).await {
            Ok(()) => {
                backoff = None;
                rest = interval - begin.elapsed().min(interval / 2);
            }
            Err(error) => {
                let next = backoff.map_or(first, |backoff| (backoff * 2).min(longest));
                let again = format!("tried again in {next:?} or when the store is back");
                match &error {
                    StoreError::Backend { .. } | StoreError::Denied(_) => {
                        error!("a flush failed, {again}: {error}")
                    }
                    _ => warn!("a flush failed, {again}: {error}"),
                }
                backoff = Some(next);
                was_away = head.flusher.found_away.load(Ordering::Relaxed);
            }
        }
    }
}

/// Waits until the store below was unavailable and is back, or the head is gone. It does not end if
/// the store was available and refuses the flush for another reason.
async fn comes_back(head: &Weak<Inner>, mut was_away: bool) {
    loop {
        let Some(below) = head.upgrade().map(|head| head.below.clone()) else { return };
        match below.ready().await {
            Ok(()) if was_away => return,
            Ok(()) => {}
            Err(_) => was_away = true,
        }
        drop(below);
        tokio::time::sleep(RETURN_PROBE).await;
    }
}

impl Inner {
    /// Hands everything accepted so far to the store below, spread over a time; zero = at full speed, including a
    /// flush in progress. It runs to its end if the caller is dropped: if a flush ended between its steps, the next
    /// one would begin midway. It is abandoned only if no flush follows.
    pub(super) async fn flush(
        self: &Arc<Self>,
        when_empty: WhenEmpty,
        over: Duration,
    ) -> Result<(), StoreError> {
        let inner = self.clone();
        let flush = tokio::spawn(async move {
            let _hurry = over.is_zero().then(|| inner.flusher.hurry());
            tokio::select! {
                flushed = inner.flush_to_the_end(when_empty, over) => flushed,
                given_up = inner.flusher.until_given_up() => Err(given_up),
            }
        });
        flush.await.map_err(|error| StoreError::backend("a flush ended early", error))?
    }

    async fn flush_to_the_end(
        self: &Arc<Self>,
        when_empty: WhenEmpty,
        over: Duration,
    ) -> Result<(), StoreError> {
        let mut turn = self.flusher.turn.lock().await;
        let begin = Instant::now();
        let result = self.flush_in_turn(&mut turn, when_empty, over).await;
        self.flusher.failed.store(result.is_err(), Ordering::Relaxed);
        match &result {
            Ok(()) => {
                self.metrics.flushes.inc();
                self.metrics.flush_seconds.observe(begin.elapsed().as_secs_f64());
                self.failures.end();
            }
            Err(error) => {
                self.metrics.flush_failures.inc();
                let is_away = self.is_away(error).await;
                self.flusher.found_away.store(is_away, Ordering::Relaxed);
                if !is_away {
                    self.failures.note(error);
                }
            }
        }
        result
    }

    /// Whether a flush failed because the store below is unavailable, which is temporary: the log keeps the data.
    async fn is_away(&self, error: &StoreError) -> bool {
        let may_pass = matches!(error, StoreError::Unavailable { .. });
        may_pass && !matches!(timeout(RETURN_PROBE, self.below.ready()).await, Ok(Ok(())))
    }

    async fn flush_in_turn(
        self: &Arc<Self>,
        turn: &mut HandingDown,
        when_empty: WhenEmpty,
        over: Duration,
    ) -> Result<(), StoreError> {
        self.repeat_deletes_in_turn(turn).await?;
        self.cut_log(turn).await?;
        self.hand_down(turn, Duration::ZERO).await?;
        if self.wal.last() == turn.through && when_empty == WhenEmpty::Skip {
            return Ok(());
        }
        let (through, begun) = self.cut();
        answered(begun).await?;
        turn.pending = Some(through);
        self.hand_down(turn, over).await
    }

    /// Cuts the order of acceptance. Returns the last record of the snapshot, and a receiver that
    /// is answered when memory has begun the flush.
    fn cut(&self) -> (u64, oneshot::Receiver<()>) {
        let (answer, begun) = oneshot::channel();
        let mut order = self.order.lock();
        order.stamp += 1;
        // The lock covers both: every record up to the last one is a step before this, applied or
        // refused before it; every other record is a step behind it.
        order.applier.push(Step::BeginFlush(answer));
        self.wal.roll();
        (self.wal.last(), begun)
    }

    async fn hand_down(
        self: &Arc<Self>,
        turn: &mut HandingDown,
        over: Duration,
    ) -> Result<(), StoreError> {
        let inner = self.clone();
        let pace = move |runs| match over {
            Duration::ZERO => RatePacer::default(),
            over => RatePacer::spread(runs, over, move || inner.is_hurried()),
        };
        let after = turn.through;
        let is_pending = turn.pending.is_some();
        let starts = if is_pending { starts_of(&self.below).await? } else { None };
        turn.hand_down(pace).await?;
        if let (true, Some(starts)) = (is_pending, starts) {
            self.held.push(Held::new(after, turn.through, starts));
        }
        self.cut_log(turn).await
    }

    /// Whether a spread flush must go on at full speed. All points in memory count, including the
    /// points of the flush, which stay until its end.
    fn is_hurried(&self) -> bool {
        self.options.pressure.level() > Level::Ample
            || self.flusher.hurried.load(Ordering::Relaxed) > 0
            || self.is_log_half_full()
            || self.memory.bytes() > self.options.flush_memory
    }

    /// Removes from the log what the store below has and cannot lose any more. File work, so not on
    /// a thread that answers requests.
    async fn cut_log(&self, turn: &mut HandingDown) -> Result<(), StoreError> {
        if let Some(through) = turn.uncut {
            let wal = self.wal.clone();
            let is_held = !self.held.is_empty();
            let cut = move || if is_held { wal.note_through(through) } else { wal.forget(through) };
            blocking(cut).await??;
            turn.uncut = None;
        }
        Ok(())
    }
}
