//! Handing samples down: flushes, and the task that flushes in the background.
//!
//! A flush gives all points up to one place in the order of acceptance, its snapshot, to the store
//! below as sorted runs, and only after its `Ok` moves the checkpoint, evicts the snapshot and
//! removes log segments, or holds them for a while ([`super::unsynced_records`]). It is cut at the last record that was
//! appended: memory has begun it only after it applied everything that was committed up to there, and
//! nothing behind it.
//!
//! No later point has the acceptance time of one in the snapshot: of two equal times a store below
//! could not tell the later. A failed flush is tried again with the same snapshot. Deletes and
//! flushes exclude each other ([`super::deletes`]).
//!
//! A flush that begins for no other reason than the interval is spread over a time. What is more urgent
//! ends that, and the rest goes down at full speed: a log that is half full, memory that is, somebody who
//! waits for the end of the flush or for their turn after it. Repetitions are never spread.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Notify, oneshot, watch};
use tokio::time::timeout;
use tracing::{error, warn};

use super::applier::{Step, answered};
use super::handing_down::HandingDown;
use super::unsynced_records::starts_of;
use super::{Inner, Options, blocking};
use crate::limits::{RETRY_AFTER, RETURN_PROBE};
use crate::storage::{Level, Pace, StoreError};

/// What a flush does when nothing was accepted since the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhenEmpty {
    /// It ends at once.
    Skip,
    /// It goes down all the same, so that series which nobody has written to since some flushes
    /// leave memory.
    Flush,
}

/// Excludes flushes and deletes from each other.
pub(super) struct Flusher {
    pub(super) turn: Mutex<HandingDown>,
    /// Whether a replay found deletes that the store below may not know; reads wait for them.
    pub(super) deletes_pending: AtomicBool,
    /// How many wait for a flush, or for their turn.
    hurried: AtomicUsize,
    /// Whether the last flush failed.
    failed: AtomicBool,
    /// Whether it failed because the store below was away.
    found_away: AtomicBool,
    /// Whether flushes are given up, the one under way too.
    given_up: watch::Sender<bool>,
}

/// Somebody who waits, until it is dropped.
pub(super) struct Hurry<'a>(&'a AtomicUsize);

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Flusher {
    /// Goes on where a replay ended.
    pub(super) fn new(turn: HandingDown) -> Self {
        let deletes_pending = (!turn.deletes.is_empty()).into();
        let (hurried, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let given_up = watch::Sender::new(false);
        let found_away = AtomicBool::new(false);
        Self { turn: Mutex::new(turn), deletes_pending, hurried, failed, found_away, given_up }
    }

    /// Whether the last flush failed: the next one waits for its time.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// No flush goes on, and none begins any more.
    pub(super) fn give_up(&self) {
        self.given_up.send_replace(true);
    }

    /// Waits until flushes are given up.
    async fn until_given_up(&self) -> StoreError {
        // The sender is ours: it does not go away.
        let _ = self.given_up.subscribe().wait_for(|given_up| *given_up).await;
        StoreError::Unavailable {
            what: "there was no more time for it".into(),
            retry_after: RETRY_AFTER,
        }
    }

    /// No flush is spread while what this gives lives.
    pub(super) fn hurry(&self) -> Hurry<'_> {
        self.hurry_for_ever();
        Hurry(&self.hurried)
    }

    /// No flush is spread any more.
    pub(super) fn hurry_for_ever(&self) {
        self.hurried.fetch_add(1, Ordering::Relaxed);
    }
}

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
    // Flushes begin at the interval, but never sooner than half of it after the one before.
    let mut rest = interval;
    loop {
        let over = match backoff {
            // Being woken does not make a store come back sooner.
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

/// Waits until the store below was away and is back, or the head is gone. A store that was never
/// away, and refuses the flush for another reason, does not come back.
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
    /// Hands everything accepted so far to the store below, spread over a time; zero = at full speed,
    /// a flush under way included. It goes on to its end when the caller goes away: a flush cut off
    /// between its steps would let the next one begin midway. Only where none follows it is given up.
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
        flush.await.map_err(|error| StoreError::Backend {
            what: "a flush ended early".into(),
            source: Box::new(error),
        })?
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

    /// Whether a flush failed because the store below is away: that passes, and the log is there for it.
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

    /// Cuts the order of acceptance: gives the last record of the snapshot, and where the answer
    /// comes when memory has begun the flush.
    fn cut(&self) -> (u64, oneshot::Receiver<()>) {
        let (answer, begun) = oneshot::channel();
        let mut order = self.order.lock();
        order.stamp += 1;
        // The lock covers both: every record up to the last one is a step before this, applied or
        // refused when this one comes, and every other record is a step behind it.
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
            Duration::ZERO => Pace::default(),
            over => Pace::spread(runs, over, move || inner.is_hurried()),
        };
        let after = turn.through;
        let is_pending = turn.pending.is_some();
        let starts = if is_pending { starts_of(&self.below).await? } else { None };
        turn.hand_down(pace).await?;
        if let (true, Some(starts)) = (is_pending, starts) {
            self.hold(starts, after, turn.through);
        }
        self.cut_log(turn).await
    }

    /// Whether something does not go with a flush that takes its time. All points in memory count: those
    /// of the flush are there until its end.
    fn is_hurried(&self) -> bool {
        self.options.pressure.level() > Level::Ample
            || self.flusher.hurried.load(Ordering::Relaxed) > 0
            || self.is_log_half_full()
            || self.memory.bytes() > self.options.flush_memory
    }

    /// Cuts off the log what the store below has, but for what it may lose yet: work on files, so not on a
    /// thread that answers requests.
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
