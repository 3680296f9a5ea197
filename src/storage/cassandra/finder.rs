//! Finds series: names, row times, then `row_keys`, filtered by the matchers. Never looks at data.
//!
//! Both doors are read, KairosDB's and ours. Rows that are no series to Prometheus (a tag
//! without a name, one called `__name__`) are skipped and counted.

use std::collections::HashMap;
use std::ops::ControlFlow;

use futures::FutureExt;
use parking_lot::Mutex;
use scylla::deserialize::value::MapIterator;
use scylla::value::CqlTimestamp;

use super::executor::{all, unreadable};
use super::index_writer::WindowKey;
use super::routing::{Metrics, Route, route};
use super::schema::NameColumn;
use super::shared::Shared;
use super::tag_index::TagIndexTrust;
use crate::kairos::index::StringIndexRow;
use crate::kairos::{DataType, RowKey, RowTime, TableName, Tags};
use crate::model::{Labels, METRIC_NAME, Matcher, TimeRange};
use crate::storage::{StoreError, check_label_bytes};

/// Metrics and windows looked at at the same time by one query.
const READS_AT_ONCE: usize = 32;

/// A series and the partitions that may hold its points.
#[derive(Debug, Clone)]
pub(super) struct FoundSeries {
    pub(super) labels: Labels,
    pub(super) rows: Vec<FoundRow>,
}

/// A partition of `data_points`.
#[derive(Debug, Clone)]
pub(super) struct FoundRow {
    pub(super) key: Box<[u8]>,
    pub(super) row_time: RowTime,
    pub(super) data_type: DataType,
}

/// A row of `row_keys` that passed the matchers.
pub(super) struct IndexRow<'a> {
    pub(super) metric: &'a str,
    pub(super) row_time: RowTime,
    pub(super) data_type: DataType,
    pub(super) tags: &'a [(&'a str, &'a str)],
}

/// Takes index rows.
pub(super) type Visit<'a> = &'a mut (dyn FnMut(IndexRow<'_>) -> Result<(), StoreError> + Send);

/// A partition of `row_keys` to read.
pub(super) struct Window {
    pub(super) metric: String,
    pub(super) table_name: TableName,
    pub(super) row_time: RowTime,
}

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
        self.scan(matchers, range, wanted, &mut |row| {
            let Some((labels, row)) = self.found(&row) else { return Ok(()) };
            let slot = *slots.entry(labels).or_insert_with_key(|labels| {
                bytes += labels.as_bytes().len();
                found.push(FoundSeries { labels: labels.clone(), rows: Vec::new() });
                found.len() - 1
            });
            found[slot].rows.push(row);
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

    /// Calls `visit` for every row of `row_keys` that matches and has a wanted type.
    pub(super) async fn scan(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        wanted: fn(&DataType) -> bool,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        let route = route(matchers);
        let names = self.names(&route.metrics).await?;
        let windows = self.windows(names, range).await?;
        let (visit, route) = (&Mutex::new(visit), &route);
        let scan = |window| self.scan_best_path(window, route, wanted, visit).boxed();
        all(READS_AT_ONCE, Box::new(windows.iter().map(scan))).await.map(drop)
    }

    /// Names of metrics in the range, sorted; whether they really have points is not looked at.
    pub(super) async fn names_in(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<Vec<String>, StoreError> {
        let names = self.names(&route(matchers).metrics).await?;
        let mut names: Vec<String> =
            self.windows(names, range).await?.into_iter().map(|window| window.metric).collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Through the tag index, where that can be relied on; else all rows of the window.
    async fn scan_best_path(
        &self,
        window: &Window,
        route: &Route,
        wanted: fn(&DataType) -> bool,
        visit: &Mutex<Visit<'_>>,
    ) -> Result<(), StoreError> {
        let (metric, row_time) = (&*window.metric, window.row_time);
        let key = WindowKey { metric, table_name: window.table_name, row_time };
        if let Some((rows, _)) = self.look_up(key, route).await? {
            for (data_type, tags) in rows {
                if wanted(&data_type) {
                    let tags: Vec<_> = tags.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                    visit.lock()(IndexRow { metric, row_time, data_type, tags: &tags })?;
                }
            }
            if self.options.tag_index.trust == TagIndexTrust::Configured {
                return Ok(());
            }
        }
        self.scan_window(window, route, wanted, visit).await
    }

    async fn scan_window(
        &self,
        window: &Window,
        route: &Route,
        wanted: fn(&DataType) -> bool,
        visit: &Mutex<Visit<'_>>,
    ) -> Result<(), StoreError> {
        let select = &self.statements.row_keys.select;
        let wrong = |e| unreadable(select.name, e);
        let key = WindowKey {
            metric: &window.metric,
            table_name: window.table_name,
            row_time: window.row_time,
        };
        // A partition whose rows are all deleted keeps `mtime`: then it has one row of nulls.
        type Row<'f> = (Option<&'f str>, Option<MapIterator<'f, 'f, &'f str, &'f str>>);
        self.executor
            .pages(select, key.values(), |page| {
                let mut visit = visit.lock();
                let mut tags: Vec<(&str, &str)> = Vec::new();
                for row in page.rows::<Row<'_>>().map_err(|e| unreadable(select.name, e))? {
                    let (Some(data_type), Some(map)) = row.map_err(wrong)? else { continue };
                    let data_type = DataType::parse(data_type);
                    tags.clear();
                    for pair in map {
                        tags.push(pair.map_err(wrong)?);
                    }
                    if !route.passes(&tags) {
                        continue;
                    }
                    if wanted(&data_type) {
                        let (metric, row_time) = (&*window.metric, window.row_time);
                        visit(IndexRow { metric, row_time, data_type, tags: &tags })?;
                    } else if matches!(data_type, DataType::String | DataType::Other(_)) {
                        self.executor.metrics.skip("data_type", 1);
                    }
                }
                Ok(ControlFlow::Continue(()))
            })
            .await
    }

    /// The series and the partition of an index row.
    fn found(&self, row: &IndexRow<'_>) -> Option<(Labels, FoundRow)> {
        let labels = labels_of(row);
        let tags = Tags::from_pairs(row.tags.iter().copied());
        let (Some(labels), Ok(tags)) = (labels, tags) else {
            self.executor.metrics.skip("labels", 1);
            return None;
        };
        let (row_time, data_type) = (row.row_time, row.data_type.clone());
        let key = RowKey { metric: row.metric.into(), row_time, data_type, tags };
        match key.encode() {
            Ok(bytes) => {
                let (key, data_type) = (bytes.into(), key.data_type);
                Some((labels, FoundRow { key, row_time, data_type }))
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
        names: Vec<String>,
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
                    windows.push(Window { metric: metric.to_owned(), table_name, row_time });
                }
                Ok(ControlFlow::Continue(()))
            })
            .await?;
        Ok(windows)
    }
}

/// The label set of an index row; None when it is none.
pub(super) fn labels_of(row: &IndexRow<'_>) -> Option<Labels> {
    Labels::from_pairs(row.tags.iter().copied().chain([(METRIC_NAME, row.metric)])).ok()
}
