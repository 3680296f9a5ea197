//! A store that comes when it comes, for a log in front whose promise does not need it, or for
//! older data.
//!
//! It is opened in the background, again and again until that succeeds. Calls wait for the end of
//! the first attempt, but no longer than a request may take, so that a start beside a running store
//! shows no gap; after that they are told at once why it is not there. No call ever answers with
//! less than the store holds.
//!
//! What the store refuses for good is reported besides, for the operator to mend, and tried again
//! all the same: a log in front keeps what waits for it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::limits::{LEAST_RETRY, MOST_RETRY};
use crate::model::{Labels, Matcher, Metadata, TimeRange, WriteBatch, WriteOutcome};
use crate::storage::{
    Absorbed, DeleteCost, ExemplarList, Flush, Limited, SelectHints, Selection, SeriesQuery,
    SharedStore, Stats, Store, StoreError, Unsynced,
};

/// How far the opening is.
enum State {
    /// The first attempt is under way, and not for long.
    Beginning,
    /// The last attempt failed, or the one under way takes long.
    Away { why: String, retry_after: Duration },
    /// It is there.
    Open(SharedStore),
}

/// How the opening goes, for those who look on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Opening {
    /// The store is out of reach; it may come by itself.
    Away(String),
    /// The store refuses for good: the operator has to mend something.
    Refused(String),
    /// It is open.
    Done,
}

/// The store, once it is there.
pub(super) struct Later {
    state: watch::Receiver<State>,
    opening: AbortHandle,
}

impl Later {
    /// Begins to open the store `name`. Calls wait for it no longer than `patience`, counted from
    /// now. `told` hears what is in the way, and of a store that is open.
    pub(super) fn begin<O>(
        name: &str,
        patience: Duration,
        open: impl Fn() -> O + Send + Sync + 'static,
        told: impl Fn(Opening) + Send + Sync + 'static,
    ) -> Self
    where
        O: Future<Output = Result<SharedStore, StoreError>> + Send,
    {
        let (name, (sender, state)) = (name.to_owned(), watch::channel(State::Beginning));
        let opening = tokio::spawn(async move {
            let mut pause = LEAST_RETRY;
            let away = |why: String, retry_after| {
                sender.send_replace(State::Away { why, retry_after });
            };
            loop {
                let mut attempt = pin!(open());
                let opened = match timeout(patience, &mut attempt).await {
                    Ok(opened) => opened,
                    Err(_) => {
                        let why = format!("{name} has not answered for {patience:?}");
                        tracing::warn!("{why}");
                        told(Opening::Away(why.clone()));
                        away(why, MOST_RETRY);
                        attempt.await
                    }
                };
                let why = match opened {
                    Ok(store) => {
                        told(Opening::Done);
                        sender.send_replace(State::Open(store));
                        return tracing::info!("{name} is there");
                    }
                    Err(StoreError::Unavailable { what, .. }) => {
                        tracing::warn!("{name} is away: {what}");
                        told(Opening::Away(what.clone()));
                        what
                    }
                    Err(refused) => {
                        let what = format!("{name} cannot be used: {refused}");
                        tracing::error!("{what}");
                        told(Opening::Refused(what.clone()));
                        what
                    }
                };
                away(why, pause);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(MOST_RETRY);
            }
        });
        Self { state, opening: opening.abort_handle() }
    }

    async fn store(&self) -> Result<SharedStore, StoreError> {
        let mut state = self.state.clone();
        match state.wait_for(|state| !matches!(state, State::Beginning)).await.as_deref() {
            Ok(State::Open(store)) => Ok(store.clone()),
            Ok(State::Away { why, retry_after }) => {
                Err(StoreError::Unavailable { what: why.clone(), retry_after: *retry_after })
            }
            Ok(State::Beginning) | Err(_) => Err(StoreError::Unavailable {
                what: "the store behind the log is no longer being opened".into(),
                retry_after: MOST_RETRY,
            }),
        }
    }

