//! Estimates a delete: the tombstones that it leaves, by table, and the index rows that stay.
//!
//! Reads the same rows as a delete, and applies the same rules to index rows. Where only the delete itself can find
//! out, the result is an upper bound, as [`DeleteCost`] says. A delete detects KairosDB's rows in a large window only
//! by deleting a sample, so a window whose rows all have our cell counts as removed together; the range tombstone
//! then replaces those of the sample. Nothing is written: no epoch, no stamp, no gate.

use crate::delete::affected::{Affected, Index, closed};
use crate::delete::deletes::Deletes;
use crate::index::forget::Removal;
use crate::index::found::FoundRow;
use crate::index::tombstones::PORTION;
use crate::index::window::WindowKey;
use promkairos_kairos::RowKey;
use promkairos_model::{Matcher, TimeRange};
use promkairos_storage::{DeleteCost, Result};

impl Deletes {
    /// [`Store::delete_cost`](promkairos_storage::Store::delete_cost)
    pub(crate) async fn cost(&self, matchers: &[Matcher], range: TimeRange) -> Result<DeleteCost> {
        let mut cost = DeleteCost::default();
        let mut affected = Affected::find(&self.index, matchers, range).await?;
        while let Some((index, windows)) = affected.next().await? {
            for (window, rows) in &windows {
                cost = cost + self.cost_of_window(window.key(), rows, (index, range)).await?;
            }
        }
        Ok(cost)
    }

    /// The cost for these rows of a window; there is at least one.
    async fn cost_of_window(
        &self,
        key: WindowKey<'_>,
        rows: &[FoundRow],
        (index, range): (Index, TimeRange),
    ) -> Result<DeleteCost> {
        let found = rows.len() as u64;
        let mut cost = DeleteCost { windows: 1, ..DeleteCost::default() };
        let is_whole = self.index.spec.covers(key.row_time, range);
        if is_whole || self.index.spec.columns(key.row_time, range).is_some() {
            cost.tombstones.data_points = found;
        }
        if !self.index.spec.covers(key.row_time, closed()) {
            cost.index_rows_left = found;
            return Ok(cost);
        }
        let removal = self.index.removal(key, rows).await?;
        let tombstones = &mut cost.tombstones;
        // Where a window is deleted in part, some rows may keep cells: the empty ones are removed one by one.
        if removal != Removal::Together || !is_whole {
            let portion: Vec<RowKey> = rows.iter().take(PORTION).map(FoundRow::row_key).collect();
            tombstones.row_keys = portion.len() as u64;
            tombstones.tag_indexed_row_keys = self.index.count_tag_rows(key, &portion).await?;
        }
        let gone = match removal {
            Removal::Together => {
                let pairs = self.index.count_pairs_of(rows).await?;
                tombstones.row_keys = tombstones.row_keys.max(1);
                tombstones.tag_indexed_row_keys = tombstones.tag_indexed_row_keys.max(pairs);
                found
            }
            Removal::OneByOne(most) => most as u64,
        };
        if self.index.has_legacy_rows_of(key.metric).await? {
            tombstones.row_key_index = found.min(PORTION as u64);
        }
        cost.index_rows_deleted = match index {
            Index::Current => gone,
            Index::Legacy => found.min(PORTION as u64),
        };
        cost.index_rows_left = found - cost.index_rows_deleted;
        // The window leaves the time index with its last row.
        cost.tombstones.row_key_time_index = u64::from(cost.index_rows_left == 0);
        Ok(cost)
    }
}
