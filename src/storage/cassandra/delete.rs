//! Deletes: points by slice or by whole row, then index rows on which nobody relies any more.
//!
//! A process remembers which index rows it wrote and does not learn of deletes by others; a KairosDB
//! does so as long as it runs, for windows of every age. So of an index row only what we wrote goes,
//! its cell `value`: a row that KairosDB wrote too stays, one that we alone wrote is gone.
//! And they go only where the window was closed long ago, the row leads to no data, and no other
//! adapter runs. `promkairos doctor --fix` takes the others away, when it is told to. Rows of the
//! legacy index, which nobody writes any more, go in any case.
//!
//! Writes wait for one window at a time. Index rows are deleted by a task of its own: what was
//! begun is ended, even when the caller goes away. All tombstones carry milliseconds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;

use super::executor::all;
use super::finder::{FoundRow, FoundSeries};
use super::index_memory::Known;
use super::routing::route;
use super::shared::Shared;
use super::stamp::now_ms;
use super::window::{Window, WindowKey};
use super::writer::pause;
use crate::kairos::{DataType, RowKey};
use crate::model::{Matcher, TimeRange};
use crate::storage::StoreError;

/// Rows deleted at the same time.
const ROWS_AT_ONCE: usize = 64;
/// How long after its end a window counts as closed.
const CLOSED_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Whether other adapters run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    None,
    /// They may rely on index rows that they have seen.
    Remember,
}

/// Rows by the window that leads to them.
type Windows = BTreeMap<Window, Vec<FoundRow>>;

