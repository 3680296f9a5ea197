//! Explains how a selection is carried out: for each window its path and the cost.
//!
//! The reads of the index are executed; those of data points are only counted.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::index::found::Search;
use crate::index::index_row::IndexRow;
use crate::index::routing::{Route, route};
use crate::index::window::Window;
use crate::options::tag_index::TagIndexTrust;
use crate::store::CassandraStore;
use promkairos_kairos::{DataType, RowTime};
use promkairos_model::{Matcher, TimeRange};
use promkairos_storage::Result;

/// How a selection is carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Windows that may have points of the range.
    pub windows: Vec<WindowExplanation>,
    /// Metrics with rows of the range in the legacy `row_key_index`, which is read as well.
    pub legacy: Vec<LegacyExplanation>,
    /// Series that match.
    pub series: usize,
    /// Partitions of `data_points` that may hold their points.
    pub partitions: usize,
    /// Of these partitions, those whose settled part of the range is in the read cache.
    pub cached_partitions: usize,
}

/// How the series of one window are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowExplanation {
    /// The metric.
    pub metric: String,
    /// `data_points`, or `prometheus` for what KairosDB cannot show.
    pub table_name: &'static str,
    /// Start of the window, in milliseconds since 1970.
    pub row_time: i64,
    /// The paths taken; with `verify` there may be two.
    pub paths: Vec<WindowPath>,
    /// Partitions of the index that are read.
    pub partitions: usize,
    /// Rows of the index that are read.
    pub rows: usize,
}

/// The read of the legacy index for one metric: all its rows of the range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyExplanation {
    /// The metric, which has one partition there.
    pub metric: String,
    /// Rows of the index that are read.
    pub rows: usize,
}

/// A path to the series of a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WindowPath {
    /// Through the tag index.
    TagIndex {
        /// The tag.
        tag: String,
        /// The values that are looked up.
        values: Vec<String>,
    },
    /// All series of the window, from memory; only `mtime` is read.
    Memory,
    /// All series of the window.
    RowKeys,
}

impl CassandraStore {
    /// Explains how a selection is carried out, by running its reads of the index.
    pub fn explain<'a>(
        &'a self,
        matchers: &'a [Matcher],
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Explanation>> {
        Box::pin(self.explained(matchers, range))
    }

    async fn explained(&self, matchers: &[Matcher], range: TimeRange) -> Result<Explanation> {
        let route = route(matchers);
        let names = self.index.names(&route.metrics).await?;
        let mut windows = Vec::new();
        for window in self.index.windows(&names, range).await? {
            windows.push(self.explain_window(&window, &route).await?);
        }
        windows.sort_by(|a, b| {
            let key = |w: &WindowExplanation| (w.metric.clone(), w.row_time, w.table_name);
            key(a).cmp(&key(b))
        });
        let legacy = self.explain_legacy(&names, range).await?;
        let found = self.index.find(matchers, range, DataType::holds_points, usize::MAX).await?;
        let partitions = found.iter().map(|series| series.rows.len()).sum();
        let cached_partitions = self.cached.count_cached(&found, range).await;
        Ok(Explanation { windows, legacy, series: found.len(), partitions, cached_partitions })
    }

    async fn explain_legacy(
        &self,
        names: &[String],
        range: TimeRange,
    ) -> Result<Vec<LegacyExplanation>> {
        let mut legacy = Vec::new();
        for metric in self.index.legacy_names(names, range).await? {
            let rows = self.index.count_legacy(&metric, range).await?;
            legacy.push(LegacyExplanation { metric, rows });
        }
        Ok(legacy)
    }

    async fn explain_window(&self, window: &Window, route: &Route) -> Result<WindowExplanation> {
        let key = window.key();
        let mut explanation = WindowExplanation {
            metric: key.metric.to_owned(),
            table_name: key.table_name.as_str(),
            row_time: key.row_time.millis(),
            paths: Vec::new(),
            partitions: 0,
            rows: 0,
        };
        let mut unseen = |_: &Arc<IndexRow>, _: RowTime| Ok(());
        let search = Search::new(route, DataType::holds_points, &mut unseen);
        if self.index.scan_memory(key, None, &search).await? {
            explanation.paths.push(WindowPath::Memory);
            return Ok(explanation);
        }
        if let Some((_, looked)) = self.index.look_up(key, route).await? {
            explanation.partitions += looked.partitions;
            explanation.rows += looked.rows;
            let (tag, values) = (looked.tag, looked.values);
            explanation.paths.push(WindowPath::TagIndex { tag, values });
            if self.index.options.tag_index.trust == TagIndexTrust::Configured {
                return Ok(explanation);
            }
        }
        explanation.partitions += 1;
        explanation.paths.push(WindowPath::RowKeys);
        let select = &self.index.statements.row_keys.select;
        let mut pages = self.index.index_pages(select, key.columns());
        while let Some(page) = pages.next().await? {
            explanation.rows += page.len();
        }
        Ok(explanation)
    }
}
