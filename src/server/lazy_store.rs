//! A store that is opened in the background: behind a log, which keeps the promise without the
//! store, or with older data.
//!
//! Opening is retried until it succeeds. Calls wait for the first attempt, but no longer than a
//! request may take, so that a start beside a running store shows no gap. After that, calls fail at
//! once with the reason. No call ever returns less than the store holds.
//!
//! A refusal is also reported, because the operator has to fix it, and opening is retried all the
//! same: a log in front keeps the pending records.

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
    DeleteCost, ExemplarList, Flush, FlushOutcome, Limited, SelectHints, Selection, SeriesQuery,
    SharedStore, Stats, Store, StoreError, Unsynced,
};

/// The state of the opening.
enum OpenState {
    /// The first attempt is running, within the patience.
    Beginning,
    /// The last attempt failed, or the running one takes too long.
    Away { why: String, retry_after: Duration },
    /// The store is open.
    Open(SharedStore),
}

/// The state of the opening, for observers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Opening {
    /// The store is unreachable; that may be temporary.
    Away(String),
    /// The store refuses: the operator has to fix something.
    Refused(String),
    /// The store is open.
    Done,
}

/// The store, once it is open.
pub(super) struct LazyStore {
    state: watch::Receiver<OpenState>,
    opening: AbortHandle,
}

impl LazyStore {
    /// Starts to open the store `name`. Calls wait for it for at most `patience` from now. `note`
    /// is called with each failure, and when the store is open.
    pub(super) fn begin<O>(
        name: &str,
        patience: Duration,
        open: impl Fn() -> O + Send + Sync + 'static,
        note: impl Fn(Opening) + Send + Sync + 'static,
    ) -> Self
    where
        O: Future<Output = Result<SharedStore, StoreError>> + Send,
    {
        let (name, (sender, state)) = (name.to_owned(), watch::channel(OpenState::Beginning));
        let opening = tokio::spawn(async move {
            let mut pause = LEAST_RETRY;
            let away = |why: String, retry_after| {
                sender.send_replace(OpenState::Away { why, retry_after });
            };
            loop {
                let mut attempt = pin!(open());
                let opened = match timeout(patience, &mut attempt).await {
                    Ok(opened) => opened,
                    Err(_) => {
                        let why = format!("{name} has not answered for {patience:?}");
                        tracing::warn!("{why}");
                        note(Opening::Away(why.clone()));
                        away(why, MOST_RETRY);
                        attempt.await
                    }
                };
                let why = match opened {
                    Ok(store) => {
                        note(Opening::Done);
                        sender.send_replace(OpenState::Open(store));
                        return tracing::info!("{name} is there");
                    }
                    Err(StoreError::Unavailable { what, .. }) => {
                        tracing::warn!("{name} is away: {what}");
                        note(Opening::Away(what.clone()));
                        what
                    }
                    Err(refused) => {
                        let what = format!("{name} cannot be used: {refused}");
                        tracing::error!("{what}");
                        note(Opening::Refused(what.clone()));
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
        match state.wait_for(|state| !matches!(state, OpenState::Beginning)).await.as_deref() {
            Ok(OpenState::Open(store)) => Ok(store.clone()),
            Ok(OpenState::Away { why, retry_after }) => {
                Err(StoreError::Unavailable { what: why.clone(), retry_after: *retry_after })
            }
            Ok(OpenState::Beginning) | Err(_) => Err(StoreError::Unavailable {
                what: "the store behind the log is no longer being opened".into(),
                retry_after: MOST_RETRY,
            }),
        }
    }

    /// The store, if it is open.
    fn store_now(&self) -> Option<SharedStore> {
        match &*self.state.borrow() {
            OpenState::Open(store) => Some(store.clone()),
            OpenState::Beginning | OpenState::Away { .. } => None,
        }
    }
}

impl Drop for LazyStore {
    fn drop(&mut self) {
        self.opening.abort();
    }
}

#[async_trait]
impl Store for LazyStore {
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

    async fn ingest_flush(&self, flush: Flush<'_>) -> Result<FlushOutcome, StoreError> {
        self.store().await?.ingest_flush(flush).await
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

    /// Until the store is open its progress is unknown, and a log in front repeats everything.
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
        let (tell, mut seen) = mpsc::unbounded_channel();
        let answers = gate.clone();
        let open = move || {
            let answers = answers.clone();
            async move {
                answers.acquire().await.expect("never closed").forget();
                Ok(Arc::new(MemoryStore::new()) as SharedStore)
            }
        };
        let tell = move |opening| drop(tell.send(opening));
        let later = LazyStore::begin("X", Duration::from_millis(5), open, tell);
        let query =
            SeriesQuery { matchers: Vec::new(), range: TimeRange::ALL, limit: ListSize::UNLIMITED };
        let error = later.series(&query).await.expect_err("it never answers").to_string();
        assert!(error.contains("X has not answered for 5ms"), "{error}");
        let away = Opening::Away("X has not answered for 5ms".into());
        assert_eq!(seen.recv().await, Some(away));
        // The same attempt continues; no second one is started.
        gate.add_permits(1);
        assert_eq!(seen.recv().await, Some(Opening::Done));
        while later.store_now().is_none() {
            tokio::task::yield_now().await;
        }
        assert!(later.series(&query).await.expect("it is there").items.is_empty());
    }
}
