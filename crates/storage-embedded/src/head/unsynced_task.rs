//! The task that releases unsynced records once they are synced, or hands them down again
//! if servers of the store below were restarted meanwhile (see [`Unsynced`]).
//!
//! Invariant: records are released only after the servers of the store below had time to sync them without a restart,
//! or if the log is half full. If the store below does not answer, the task tries again.

use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use super::blocking::blocking;
use super::inner::Inner;
use super::replay;
use super::unsynced_records::Held;
use promkairos_storage::clock::now_ms;
use promkairos_storage::{Since, Starts, StoreError, Unsynced};

/// How often the servers of the store below are asked while records are held.
const PROBE: Duration = Duration::from_millis(500);

impl Inner {
    /// Releases the oldest records once they are synced, or hands records down again. Returns
    /// whether records are still held.
    async fn settle_held(self: &Arc<Self>) -> Result<bool, StoreError> {
        let Some(oldest) = self.held.oldest() else { return Ok(false) };
        let Some(below) = self.below.unsynced().await else { return Ok(true) };
        let starts = below.starts().await?;
        match Since::judge(&oldest.starts, &starts, below.copies()) {
            Since::Unknown => {}
            Since::Kept if oldest.is_over(now_ms(), below.period()) || self.is_log_half_full() => {
                let (wal, through) = (self.wal.clone(), oldest.through);
                blocking(move || wal.forget(through)).await??;
                self.held.release(through);
            }
            Since::Kept => {}
            Since::Lost => self.hand_down_again(&*below, starts).await?,
        }
        Ok(self.held.oldest().is_some())
    }

    /// Hands down all held records: one restart may have lost them all.
    async fn hand_down_again(
        self: &Arc<Self>,
        below: &dyn Unsynced,
        starts: Starts,
    ) -> Result<(), StoreError> {
        let Some((after, through)) = self.held.span() else { return Ok(()) };
        warn!(
            after,
            through,
            "a server of the store below was started again before what it had acknowledged was synced for sure: \
             it is handed down again"
        );
        below.start_over().await?;
        let (inner, options) = (self.clone(), self.options.clone());
        let again = move || {
            let (wal, below) = (inner.wal.clone(), inner.below.clone());
            replay::hand_down_again(&options, below, |visit| wal.read_again(after, through, visit))
        };
        let points = blocking(again).await??;
        info!(points, through, "handed down again");
        self.metrics.handed_down_again.inc_by(points);
        self.held.replace_oldest(through, Held::new(after, through, starts));
        Ok(())
    }
}

/// Settles held records until the head is dropped.
pub(super) fn spawn(inner: &Arc<Inner>) {
    let head = Arc::downgrade(inner);
    let held = inner.held.clone();
    tokio::spawn(async move {
        loop {
            let Some(head) = head.upgrade() else { return };
            let is_more = match head.settle_held().await {
                Ok(is_more) => is_more,
                Err(error) => {
                    tracing::debug!("what is held of the log is held further: {error}");
                    true
                }
            };
            drop(head);
            match is_more {
                true => tokio::time::sleep(PROBE).await,
                // Dropping the head wakes this task.
                false => held.more.notified().await,
            }
        }
    });
}