impl Shared {
    /// [`Store::delete`](crate::storage::Store::delete)
    pub(super) async fn delete(
        self: &Arc<Self>,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<(), StoreError> {
        self.skew.check()?;
        let (stamp, wait) = self.stamps.for_delete(now_ms());
        let found = self.delete_points(matchers, range, stamp).await?;
        let closed = now_ms() - i64::try_from(CLOSED_AFTER.as_millis()).unwrap_or(i64::MAX);
        // What else such a window holds is looked for before its index rows go.
        let closed = TimeRange::new(i64::MIN, closed);
        let rows = found.into_iter().flat_map(|series| series.rows);
        let windows = windows_of(rows.filter(|row| self.spec.covers(row.row_time, closed)));
        if !windows.is_empty() {
            let turn = Arc::clone(&self.index_delete).lock_owned().await;
            let shared = Arc::clone(self);
            let task = tokio::spawn(async move {
                let _turn = turn;
                shared.delete_index_rows(windows).await
            });
            task.await.map_err(|error| StoreError::Backend {
                what: "a delete of index rows".into(),
                source: Box::new(error),
            })??;
        }
        pause(wait).await;
        Ok(())
    }

    /// Deletes points with a stamp, and lets read caches know; answers what was looked at.
    pub(super) async fn delete_points(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        stamp: i64,
    ) -> Result<Vec<FoundSeries>, StoreError> {
        let wanted = |kind: &DataType| kind.holds_points() || *kind == DataType::PromExemplar;
        // Memory may lack what another has just indexed. A read may miss that for a while, a delete may not.
        let names = self.names(&route(matchers).metrics).await?;
        for window in self.windows(&names, range).await? {
            self.series.doubt(window.key().identity());
        }
        let found = self.find(matchers, range, wanted, usize::MAX).await?;
        let metrics: BTreeSet<&str> = found.iter().map(FoundSeries::metric).collect();
        let metrics: Vec<&str> = metrics.into_iter().collect();
        self.raise_epochs(&metrics, self.executor.deadline()).await?;
        let rows = found.iter().flat_map(|series| &series.rows);
        let deletes = rows.map(move |row| self.delete_row(row, range, stamp).boxed());
        let deleted = all(ROWS_AT_ONCE, Box::new(deletes)).await;
        // What failed may be deleted in part.
        let raised = self.raise_epochs(&metrics, self.executor.deadline()).await;
        deleted?;
        raised?;
        Ok(found)
    }

    async fn delete_row(
        &self,
        row: &FoundRow,
        range: TimeRange,
        stamp: i64,
    ) -> Result<(), StoreError> {
        let points = &self.statements.points;
        let deadline = self.executor.deadline();
        if self.spec.covers(row.row_time, range) {
            self.executor.run(&points.delete_row, (stamp, row.key()), deadline).await?;
        } else if let Some(columns) = self.spec.columns(row.row_time, range) {
            let values = (stamp, row.key(), &columns.start[..], &columns.end[..]);
            self.executor.run(&points.delete, values, deadline).await?;
        }
        Ok(())
    }

    /// Deletes our part of the rows of `row_keys` that lead to rows without data, and of the time
    /// index where nothing of the window is left.
    async fn delete_index_rows(&self, windows: Windows) -> Result<(), StoreError> {
        for (window, rows) in &windows {
            let others = match self.is_alone().await? {
                true => Others::None,
                false => Others::Remember,
            };
            let wait = self.delete_window(window.key(), rows, others).await?;
            pause(wait).await;
        }
        Ok(())
    }

    /// Keeps writes of this process away from the window meanwhile. Answers how long to wait until
    /// the clock has passed the stamp.
    async fn delete_window(
        &self,
        key: WindowKey<'_>,
        rows: &[FoundRow],
        others: Others,
    ) -> Result<Duration, StoreError> {
        let _alone = self.index_gate.write().await;
        // Stamped above all index rows of this process, and below all that follow.
        let (stamp, wait) = self.stamps.for_delete(now_ms());
        self.memory.forget(key.identity());
        let deleted = self.delete_window_rows(key, rows, stamp, others).await;
        // Who read meanwhile may have seen rows that are gone now, and `mtime` does not tell.
        self.series.forget(key.identity());
        self.answers.outdate();
        if deleted.is_err() {
            // A delete that failed may still arrive: nothing that stands now is relied on, and
            // the next write puts its index rows above the stamp.
            self.memory.window(key).learn(Known::default());
        }
        deleted.map(|()| wait)
    }

    async fn delete_window_rows(
        &self,
        key: WindowKey<'_>,
        rows: &[FoundRow],
        stamp: i64,
        others: Others,
    ) -> Result<(), StoreError> {
        let deletes =
            rows.iter().map(move |row| self.delete_row_key(key, row, stamp, others).boxed());
        let deleted = all(ROWS_AT_ONCE, Box::new(deletes)).await?;
        if others == Others::Remember {
            return Ok(());
        }
        let deleted: Vec<RowKey> = deleted.into_iter().flatten().collect();
        self.delete_tag_rows(key, &deleted, stamp).await?;
        if self.has_rows(&self.statements.row_keys.any, key.values()).await? {
            return Ok(());
        }
        let (metric, table_name, row_time) = key.values();
        let values = (stamp, metric, table_name, row_time);
        let delete = &self.statements.row_times.delete;
        self.executor.run(delete, values, self.executor.deadline()).await?;
        Ok(())
    }

    /// Answers the row if it leads to no data.
    async fn delete_row_key(
        &self,
        window: WindowKey<'_>,
        row: &FoundRow,
        stamp: i64,
        others: Others,
    ) -> Result<Option<RowKey>, StoreError> {
        let bytes = row.key();
        if self.has_cells(row).await? {
            return Ok(None);
        }
        let key = row.row_key();
        let tags: BTreeMap<&str, &str> = key.tags.iter().collect();
        let (metric, table_name, row_time) = window.values();
        let values = (stamp, metric, table_name, row_time, row.data_type().as_str(), tags);
        if others == Others::None {
            let delete = &self.statements.row_keys.delete;
            self.executor.run(delete, values, self.executor.deadline()).await?;
        }
        self.delete_legacy_row(&key, &bytes, stamp).await?;
        Ok(Some(key))
    }
}

fn windows_of(rows: impl Iterator<Item = FoundRow>) -> Windows {
    let mut windows = Windows::new();
    for row in rows {
        let (table_name, row_time) = (row.data_type().table_name(), row.row_time);
        let window = Window { metric: row.metric().into(), table_name, row_time };
        windows.entry(window).or_default().push(row);
    }
    windows
}
