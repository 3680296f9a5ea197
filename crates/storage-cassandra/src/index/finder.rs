//! Finds series: metric names, row times, then the matching index rows of each window. Reads no points.
//!
//! Both tag indexes, KairosDB's and ours, are used, and the legacy index where it holds rows. Only
//! [`SeriesIndex::scan_among`] knows where the rows of a window come from.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::{try_join, try_join_all};
use hashbrown::HashTable;
use scylla::value::{CqlTimestamp, CqlValue};

use crate::cql::concurrent::all;
use crate::cql::failure::Failure;
use crate::index::found::{Candidates, FoundRow, FoundSeries, READS_AT_ONCE, Search, Visit};
use crate::index::index_row::IndexRow;
use crate::index::pages::IndexPages;
use crate::index::routing::{Metrics, Route, route};
use crate::index::series_index::SeriesIndex;
use crate::index::split_point::SplitPoint;
use crate::index::window::{Window, WindowKey};
use crate::index::window_reader::LastInsert;
use crate::options::tag_index::TagIndexTrust;
use crate::schema::tables::NameColumn;
use promkairos_kairos::index::StringIndexRow;
use promkairos_kairos::{DataType, RowTime, TableName};
use promkairos_model::{Matcher, TimeRange};
use promkairos_storage::{Result, SelectHints, SelectionSize};

impl SeriesIndex {
    /// The series that match and have rows of a wanted type in the range, in any order. Fails if
    /// their labels exceed `most_bytes`.
    pub(crate) async fn find(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        wanted: fn(&DataType) -> bool,
        most_bytes: usize,
    ) -> Result<Vec<FoundSeries>> {
        let route = route(matchers);
        let names = self.names(&route.metrics).await?;
        let metrics = self.candidates(&names, range);
        let max_bytes = most_bytes;
        let hints =
            SelectHints { max_label_bytes: most_bytes, max_bytes, ..SelectHints::default() };
        self.find_among(&metrics, &route, range, wanted, &hints).await
    }

