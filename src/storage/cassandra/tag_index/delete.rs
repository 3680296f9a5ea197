//! Deletes tag rows: those of rows that were deleted from `row_keys`, and all of a pair.
//!
//! A tombstone must match what the writer wrote, its hash included, and nobody knows which tags the
//! writer had indexed: so what stands there is read, a partition once a window. Of a row only what we
//! wrote goes, its cell `value`: one that KairosDB wrote too stays.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use futures::FutureExt;
use scylla::response::query_result::QueryRowsResult;

use super::super::executor::{all, unreadable};
use super::super::finder::FoundRow;
use super::super::shared::Shared;
use super::super::statements::MAX_BATCH_PARTITIONS;
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
        if self.statements.tags.rows.is_none() {
            return Ok(());
        }
        let rows: HashSet<(&str, Tags<'_>)> =
            deleted.iter().map(|row| (row.data_type.as_str(), row.tags.iter().collect())).collect();
        let tags = rows.iter().flat_map(|(_, tags)| tags);
        let pairs: BTreeSet<Box<str>> =
            tags.map(|(name, value)| single_tag_pair(name, value)).collect();
        let rows = &rows;
        let delete = |pair: Box<str>| {
            let is_deleted = move |(data_type, _, tags): &OurRow| {
                let tags: Tags<'_> = tags.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                rows.contains(&(data_type.as_str(), tags))
            };
            async move { self.delete_rows_of_pair(key, &pair, stamp, is_deleted).await }.boxed()
        };
        all(PAIRS_AT_ONCE, Box::new(pairs.into_iter().map(delete))).await.map(drop)
    }

    /// Deletes the partitions of all tags of these rows of a window, whoever wrote them. Each is one tombstone.
    pub(in super::super) async fn delete_pairs_of(
        &self,
        key: WindowKey<'_>,
        rows: &[FoundRow],
        stamp: i64,
    ) -> Result<(), StoreError> {
        let Some(statements) = &self.statements.tags.rows else { return Ok(()) };
        if !self.has_rows(&statements.any, ()).await? {
            return Ok(());
        }
        let mut pairs: BTreeSet<Box<str>> = BTreeSet::new();
        for row in rows {
            let key = row.row_key();
            pairs.extend(key.tags.iter().map(|(name, value)| single_tag_pair(name, value)));
        }
        let pairs: Vec<Box<str>> = pairs.into_iter().collect();
        let (metric, table_name, row_time) = key.values();
        let deletes = pairs.chunks(MAX_BATCH_PARTITIONS).map(|pairs| {
            let pairs: Vec<&str> = pairs.iter().map(|pair| &**pair).collect();
            async move {
                let values = (stamp, metric, table_name, row_time, pairs);
                let delete = &statements.delete_pairs;
                self.executor.run(delete, values, self.executor.deadline()).await?;
                Ok(())
            }
            .boxed()
        });
        all(PAIRS_AT_ONCE, Box::new(deletes)).await.map(drop)
    }

    /// Deletes what we wrote of the tag rows of a pair of a window. Gives how many rows that was.
    pub(super) async fn delete_pair(
        &self,
        key: WindowKey<'_>,
        pair: &str,
        stamp: i64,
    ) -> Result<u64, StoreError> {
        self.delete_rows_of_pair(key, pair, stamp, |_| true).await
    }

    /// The same of those rows of which this is said.
    async fn delete_rows_of_pair(
        &self,
        key: WindowKey<'_>,
        pair: &str,
        stamp: i64,
        is_deleted: impl Fn(&OurRow) -> bool,
    ) -> Result<u64, StoreError> {
        let statements = self.statements.tag_rows()?;
        let (select, delete) = (&statements.select_pair, &statements.delete);
        let (metric, table_name, row_time) = key.values();
        let (mut deleted, mut pages) = (0, self.index_pages(select, key.pair_columns(pair)));
        while let Some(page) = pages.next().await? {
            let mut rows = our_rows(select.name(), &page)?;
            rows.retain(&is_deleted);
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
            deleted += rows.len() as u64;
        }
        Ok(deleted)
    }
}

/// The rows of a page that have our cell.
fn our_rows(select: &'static str, page: &QueryRowsResult) -> Result<Vec<OurRow>, StoreError> {
    type Row = (Option<String>, Option<i32>, Option<BTreeMap<String, String>>, Option<String>);
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
