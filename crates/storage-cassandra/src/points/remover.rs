//! Removes points from `data_points`, and finds the rows that have none.

use std::collections::HashSet;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::cql::concurrent::all;
use crate::cql::failure::Failure;
use crate::cql::prepared::MAX_BATCH_PARTITIONS;
use crate::index::found::FoundRow;
use crate::points::point_store::PointStore;
use promkairos_model::TimeRange;
use promkairos_storage::Result;

/// Lists of rows that are looked at at the same time.
const LOOKS_AT_ONCE: usize = 64;

impl PointStore {
    /// The statements that delete the points of rows of one window.
    pub(crate) fn remove<'a>(
        &'a self,
        rows: &'a [FoundRow],
        range: TimeRange,
        stamp: i64,
    ) -> impl Iterator<Item = BoxFuture<'a, Result<()>>> {
        let statements = &self.statements;
        let is_whole = self.spec.covers(rows[0].row_time, range);
        let columns = self.spec.columns(rows[0].row_time, range);
        let most = if is_whole { MAX_BATCH_PARTITIONS } else { 1 };
        rows.chunks(most).map(move |rows| {
            async move {
                let keys: Vec<Vec<u8>> = rows.iter().map(FoundRow::key).collect();
                if is_whole {
                    self.cql.run(&statements.delete_rows, (stamp, keys)).await?;
                } else if let Some(columns) = columns {
                    let values = (stamp, &keys[0], &columns.start[..], &columns.end[..]);
                    self.cql.run(&statements.delete, values).await?;
                }
                Ok(())
            }
            .boxed()
        })
    }

    /// The rows that have no cells, asked for many at a time.
    pub(crate) async fn without_cells(&self, rows: Vec<FoundRow>) -> Result<Vec<FoundRow>> {
        let lists = self.cql.executor.key_lists.parts(&rows);
        let looks = lists.map(|rows| self.which_have_cells(rows).boxed());
        let have: Vec<bool> =
            all(LOOKS_AT_ONCE, Box::new(looks)).await?.into_iter().flatten().collect();
        let dead = rows.into_iter().zip(have).filter(|(_, has_cells)| !has_cells);
        Ok(dead.map(|(row, _)| row).collect())
    }

    async fn which_have_cells(&self, rows: &[FoundRow]) -> Result<Vec<bool>> {
        let ask = async {
            let keys: Vec<Vec<u8>> = rows.iter().map(FoundRow::key).collect();
            let found = self.cql.rows(&self.statements.standing, (&keys,)).await?;
            let mut standing = HashSet::new();
            for row in found.iter::<(&[u8],)>()? {
                standing.insert(row?.0.to_vec());
            }
            Ok::<_, Failure>(keys.iter().map(|key| standing.contains(key)).collect())
        };
        if let Some(have) = self.cql.executor.key_lists.together(rows.len(), ask).await? {
            return Ok(have);
        }
        let mut have = Vec::with_capacity(rows.len());
        for row in rows {
            have.push(self.has_cells(row).await?);
        }
        Ok(have)
    }
}
