//! Drops the tag rows of a pair of a window: only our cell `value` of each row. A row that KairosDB wrote too stays.
//! [`SeriesIndex::delete_pair`] explains how it leaves few tombstones. Memory holds a sample and a page.
//!
//! All tombstones carry the latest stamp of our rows that were read, not the time of the drop. So they cover nothing
//! that is written after our last row: a row that comes between the read and the delete stays, from KairosDB or from
//! a promkairos that indexes the metric again. One case is left: the first row that a KairosDB writes into a
//! partition with more than [`SAMPLE`] rows of ours, stamped before our last row, and not yet arrived when the
//! partition is read again. Our last row was written before all running adapters had agreed to write no more.

use crate::index::series_index::SeriesIndex;
use crate::index::tag_index::delete::{OurRow, pair_rows};
use crate::index::tombstones::{PORTION, SAMPLE};
use crate::index::window::WindowKey;
use promkairos_storage::Result;

impl SeriesIndex {
    /// Deletes the tag rows of a pair of a window that we wrote, as far as that leaves few tombstones. Rows stamped
    /// later than `stamp` stay. `was_begun`: an earlier drop may have deleted rows of the window.
    ///
    /// Up to [`SAMPLE`] of our rows are deleted one by one. Where there are more and every row has our cell, a sample
    /// of them is deleted one by one. Where no row of the sample is left, KairosDB has no rows here, and the partition
    /// is deleted by one tombstone. Only that distinguishes a row that we alone wrote from a row that KairosDB wrote
    /// too. The sample is spread over the partition: where KairosDB wrote a fiftieth of the rows too, one drop in
    /// 20,000 misses it. Otherwise [`PORTION`] rows are deleted one by one, unless the window was begun before: then
    /// they may be gone, and another portion would bring the partition nearer to Cassandra's limit for reads. The rest
    /// stays and is counted.
    pub(crate) async fn delete_pair(
        &self,
        key: WindowKey<'_>,
        pair: &str,
        stamp: i64,
        was_begun: bool,
    ) -> Result<Dropped> {
        let found = self.pair_for_drop(key, pair, stamp).await?;
        let goes_in_portions = !found.is_all_sampled() && !found.is_ours_alone();
        if goes_in_portions && was_begun {
            return Ok(found.dropped(0));
        }
        let sample = found.sample.len() as u64;
        self.delete_cells(key, pair, &found.sample, found.last).await?;
        if found.is_all_sampled() {
            return Ok(found.dropped(sample));
        }
        if found.is_ours_alone() {
            let rest = self.pair_for_drop(key, pair, stamp).await?;
            if rest.is_ours_alone() && rest.ours + sample == found.ours {
                self.delete_whole_pair(key, pair, found.last).await?;
                return Ok(found.dropped(found.ours));
            }
        }
        if was_begun {
            return Ok(found.dropped(sample));
        }
        let rest = PORTION - found.sample.len();
        let deleted = self.delete_some_rows_of_pair(key, pair, found.last, rest).await?;
        Ok(found.dropped(sample + deleted))
    }

    /// Reads all rows of a pair of a window for a drop with this stamp.
    async fn pair_for_drop(&self, key: WindowKey<'_>, pair: &str, stamp: i64) -> Result<PairRows> {
        let select = &self.statements.tag_rows()?.select_pair;
        let mut found = PairRows::default();
        let mut pages = self.index_pages(select, key.pair_columns(pair));
        while let Some(page) = pages.next().await? {
            for (row, written) in pair_rows(&page)? {
                found.take(row, written, stamp);
            }
        }
        Ok(found)
    }

    /// Deletes the partition of a pair of a window, by one tombstone.
    async fn delete_whole_pair(&self, key: WindowKey<'_>, pair: &str, stamp: i64) -> Result<()> {
        let delete = &self.statements.tag_rows()?.delete_pairs;
        let (metric, table_name, row_time) = key.values();
        let values = (stamp, metric, table_name, row_time, vec![pair]);
        Ok(self.cql.run(delete, values).await?)
    }

    /// Deletes our cells of the first `most` rows of a pair, one by one, except cells with a later stamp. Returns
    /// the number of rows.
    async fn delete_some_rows_of_pair(
        &self,
        key: WindowKey<'_>,
        pair: &str,
        stamp: i64,
        most: usize,
    ) -> Result<u64> {
        let select = &self.statements.tag_rows()?.select_pair;
        let mut left = most;
        let mut pages = self.index_pages(select, key.pair_columns(pair));
        while left > 0
            && let Some(page) = pages.next().await?
        {
            let rows = pair_rows(&page)?.into_iter();
            let ours = rows.filter(|(_, written)| written.is_some_and(|written| written <= stamp));
            let ours: Vec<OurRow> = ours.map(|(row, _)| row).take(left).collect();
            self.delete_cells(key, pair, &ours, stamp).await?;
            left -= ours.len();
        }
        Ok((most - left) as u64)
    }
}

