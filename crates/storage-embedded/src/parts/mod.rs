//! The embedded store: immutable part files, and a manifest that lists them.
//!
//! A part has the points of one day, or of many days with few points each. This store has no log: the head in front
//! of it makes recent samples durable and hands over whole runs. [`Parts::write`](Store::write) works without a head;
//! each call makes a part of its own. A change becomes visible only after the manifest that describes it is durable.
//! `docs/EMBEDDED-FORMAT.md` describes the bytes. All file I/O goes through [`Files`].

mod block_ref;
mod blocking;
mod cache;
mod compaction;
mod cpu_throttle;
mod cutting;
mod direct;
pub mod directory;
mod exemplar_entries;
mod expiry;
mod files;
mod forecast;
mod frame_locations;
mod indexed_writer;
mod ingest_flush;
mod listing;
mod lookup;
mod maintenance;
pub mod manifest;
mod merged_values;
mod merging;
pub mod metadata;
mod names;
pub mod old_directory;
mod options;
mod output;
mod packing;
mod part;
mod partitioning;
mod retention_clock;
mod select;
mod state;
#[cfg(test)]
mod ticking;
mod value_keys;
mod value_writer;
mod values_in_order;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;

use promkairos_model::{Labels, Matcher, Metadata, TimeRange, WriteBatch, WriteOutcome};
use promkairos_telemetry::StoreMetrics;

use promkairos_storage::disk::Disk;
use promkairos_storage::{
    ExemplarList, Flush, FlushOutcome, Limited, SelectHints, Selection, SeriesQuery, Stats, Store,
    StoreError,
};

pub use expiry::Expired;
pub use files::{Files, NewFile, OpenFile};
pub use options::Options;
pub use writer::Sizes;

use blocking::blocking;
use compaction::Speed;
use maintenance::Maintenance;
use state::PartStore;

/// The embedded store.
pub struct Parts {
    store: Arc<PartStore>,
    maintenance: Maintenance,
}

impl Parts {
    /// Opens the store in a folder, which is created if absent. Checks the manifest and the footer
    /// and directory of every part; damage is an error that names the file.
    pub fn open(dir: &Path, options: Options, metrics: StoreMetrics) -> Result<Self, StoreError> {
        Self::open_with(Arc::new(Disk), dir, options, metrics)
    }

    /// As [`Parts::open`], with another file layer.
    pub fn open_with(
        files: Arc<dyn Files>,
        dir: &Path,
        options: Options,
        metrics: StoreMetrics,
    ) -> Result<Self, StoreError> {
        let (interval, now) = (options.maintenance, options.clock.now_ms());
        let store = Arc::new(PartStore::open(files, dir.to_owned(), options, metrics)?);
        store.enforce_retention(now)?;
        let maintenance = Maintenance::start(store.clone(), interval)?;
        Ok(Self { store, maintenance })
    }

    /// Removes days that ended longer ago than this, from now on and in the background; zero = kept
    /// for ever. Removed days do not come back. Returns what is removed now; `None` = nothing.
    pub fn set_retention(&self, retention: Duration) -> Option<Expired> {
        let expired = self.store.expired(retention, self.store.clock.now_ms());
        *self.store.retention.write() = retention;
        self.maintenance.wake();
        expired
    }

    /// Removes days beyond the retention and compacts until nothing is left to do. `now` is the
    /// time in milliseconds since 1970. Blocks.
    pub fn maintain(&self, now: i64) -> Result<(), StoreError> {
        self.store.maintain(&|| now, Speed::Full)
    }
}

#[async_trait]
impl Store for Parts {
    async fn write(&self, batch: WriteBatch<'_>) -> Result<WriteOutcome, StoreError> {
        let (flush, outcome) = direct::flush_of(batch)?;
        ingest_flush::ingest_flush(self.store.clone(), flush).await?;
        Ok(outcome)
    }

    async fn series(&self, query: &SeriesQuery) -> Result<Limited<Labels>, StoreError> {
        let (state, query) = (self.store.state(), query.clone());
        blocking(move || listing::series(&state, &query)).await
    }

    async fn label_names(&self, query: &SeriesQuery) -> Result<Limited<String>, StoreError> {
        let (state, query) = (self.store.state(), query.clone());
        blocking(move || listing::label_names(&state, &query)).await
    }

    async fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
    ) -> Result<Limited<String>, StoreError> {
        let (state, name, query) = (self.store.state(), name.to_owned(), query.clone());
        blocking(move || listing::label_values(&state, &name, &query)).await
    }

    async fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        hints: &SelectHints,
    ) -> Result<Selection, StoreError> {
        let (state, matchers, hints) = (self.store.state(), matchers.to_vec(), hints.clone());
        blocking(move || select::select(state, &matchers, range, &hints)).await
    }

    async fn exemplars(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        max_bytes: usize,
    ) -> Result<ExemplarList, StoreError> {
        let (state, matchers) = (self.store.state(), matchers.to_vec());
        blocking(move || listing::exemplars(&state, &matchers, range, max_bytes)).await
    }

    async fn metadata(
        &self,
        family: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Metadata)>, StoreError> {
        let all = self.store.state().metadata.clone();
        let pair = |(family, metadata): (&String, &Metadata)| (family.clone(), metadata.clone());
        Ok(match family {
            Some(family) => all.get_key_value(family).into_iter().take(limit).map(pair).collect(),
            None => all.iter().take(limit).map(pair).collect(),
        })
    }

    async fn delete(&self, matchers: &[Matcher], range: TimeRange) -> Result<(), StoreError> {
        let (store, matchers) = (self.store.clone(), matchers.to_vec());
        blocking(move || store.delete(matchers, range)).await?;
        self.maintenance.wake();
        Ok(())
    }

    async fn ingest_flush(&self, flush: Flush<'_>) -> Result<FlushOutcome, StoreError> {
        let absorbed = ingest_flush::ingest_flush(self.store.clone(), flush).await?;
        self.maintenance.wake();
        Ok(absorbed)
    }

    async fn relieve(&self) -> Result<(), StoreError> {
        self.store.cache.clear();
        Ok(())
    }

    /// A part may have points of many days; it is listed as a whole.
    fn lists_spans(&self) -> bool {
        true
    }

    async fn ready(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn failing(&self) -> Option<String> {
        self.store.failures.standing()
    }

    async fn close(&self) -> Result<(), StoreError> {
        let (thread, store) = (self.maintenance.stop(), self.store.clone());
        let wait = move || {
            // The next process that opens the folder must find no write in progress.
            store.wait_for_flights();
            match thread.map(JoinHandle::join) {
                Some(Err(panic)) => std::panic::resume_unwind(panic),
                _ => Ok(()),
            }
        };
        blocking(wait).await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        Ok(self.store.state().stats())
    }
}