    /// The store, without waiting for it.
    fn store_now(&self) -> Option<SharedStore> {
        match &*self.state.borrow() {
            State::Open(store) => Some(store.clone()),
            State::Beginning | State::Away { .. } => None,
        }
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        self.opening.abort();
    }
}

#[async_trait]
impl Store for Later {
    async fn write(&self, batch: WriteBatch<'_>) -> Result<WriteOutcome, StoreError> {
        self.store().await?.write(batch).await
    }

    async fn series(&self, query: &SeriesQuery) -> Result<Limited<Labels>, StoreError> {
        self.store().await?.series(query).await
    }

    async fn label_names(&self, query: &SeriesQuery) -> Result<Limited<String>, StoreError> {
        self.store().await?.label_names(query).await
    }

    async fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
    ) -> Result<Limited<String>, StoreError> {
        self.store().await?.label_values(name, query).await
    }

    async fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        hints: &SelectHints,
    ) -> Result<Selection, StoreError> {
        self.store().await?.select(matchers, range, hints).await
    }

    async fn exemplars(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        max_bytes: usize,
    ) -> Result<ExemplarList, StoreError> {
        self.store().await?.exemplars(matchers, range, max_bytes).await
    }

    async fn metadata(
        &self,
        family: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Metadata)>, StoreError> {
        self.store().await?.metadata(family, limit).await
    }

    async fn delete(&self, matchers: &[Matcher], range: TimeRange) -> Result<(), StoreError> {
        self.store().await?.delete(matchers, range).await
    }

    async fn delete_cost(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<Option<DeleteCost>, StoreError> {
        self.store().await?.delete_cost(matchers, range).await
    }

    async fn delete_accepted(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        accepted: i64,
    ) -> Result<(), StoreError> {
        self.store().await?.delete_accepted(matchers, range, accepted).await
    }

    async fn absorb(&self, flush: Flush<'_>) -> Result<Absorbed, StoreError> {
        self.store().await?.absorb(flush).await
    }

    async fn unsynced(&self) -> Option<Arc<dyn Unsynced>> {
        self.store().await.ok()?.unsynced().await
    }

    async fn relieve(&self) -> Result<(), StoreError> {
        match self.store_now() {
            Some(store) => store.relieve().await,
            None => Ok(()),
        }
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.store().await?.ready().await
    }

    fn failing(&self) -> Option<String> {
        self.store_now()?.failing()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.opening.abort();
        match self.store_now() {
            Some(store) => store.close().await,
            None => Ok(()),
        }
    }

    /// Until the store is there nothing is known of it, and a log in front repeats everything.
    async fn stats(&self) -> Result<Stats, StoreError> {
        match self.store_now() {
            Some(store) => store.stats().await,
            None => Ok(Stats::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{Semaphore, mpsc};

    use super::*;
    use crate::storage::ListSize;
    use crate::storage::memory::MemoryStore;

    #[tokio::test]
    async fn nobody_waits_longer_than_the_patience_for_a_store_that_does_not_answer() {
        let gate = Arc::new(Semaphore::new(0));
        let (tell, mut told) = mpsc::unbounded_channel();
        let answers = gate.clone();
        let open = move || {
            let answers = answers.clone();
            async move {
                answers.acquire().await.expect("never closed").forget();
                Ok(Arc::new(MemoryStore::new()) as SharedStore)
            }
        };
        let tell = move |opening| drop(tell.send(opening));
        let later = Later::begin("X", Duration::from_millis(5), open, tell);
        let query =
            SeriesQuery { matchers: Vec::new(), range: TimeRange::ALL, limit: ListSize::UNLIMITED };
        let error = later.series(&query).await.expect_err("it never answers").to_string();
        assert!(error.contains("X has not answered for 5ms"), "{error}");
        let away = Opening::Away("X has not answered for 5ms".into());
        assert_eq!(told.recv().await, Some(away));
        // The same attempt goes on, and is not begun again.
        gate.add_permits(1);
        assert_eq!(told.recv().await, Some(Opening::Done));
        while later.store_now().is_none() {
            tokio::task::yield_now().await;
        }
        assert!(later.series(&query).await.expect("it is there").items.is_empty());
    }
}
