//! A store that wraps another, changes some calls and forwards all others.
//!
//! The wrapped store is real: no answer is made up.

use std::sync::Arc;

use async_trait::async_trait;
use promkairos::model::{Labels, Matcher, Metadata, TimeRange, WriteBatch, WriteOutcome};
use promkairos::storage::{
    ExemplarList, Flush, FlushOutcome, Limited, SelectHints, Selection, SeriesQuery, Stats, Store,
    StoreError,
};

/// What the wrapper changes; by default nothing.
#[async_trait]
pub(crate) trait Front: Send + Sync {
    /// The wrapped store, or why it is unavailable now.
    fn behind(&self) -> Result<&dyn Store, StoreError>;

    /// Changes the result of a selection.
    fn selected(&self, selection: Selection) -> Selection {
        selection
    }

    /// Changes a flush before it reaches the store.
    async fn ingest_flush(&self, flush: Flush<'_>) -> Result<FlushOutcome, StoreError> {
        self.behind()?.ingest_flush(flush).await
    }

    /// Changes the check for readiness.
    async fn ready(&self) -> Result<(), StoreError> {
        self.behind()?.ready().await
    }

    /// Changes the counts in an answer.
    fn counted(&self, stats: Stats) -> Stats {
        stats
    }
}

/// The store made of a [`Front`]. The test may keep the front, to change its behaviour.
pub(crate) struct Fronted<F>(pub(crate) Arc<F>);

#[async_trait]
impl<F: Front> Store for Fronted<F> {
    async fn write(&self, batch: WriteBatch<'_>) -> Result<WriteOutcome, StoreError> {
        self.0.behind()?.write(batch).await
    }

    async fn series(&self, query: &SeriesQuery) -> Result<Limited<Labels>, StoreError> {
        self.0.behind()?.series(query).await
    }

    async fn label_names(&self, query: &SeriesQuery) -> Result<Limited<String>, StoreError> {
        self.0.behind()?.label_names(query).await
    }

    async fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
    ) -> Result<Limited<String>, StoreError> {
        self.0.behind()?.label_values(name, query).await
    }

    async fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        hints: &SelectHints,
    ) -> Result<Selection, StoreError> {
        let selection = self.0.behind()?.select(matchers, range, hints).await?;
        Ok(self.0.selected(selection))
    }

    async fn exemplars(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        max_bytes: usize,
    ) -> Result<ExemplarList, StoreError> {
        self.0.behind()?.exemplars(matchers, range, max_bytes).await
    }

    async fn metadata(
        &self,
        family: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Metadata)>, StoreError> {
        self.0.behind()?.metadata(family, limit).await
    }

    async fn delete(&self, matchers: &[Matcher], range: TimeRange) -> Result<(), StoreError> {
        self.0.behind()?.delete(matchers, range).await
    }

    async fn delete_accepted(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        accepted: i64,
    ) -> Result<(), StoreError> {
        self.0.behind()?.delete_accepted(matchers, range, accepted).await
    }

    async fn ingest_flush(&self, flush: Flush<'_>) -> Result<FlushOutcome, StoreError> {
        self.0.ingest_flush(flush).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.0.ready().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.0.behind()?.close().await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        Ok(self.0.counted(self.0.behind()?.stats().await?))
    }
}
