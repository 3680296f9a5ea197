//! What is known of flushes while they run: whose turn it is, who waits, and how the last one ended.
//!
//! Invariant: flushes and deletes exclude each other by the lock of [`Flusher::turn`]. [`super::flush`] hands samples
//! down; this module only coordinates.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::{Mutex, watch};

use super::handing_down::HandingDown;
use promkairos_storage::StoreError;

/// What a flush does when nothing was accepted since the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhenEmpty {
    /// End at once.
    Skip,
    /// Flush all the same, so that series without recent writes leave memory.
    Flush,
}

/// Excludes flushes and deletes from each other.
pub(super) struct Flusher {
    pub(super) turn: Mutex<HandingDown>,
    /// Whether a replay found deletes that the store below may not have; reads wait for them.
    pub(super) deletes_pending: AtomicBool,
    /// The number of callers that wait for a flush, or for the lock.
    pub(super) hurried: AtomicUsize,
    /// Whether the last flush failed; the next one waits for its time.
    pub(super) failed: AtomicBool,
    /// Whether it failed because the store below was unavailable.
    pub(super) found_away: AtomicBool,
    /// Whether flushes are abandoned, including the flush in progress.
    given_up: watch::Sender<bool>,
}

/// A caller that waits, counted until this is dropped.
pub(super) struct Hurry<'a>(&'a AtomicUsize);

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Flusher {
    /// Continues where a replay ended.
    pub(super) fn new(turn: HandingDown) -> Self {
        Self {
            deletes_pending: (!turn.deletes.is_empty()).into(),
            turn: Mutex::new(turn),
            hurried: AtomicUsize::default(),
            failed: AtomicBool::default(),
            found_away: AtomicBool::default(),
            given_up: watch::Sender::new(false),
        }
    }

    /// Ends the flush in progress; no flush begins any more.
    pub(super) fn give_up(&self) {
        self.given_up.send_replace(true);
    }

    /// Waits until flushes are abandoned.
    pub(super) async fn until_given_up(&self) -> StoreError {
        // The sender is in `self`, so it is not dropped.
        let _ = self.given_up.subscribe().wait_for(|given_up| *given_up).await;
        StoreError::unavailable("there was no more time for it")
    }

    /// No flush is spread while the returned value lives.
    pub(super) fn hurry(&self) -> Hurry<'_> {
        self.hurry_for_ever();
        Hurry(&self.hurried)
    }

    /// No flush is spread any more.
    pub(super) fn hurry_for_ever(&self) {
        self.hurried.fetch_add(1, Ordering::Relaxed);
    }
}
