//! The rows of the tag index that must exist before a fix makes a row of `row_keys` visible to
//! readers: readers rely on the tag index where it covers, and do not check whether a row came later.
//!
//! As adapters do: rows for each tag that the keyspace records, whatever the tag covers, since it may
//! be built at this moment; and for each tag that KairosDB is configured to index. Other missing rows
//! are findings of their own (`stages`).

use std::collections::BTreeSet;

use crate::cql::failure::if_read;
use crate::cql::stamp::now_ms;
use crate::doctor::check::Doctor;
use crate::doctor::look::window_rows;
use crate::index::window::Window;
use crate::schema::tag_index_coverage::Coverage;
use crate::schema::tag_index_document::{Configured, has_tag};
use promkairos_kairos::TableName;
use promkairos_kairos::index::{IndexedTags, RowKeyRow, TagIndexRow};
use promkairos_storage::{Result, StoreError};

/// The tags that are indexed now.
pub(super) struct IndexTags<'a> {
    recorded: Coverage,
    configured: &'a Configured,
    /// Whether the table exists.
    is_there: bool,
}

impl<'a> IndexTags<'a> {
    pub(super) async fn read(doctor: &'a Doctor) -> Result<Self> {
        Ok(Self {
            recorded: doctor.coverage().await?,
            configured: &doctor.options.tag_index.metrics,
            is_there: doctor.statements.tags.is_some(),
        })
    }

    /// Whether no tag of any metric is indexed.
    fn is_empty(&self) -> bool {
        !self.is_there || self.recorded.is_empty() && self.configured.is_empty()
    }

    /// The rows that lead to a row of `row_keys`.
    pub(super) fn rows(&self, row: &RowKeyRow) -> Vec<TagIndexRow> {
        if self.is_empty() {
            return Vec::new();
        }
        let is_kairosdb = row.table_name == TableName::DataPoints;
        let is_indexed = |tag: &&str| {
            self.recorded.is_written(&row.key.metric, tag)
                || is_kairosdb && has_tag(self.configured, &row.key.metric, tag)
        };
        let tags: BTreeSet<Box<str>> =
            row.key.tags.iter().map(|(tag, _)| tag).filter(is_indexed).map(Box::from).collect();
        TagIndexRow::of(&row.key, &IndexedTags::Only(tags))
    }
}

impl Doctor {
    /// Writes the missing ones of these rows for a window that readers do not see yet. Returns
    /// whether all exist then.
    pub(super) async fn write_tags_of_window(&self, window: &Window) -> Result<bool> {
        let indexed = IndexTags::read(self).await?;
        let mut all_stand = true;
        if indexed.is_empty() {
            return Ok(all_stand);
        }
        let values = window.key().values();
        let mut pages = self.cql.pages(&self.statements.row_keys.window, values);
        loop {
            let page = if_read(self.next_page(&mut pages).await)?;
            let Some(page) = page else { return Ok(false) };
            let Some(page) = page else { return Ok(all_stand) };
            for row in window_rows(window, &page)?.0 {
                all_stand &= self.write_missing_tags(&row, &indexed).await?;
            }
        }
    }

    async fn write_missing_tags(&self, row: &RowKeyRow, indexed: &IndexTags<'_>) -> Result<bool> {
        let mut all_stand = true;
        for tag in indexed.rows(row) {
            // Its writer may have hashed other tags.
            let stands = async || {
                Ok::<_, StoreError>(self.hashes(&tag).await?.is_none_or(|found| !found.is_empty()))
            };
            if self.tag_row(&tag).await? || stands().await? {
                continue;
            }
            let standing = self.row_key(row).await?;
            let ttl = standing.map_or(0, |standing| standing.ttl_left(now_ms()));
            all_stand &= self.write_tag(&tag, ttl).await?;
        }
        Ok(all_stand)
    }
}
