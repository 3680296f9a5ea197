//! Deletes tag rows: those of rows that were deleted from `row_keys`, and all of a pair.
//!
//! A tombstone must match what the writer wrote, its hash included, and nobody knows which tags the
//! writer had indexed: so what stands there is read, a partition once a window. Of a row only what we
//! wrote goes, its cell `value`: one that KairosDB wrote too stays.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;

use futures::FutureExt;
use scylla::response::PagingState;
use scylla::response::query_result::QueryResult;

use super::super::executor::{all, unreadable};
use super::super::shared::Shared;
use super::super::window::WindowKey;
use crate::kairos::RowKey;
use crate::kairos::index::single_tag_pair;
use crate::storage::StoreError;

/// Partitions looked at at the same time.
const PAIRS_AT_ONCE: usize = 32;
/// Rows of one partition deleted at the same time.
const ROWS_AT_ONCE: usize = 32;

/// Type, hash and tags of a row that has our cell.
type OurRow = (String, i32, BTreeMap<String, String>);

impl Shared {
    /// Deletes the tag rows that lead to these rows of a window.
    pub(in super::super) async fn delete_tag_rows(
        &self,
        key: WindowKey<'_>,
        deleted: &[RowKey],
        stamp: i64,
    ) -> Result<(), StoreError> {
        type Tags<'a> = BTreeMap<&'a str, &'a str>;
        let Some(statements) = &self.statements.tags.rows else { return Ok(()) };
        let rows: HashSet<(&str, Tags<'_>)> =
            deleted.iter().map(|row| (row.data_type.as_str(), row.tags.iter().collect())).collect();
        let mut pairs: BTreeSet<(Box<str>, &str)> = BTreeSet::new();
        for (data_type, tags) in &rows {
            pairs.extend(
                tags.iter().map(|(name, value)| (single_tag_pair(name, value), *data_type)),
            );
        }
        let rows = &rows;
        let delete = |(pair, data_type): &(Box<str>, &str)| {
            let (pair, data_type) = (pair.clone(), (*data_type).to_owned());
            async move {
                let select = &statements.select_hashes;
                let (metric, table_name, row_time) = key.values();
                let mut found: Vec<(i32, BTreeMap<String, String>)> = Vec::new();
                let values = (metric, table_name, row_time, &*pair, data_type.as_str());
                self.executor
                    .pages(select, values, |page| {
                        type Row = (Option<String>, Option<i32>, Option<BTreeMap<String, String>>);
                        for row in page.rows::<Row>().map_err(|e| unreadable(select.name, e))? {
                            let (_, hash, tags) = row.map_err(|e| unreadable(select.name, e))?;
                            let (Some(hash), Some(tags)) = (hash, tags) else { continue };
                            let borrowed: Tags<'_> =
                                tags.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                            if rows.contains(&(data_type.as_str(), borrowed)) {
                                found.push((hash, tags));
                            }
                        }
                        Ok(ControlFlow::Continue(()))
                    })
                    .await?;
                let delete = &statements.delete;
                for (hash, tags) in found {
                    let (pair, data_type) = (&*pair, data_type.as_str());
                    let values = (stamp, metric, table_name, row_time, pair, data_type, hash, tags);
                    self.executor.run(delete, values, self.executor.deadline()).await?;
                }
                Ok(())
            }
            .boxed()
        };
        all(PAIRS_AT_ONCE, Box::new(pairs.iter().map(delete))).await.map(drop)
    }

    /// Deletes what we wrote of the tag rows of a pair of a window.
    pub(super) async fn delete_pair(
        &self,
        key: WindowKey<'_>,
        pair: &str,
        stamp: i64,
    ) -> Result<(), StoreError> {
        let statements = self.statements.tag_rows()?;
        let (select, delete) = (&statements.select_pair, &statements.delete);
        let (metric, table_name, row_time) = key.values();
        let mut state = PagingState::start();
        loop {
            let values = (metric, table_name, row_time, pair);
            let (result, next) = self.executor.page(select, values, &state).await?;
            let rows = our_rows(select.name, result)?;
            let delete = |(data_type, hash, tags): &OurRow| {
                let (data_type, hash, tags) = (data_type.clone(), *hash, tags.clone());
                async move {
                    let values = (stamp, metric, table_name, row_time, pair, data_type, hash, tags);
                    let deleted = self.executor.run(delete, values, self.executor.deadline());
                    Ok(deleted.await.map(drop)?)
                }
                .boxed()
            };
            all(ROWS_AT_ONCE, Box::new(rows.iter().map(delete))).await?;
            match next.into_paging_control_flow() {
                ControlFlow::Break(()) => return Ok(()),
                ControlFlow::Continue(next) => state = next,
            }
        }
    }
}

/// The rows of a page that have our cell.
fn our_rows(select: &'static str, page: QueryResult) -> Result<Vec<OurRow>, StoreError> {
    type Row = (Option<String>, Option<i32>, Option<BTreeMap<String, String>>, Option<String>);
    let page = page.into_rows_result().map_err(|e| unreadable(select, e))?;
    let mut found = Vec::new();
    for row in page.rows::<Row>().map_err(|e| unreadable(select, e))? {
        if let (Some(data_type), Some(hash), Some(tags), Some(_)) =
            row.map_err(|e| unreadable(select, e))?
        {
            found.push((data_type, hash, tags));
        }
    }
    Ok(found)
}
