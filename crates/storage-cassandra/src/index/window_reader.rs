//! Reads windows (partitions of `row_keys`) into the series cache, and visits their rows.
//!
//! Every query reads `mtime`, which is cheap, and reads the rows only when they may have changed. One
//! reader at a time: a query that arrives meanwhile waits, and uses what that reader found if the
//! read began after the query arrived. A window that is too large for memory is streamed instead.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;
use scylla::value::CqlTimeuuid;

use crate::cql::concurrent::all;
use crate::cql::failure::{Failure, if_read};
use crate::cql::stamp::now_ms;
use crate::identity::Identity;
use crate::index::cached_window::{CachedWindow, Looked, Read, Rows};
use crate::index::found::{READS_AT_ONCE, Search};
use crate::index::index_row::{IndexRow, ShownRow, each_row};
use crate::index::mtime::Mtime;
use crate::index::series_index::SeriesIndex;
use crate::index::window::WindowKey;
use promkairos_kairos::{DataType, TableName};
use promkairos_model::TimeRange;
use promkairos_storage::Result;

/// `mtime` is read ahead only in ranges of at most this many row times, a year and more.
const ROW_TIMES_AHEAD: usize = 20;

/// The `mtime` of a window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastInsert {
    /// Just before the read.
    asked: Instant,
    mtime: Option<Mtime>,
}

