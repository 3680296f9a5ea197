//! Deletes: in the store below, then in the log and in memory.
//!
//! The store below gets a delete first, the log after the store has confirmed it. So a delete that the store cannot
//! take, perhaps for lack of a permission, is refused and does not block others. Deletes that a replay finds in the
//! log are repeated in the store below before anything is read or flushed. Deletes and flushes exclude each other, so
//! that no snapshot brings back deleted points.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;

use super::applier::{Answered, Step, answered};
use super::handing_down::HandingDown;
use super::inner::Inner;
use super::wal::{Admission, Record};
use promkairos_model::{Matcher, TimeRange};
use promkairos_storage::StoreError;

impl Inner {
    /// Deletes in the store below and in memory; durable when it returns. It runs to its end if the
    /// caller is dropped. If it fails, only what it removed from the store below is gone.
    pub(super) async fn delete(
        self: &Arc<Self>,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<(), StoreError> {
        let (inner, matchers) = (self.clone(), matchers.to_vec());
        let delete = async move { inner.delete_to_the_end(&matchers, range).await };
        let ended = tokio::spawn(delete).await;
        ended.map_err(|error| StoreError::backend("a delete ended early", error))?
    }

    async fn delete_to_the_end(
        self: &Arc<Self>,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<(), StoreError> {
        let _hurry = self.flusher.hurry();
        let mut turn = self.flusher.turn.lock().await;
        self.repeat_deletes_in_turn(&mut turn).await?;
        // If the log takes nothing, the delete would end halfway.
        self.wal.ready()?;
        let accepted = self.order.lock().stamp_of_delete();
        self.below.delete_accepted(matchers, range, accepted).await?;
        let room = self.wal.admit(1 << 10).await;
        let applied = self.accept_delete(room, matchers, range)?;
        answered(applied).await??
    }

    /// Gives a delete its position in the log and among the steps; returns the receiver of the
    /// answer.
    fn accept_delete(
        &self,
        room: Admission,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<Answered<Result<(), StoreError>>, StoreError> {
        let matchers = matchers.to_vec();
        let record = Record::Delete { range, matchers: matchers.clone() };
        let (answer, answered) = oneshot::channel();
        let mut order = self.order.lock();
        let accepted = order.stamp_of_delete();
        let commit = self.wal.append(room, accepted, record)?;
        order.applier.push(Step::Delete { commit, matchers, range, answer });
        Ok(answered)
    }

    /// Makes sure that reads return no data below that a delete in the log has removed.
    pub(super) async fn repeat_deletes(&self) -> Result<(), StoreError> {
        if !self.flusher.deletes_pending.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut turn = self.flusher.turn.lock().await;
        self.repeat_deletes_in_turn(&mut turn).await
    }

    pub(super) async fn repeat_deletes_in_turn(
        &self,
        turn: &mut HandingDown,
    ) -> Result<(), StoreError> {
        turn.repeat_deletes().await?;
        self.flusher.deletes_pending.store(false, Ordering::Release);
        Ok(())
    }
}
