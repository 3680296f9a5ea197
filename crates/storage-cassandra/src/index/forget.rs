//! Deletes index rows that lead to no data any more: at most [`PORTION`] rows of a window one by one, or all rows of
//! the window together ([`Removal::Together`]). The caller asks the points for these rows between
//! [`SeriesIndex::begin_forget`] and [`SeriesIndex::end_forget`].

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use futures::FutureExt;

use crate::cql::concurrent::all;
use crate::cql::stamp::now_ms;
use crate::identity::Identity;
use crate::index::found::FoundRow;
use crate::index::index_row::{IndexRow, each_checked_row};
use crate::index::memory::{Deleting, Known};
use crate::index::series_index::SeriesIndex;
use crate::index::tombstones::{PORTION, SAMPLE};
use crate::index::window::WindowKey;
use promkairos_kairos::RowKey;
use promkairos_storage::Result;

/// Delete statements that run at the same time.
const DELETES_AT_ONCE: usize = 64;

/// How the index rows of a window are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// All rows of the window, which are more than [`PORTION`] and each have our cell, with one range tombstone.
    /// First a sample of [`SAMPLE`] rows, spread over the window, is deleted one by one: only that distinguishes a
    /// row that we alone wrote from a row that KairosDB wrote too. The others are removed together only where no row
    /// of the sample is left. Where KairosDB wrote fewer than one in a hundred of the rows, its part may be removed
    /// too (at one in a hundred, one delete in 20,000 does not notice).
    Together,
    /// At most this number of rows, each with its own tombstone.
    OneByOne(usize),
}

/// A window whose index rows are being deleted.
pub(crate) struct Forgetting<'a> {
    key: WindowKey<'a>,
    stamp: i64,
    /// How long to wait until the clock has passed the stamp.
    wait: Duration,
    deleting: Deleting<'a>,
}

impl SeriesIndex {
    /// Begins to delete index rows of a window. Writes of this process continue meanwhile: they write all their index
    /// rows of the window above the stamp.
    pub(crate) async fn begin_forget<'a>(&'a self, key: WindowKey<'a>) -> Forgetting<'a> {
        // No write is in progress that relies on existing rows.
        let _alone = self.gate.write().await;
        // Stamped above all index rows of this process so far, and below all later ones.
        let (stamp, wait) = self.cql.stamps.for_delete(now_ms());
        Forgetting { key, stamp, wait, deleting: self.memory.delete(key.identity()) }
    }

    /// Deletes our part of the rows of `row_keys` that lead to these rows without data, and of the time index where no
    /// row of the window is left. Where others than this adapter run, rows of `row_keys` stay. Returns how long to wait
    /// until the clock has passed the stamp.
    pub(crate) async fn end_forget(
        &self,
        forgetting: Forgetting<'_>,
        dead: Result<Vec<FoundRow>>,
        is_alone: bool,
    ) -> Result<Duration> {
        let Forgetting { key, stamp, wait, deleting } = forgetting;
        let deleted = match dead {
            Ok(dead) => self.delete_window_rows(key, dead, stamp, is_alone).await,
            Err(error) => Err(error),
        };
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
        mut dead: Vec<FoundRow>,
        stamp: i64,
        is_alone: bool,
    ) -> Result<()> {
        // All rows of a metric are one partition there.
        let legacy = dead.iter().take(PORTION);
        let legacy = legacy.map(move |row| self.delete_legacy_row(row, stamp).boxed());
        all(DELETES_AT_ONCE, Box::new(legacy)).await?;
        // Other adapters may rely on index rows that they remember.
        if !is_alone || dead.is_empty() {
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
                self.cql.run(delete, values).await?;
                self.delete_pairs_of(key, &dead, stamp).await?;
            }
            Removal::OneByOne(most) => {
                dead.truncate(most);
                self.delete_row_keys(key, &dead, stamp).await?;
                let deleted: Vec<RowKey> = dead.iter().map(FoundRow::row_key).collect();
                self.delete_tag_rows(key, &deleted, stamp).await?;
            }
        }
        if self.cql.has_rows(&self.statements.row_keys.any, key.values()).await? {
            return Ok(());
        }
        let values = (stamp, metric, table_name, row_time);
        let delete = &self.statements.row_times.delete;
        Ok(self.cql.run(delete, values).await?)
    }

    /// How the index rows of a window that lead to these rows without data are removed.
    pub(crate) async fn removal(&self, key: WindowKey<'_>, dead: &[FoundRow]) -> Result<Removal> {
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
    ) -> Result<bool> {
        let count = rows.len();
        (0..SAMPLE).for_each(|at| rows.swap(at, at * count / SAMPLE));
        let (sample, others) = rows.split_at(SAMPLE);
        self.delete_row_keys(key, sample, stamp).await?;
        self.are_all_of_window(key, others).await
    }

    /// Whether a window has no other rows of `row_keys` than these, and we wrote each.
    async fn are_all_of_window(&self, key: WindowKey<'_>, rows: &[FoundRow]) -> Result<bool> {
        let ours: HashSet<Identity> = rows.iter().map(|row| row.row.identity).collect();
        let mut pages = self.index_pages(&self.statements.row_keys.check, key.columns());
        while let Some(page) = pages.next().await? {
            let mut are_these = true;
            each_checked_row(&page, |row| {
                let is_ours = row.is_ours;
                let row = IndexRow::of_tags(key.metric, row.data_type, row.tags);
                are_these &= is_ours && row.is_some_and(|row| ours.contains(&row.identity));
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
    ) -> Result<()> {
        let deletes = rows.iter().map(move |row| self.delete_row_key(key, row, stamp).boxed());
        all(DELETES_AT_ONCE, Box::new(deletes)).await.map(drop)
    }

    async fn delete_row_key(
        &self,
        window: WindowKey<'_>,
        row: &FoundRow,
        stamp: i64,
    ) -> Result<()> {
        let key = row.row_key();
        let tags: BTreeMap<&str, &str> = key.tags.iter().collect();
        let (metric, table_name, row_time) = window.values();
        let values = (stamp, metric, table_name, row_time, row.data_type().as_str(), tags);
        let delete = &self.statements.row_keys.delete;
        Ok(self.cql.run(delete, values).await?)
    }
}
