//! The legacy `row_key_index`: where KairosDB before 1.2 kept its row keys, all of a metric in one
//! partition. It is only read and deleted; KairosDB no longer writes it.
//!
//! It is read only where it holds rows of the metric in the range. The first and last column of a
//! metric are remembered, and looked up again after [`Options::index_recheck`]. The number of
//! remembered metrics is bounded.
//!
//! [`Options::index_recheck`]: crate::options::Options::index_recheck

use std::sync::Arc;

use futures::FutureExt;
use scylla::value::CqlValue;

use crate::cql::concurrent::all;
use crate::cql::failure::if_read;
use crate::cql::prepared::Prepared;
use crate::identity::Identity;
use crate::index::found::{FoundRow, Search};
use crate::index::legacy_extents::{Extent, Looked};
use crate::index::pages::IndexPages;
use crate::index::series_index::SeriesIndex;
use crate::index::split_point::SplitPoint;
use crate::index::window::WindowKey;
use promkairos_kairos::RowKey;
use promkairos_kairos::index::LegacySlice;
use promkairos_model::{ShownMetric, TimeRange};
use promkairos_storage::Result;

/// A bound before every column of a metric.
const BEFORE_ALL: &[u8] = &[];
/// A bound behind every column of a metric.
const BEHIND_ALL: &[u8] = &[u8::MAX; 64];
/// Metrics that one query reads at the same time.
const METRICS_AT_ONCE: usize = 32;

impl SeriesIndex {
    /// Calls `visit` for every row of the legacy index that matches and has a wanted type.
    pub(crate) async fn scan_legacy(
        &self,
        metrics: &[String],
        range: TimeRange,
        search: &Search<'_>,
    ) -> Result<()> {
        let scan = |metric: &'_ String| {
            let metric = metric.clone();
            async move {
                for slice in self.legacy_slices(&metric, range).await? {
                    self.scan_slice(&metric, &slice, search).await?;
                }
                Ok(())
            }
            .boxed()
        };
        if self.has_legacy_rows().await? {
            all(METRICS_AT_ONCE, Box::new(metrics.iter().map(scan))).await?;
        }
        Ok(())
    }

    /// The metrics that may have rows in the range.
    pub(crate) async fn legacy_names(
        &self,
        metrics: &[String],
        range: TimeRange,
    ) -> Result<Vec<String>> {
        if !self.has_legacy_rows().await? {
            return Ok(Vec::new());
        }
        let look = |metric: &'_ String| {
            let metric = metric.clone();
            async move {
                let slices = self.legacy_slices(&metric, range).await?;
                Ok((!slices.is_empty()).then_some(metric))
            }
            .boxed()
        };
        let found = all(METRICS_AT_ONCE, Box::new(metrics.iter().map(look))).await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Counts the rows of a metric that a read of the range takes.
    pub(crate) async fn count_legacy(&self, metric: &str, range: TimeRange) -> Result<usize> {
        let mut rows = 0;
        for slice in self.legacy_slices(metric, range).await? {
            let mut pages = self.legacy_pages(metric, &slice)?;
            while let Some(page) = pages.next().await? {
                rows += page.len();
            }
        }
        Ok(rows)
    }

    /// Deletes the entry of a row, if the metric has any entry.
    pub(crate) async fn delete_legacy_row(&self, row: &FoundRow, stamp: i64) -> Result<()> {
        if self.has_legacy_rows_of(row.metric()).await? {
            let values = (stamp, row.metric().as_bytes(), row.key());
            let delete = &self.statements.legacy()?.delete;
            self.cql.run(delete, values).await?;
        }
        Ok(())
    }

    /// Whether the legacy index has any row of a metric.
    pub(crate) async fn has_legacy_rows_of(&self, metric: &str) -> Result<bool> {
        Ok(self.has_legacy_rows().await? && self.extent(metric).await?.is_some())
    }

    /// The slices that may hold rows of the metric in the range.
    async fn legacy_slices(&self, metric: &str, range: TimeRange) -> Result<Vec<LegacySlice>> {
        // No key can hold such a name, so it has no rows.
        let Ok(mut slices) = LegacySlice::of(self.spec, metric, range) else {
            return Ok(Vec::new());
        };
        match self.extent(metric).await? {
            Some(extent) => slices.retain(|slice| extent.overlaps(slice)),
            None => slices.clear(),
        }
        Ok(slices)
    }

    async fn scan_slice(
        &self,
        metric: &str,
        slice: &LegacySlice,
        search: &Search<'_>,
    ) -> Result<()> {
        let mut pages = self.legacy_pages(metric, slice)?;
        while let Some(page) = pages.next().await? {
            let mut visit = search.visit.lock();
            for row in page.iter::<(&[u8],)>()? {
                let (column,) = row?;
                let key = RowKey::decode(column).ok();
                let Some(key) = key.filter(|key| &*key.metric == metric) else {
                    let shown = || format!("{}: {}", ShownMetric(metric), column.escape_ascii());
                    self.cql.executor.skip("row_key", shown);
                    continue;
                };
                let tags: Vec<(&str, &str)> = key.tags.iter().collect();
                if !search.route.passes(&tags) {
                    continue;
                }
                let typed = (key.data_type.clone(), &tags[..]);
                if let Some(row) = self.row_of(WindowKey::from(&key), typed, search.wanted) {
                    visit(&Arc::new(row), key.row_time)?;
                }
            }
        }
        Ok(())
    }

    /// The rows of a slice, page by page.
    fn legacy_pages(&self, metric: &str, slice: &LegacySlice) -> Result<IndexPages<'_>> {
        let key = vec![CqlValue::Blob(metric.as_bytes().to_vec())];
        let range = [SplitPoint::of_bytes(&slice.start), SplitPoint::behind_bytes(&slice.end)];
        let select = &self.statements.legacy()?.slice;
        Ok(self.index_range(select, key, range))
    }

    /// Whether the table holds any row.
    async fn has_legacy_rows(&self) -> Result<bool> {
        let Some(statements) = &self.statements.legacy else { return Ok(false) };
        let known = self.legacy.table.lock().clone();
        if let Some(known) = known.filter(|known| known.is_fresh(self.options.index_recheck)) {
            return Ok(known.found);
        }
        let found = self.column(&statements.any, (), BEFORE_ALL).await?.is_some();
        *self.legacy.table.lock() = Some(Looked::new(found));
        Ok(found)
    }

    /// The first and the last column of the metric; None when it has none.
    async fn extent(&self, metric: &str) -> Result<Option<Arc<Extent>>> {
        let id = Identity::of(&[metric.as_bytes()]);
        let known = self.legacy.metrics.lock().get(&id).cloned();
        if let Some(known) = known.filter(|known| known.is_fresh(self.options.index_recheck)) {
            return Ok(known.found);
        }
        let legacy = self.statements.legacy()?;
        let partition = (metric.as_bytes(),);
        let (first, last) = futures::try_join!(
            self.column(&legacy.first, partition, BEFORE_ALL),
            self.column(&legacy.last, partition, BEHIND_ALL)
        )?;
        let found = first.zip(last).map(|(first, last)| Arc::new(Extent { first, last }));
        self.legacy.keep(id, found.clone());
        Ok(found)
    }

    /// The column that a statement finds; `unread` where a server gives up on it.
    async fn column(
        &self,
        select: &Prepared,
        values: impl scylla::serialize::row::SerializeRow,
        unread: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let Some(rows) = if_read(self.cql.rows(select, values).await)? else {
            return Ok(Some(unread.to_vec()));
        };
        Ok(rows.first::<(Vec<u8>,)>()?.map(|(column,)| column))
    }
}
