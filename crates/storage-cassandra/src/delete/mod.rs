//! Deletes: points by slice or by whole row, then index rows that no process relies on.
//!
//! A process remembers which index rows it wrote and does not notice deletes by others. KairosDB does so as long as it
//! runs, for windows of every age. So only our cell `value` of an index row is deleted: a row that KairosDB wrote too
//! stays, a row that only we wrote disappears. It is deleted only where the window closed long ago, the row leads to
//! no data, and no other adapter runs. `promkairos doctor --fix` removes the others on request. Rows of the legacy
//! index, which no program writes any more, are always deleted.
//!
//! Each deleted index row leaves a tombstone in its partition, and Cassandra gives up on reads past too many of them
//! (`tombstone_failure_threshold`, 100,000). So at most [`PORTION`] rows of a window are deleted one by one. The rest
//! stays and leads to no data, unless all rows of the window are removed together ([`Removal::Together`]).
//!
//! Windows are handled a few at a time ([`affected`]), so memory does not grow with their number. Writes continue. A
//! delete is a task of its own, one at a time, and is finished even when the caller goes away. All tombstones carry
//! milliseconds. [`cost`] counts what a delete would leave.

mod affected;
mod cost;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::cql::concurrent::all;
use crate::cql::failure::{Failure, unreadable};
use crate::cql::prepared::MAX_BATCH_PARTITIONS;
use crate::cql::stamp::{now_ms, pause};
use crate::delete::affected::{Affected, Windows};
use crate::identity::Identity;
use crate::index::found::FoundRow;
use crate::index::index_row::{IndexRow, each_checked_row};
use crate::index::memory::Known;
use crate::index::tombstones::{PORTION, SAMPLE};
use crate::index::window::WindowKey;
use crate::shared::Shared;
use promkairos_kairos::RowKey;
use promkairos_model::{Matcher, TimeRange};
use promkairos_storage::StoreError;

/// Delete statements that run at the same time.
const DELETES_AT_ONCE: usize = 64;
/// How long after its end a window counts as closed.
const CLOSED_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Whether other adapters run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    None,
    /// They may rely on index rows that they remember.
    Remember,
}

/// What happens to index rows that lead to no data any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IndexRows {
    Stay,
    Go,
}

/// How the index rows of a window are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Removal {
    /// All rows of the window, which are more than [`PORTION`] and each have our cell, with one range tombstone.
    /// First a sample of [`SAMPLE`] rows, spread over the window, is deleted one by one: only that distinguishes a
    /// row that we alone wrote from a row that KairosDB wrote too. The others are removed together only where no row
    /// of the sample is left. Where KairosDB wrote fewer than one in a hundred of the rows, its part may be removed
    /// too (at one in a hundred, one delete in 20,000 does not notice).
    Together,
    /// At most this number of rows, each with its own tombstone.
    OneByOne(usize),
}

/// The range of time whose windows count as closed.
fn closed() -> TimeRange {
    let end = now_ms() - i64::try_from(CLOSED_AFTER.as_millis()).unwrap_or(i64::MAX);
    TimeRange::new(i64::MIN, end)
}

