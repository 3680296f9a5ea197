//! Deletes: points by slice or by whole row, then index rows where nobody can be writing any more.
//!
//! KairosDB's nodes remember which index rows they wrote and do not learn of deletes by others, so
//! `row_keys` of a window are only touched when it was closed long ago, and only for rows
//! that are empty then. All tombstones carry milliseconds.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt;
use scylla::value::CqlValue;

use super::executor::{all, unreadable};
use super::finder::{FoundRow, FoundSeries};
use super::index_writer::WindowKey;
use super::shared::Shared;
use super::stamp::now_ms;
use super::writer::pause;
use crate::kairos::{DataType, RowKey, RowTime, TableName};
use crate::model::{Matcher, TimeRange};
use crate::storage::StoreError;

/// Rows deleted at the same time.
const ROWS_AT_ONCE: usize = 64;
/// How long after its end a window counts as closed.
const CLOSED_AFTER: Duration = Duration::from_secs(24 * 3600);

impl Shared {
    /// [`Store::delete`](crate::storage::Store::delete)
    pub(super) async fn delete(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<(), StoreError> {
        self.skew.check()?;
        let (stamp, wait) = self.stamps.for_delete(now_ms());
        let found = self.delete_points(matchers, range, stamp).await?;
        let closed = now_ms() - i64::try_from(CLOSED_AFTER.as_millis()).unwrap_or(i64::MAX);
        let closed = TimeRange::new(range.start, range.end.min(closed));
        let rows = found.into_iter().flat_map(|series| series.rows);
        let rows: Vec<FoundRow> =
            rows.filter(|row| self.spec.covers(row.row_time, closed)).collect();
        if !rows.is_empty() {
            let _alone = self.index_gate.write().await;
            self.delete_index_rows(rows).await?;
        }
        pause(wait).await;
        Ok(())
    }

    /// Deletes points with a stamp; answers what was looked at.
    pub(super) async fn delete_points(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        stamp: i64,
    ) -> Result<Vec<FoundSeries>, StoreError> {
        let wanted = |kind: &DataType| kind.holds_points() || *kind == DataType::PromExemplar;
        let found = self.find(matchers, range, wanted, usize::MAX).await?;
        let rows = found.iter().flat_map(|series| &series.rows);
        let deletes = rows.map(move |row| self.delete_row(row, range, stamp).boxed());
        all(ROWS_AT_ONCE, Box::new(deletes)).await?;
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
            self.executor.run(&points.delete_row, (stamp, &*row.key), deadline).await?;
        } else if let Some(columns) = self.spec.columns(row.row_time, range) {
            let values = (stamp, &*row.key, &columns.start[..], &columns.end[..]);
            self.executor.run(&points.delete, values, deadline).await?;
        }
        Ok(())
    }

    /// Deletes the rows of `row_keys` that lead to rows without data, and the time index where
    /// nothing of the window is left. The caller keeps writes of this process away.
    async fn delete_index_rows(&self, rows: Vec<FoundRow>) -> Result<(), StoreError> {
        // Stamped above all index rows of this process, and below all that follow.
        let (stamp, wait) = self.stamps.for_delete(now_ms());
        let mut windows: BTreeMap<(Box<str>, TableName, RowTime), Vec<FoundRow>> = BTreeMap::new();
        for row in rows {
            if let Ok(key) = RowKey::decode(&row.key) {
                let table_name = row.data_type.table_name();
                windows.entry((key.metric, table_name, row.row_time)).or_default().push(row);
            }
        }
        for ((metric, table_name, row_time), rows) in windows {
            let key = WindowKey { metric: &metric, table_name, row_time };
            self.memory.forget(key.identity());
            let deletes = rows.iter().map(move |row| self.delete_row_key(key, row, stamp).boxed());
            all(ROWS_AT_ONCE, Box::new(deletes)).await?;
            let any = &self.statements.row_keys.any;
            if !self.has_rows(any, key.values()).await? {
                let (metric, table_name, row_time) = key.values();
                let delete = &self.statements.row_times.delete;
                let values = (stamp, metric, table_name, row_time);
                self.executor.run(delete, values, self.executor.deadline()).await?;
            }
        }
        pause(wait).await;
        Ok(())
    }

    async fn delete_row_key(
        &self,
        window: WindowKey<'_>,
        row: &FoundRow,
        stamp: i64,
    ) -> Result<(), StoreError> {
        if self.has_rows(&self.statements.points.any, (&*row.key,)).await? {
            return Ok(());
        }
        let Ok(key) = RowKey::decode(&row.key) else { return Ok(()) };
        let tags: BTreeMap<&str, &str> = key.tags.iter().collect();
        let (metric, table_name, row_time) = window.values();
        let values = (stamp, metric, table_name, row_time, row.data_type.as_str(), tags);
        let delete = &self.statements.row_keys.delete;
        self.executor.run(delete, values, self.executor.deadline()).await?;
        Ok(())
    }

    async fn has_rows(
        &self,
        select: &super::statements::Prepared,
        values: impl scylla::serialize::row::SerializeRow,
    ) -> Result<bool, StoreError> {
        let result = self.executor.run(select, values, self.executor.deadline()).await?;
        let rows = result.into_rows_result().map_err(|e| unreadable(select.name, e))?;
        // A partition of `row_keys` without rows keeps `mtime`, and answers one row of nulls.
        let first = rows.maybe_first_row::<(Option<CqlValue>,)>();
        let first = first.map_err(|e| unreadable(select.name, e))?;
        Ok(first.is_some_and(|(column,)| column.is_some()))
    }
}