impl SeriesIndex {
    /// The windows in memory of these metrics in the range. Windows with the same table name and row time
    /// follow each other.
    pub(crate) fn windows_in_memory<'n>(
        &self,
        names: &'n [String],
        range: TimeRange,
    ) -> Vec<WindowKey<'n>> {
        let now = Instant::now();
        if !self.has_few_row_times(range) {
            return Vec::new();
        }
        let mut keys = Vec::new();
        for row_time in self.spec.row_times_since_1970(range) {
            for table_name in TableName::ALL {
                let key = |metric| WindowKey { metric, table_name, row_time };
                let of_names = names.iter().map(|metric| key(metric.as_str()));
                keys.extend(of_names.filter(|key| self.series.has_rows(key.identity(), now)));
            }
        }
        keys
    }

    /// Whether a range has so few row times that a query for each of them is cheap.
    pub(crate) fn has_few_row_times(&self, range: TimeRange) -> bool {
        self.spec.row_times_since_1970(range).nth(ROW_TIMES_AHEAD).is_none()
    }

    /// Reads `mtime` of windows, in which those with the same table name and row time follow each other. It
    /// runs for windows in memory while the index is asked which windows exist: one wait instead of two.
    pub(crate) async fn last_inserts(
        &self,
        keys: &[WindowKey<'_>],
    ) -> Result<HashMap<Identity, LastInsert>> {
        let parts = keys.chunk_by(WindowKey::is_beside);
        let parts = parts.flat_map(|keys| self.cql.executor.key_lists.parts(keys));
        let looks = parts.map(|part| {
            let part = part.to_vec();
            async move { self.last_inserts_of_part(part).await }.boxed()
        });
        Ok(all(READS_AT_ONCE, Box::new(looks)).await?.into_iter().flatten().collect())
    }

    async fn last_inserts_of_part(
        &self,
        part: Vec<WindowKey<'_>>,
    ) -> Result<HashMap<Identity, LastInsert>> {
        let together = self.last_inserts_of_many(&part);
        if let Some(last) = self.cql.executor.key_lists.together(part.len(), together).await? {
            return Ok(last);
        }
        let mut last = HashMap::new();
        for key in part {
            last.insert(key.identity(), self.last_insert(key).await?);
        }
        Ok(last)
    }

    /// Reads `mtime` of windows with the same table name and row time.
    async fn last_inserts_of_many(
        &self,
        keys: &[WindowKey<'_>],
    ) -> Result<HashMap<Identity, LastInsert>, Failure> {
        let asked = Instant::now();
        // A window without an insert has no row in the answer.
        let mut last: HashMap<Identity, LastInsert> =
            keys.iter().map(|key| (key.identity(), LastInsert { asked, mtime: None })).collect();
        let Some(first) = keys.first() else { return Ok(last) };
        let metrics: Vec<&str> = keys.iter().map(|key| key.metric).collect();
        let (_, table_name, row_time) = first.values();
        let select = &self.statements.row_keys.mtimes;
        let values = (metrics, table_name, row_time);
        let rows = self.cql.rows(select, values).await?;
        type Row<'f> = (&'f str, Option<CqlTimeuuid>, Option<i64>);
        for row in rows.iter::<Row<'_>>()? {
            let (metric, id, stamp) = row?;
            let mtime = id.zip(stamp).map(|(id, stamp)| Mtime { id, stamp });
            last.insert(first.with_metric(metric).identity(), LastInsert { asked, mtime });
        }
        Ok(last)
    }

    async fn last_insert(&self, key: WindowKey<'_>) -> Result<LastInsert> {
        let asked = Instant::now();
        Ok(LastInsert { asked, mtime: self.mtime(key).await? })
    }

    /// Calls `visit` for every row of a window that matches and has a wanted type.
    pub(crate) async fn scan_row_keys(
        &self,
        key: WindowKey<'_>,
        search: &Search<'_>,
    ) -> Result<()> {
        let asked = Instant::now();
        let window = self.series.window(key.identity());
        {
            let _one = window.reading.lock().await;
            if !window.is_checked_since(asked) {
                self.refresh(key, &window).await?;
            }
        }
        let looked = {
            let mut visit = search.visit.lock();
            window.select(&search.route.tags, search.wanted, |row| visit(row, key.row_time))?
        };
        match looked {
            Looked::Seen => Ok(()),
            Looked::TooLarge => self.stream_row_keys(key, search).await,
        }
    }

    /// Like [`Self::scan_row_keys`], if the rows are in memory and still good. Returns whether they were.
    pub(crate) async fn scan_memory(
        &self,
        key: WindowKey<'_>,
        ahead: Option<LastInsert>,
        search: &Search<'_>,
    ) -> Result<bool> {
        let now = Instant::now();
        let Some(window) = self.series.with_rows(key.identity(), now) else { return Ok(false) };
        let look = match ahead {
            Some(look) => look,
            None => self.last_insert(key).await?,
        };
        if !window.holds(look.mtime, &self.mtimes, look.asked) {
            return Ok(false);
        }
        self.cql.executor.metrics.series_cache_hits.inc();
        let mut visit = search.visit.lock();
        window.select_good(&search.route.tags, search.wanted, |row| visit(row, key.row_time))
    }

    /// Brings the window up to date with Cassandra. The caller is its only reader.
    async fn refresh(&self, key: WindowKey<'_>, window: &CachedWindow) -> Result<()> {
        let (started, started_ms, epoch) = (Instant::now(), now_ms(), window.epoch());
        let mtime = self.mtime(key).await?;
        let metrics = &self.cql.executor.metrics;
        if window.holds(mtime, &self.mtimes, started) {
            metrics.series_cache_hits.inc();
            return Ok(());
        }
        metrics.series_cache_reads.inc();
        let (mut reading, mut fits) = (self.series.reading(), true);
        let mut rows = Rows::default();
        self.row_keys(key, |data_type, tags| {
            if let Some(row) = self.row_of(key, (data_type, tags), |_| true) {
                rows.push(row);
            }
            fits = reading.fits(rows.bytes());
            Ok(if fits { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })
        .await?;
        let read = Read { mtime, started, started_ms, took: started.elapsed() };
        let rows = fits.then_some(rows);
        window.learn(read, epoch, rows);
        self.series.make_room();
        metrics.series_cache_bytes.set(i64::try_from(self.series.bytes()).unwrap_or(i64::MAX));
        Ok(())
    }

    /// Visits the rows of a window page by page.
    async fn stream_row_keys(&self, key: WindowKey<'_>, search: &Search<'_>) -> Result<()> {
        self.row_keys(key, |data_type, tags| {
            if search.route.passes(tags)
                && let Some(row) = self.row_of(key, (data_type, tags), search.wanted)
            {
                search.visit.lock()(&Arc::new(row), key.row_time)?;
            }
            Ok(ControlFlow::Continue(()))
        })
        .await
    }

    /// A row of a window, if its type is wanted; None where it is not a valid series, which is counted.
    pub(crate) fn row_of(
        &self,
        window: WindowKey<'_>,
        (data_type, tags): (DataType, &[(&str, &str)]),
        wanted: fn(&DataType) -> bool,
    ) -> Option<IndexRow> {
        let skip = |reason, data_type: &DataType| {
            self.cql.executor.skip(reason, || ShownRow { window, data_type, tags });
        };
        if matches!(data_type, DataType::String | DataType::Other(_)) {
            skip("data_type", &data_type);
            return None;
        }
        if !wanted(&data_type) {
            return None;
        }
        let row = IndexRow::of_tags(window.metric, data_type.clone(), tags);
        if row.is_none() {
            skip("labels", &data_type);
        }
        row
    }

    /// Calls `take` with type and tags of every row of a window, until it breaks.
    pub(crate) async fn row_keys(
        &self,
        key: WindowKey<'_>,
        mut take: impl FnMut(DataType, &[(&str, &str)]) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut pages = self.index_pages(&self.statements.row_keys.select, key.columns());
        while let Some(page) = pages.next().await? {
            if each_row(&page, &mut take)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Reads the `mtime` of a window; None when there is none. A server reads it with the first row, and gives up
    /// where too many dead rows lie before that row.
    async fn mtime(&self, key: WindowKey<'_>) -> Result<Option<Mtime>> {
        let select = &self.statements.row_keys.mtime;
        if self.cuts.begins_dead(key.identity()) {
            return Ok(Some(Mtime::unread()));
        }
        let Some(rows) = if_read(self.cql.rows(select, key.values()).await)? else {
            self.cuts.learn_dead_beginning(key.identity());
            return Ok(Some(Mtime::unread()));
        };
        let row = rows.first::<(Option<CqlTimeuuid>, Option<i64>)>()?;
        Ok(row.and_then(|(id, stamp)| Some(Mtime { id: id?, stamp: stamp? })))
    }
}
