//! Deletes tag rows of rows that were deleted from `row_keys`, and counts them for the cost of a delete. Drops of an
//! index are not here (`admin::drop`).
//!
//! A tombstone must match the written row, including its hash, and it is unknown which tags the writer had indexed: so
//! the existing rows are read, each partition once per window. Only our cell `value` of a row is deleted: a row that
//! KairosDB wrote too stays.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use futures::FutureExt;

use crate::cql::concurrent::all;
use crate::cql::prepared::MAX_BATCH_PARTITIONS;
use crate::cql::rows::Rows;
use crate::index::found::FoundRow;
use crate::index::series_index::SeriesIndex;
use crate::index::window::WindowKey;
use promkairos_kairos::RowKey;
use promkairos_kairos::index::single_tag_pair;
use promkairos_storage::Result;

/// Partitions read at the same time.
const PAIRS_AT_ONCE: usize = 32;
/// Rows of one partition deleted at the same time.
const ROWS_AT_ONCE: usize = 32;

/// Type, hash and tags of a row that has our cell.
pub(crate) type OurRow = (String, i32, BTreeMap<String, String>);

impl SeriesIndex {
    /// Deletes the tag rows that lead to these rows of a window.
    pub(crate) async fn delete_tag_rows(
        &self,
        key: WindowKey<'_>,
        deleted: &[RowKey],
        stamp: i64,
    ) -> Result<()> {
        if self.statements.tags.rows.is_none() {
            return Ok(());
        }
        self.visit_tag_rows(key, deleted, Some(stamp)).await.map(drop)
    }

    /// Counts the tag rows that lead to these rows of a window.
    pub(crate) async fn count_tag_rows(&self, key: WindowKey<'_>, rows: &[RowKey]) -> Result<u64> {
        match self.has_tag_rows().await? {
            true => self.visit_tag_rows(key, rows, None).await,
            false => Ok(0),
        }
    }

    /// Whether the table exists and has any row.
    async fn has_tag_rows(&self) -> Result<bool> {
        match &self.statements.tags.rows {
            Some(statements) => self.cql.has_rows(&statements.any, ()).await,
            None => Ok(false),
        }
    }

    /// Counts the tag rows that lead to these rows of a window, and deletes them if a stamp is given.
    async fn visit_tag_rows(
        &self,
        key: WindowKey<'_>,
        rows: &[RowKey],
        delete: Option<i64>,
    ) -> Result<u64> {
        type Tags<'a> = BTreeMap<&'a str, &'a str>;
        let rows: HashSet<(&str, Tags<'_>)> =
            rows.iter().map(|row| (row.data_type.as_str(), row.tags.iter().collect())).collect();
        let tags = rows.iter().flat_map(|(_, tags)| tags);
        let pairs: BTreeSet<Box<str>> =
            tags.map(|(name, value)| single_tag_pair(name, value)).collect();
        let rows = &rows;
        let visit = |pair: Box<str>| {
            let is_meant = move |(data_type, _, tags): &OurRow| {
                let tags: Tags<'_> = tags.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                rows.contains(&(data_type.as_str(), tags))
            };
            async move { self.visit_pair(key, &pair, delete, is_meant).await }.boxed()
        };
        let visited = all(PAIRS_AT_ONCE, Box::new(pairs.into_iter().map(visit))).await?;
        Ok(visited.into_iter().sum())
    }

    /// Deletes the partitions of all tags of these rows of a window, of any writer. Each is one tombstone.
    pub(crate) async fn delete_pairs_of(
        &self,
        key: WindowKey<'_>,
        rows: &[FoundRow],
        stamp: i64,
    ) -> Result<()> {
        let Some(statements) = &self.statements.tags.rows else { return Ok(()) };
        if !self.has_tag_rows().await? {
            return Ok(());
        }
        let pairs: Vec<Box<str>> = pairs_of(rows).into_iter().collect();
        let (metric, table_name, row_time) = key.values();
        let deletes = pairs.chunks(MAX_BATCH_PARTITIONS).map(|pairs| {
            let pairs: Vec<&str> = pairs.iter().map(|pair| &**pair).collect();
            async move {
                let values = (stamp, metric, table_name, row_time, pairs);
                Ok(self.cql.run(&statements.delete_pairs, values).await?)
            }
            .boxed()
        });
        all(PAIRS_AT_ONCE, Box::new(deletes)).await.map(drop)
    }

    /// How many partitions [`Self::delete_pairs_of`] deletes.
    pub(crate) async fn count_pairs_of(&self, rows: &[FoundRow]) -> Result<u64> {
        Ok(if self.has_tag_rows().await? { pairs_of(rows).len() as u64 } else { 0 })
    }

    /// Counts the tag rows of a pair of a window that we wrote and `is_meant` selects, and deletes them if a stamp is
    /// given.
    async fn visit_pair(
        &self,
        key: WindowKey<'_>,
        pair: &str,
        delete: Option<i64>,
        is_meant: impl Fn(&OurRow) -> bool,
    ) -> Result<u64> {
        let select = &self.statements.tag_rows()?.select_pair;
        let (mut visited, mut pages) = (0, self.index_pages(select, key.pair_columns(pair)));
        while let Some(page) = pages.next().await? {
            let mut rows: Vec<OurRow> = Vec::new();
            for (row, written) in pair_rows(&page)? {
                if written.is_some() && is_meant(&row) {
                    rows.push(row);
                }
            }
            visited += rows.len() as u64;
            if let Some(stamp) = delete {
                self.delete_cells(key, pair, &rows, stamp).await?;
            }
        }
        Ok(visited)
    }

    /// Deletes our cells of these rows of a pair, one by one.
    pub(crate) async fn delete_cells(
        &self,
        key: WindowKey<'_>,
        pair: &str,
        rows: &[OurRow],
        stamp: i64,
    ) -> Result<()> {
        let delete = &self.statements.tag_rows()?.delete;
        let (metric, table_name, row_time) = key.values();
        let delete = |(data_type, hash, tags): &OurRow| {
            let (data_type, hash, tags) = (data_type.clone(), *hash, tags.clone());
            async move {
                let values = (stamp, metric, table_name, row_time, pair, data_type, hash, tags);
                Ok(self.cql.run(delete, values).await?)
            }
            .boxed()
        };
        all(ROWS_AT_ONCE, Box::new(rows.iter().map(delete))).await.map(drop)
    }
}

/// The pairs of tag and value of rows, each once.
fn pairs_of(rows: &[FoundRow]) -> BTreeSet<Box<str>> {
    let mut pairs = BTreeSet::new();
    for row in rows {
        let key = row.row_key();
        pairs.extend(key.tags.iter().map(|(name, value)| single_tag_pair(name, value)));
    }
    pairs
}

/// The rows of a page, each with the stamp of our cell, where it has one.
pub(crate) fn pair_rows(page: &Rows) -> Result<Vec<(OurRow, Option<i64>)>> {
    type Row = (Option<String>, Option<i32>, Option<BTreeMap<String, String>>, Option<i64>);
    let mut found = Vec::new();
    for row in page.iter::<Row>()? {
        // All null where every row is deleted and only `mtime` is left.
        if let (Some(data_type), Some(hash), Some(tags), written) = row? {
            found.push(((data_type, hash, tags), written));
        }
    }
    Ok(found)
}
