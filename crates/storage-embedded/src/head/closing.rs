//! Closes a head: the last flush, and a warning about what stays in the log.
//!
//! No acknowledged point is lost: it is in the store below, or in the synced log, and a warning has
//! the number of such points; otherwise closing is an error. A last flush that takes too long is
//! abandoned, as by a kill: the next start reads the log back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout_at;
use tracing::warn;

use super::blocking::blocking;
use super::flusher::WhenEmpty;
use super::inner::Inner;
use promkairos_storage::StoreError;

impl Inner {
    /// Flushes, until `by` if given, and closes the log and the store below.
    pub(super) async fn close(self: &Arc<Self>, by: Option<Instant>) -> Result<(), StoreError> {
        let flushed = self.last_flush(by).await;
        // Asked before the log is closed, since a closed log accepts nothing either.
        let has_failed = self.wal.has_failed();
        let wal = self.wal.clone();
        let files = blocking(move || {
            let files = wal.check_files();
            wal.close();
            files
        });
        let files = files.await?;
        let closed = self.close_below(by).await;
        let Err(error) = flushed else { return closed };
        let memory = self.memory.clone();
        let points = blocking(move || memory.points()).await?;
        let dir = self.options.dir.display();
        // A full disk is temporary; a failed log may not have the points that were not flushed.
        let lost = match files {
            Ok(()) if has_failed => Some("a write to it has failed".to_owned()),
            Ok(()) => None,
            Err(gone) => Some(gone.to_string()),
        };
        if let Some(why) = lost {
            let what = format!(
                "the last flush failed, and the log in {dir} cannot be relied on ({why}): {points} points may be lost"
            );
            return Err(StoreError::backend(what, error));
        }
        warn!("the last flush failed: {error}");
        warn!(
            "{points} points are not in the store yet: the log in {dir} keeps them for the next start"
        );
        closed
    }

    async fn last_flush(self: &Arc<Self>, by: Option<Instant>) -> Result<(), StoreError> {
        let mut flush = std::pin::pin!(self.flush(WhenEmpty::Skip, Duration::ZERO));
        if let Some(by) = by {
            // The rest of the time is for closing the store below.
            let now = Instant::now();
            let by = now + by.saturating_duration_since(now) / 4 * 3;
            if let Ok(flushed) = timeout_at(by.into(), &mut flush).await {
                return flushed;
            }
            self.flusher.give_up();
        }
        flush.await
    }

    async fn close_below(&self, by: Option<Instant>) -> Result<(), StoreError> {
        let close = self.below.close();
        let Some(by) = by else { return close.await };
        let closed = timeout_at(by.into(), close).await;
        closed.unwrap_or_else(|_| {
            warn!("the store is still busy in the background; that work is abandoned");
            Ok(())
        })
    }
}
