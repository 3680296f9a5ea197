//! The state of a head that its requests and background tasks share, and how it is opened.
//!
//! One lock, [`Order`], gives a record the same position in the log and among the steps to be applied. It is never
//! held over an await. Writes and deletes are for [`write`](super::write) and [`deletes`](super::deletes), the tasks
//! for [`flush`](super::flush) and [`unsynced_task`](super::unsynced_task).

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::warn;

use super::applier::Applier;
use super::flusher::Flusher;
use super::options::Options;
use super::recent_samples::RecentSamples;
use super::replay::{ReadBack, read_back};
use super::unsynced_records::UnsyncedRecords;
use super::wal::Wal;
use promkairos_model::ShownSize;
use promkairos_model::limits::{FULL_RETRY_AFTER, REFUSE_AT};
use promkairos_storage::clock::now_ms;
use promkairos_storage::failures::Failures;
use promkairos_storage::{SharedStore, StoreError};
use promkairos_telemetry::HeadMetrics;

/// What requests and the background tasks of a head share.
pub(super) struct Inner {
    pub(super) options: Options,
    pub(super) wal: Arc<Wal>,
    pub(super) memory: Arc<RecentSamples>,
    /// Locked while a record gets its position in the log and among the steps to be applied.
    pub(super) order: Mutex<Order>,
    pub(super) flusher: Flusher,
    /// Wakes the task that flushes.
    pub(super) wake: Arc<Notify>,
    pub(super) below: SharedStore,
    pub(super) metrics: HeadMetrics,
    /// Records that the store below has and may still lose.
    pub(super) held: Arc<UnsyncedRecords>,
    /// Failures of flushes since the last success.
    pub(super) failures: Failures,
}

/// The order in which records are accepted.
pub(super) struct Order {
    /// The last acceptance time, in milliseconds since 1970. It never falls: if the clock jumps
    /// ahead and back, it stays until the clock has reached it. No order is lost: the time must
    /// differ only before and after a delete or the beginning of a flush, and both raise it by one.
    /// Within a flush the order of the log decides, and a store without stamps knows only that
    /// order. Such a jump has a cost in Cassandra: points with these times live longer by the jump,
    /// and until then they hide what others write at the same points.
    pub(super) stamp: i64,
    pub(super) applier: Applier,
}

impl Order {
    pub(super) fn next_stamp(&mut self) -> i64 {
        self.stamp = self.stamp.max(now_ms());
        self.stamp
    }

    /// A time that no later write shares: at equal times a delete would win.
    pub(super) fn stamp_of_delete(&mut self) -> i64 {
        let stamp = self.next_stamp();
        self.stamp = stamp + 1;
        stamp
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Wakes the background tasks, which then see that the head is gone.
        self.wake.notify_one();
        self.held.more.notify_one();
    }
}

impl Inner {
    /// Opens the log in front of `below` and reads back records that are not in `below` yet.
    pub(super) async fn open(
        options: Options,
        below: SharedStore,
        metrics: HeadMetrics,
    ) -> Result<Self, StoreError> {
        let flushed_through = match below.stats().await {
            Ok(stats) => stats.flushed_through,
            Err(error) => {
                warn!("the store below does not answer, the log goes on without it: {error}");
                0
            }
        };
        let read = read_back(&options, below.clone(), metrics.clone(), flushed_through);
        let (wal, read) = read.await?;
        let ReadBack { memory, down, stamp, held, handed_down } = read;
        let failed = down.pending.is_some();
        let inner = Self {
            flusher: Flusher::new(down),
            options,
            wal: Arc::new(wal),
            order: Mutex::new(Order { stamp, applier: Applier::start(memory.clone())? }),
            memory,
            wake: Arc::new(Notify::new()),
            below,
            metrics,
            held: Arc::new(held),
            failures: Failures::of("a flush"),
        };
        if let Some(handed_down) = handed_down {
            inner.held.push(handed_down);
        }
        inner.wake_if_full();
        if failed {
            inner.wake.notify_one();
        }
        Ok(inner)
    }

    /// Checks that the log may grow by `bytes`. An error has the setting that was reached.
    pub(super) fn check_limit(&self, bytes: usize) -> Result<(), (&'static str, StoreError)> {
        let (used, limit) = (self.wal.used_bytes(), self.options.wal_limit);
        // A small log can have many points.
        let (points, most) = (self.memory.bytes(), self.options.flush_memory * REFUSE_AT);
        let (setting, what) = if used + bytes as u64 > limit {
            let (used, limit) = (ShownSize::of(used), ShownSize::of(limit));
            let what = format!(
                "the log has {used} of at most {limit} not in the store below yet, which is the \
                 setting wal-limit"
            );
            ("wal-limit", what)
        } else if points > most {
            let (points, most) = (ShownSize::of(points), ShownSize::of(most));
            let what = format!(
                "{points} of points wait for a flush, and at most {most} may, which is \
                 {REFUSE_AT} times the setting flush-memory"
            );
            ("flush-memory", what)
        } else {
            return Ok(());
        };
        self.wake.notify_one();
        Err((setting, StoreError::Unavailable { what, retry_after: FULL_RETRY_AFTER }))
    }

    pub(super) fn wake_if_full(&self) {
        if self.is_log_half_full() || self.memory.unflushed_bytes() > self.options.flush_memory {
            self.wake.notify_one();
        }
    }

    pub(super) fn is_log_half_full(&self) -> bool {
        self.wal.used_bytes() > self.options.wal_limit / 2
    }
}
