//! A store that comes when it comes, for a log in front whose promise does not need it.
//!
//! It is opened in the background, again and again until that succeeds. Calls wait for the end of
//! the first attempt, so that a start beside a running store shows no gap; after that they are
//! told at once why it is not there. No call ever answers with less than the store holds.
//!
//! What the store refuses for good is reported besides, for the operator to mend, and tried again
//! all the same: the log keeps what waits for it.

use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::limits::{LEAST_RETRY, MOST_RETRY};
use crate::model::{Exemplar, Labels, Matcher, Metadata, TimeRange, WriteBatch, WriteOutcome};
use crate::storage::{
    Absorbed, Flush, Limited, SelectHints, Selection, SeriesQuery, SharedStore, Stats, Store,
    StoreError,
};

/// How far the opening is.
enum State {
    /// The first attempt is under way.
    Beginning,
    /// The last attempt failed.
    Away { why: String, retry_after: Duration },
    /// It is there.
    Open(SharedStore),
}

/// The store, once it is there.
pub(super) struct Later {
    state: watch::Receiver<State>,
    opening: AbortHandle,
}

impl Later {
    /// Begins to open the store `name`. `obstacle` is told what the store refuses for good, and
    /// `None` when it is open.
    pub(super) fn begin<O>(
        name: &'static str,
        open: impl Fn() -> O + Send + Sync + 'static,
        obstacle: impl Fn(Option<String>) + Send + Sync + 'static,
    ) -> Self
    where
        O: Future<Output = Result<SharedStore, StoreError>> + Send,
    {
        let (sender, state) = watch::channel(State::Beginning);
        let opening = tokio::spawn(async move {
            let mut pause = LEAST_RETRY;
            loop {
                let error = match open().await {
                    Ok(store) => {
                        obstacle(None);
                        sender.send_replace(State::Open(store));
                        return tracing::info!("{name} is there");
                    }
                    Err(error) => error,
                };
                let why = match error {
                    StoreError::Unavailable { what, .. } => {
                        tracing::warn!("{name} is away, the log takes writes: {what}");
                        what
                    }
                    refused => {
                        let what = format!("{name} cannot be used: {refused}");
                        tracing::error!("{what}; samples stay in the log");
                        obstacle(Some(what.clone()));
                        what
                    }
                };
                sender.send_replace(State::Away { why, retry_after: pause });
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
    ) -> Result<Vec<(Labels, Vec<Exemplar>)>, StoreError> {
        self.store().await?.exemplars(matchers, range).await
    }

    async fn metadata(&self, family: Option<&str>) -> Result<Vec<(String, Metadata)>, StoreError> {
        self.store().await?.metadata(family).await
    }

    async fn delete(&self, matchers: &[Matcher], range: TimeRange) -> Result<(), StoreError> {
        self.store().await?.delete(matchers, range).await
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

    async fn ready(&self) -> Result<(), StoreError> {
        self.store().await?.ready().await
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