    /// These metrics, with the windows in memory that are in the range.
    pub(crate) fn candidates<'a>(&self, names: &'a [String], range: TimeRange) -> Candidates<'a> {
        Candidates { names, in_memory: self.windows_in_memory(names, range) }
    }

    /// Like [`Self::find`], among the series of some metrics.
    pub(crate) async fn find_among(
        &self,
        metrics: &Candidates<'_>,
        route: &Route,
        range: TimeRange,
        wanted: fn(&DataType) -> bool,
        hints: &SelectHints,
    ) -> Result<Vec<FoundSeries>> {
        let mut slots: HashTable<usize> = HashTable::new();
        let mut found: Vec<FoundSeries> = Vec::new();
        let mut size = SelectionSize::within(hints);
        let mut take = |row: &Arc<IndexRow>, row_time| {
            if !row.has_key {
                self.cql.executor.skip("row_key", || FoundRow { row: Arc::clone(row), row_time });
                return Ok(());
            }
            let id = row.series;
            let is_it = |slot: &usize| {
                let known = &found[*slot].rows[0].row;
                known.series == id && known.labels == row.labels
            };
            let known = slots.find(id.short(), is_it).copied();
            let found_row = FoundRow { row: Arc::clone(row), row_time };
            // A series may have a row in each of thousands of windows.
            let of_row = found_row.bytes(known.is_none());
            let of_labels = if known.is_none() { row.labels.as_bytes().len() } else { 0 };
            if let Some(slot) = known {
                found[slot].rows.push(found_row);
            } else {
                let hash = |slot: &usize| found[*slot].rows[0].row.series.short();
                slots.insert_unique(id.short(), found.len(), hash);
                found.push(FoundSeries { labels: row.labels.clone(), rows: vec![found_row] });
            }
            size.add(of_labels, of_row)
        };
        self.scan_among(metrics, range, &Search::new(route, wanted, &mut take)).await?;
        for series in found.iter_mut().filter(|series| series.rows.len() > 1) {
            // A row may be in two indexes.
            series.rows.sort_by(FoundRow::order);
            series.rows.dedup_by(|a, b| a.is(b));
        }
        Ok(found)
    }

    /// Calls `visit` for every index row that matches and has a wanted type; twice for a row that
    /// is in two indexes.
    pub(crate) async fn scan(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        wanted: fn(&DataType) -> bool,
        visit: Visit<'_>,
    ) -> Result<()> {
        let route = route(matchers);
        let names = self.names(&route.metrics).await?;
        let metrics = self.candidates(&names, range);
        self.scan_among(&metrics, range, &Search::new(&route, wanted, visit)).await
    }

    async fn scan_among(
        &self,
        metrics: &Candidates<'_>,
        range: TimeRange,
        search: &Search<'_>,
    ) -> Result<()> {
        let Candidates { names, in_memory } = metrics;
        let (windows, ahead) =
            try_join(self.windows(names, range), self.last_inserts(in_memory)).await?;
        let scan = |window: &'_ Window| {
            let (window, ahead) = (window.clone(), ahead.get(&window.key().identity()).copied());
            async move { self.scan_best_path(window.key(), ahead, search).await }.boxed()
        };
        all(READS_AT_ONCE, Box::new(windows.iter().map(scan))).await?;
        self.scan_legacy(names, range, search).await
    }

    /// Sorted names of metrics with index rows in the range; whether they have points is not checked.
    pub(crate) async fn names_in(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<Vec<String>> {
        let names = self.names(&route(matchers).metrics).await?;
        let windows = self.windows(&names, range).await?;
        let mut names = self.legacy_names(&names, range).await?;
        names.extend(windows.into_iter().map(|window| window.metric.into_string()));
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Reads the rows from memory, where they are there; else through the tag index, where it can
    /// be relied on; else all rows of the window, which loads them into memory.
    pub(crate) async fn scan_best_path(
        &self,
        key: WindowKey<'_>,
        ahead: Option<LastInsert>,
        search: &Search<'_>,
    ) -> Result<()> {
        if self.scan_memory(key, ahead, search).await? {
            return Ok(());
        }
        if let Some((rows, _)) = self.look_up(key, search.route).await? {
            let is_all = self.options.tag_index.trust == TagIndexTrust::Configured;
            for (data_type, tags) in rows {
                let tags: Vec<_> = tags.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                // Where `row_keys` is read too, skipped rows are counted there.
                let row = match is_all {
                    true => self.row_of(key, (data_type, &tags), search.wanted),
                    false if (search.wanted)(&data_type) => {
                        IndexRow::of_tags(key.metric, data_type, &tags)
                    }
                    false => None,
                };
                if let Some(row) = row {
                    search.visit.lock()(&Arc::new(row), key.row_time)?;
                }
            }
            if is_all {
                return Ok(());
            }
        }
        self.scan_row_keys(key, search).await
    }

    /// The names of the metrics to read. Names from the lists of both tables are merged.
    pub(crate) async fn names(&self, metrics: &Metrics) -> Result<Vec<String>> {
        let (prefix, matchers) = match metrics {
            Metrics::Named(names) => return Ok(names.clone()),
            Metrics::Listed { prefix, matchers } => (prefix, matchers),
        };
        let lists = TableName::ALL.map(|list| self.names_in_list(list, prefix, matchers));
        let mut names: Vec<_> = try_join_all(lists).await?.into_iter().flatten().collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    async fn names_in_list(
        &self,
        list: TableName,
        prefix: &str,
        matchers: &[Matcher],
    ) -> Result<Vec<String>> {
        let mut names: Vec<String> = Vec::new();
        let mut take = |name: &str| {
            let inside = name.starts_with(prefix);
            if inside && !name.is_empty() && matchers.iter().all(|m| m.matches(name)) {
                names.push(name.to_owned());
            }
            inside
        };
        let mut pages = self.name_pages(list, prefix);
        let mut inside = true;
        // Names are sorted: no name with the prefix follows one without it.
        while inside && let Some(page) = pages.next().await? {
            match self.names {
                NameColumn::Text => {
                    for row in page.iter::<(&str,)>()? {
                        inside = take(row?.0);
                    }
                }
                NameColumn::Blob => {
                    for row in page.iter::<(&[u8],)>()? {
                        let (name,) = row?;
                        match std::str::from_utf8(name) {
                            Ok(name) => inside = take(name),
                            Err(_) => self.cql.executor.skip("metric_name", || name.escape_ascii()),
                        }
                    }
                }
            }
        }
        Ok(names)
    }

    /// The names of a list, beginning at `first`, page by page.
    pub(crate) fn name_pages(&self, list: TableName, first: &str) -> IndexPages<'_> {
        let select = &self.statements.names.select;
        let key = vec![CqlValue::Blob(StringIndexRow::key(list).to_vec())];
        let range = [SplitPoint::of_name(first), select.order.last()];
        self.index_range(select, key, range)
    }

    /// The windows of metrics that may hold points of the range.
    pub(crate) async fn windows(&self, names: &[String], range: TimeRange) -> Result<Vec<Window>> {
        // Few rows in total. Before 1970 there may be one row time for each point.
        if names.len() > 1 && range.start >= 0 && self.has_few_row_times(range) {
            let parts = self.cql.executor.key_lists.parts(names);
            let reads = parts.map(move |part| self.windows_of_part(part, range).boxed());
            let windows = all(READS_AT_ONCE, Box::new(reads)).await?;
            return Ok(windows.into_iter().flatten().collect());
        }
        self.windows_of_each(names, range).await
    }

    async fn windows_of_part(&self, part: &[String], range: TimeRange) -> Result<Vec<Window>> {
        let together = self.windows_of_many(part, range);
        match self.cql.executor.key_lists.together(part.len(), together).await? {
            Some(windows) => Ok(windows),
            None => self.windows_of_each(part, range).await,
        }
    }

    async fn windows_of_each(&self, metrics: &[String], range: TimeRange) -> Result<Vec<Window>> {
        let reads = metrics.iter().flat_map(|name| TableName::ALL.map(|table| (name, table)));
        let reads = reads.map(move |(metric, table)| self.windows_of(metric, table, range).boxed());
        let windows = all(READS_AT_ONCE, Box::new(reads)).await?;
        Ok(windows.into_iter().flatten().collect())
    }

    async fn windows_of_many(
        &self,
        metrics: &[String],
        range: TimeRange,
    ) -> Result<Vec<Window>, Failure> {
        let Some(bounds) = self.spec.row_time_bounds(range) else { return Ok(Vec::new()) };
        let select = &self.statements.row_times.select_many;
        let (first, last) = (bounds.first.millis(), bounds.last.millis());
        let tables = TableName::ALL.map(TableName::as_str);
        let values = (metrics, &tables[..], CqlTimestamp(first), CqlTimestamp(last));
        let rows = self.cql.rows(select, values).await?;
        let mut windows = Vec::new();
        for row in rows.iter()? {
            windows.extend(Window::of_columns(row?));
        }
        Ok(windows)
    }

    pub(crate) async fn windows_of(
        &self,
        metric: &str,
        table_name: TableName,
        range: TimeRange,
    ) -> Result<Vec<Window>> {
        let mut windows = Vec::new();
        let Some(bounds) = self.spec.row_time_bounds(range) else { return Ok(windows) };
        let select = &self.statements.row_times.select;
        let key = vec![CqlValue::Text(metric.into()), CqlValue::Text(table_name.as_str().into())];
        let (first, last) =
            (CqlTimestamp(bounds.first.millis()), CqlTimestamp(bounds.last.millis()));
        let range = [SplitPoint::of_time(first), SplitPoint::behind_time(last)];
        let mut pages = self.index_range(select, key, range);
        while let Some(page) = pages.next().await? {
            for row in page.iter::<(CqlTimestamp,)>()? {
                let (row_time,) = row?;
                let row_time = RowTime::from_stored(row_time.0);
                windows.push(Window { metric: metric.into(), table_name, row_time });
            }
        }
        Ok(windows)
    }
}
