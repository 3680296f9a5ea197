//! Finds series: names, row times, then the rows of each window that match. Never looks at data.
//!
//! Both doors are read, KairosDB's and ours, and the legacy index where it holds something.
//! Where the rows of a window come from is known to [`Shared::scan`] alone.

use std::collections::HashMap;
use std::ops::ControlFlow;

use futures::FutureExt;
use futures::future::try_join;
use parking_lot::Mutex;
use scylla::value::CqlTimestamp;

use super::executor::{all, unreadable};
use super::index_row::IndexRow;
use super::routing::{Metrics, Route, route};
use super::shared::Shared;
use super::tables::NameColumn;
use super::tag_index::TagIndexTrust;
use super::window::{Window, WindowKey};
use super::window_reader::LastInsert;
use crate::kairos::index::StringIndexRow;
use crate::kairos::{DataType, RowTime, TableName};
use crate::model::{Labels, METRIC_NAME, Matcher, TimeRange};
use crate::storage::{StoreError, check_label_bytes};

/// Metrics and windows looked at at the same time by one query.
pub(super) const READS_AT_ONCE: usize = 32;

/// A series and the partitions that may hold its points.
#[derive(Debug, Clone)]
pub(super) struct FoundSeries {
    pub(super) labels: Labels,
    pub(super) rows: Vec<FoundRow>,
}

impl FoundSeries {
    pub(super) fn metric(&self) -> &str {
        self.labels.get(METRIC_NAME)
    }
}

/// A partition of `data_points`.
#[derive(Debug, Clone)]
pub(super) struct FoundRow {
    pub(super) key: Box<[u8]>,
    pub(super) row_time: RowTime,
    pub(super) data_type: DataType,
}

/// Takes index rows with their row times.
pub(super) type Visit<'a> =
    &'a mut (dyn FnMut(&IndexRow, RowTime) -> Result<(), StoreError> + Send);

impl Shared {
    /// The series that match and have rows of a wanted type in the range, in any order. More than
    /// `most_bytes` of labels is an error.
    pub(super) async fn find(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        wanted: fn(&DataType) -> bool,
        most_bytes: usize,
    ) -> Result<Vec<FoundSeries>, StoreError> {
        let mut slots: HashMap<Labels, usize> = HashMap::new();
        let mut found: Vec<FoundSeries> = Vec::new();
        let mut bytes = 0;
        self.scan(matchers, range, wanted, &mut |row, row_time| {
            let Some(found_row) = self.found(row, row_time) else { return Ok(()) };
            let slot = *slots.entry(row.labels.clone()).or_insert_with_key(|labels| {
                bytes += labels.as_bytes().len();
                found.push(FoundSeries { labels: labels.clone(), rows: Vec::new() });
                found.len() - 1
            });
            found[slot].rows.push(found_row);
            check_label_bytes(bytes, most_bytes)
        })
        .await?;
        for series in &mut found {
            // A row may stand in two indexes.
            series.rows.sort_unstable_by(|a, b| a.key.cmp(&b.key));
            series.rows.dedup_by(|a, b| a.key == b.key);
        }
        Ok(found)
    }