/// The results of a drop for our rows.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub(crate) deleted: u64,
    /// They stay, and are not read any more.
    pub(crate) left: u64,
}

/// The partition of a pair, as a drop finds it.
struct PairRows {
    /// Every `step`-th of our rows that the delete can remove: at most [`SAMPLE`], spread over all of them.
    sample: Vec<OurRow>,
    /// One row in this number is in the sample.
    step: u64,
    /// Our rows that the delete can remove.
    ours: u64,
    /// Our rows that are stamped later than the delete.
    later: u64,
    has_others: bool,
    /// The latest stamp of the rows that the delete can remove.
    last: i64,
}

impl Default for PairRows {
    fn default() -> Self {
        let (sample, last) = (Vec::new(), i64::MIN);
        Self { sample, step: 1, ours: 0, later: 0, has_others: false, last }
    }
}

impl PairRows {
    /// Counts a row. `written` is the stamp of our cell, where it has one.
    fn take(&mut self, row: OurRow, written: Option<i64>, stamp: i64) {
        match written {
            None => self.has_others = true,
            Some(written) if written > stamp => self.later += 1,
            Some(written) => {
                if self.ours.is_multiple_of(self.step) {
                    self.sample.push(row);
                }
                self.ours += 1;
                self.last = self.last.max(written);
                if self.sample.len() > SAMPLE {
                    self.step *= 2;
                    let mut is_kept = false;
                    self.sample.retain(|_| {
                        is_kept = !is_kept;
                        is_kept
                    });
                }
            }
        }
    }

    /// Whether all of our rows that the delete can remove are in the sample.
    fn is_all_sampled(&self) -> bool {
        self.step == 1
    }

    /// Whether each row has our cell, and the delete can remove it. Another writer may have written the row too.
    fn is_ours_alone(&self) -> bool {
        !self.has_others && self.later == 0
    }

    /// The result for our rows when `deleted` of them were deleted.
    fn dropped(&self, deleted: u64) -> Dropped {
        Dropped { deleted, left: (self.ours + self.later).saturating_sub(deleted) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: usize) -> OurRow {
        let hash = i32::try_from(number).expect("a small number");
        ("kairos_double".into(), hash, [("host".to_owned(), number.to_string())].into())
    }

    /// Rows of ours, stamped by their numbers.
    fn ours(rows: usize) -> PairRows {
        let mut found = PairRows::default();
        for number in 0..rows {
            found.take(row(number), Some(number as i64), i64::MAX);
        }
        found
    }

    #[test]
    fn a_sample_is_all_of_few_rows_and_spread_over_many() {
        for rows in [0, 1, SAMPLE] {
            let found = ours(rows);
            assert!(found.is_all_sampled() && found.is_ours_alone());
            assert_eq!((found.sample.len(), found.ours), (rows, rows as u64));
        }
        for rows in [SAMPLE + 1, 2 * SAMPLE, 12_345, 100_000] {
            let found = ours(rows);
            assert!(!found.is_all_sampled() && found.is_ours_alone(), "{rows}");
            assert!((SAMPLE / 2..=SAMPLE).contains(&found.sample.len()), "{rows}");
            let step = usize::try_from(found.step).expect("a small number");
            let want: Vec<OurRow> = (0..rows).step_by(step).map(row).collect();
            assert_eq!(found.sample, want, "{rows}");
        }
    }

    #[test]
    fn the_delete_is_stamped_as_the_last_row_that_it_can_take() {
        let mut found = PairRows::default();
        for (number, written) in [(0, 40), (1, 70), (2, 50)] {
            found.take(row(number), Some(written), 70);
        }
        assert!(found.last == 70 && found.is_ours_alone());
        found.take(row(3), Some(71), 70);
        assert!(found.last == 70 && !found.is_ours_alone(), "one outlasts the delete");
        assert_eq!(found.dropped(3), Dropped { deleted: 3, left: 1 });
    }

    #[test]
    fn a_row_without_our_cell_is_of_another_writer() {
        let mut found = ours(5);
        found.take(row(9), None, i64::MAX);
        assert!(!found.is_ours_alone());
        assert_eq!(found.dropped(4), Dropped { deleted: 4, left: 1 });
    }
}
