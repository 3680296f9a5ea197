//! The rows that a delete affects: those of matching series, found in the index a few windows at a time.
//!
//! The rows of the index come first, then those of the legacy index: a row in both comes twice. Memory does not grow
//! with the number of windows. Nothing is written.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use std::vec;

use futures::FutureExt;

use crate::cql::concurrent::all;
use crate::cql::stamp::now_ms;
use crate::identity::Identity;
use crate::index::found::{FoundRow, Search};
use crate::index::index_row::IndexRow;
use crate::index::routing::{Route, route};
use crate::index::series_index::SeriesIndex;
use crate::index::window::{Window, WindowKey};
use promkairos_kairos::{DataType, RowTime};
use promkairos_model::{Matcher, TimeRange};
use promkairos_storage::Result;

/// Windows whose rows are found at the same time.
const WINDOWS_AT_ONCE: usize = 32;
/// Beyond this number of rows found together, the next window is read alone.
const MANY_ROWS: usize = 50_000;

/// Rows by the window that leads to them; no window is empty.
pub(super) type Windows = BTreeMap<Window, Vec<FoundRow>>;

/// Where rows were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Index {
    /// In `row_keys`, or in the tag index.
    Current,
    /// In `row_key_index`.
    Legacy,
}

/// The rows of points and exemplars that a delete affects.
pub(super) struct Affected<'a> {
    index: &'a SeriesIndex,
    names: Vec<String>,
    route: Route,
    range: TimeRange,
    /// The windows not read yet.
    windows: vec::IntoIter<Window>,
    /// How many windows are read next.
    at_once: usize,
    legacy_is_read: bool,
}

impl<'a> Affected<'a> {
    /// Finds the windows.
    pub(super) async fn find(
        index: &'a SeriesIndex,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<Self> {
        let route = route(matchers);
        let names = index.names(&route.metrics).await?;
        let windows = index.windows(&names, range).await?;
        // Memory may lack rows of other processes. A read may miss them for a while, a delete may not.
        for window in &windows {
            index.series.doubt(window.key().identity());
        }
        let windows = windows.into_iter();
        Ok(Self { index, names, route, range, windows, at_once: 1, legacy_is_read: false })
    }

    /// The rows of the next windows, possibly none. `None` = all were returned.
    pub(super) async fn next(&mut self) -> Result<Option<(Index, Windows)>> {
        let part: Vec<Window> = self.windows.by_ref().take(self.at_once).collect();
        if part.is_empty() {
            return self.next_legacy().await;
        }
        let (index, route) = (self.index, &self.route);
        let scan = move |window: Window| {
            async move { Ok((index.rows_of_window(window.key(), route).await?, window)) }.boxed()
        };
        let found = all(WINDOWS_AT_ONCE, Box::new(part.into_iter().map(scan))).await?;
        let found = found.into_iter().filter(|(rows, _)| !rows.is_empty());
        let found: Windows = found.map(|(rows, window)| (window, rows)).collect();
        let rows: usize = found.values().map(Vec::len).sum();
        self.at_once = if rows > MANY_ROWS { 1 } else { (2 * self.at_once).min(WINDOWS_AT_ONCE) };
        Ok(Some((Index::Current, found)))
    }

    /// All rows of the legacy index, once.
    async fn next_legacy(&mut self) -> Result<Option<(Index, Windows)>> {
        if self.legacy_is_read {
            return Ok(None);
        }
        let found = self.index.legacy_rows(&self.names, &self.route, self.range).await?;
        self.legacy_is_read = true;
        Ok(Some((Index::Legacy, found)))
    }
}

impl SeriesIndex {
    /// The rows of a window that match, each once.
    async fn rows_of_window(&self, key: WindowKey<'_>, route: &Route) -> Result<Vec<FoundRow>> {
        let mut found = FoundRows::default();
        let mut take = |row: &Arc<IndexRow>, row_time| found.take(self, row, row_time);
        self.scan_best_path(key, None, &Search::new(route, is_wanted, &mut take)).await?;
        Ok(found.rows)
    }

    /// The rows of metrics in the legacy index, by window.
    async fn legacy_rows(
        &self,
        names: &[String],
        route: &Route,
        range: TimeRange,
    ) -> Result<Windows> {
        let mut found = FoundRows::default();
        let mut take = |row: &Arc<IndexRow>, row_time| found.take(self, row, row_time);
        self.scan_legacy(names, range, &Search::new(route, is_wanted, &mut take)).await?;
        let mut windows = Windows::new();
        for row in found.rows {
            let (table_name, row_time) = (row.data_type().table_name(), row.row_time);
            let window = Window { metric: row.metric().into(), table_name, row_time };
            windows.entry(window).or_default().push(row);
        }
        Ok(windows)
    }
}

/// Rows that were found, each once.
#[derive(Default)]
struct FoundRows {
    rows: Vec<FoundRow>,
    seen: HashSet<Identity>,
}

impl FoundRows {
    fn take(&mut self, index: &SeriesIndex, row: &Arc<IndexRow>, row_time: RowTime) -> Result<()> {
        let row = FoundRow { row: Arc::clone(row), row_time };
        if !row.row.has_key {
            index.cql.executor.skip("row_key", || &row);
        } else if self.seen.insert(row.identity()) {
            self.rows.push(row);
        }
        Ok(())
    }
}

/// How long after its end a window counts as closed.
const CLOSED_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The range of time whose windows count as closed.
pub(super) fn closed() -> TimeRange {
    let end = now_ms() - i64::try_from(CLOSED_AFTER.as_millis()).unwrap_or(i64::MAX);
    TimeRange::new(i64::MIN, end)
}

/// Whether a delete removes rows of this type.
fn is_wanted(data_type: &DataType) -> bool {
    data_type.holds_points() || *data_type == DataType::PromExemplar
}