    /// Calls `visit` for every row of an index that matches and has a wanted type; for one that
    /// stands in two indexes twice.
    pub(super) async fn scan(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        wanted: fn(&DataType) -> bool,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        let route = route(matchers);
        let names = self.names(&route.metrics).await?;
        let (windows, ahead) =
            try_join(self.windows(&names, range), self.last_inserts_ahead(&names, range)).await?;
        let (visit, route) = (&Mutex::new(visit), &route);
        let scan = |window: &'_ Window| {
            let (window, ahead) = (window.clone(), ahead.get(&window.key().identity()).copied());
            async move { self.scan_best_path(window.key(), ahead, route, wanted, visit).await }
                .boxed()
        };
        all(READS_AT_ONCE, Box::new(windows.iter().map(scan))).await?;
        self.scan_legacy(&names, range, route, wanted, visit).await
    }

    /// Names of metrics in the range, sorted; whether they really have points is not looked at.
    pub(super) async fn names_in(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<Vec<String>, StoreError> {
        let names = self.names(&route(matchers).metrics).await?;
        let windows = self.windows(&names, range).await?;
        let mut names = self.legacy_names(&names, range).await?;
        names.extend(windows.into_iter().map(|window| window.metric.into_string()));
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// In memory, where the rows are; else through the tag index, where that can be relied on; else
    /// all rows of the window, which brings them to memory.
    async fn scan_best_path(
        &self,
        key: WindowKey<'_>,
        ahead: Option<LastInsert>,
        route: &Route,
        wanted: fn(&DataType) -> bool,
        visit: &Mutex<Visit<'_>>,
    ) -> Result<(), StoreError> {
        if self.scan_memory(key, ahead, route, wanted, visit).await? {
            return Ok(());
        }
        if let Some((rows, _)) = self.look_up(key, route).await? {
            let is_all = self.options.tag_index.trust == TagIndexTrust::Configured;
            for (data_type, tags) in rows {
                match data_type {
                    // Where `row_keys` is read too, they are counted there.
                    DataType::String | DataType::Other(_) if is_all => {
                        self.executor.metrics.skip("data_type", 1);
                    }
                    data_type if wanted(&data_type) => {
                        let tags: Vec<_> =
                            tags.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                        match IndexRow::of_tags(key.metric, data_type, &tags) {
                            Some(row) => visit.lock()(&row, key.row_time)?,
                            None => self.executor.metrics.skip("labels", 1),
                        }
                    }
                    _ => {}
                }
            }
            if is_all {
                return Ok(());
            }
        }
        self.scan_row_keys(key, route, wanted, visit).await
    }

    /// The partition of an index row.
    fn found(&self, row: &IndexRow, row_time: RowTime) -> Option<FoundRow> {
        match row.key(row_time) {
            Ok(key) => {
                Some(FoundRow { key: key.into(), row_time, data_type: row.data_type.clone() })
            }
            Err(_) => {
                self.executor.metrics.skip("row_key", 1);
                None
            }
        }
    }

    /// The names of the metrics to look at; those from a list are in both lists or in one.
    pub(super) async fn names(&self, metrics: &Metrics) -> Result<Vec<String>, StoreError> {
        let (prefix, matchers) = match metrics {
            Metrics::Named(names) => return Ok(names.clone()),
            Metrics::Listed { prefix, matchers } => (prefix, matchers),
        };
        let select = &self.statements.names.select;
        let mut names: Vec<String> = Vec::new();
        for table_name in TableName::ALL {
            let values = (StringIndexRow::key(table_name), self.names.value(prefix));
            self.executor
                .pages(select, values, |page| {
                    let mut take = |name: &str| {
                        let inside = name.starts_with(prefix.as_str());
                        if inside && !name.is_empty() && matchers.iter().all(|m| m.matches(name)) {
                            names.push(name.to_owned());
                        }
                        inside
                    };
                    let wrong = |e| unreadable(select.name, e);
                    let mut inside = true;
                    match self.names {
                        NameColumn::Text => {
                            for row in
                                page.rows::<(&str,)>().map_err(|e| unreadable(select.name, e))?
                            {
                                inside = take(row.map_err(wrong)?.0);
                            }
                        }
                        NameColumn::Blob => {
                            for row in
                                page.rows::<(&[u8],)>().map_err(|e| unreadable(select.name, e))?
                            {
                                match std::str::from_utf8(row.map_err(wrong)?.0) {
                                    Ok(name) => inside = take(name),
                                    Err(_) => self.executor.metrics.skip("metric_name", 1),
                                }
                            }
                        }
                    }
                    // Names are sorted: nothing with the prefix follows one without.
                    Ok(if inside { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
                })
                .await?;
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// The windows of metrics that may hold points of the range.
    pub(super) async fn windows(
        &self,
        names: &[String],
        range: TimeRange,
    ) -> Result<Vec<Window>, StoreError> {
        let reads = names.iter().flat_map(|name| TableName::ALL.map(|table| (name, table)));
        let reads = reads.map(move |(metric, table)| self.windows_of(metric, table, range).boxed());
        let windows = all(READS_AT_ONCE, Box::new(reads)).await?;
        Ok(windows.into_iter().flatten().collect())
    }

    async fn windows_of(
        &self,
        metric: &str,
        table_name: TableName,
        range: TimeRange,
    ) -> Result<Vec<Window>, StoreError> {
        let mut windows = Vec::new();
        let Some(bounds) = self.spec.row_time_bounds(range) else { return Ok(windows) };
        let select = &self.statements.row_times.select;
        let (first, last) = (bounds.first.millis(), bounds.last.millis());
        let values = (metric, table_name.as_str(), CqlTimestamp(first), CqlTimestamp(last));
        self.executor
            .pages(select, values, |page| {
                for row in page.rows::<(CqlTimestamp,)>().map_err(|e| unreadable(select.name, e))? {
                    let (row_time,) = row.map_err(|e| unreadable(select.name, e))?;
                    let row_time = RowTime::from_stored(row_time.0);
                    windows.push(Window { metric: metric.into(), table_name, row_time });
                }
                Ok(ControlFlow::Continue(()))
            })
            .await?;
        Ok(windows)
    }
}