impl Shared {
    /// [`Store::delete`](promkairos_storage::Store::delete)
    pub(crate) async fn delete(
        self: &Arc<Self>,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<(), StoreError> {
        self.skew.check()?;
        let turn = Arc::clone(&self.index_delete).lock_owned().await;
        let (shared, matchers) = (Arc::clone(self), matchers.to_vec());
        let task = tokio::spawn(async move {
            let _turn = turn;
            let (stamp, wait) = shared.stamps.for_delete(now_ms());
            shared.delete_by(&matchers, range, stamp, IndexRows::Go).await?;
            pause(wait).await;
            Ok(())
        });
        task.await.map_err(|error| StoreError::Backend {
            what: "a delete".into(),
            source: Box::new(error),
        })?
    }

    /// Deletes points with a stamp, and raises the epochs for read caches. Index rows stay.
    pub(crate) async fn delete_points(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        stamp: i64,
    ) -> Result<(), StoreError> {
        self.delete_by(matchers, range, stamp, IndexRows::Stay).await
    }

    async fn delete_by(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        stamp: i64,
        index_rows: IndexRows,
    ) -> Result<(), StoreError> {
        let mut metrics = BTreeSet::new();
        let mut affected = Affected::find(self, matchers, range).await?;
        while let Some((_, windows)) = affected.next().await? {
            self.delete_windows(windows, range, (stamp, index_rows), &mut metrics).await?;
        }
        Ok(())
    }

    /// Deletes the points of rows, and index rows where due. `metrics` are those whose epochs were raised.
    async fn delete_windows(
        &self,
        mut windows: Windows,
        range: TimeRange,
        (stamp, index_rows): (i64, IndexRows),
        metrics: &mut BTreeSet<String>,
    ) -> Result<(), StoreError> {
        let of_windows: BTreeSet<&str> = windows.keys().map(|window| &*window.metric).collect();
        let of_windows: Vec<&str> = of_windows.into_iter().collect();
        let new = of_windows.iter().copied().filter(|metric| !metrics.contains(*metric));
        let new: Vec<&str> = new.collect();
        self.raise_epochs(&new, self.executor.deadline()).await?;
        let deletes = windows.values().flat_map(|rows| self.deletes_of(rows, range, stamp));
        let deleted = all(DELETES_AT_ONCE, Box::new(deletes)).await;
        // A failed delete may be done in part.
        let raised = self.raise_epochs(&of_windows, self.executor.deadline()).await;
        metrics.extend(new.into_iter().map(str::to_owned));
        deleted?;
        raised?;
        // Only index rows of closed windows are deleted.
        let closed = closed();
        windows.retain(|window, _| self.spec.covers(window.row_time, closed));
        if windows.is_empty() || index_rows == IndexRows::Stay {
            return Ok(());
        }
        self.delete_index_rows(windows).await
    }

    /// The statements that delete the points of rows of one window.
    fn deletes_of<'a>(
        &'a self,
        rows: &'a [FoundRow],
        range: TimeRange,
        stamp: i64,
    ) -> impl Iterator<Item = BoxFuture<'a, Result<(), StoreError>>> {
        let points = &self.statements.points;
        let is_whole = self.spec.covers(rows[0].row_time, range);
        let columns = self.spec.columns(rows[0].row_time, range);
        let most = if is_whole { MAX_BATCH_PARTITIONS } else { 1 };
        rows.chunks(most).map(move |rows| {
            async move {
                let keys: Vec<Vec<u8>> = rows.iter().map(FoundRow::key).collect();
                let deadline = self.executor.deadline();
                if is_whole {
                    self.executor.run(&points.delete_rows, (stamp, keys), deadline).await?;
                } else if let Some(columns) = columns {
                    let values = (stamp, &keys[0], &columns.start[..], &columns.end[..]);
                    self.executor.run(&points.delete, values, deadline).await?;
                }
                Ok(())
            }
            .boxed()
        })
    }

    /// Deletes our part of the rows of `row_keys` that lead to rows without data, and of the time
    /// index where no row of the window is left.
    async fn delete_index_rows(&self, windows: Windows) -> Result<(), StoreError> {
        for (window, rows) in windows {
            let others = match self.is_alone().await? {
                true => Others::None,
                false => Others::Remember,
            };
            let wait = self.delete_window(window.key(), rows, others).await?;
            pause(wait).await;
        }
        Ok(())
    }

    /// Writes of this process continue meanwhile: they write all their index rows of the window above the stamp.
    /// Returns how long to wait until the clock has passed the stamp.
    async fn delete_window(
        &self,
        key: WindowKey<'_>,
        rows: Vec<FoundRow>,
        others: Others,
    ) -> Result<Duration, StoreError> {
        let (stamp, wait, deleting) = {
            // No write is in progress that relies on existing rows.
            let _alone = self.index_gate.write().await;
            // Stamped above all index rows of this process so far, and below all later ones.
            let (stamp, wait) = self.stamps.for_delete(now_ms());
            (stamp, wait, self.memory.delete(key.identity()))
        };
        let deleted = self.delete_window_rows(key, rows, stamp, others).await;
        drop(deleting);
        // A read meanwhile may have seen rows that are gone now, and `mtime` does not show that.
        self.series.forget(key.identity());
        self.answers.outdate();
        if deleted.is_err() {
            // A failed delete may still arrive: no row that exists now is relied on, and the next
            // write puts its index rows above the stamp.
            self.memory.window(key).learn(Known::default());
        }
        deleted.map(|()| wait)
    }

    async fn delete_window_rows(
        &self,
        key: WindowKey<'_>,
        rows: Vec<FoundRow>,
        stamp: i64,
        others: Others,
    ) -> Result<(), StoreError> {
        let mut dead = self.rows_without_cells(rows).await?;
        // All rows of a metric are one partition there.
        let legacy = dead.iter().take(PORTION);
        let legacy = legacy.map(move |row| self.delete_legacy_row(row, stamp).boxed());
        all(DELETES_AT_ONCE, Box::new(legacy)).await?;
        if others == Others::Remember || dead.is_empty() {
            return Ok(());
        }
        let (metric, table_name, row_time) = key.values();
        let mut removal = self.removal(key, &dead).await?;
        if removal == Removal::Together && !self.is_ours_alone(key, &mut dead, stamp).await? {
            removal = Removal::OneByOne(PORTION);
        }
        match removal {
            Removal::Together => {
                let values = (stamp, metric, table_name, row_time);
                let delete = &self.statements.row_keys.delete_all;
                self.executor.run(delete, values, self.executor.deadline()).await?;
                self.delete_pairs_of(key, &dead, stamp).await?;
            }
            Removal::OneByOne(most) => {
                dead.truncate(most);
                self.delete_row_keys(key, &dead, stamp).await?;
                let deleted: Vec<RowKey> = dead.iter().map(FoundRow::row_key).collect();
                self.delete_tag_rows(key, &deleted, stamp).await?;
            }
        }
        if self.has_rows(&self.statements.row_keys.any, key.values()).await? {
            return Ok(());
        }
        let values = (stamp, metric, table_name, row_time);
        let delete = &self.statements.row_times.delete;
        self.executor.run(delete, values, self.executor.deadline()).await?;
        Ok(())
    }

    /// How the index rows of a window that lead to these rows without data are removed.
    async fn removal(&self, key: WindowKey<'_>, dead: &[FoundRow]) -> Result<Removal, StoreError> {
        if dead.len() > PORTION && self.are_all_of_window(key, dead).await? {
            return Ok(Removal::Together);
        }
        Ok(Removal::OneByOne(dead.len().min(PORTION)))
    }

    /// Deletes a sample of these rows, which are all rows of a window and more than [`PORTION`]. Returns whether no
    /// row of the sample is left: then only we wrote the window. Moves the sample to the front of `rows`.
    async fn is_ours_alone(
        &self,
        key: WindowKey<'_>,
        rows: &mut [FoundRow],
        stamp: i64,
    ) -> Result<bool, StoreError> {
        let count = rows.len();
        (0..SAMPLE).for_each(|at| rows.swap(at, at * count / SAMPLE));
        let (sample, others) = rows.split_at(SAMPLE);
        self.delete_row_keys(key, sample, stamp).await?;
        self.are_all_of_window(key, others).await
    }

    /// The rows that have no cells, asked for many at a time.
    async fn rows_without_cells(&self, rows: Vec<FoundRow>) -> Result<Vec<FoundRow>, StoreError> {
        let lists = self.executor.key_lists.parts(&rows);
        let looks = lists.map(|rows| self.which_have_cells(rows).boxed());
        let have: Vec<bool> =
            all(DELETES_AT_ONCE, Box::new(looks)).await?.into_iter().flatten().collect();
        let dead = rows.into_iter().zip(have).filter(|(_, has_cells)| !has_cells);
        Ok(dead.map(|(row, _)| row).collect())
    }

    async fn which_have_cells(&self, rows: &[FoundRow]) -> Result<Vec<bool>, StoreError> {
        let select = &self.statements.points.standing;
        let ask = async {
            let keys: Vec<Vec<u8>> = rows.iter().map(FoundRow::key).collect();
            let result = self.executor.run(select, (&keys,), self.executor.deadline()).await?;
            let found = result.into_rows_result().map_err(|e| unreadable(select.name, e))?;
            let mut standing = HashSet::new();
            for row in found.rows::<(&[u8],)>().map_err(|e| unreadable(select.name, e))? {
                standing.insert(row.map_err(|e| unreadable(select.name, e))?.0.to_vec());
            }
            Ok::<_, Failure>(keys.iter().map(|key| standing.contains(key)).collect())
        };
        if let Some(have) = self.executor.key_lists.together(rows.len(), ask).await? {
            return Ok(have);
        }
        let mut have = Vec::with_capacity(rows.len());
        for row in rows {
            have.push(self.has_cells(row).await?);
        }
        Ok(have)
    }

    /// Whether a window has no other rows of `row_keys` than these, and we wrote each.
    async fn are_all_of_window(
        &self,
        key: WindowKey<'_>,
        rows: &[FoundRow],
    ) -> Result<bool, StoreError> {
        let ours: HashSet<Identity> = rows.iter().map(|row| row.row.identity()).collect();
        let check = &self.statements.row_keys.check;
        let mut pages = self.index_pages(check, key.columns());
        while let Some(page) = pages.next().await? {
            let mut are_these = true;
            each_checked_row(&page, check.name(), |row| {
                let is_ours = row.is_ours;
                let row = IndexRow::of_tags(key.metric, row.data_type, row.tags);
                are_these &= is_ours && row.is_some_and(|row| ours.contains(&row.identity()));
            })?;
            if !are_these {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Deletes our cells of rows of a window, one by one.
    async fn delete_row_keys(
        &self,
        key: WindowKey<'_>,
        rows: &[FoundRow],
        stamp: i64,
    ) -> Result<(), StoreError> {
        let deletes = rows.iter().map(move |row| self.delete_row_key(key, row, stamp).boxed());
        all(DELETES_AT_ONCE, Box::new(deletes)).await.map(drop)
    }

    async fn delete_row_key(
        &self,
        window: WindowKey<'_>,
        row: &FoundRow,
        stamp: i64,
    ) -> Result<(), StoreError> {
        let key = row.row_key();
        let tags: BTreeMap<&str, &str> = key.tags.iter().collect();
        let (metric, table_name, row_time) = window.values();
        let values = (stamp, metric, table_name, row_time, row.data_type().as_str(), tags);
        let delete = &self.statements.row_keys.delete;
        self.executor.run(delete, values, self.executor.deadline()).await?;
        Ok(())
    }
}
