//! A write-ahead log, and recent samples in memory, in front of any store.
//!
//! A write is acknowledged after its record is on disk ([`wal`]) and its points are in memory
//! ([`applier`]), in this order. Flushes hand points to the store below in long runs ([`flush`]).
//! Reads merge memory and the store below ([`read`]). One short lock gives a write the same
//! position in the log, in memory and in precedence.
//!
//! Invariant: all records up to the checkpoint are in the store below; all others are in the log
//! and in memory, and memory has nothing that the log does not have. Of the store below the head
//! knows only the width of a partition.

mod applier;
mod blocking;
mod byte_budget;
mod closing;
mod deletes;
mod flush;
mod flusher;
mod handing_down;
mod inner;
mod map;
mod options;
mod order;
mod prepared;
mod read;
mod recent_samples;
mod repeater;
mod replay;
mod series;
mod size;
mod unsynced_records;
mod unsynced_task;
pub mod wal;
mod wal_prefetch;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use promkairos_model::limits::FULL_RETRY_AFTER;
use promkairos_model::{Labels, Matcher, Metadata, TimeRange, WriteBatch, WriteOutcome};
use promkairos_storage::{
    DeleteCost, ExemplarList, Flush, FlushOutcome, Limited, SelectHints, Selection, SeriesQuery,
    SharedStore, Stats, Store, StoreError, merged_exemplars,
};
use promkairos_telemetry::HeadMetrics;

use blocking::blocking;
use flusher::WhenEmpty;
use inner::Inner;
use recent_samples::{RecentSamples, hull};

pub use options::Options;
pub use prepared::Refuse;

/// A store with a log and recent samples in front of another store.
pub struct Head {
    inner: Arc<Inner>,
}

impl Head {
    /// Opens the log in front of `below`, reads back records that are not in `below` yet, and
    /// starts flushes in the background. Fails if acknowledged records are damaged.
    pub async fn open(
        options: Options,
        below: SharedStore,
        metrics: HeadMetrics,
    ) -> Result<Self, StoreError> {
        let inner = Arc::new(Inner::open(options, below, metrics).await?);
        flush::spawn(&inner);
        unsynced_task::spawn(&inner);
        Ok(Self { inner })
    }

    /// Hands everything accepted so far to the store below.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.inner.flush(WhenEmpty::Skip, Duration::ZERO).await
    }

    /// Reads memory. Call this before the store below is read: a flush evicts points only after the store below
    /// returns them, so no point is missed.
    async fn recent<T: Send + 'static>(
        &self,
        read: impl FnOnce(&RecentSamples) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.repeat_deletes().await?;
        let memory = self.inner.memory.clone();
        blocking(move || read(&memory)).await?
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        // A flush in progress holds the log until its end, so it is not spread any more.
        self.inner.flusher.hurry_for_ever();
    }
}

#[async_trait]
impl Store for Head {
    async fn write(&self, batch: WriteBatch<'_>) -> Result<WriteOutcome, StoreError> {
        self.inner.write(batch).await
    }

    async fn series(&self, query: &SeriesQuery) -> Result<Limited<Labels>, StoreError> {
        let own = query.clone();
        let recent = self.recent(move |memory| memory.series(&own)).await?;
        Ok(Limited::union(vec![self.inner.below.series(query).await?, recent], query.limit))
    }

    async fn label_names(&self, query: &SeriesQuery) -> Result<Limited<String>, StoreError> {
        let own = query.clone();
        let recent = self
            .recent(move |memory| memory.ask_index(&own, |index, among| index.names(Some(among))));
        let recent = recent.await?;
        Ok(Limited::union(vec![self.inner.below.label_names(query).await?, recent], query.limit))
    }

    async fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
    ) -> Result<Limited<String>, StoreError> {
        let (own, label) = (query.clone(), name.to_owned());
        let recent = self.recent(move |memory| {
            memory.ask_index(&own, |index, among| index.values(&label, Some(among)))
        });
        let recent = recent.await?;
        let below = self.inner.below.label_values(name, query).await?;
        Ok(Limited::union(vec![below, recent], query.limit))
    }

    async fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        hints: &SelectHints,
    ) -> Result<Selection, StoreError> {
        let (own, limits) = (matchers.to_vec(), hints.clone());
        let recent = self.recent(move |memory| memory.select(&own, &range, &limits)).await?;
        // Always sorted, so that a run of the union is also a run below.
        let sorted = SelectHints { sorted: true, ..hints.clone() };
        read::merged(self.inner.below.select(matchers, range, &sorted).await?, recent, hints)
    }

    async fn exemplars(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        max_bytes: usize,
    ) -> Result<ExemplarList, StoreError> {
        let own = matchers.to_vec();
        let recent = self.recent(move |memory| memory.exemplars(&own, &range, max_bytes)).await?;
        let below = self.inner.below.exemplars(matchers, range, max_bytes).await?;
        blocking(move || merged_exemplars([below, recent], max_bytes)).await?
    }

    async fn metadata(
        &self,
        family: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Metadata)>, StoreError> {
        let recent = self.inner.memory.metadata_of(family, limit);
        let below = self.inner.below.metadata(family, limit).await?;
        let mut all: BTreeMap<String, Metadata> = below.into_iter().collect();
        all.extend(recent);
        Ok(all.into_iter().take(limit).collect())
    }

    async fn delete(&self, matchers: &[Matcher], range: TimeRange) -> Result<(), StoreError> {
        self.inner.delete(matchers, range).await
    }

    /// In the store below, a delete that was accepted here removes only points.
    async fn delete_cost(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<Option<DeleteCost>, StoreError> {
        let cost = self.inner.below.delete_cost(matchers, range).await?;
        Ok(cost.map(DeleteCost::of_points_alone))
    }

    async fn ingest_flush(&self, _flush: Flush<'_>) -> Result<FlushOutcome, StoreError> {
        Err(StoreError::Invalid("a head takes writes, not the flush of another head".into()))
    }

    async fn relieve(&self) -> Result<(), StoreError> {
        self.inner.below.relieve().await?;
        if self.inner.flusher.failed.load(Ordering::Relaxed) {
            // The background task tries the flush again.
            return Ok(());
        }
        self.inner.flush(WhenEmpty::Flush, Duration::ZERO).await
    }

    fn lists_spans(&self) -> bool {
        self.inner.below.lists_spans()
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.inner.wal.ready()?;
        // Not ready if the next request of usual size would be refused.
        let some = (self.inner.options.wal_limit / 64) as usize;
        self.inner.check_limit(some).map_err(|(_, error)| error)?;
        match self.failing() {
            Some(what) => Err(StoreError::Unavailable { what, retry_after: FULL_RETRY_AFTER }),
            None => Ok(()),
        }
    }

    fn failing(&self) -> Option<String> {
        self.inner.failures.standing().or_else(|| self.inner.below.failing())
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.inner.close(None).await
    }

    async fn close_by(&self, by: Instant) -> Result<(), StoreError> {
        self.inner.close(Some(by)).await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        let below = self.inner.below.stats().await?;
        let wal = self.inner.wal.used_bytes();
        let memory = self.inner.memory.clone();
        let (chunks, range) = blocking(move || memory.extent()).await?;
        Ok(Stats {
            series: below.series.max(self.inner.memory.series_count() as u64),
            // Points in memory may be in the store below too; a count of both is not cheap.
            points: None,
            chunks,
            time_range: hull(below.time_range, range),
            disk_bytes: below.disk_bytes.map(|bytes| bytes + wal),
            ..below
        })
    }
}
