//! Fixes findings. Each fix first checks whether it is still needed, writes with the current time in
//! milliseconds, and checks the result: a tombstone or a cell with a later write time cannot be
//! overwritten, which is reported instead of being tried for ever.
//!
//! A delete of index rows looks for data before and after; data that came in between gets its row back.

use crate::cql::once;
use crate::cql::prepared::Prepared;
use crate::cql::stamp::now_ms;
use crate::doctor::check::Doctor;
use crate::doctor::finding::Fix;
use crate::doctor::index_tags::IndexTags;
use crate::doctor::judge::Standing;
use crate::doctor::look::map;
use crate::index::window::{Window, WindowKey};
use crate::lifetime::NEVER;
use crate::schema::spec;
use promkairos_kairos::index::{IndexedTags, RowKeyRow, StringIndexRow, TagIndexRow};
use promkairos_kairos::{RowKey, RowSpec};
use promkairos_storage::Result;

/// The TTL that means none.
const FOR_EVER: i32 = 0;

impl Doctor {
    /// Carries out a fix. Returns whether the finding is gone.
    pub(super) async fn mend(&self, fix: &Fix) -> Result<bool> {
        match fix {
            Fix::WriteRowKey(row, ttl) => self.write_row_key(row, *ttl).await,
            Fix::WriteTimeIndex(row, ttl) => self.write_time(row, *ttl).await,
            Fix::WriteName(row) => self.write_name(row).await,
            Fix::WriteTagIndex(row, ttl) => self.write_tag(row, *ttl).await,
            Fix::DeleteRowKey(row) => self.delete_row_key(row).await,
            Fix::DeleteMisplaced(row) => self.delete_misplaced(row).await,
            Fix::DeleteTagIndex(row) => self.delete_tag(row).await,
            Fix::DeleteTimeIndex(row) => self.delete_time(row).await,
            Fix::DeleteLegacy(key) => self.delete_legacy(key).await,
            Fix::DeleteData(key) => self.delete_data(key).await,
            Fix::WriteSpec(spec) => self.write_spec(*spec).await,
            Fix::AlterCompaction { table, options } => self.alter(table, options).await,
        }
    }

    async fn write(
        &self,
        prepared: &Prepared,
        values: impl scylla::serialize::row::SerializeRow,
    ) -> Result<()> {
        self.pace.take(1).await;
        Ok(self.cql.run(prepared, values).await?)
    }

    fn stamp(&self) -> i64 {
        self.cql.stamps.for_index(now_ms())
    }

    /// A stamp above all earlier writes of this process, and below all later ones.
    async fn delete_stamp(&self) -> i64 {
        let (stamp, wait) = self.cql.stamps.for_delete(now_ms());
        tokio::time::sleep(wait).await;
        stamp
    }

    /// Read caches must not use points that are deleted.
    async fn raise_epoch(&self, metric: &str) -> Result<()> {
        self.epochs.raise(&[metric], self.cql.executor.deadline()).await
    }

    async fn write_row_key(&self, row: &RowKeyRow, ttl: i32) -> Result<bool> {
        if lasts(self.row_key(row).await?, ttl) {
            return Ok(true);
        }
        let indexed = IndexTags::read(self).await?;
        for tag in indexed.rows(row) {
            if !self.write_tag(&tag, ttl).await? {
                return Ok(false);
            }
        }
        let (metric, table, time) = WindowKey::from(row).values();
        let (kind, tags) = (row.key.data_type.as_str(), map(&row.key.tags));
        let values = (self.stamp(), ttl, metric, table, time, kind, tags);
        self.write(&self.statements.row_keys.put, values).await?;
        Ok(lasts(self.row_key(row).await?, ttl))
    }

    async fn write_time(&self, row: &Window, ttl: i32) -> Result<bool> {
        let standing = self.time(row.key()).await?;
        if lasts(standing, ttl) {
            return Ok(true);
        }
        if standing.is_none() && !self.write_tags_of_window(row).await? {
            return Ok(false);
        }
        let (metric, table, time) = row.key().values();
        self.write(&self.statements.times.put, (self.stamp(), ttl, metric, table, time)).await?;
        self.leads.forget();
        Ok(lasts(self.time(row.key()).await?, ttl))
    }

    async fn write_name(&self, row: &StringIndexRow) -> Result<bool> {
        let list = StringIndexRow::key(row.table_name);
        let values = (list, self.names.value(&row.metric), self.stamp());
        self.write(&self.statements.names.put, values).await?;
        self.leads.forget();
        self.is_named(row).await
    }

    pub(super) async fn write_tag(&self, tag: &TagIndexRow, ttl: i32) -> Result<bool> {
        let Some(tags) = &self.statements.tags else { return Ok(false) };
        let row = &tag.row;
        let (metric, table, time) = WindowKey::from(row).values();
        let (pair, kind) = (&*tag.single_tag_pair, row.key.data_type.as_str());
        let (hash, map) = (tag.tag_collection_hash, map(&row.key.tags));
        let values = (self.stamp(), ttl, metric, table, time, pair, kind, hash, map);
        self.write(&tags.put, values).await?;
        self.tag_row(tag).await
    }

    async fn delete_row_key(&self, row: &RowKeyRow) -> Result<bool> {
        let key = &row.key;
        if self.leads_to_data(key).await? {
            return Ok(true);
        }
        self.delete_row_key_now(row).await?;
        if self.leads_to_data(key).await? {
            return self.write_row_key(row, FOR_EVER).await;
        }
        Ok(self.row_key(row).await?.is_none())
    }

    async fn delete_row_key_now(&self, row: &RowKeyRow) -> Result<()> {
        let (metric, table, time) = WindowKey::from(row).values();
        let (kind, tags) = (row.key.data_type.as_str(), map(&row.key.tags));
        let values = (self.delete_stamp().await, metric, table, time, kind, tags);
        self.write(&self.statements.row_keys.delete, values).await
    }

    async fn delete_misplaced(&self, row: &RowKeyRow) -> Result<bool> {
        let key = &row.key;
        let own = RowKeyRow::of(key);
        if self.leads_to_data(key).await? && self.row_key(&own).await?.is_none() {
            // While the row that belongs there is missing, only this one leads to the data.
            return Ok(false);
        }
        self.delete_row_key_now(row).await?;
        Ok(self.row_key(row).await?.is_none())
    }

    async fn delete_tag(&self, tag: &TagIndexRow) -> Result<bool> {
        let Some(tags) = &self.statements.tags else { return Ok(false) };
        let (row, key) = (&tag.row, &tag.row.key);
        if self.leads_to_data(key).await? {
            return Ok(true);
        }
        let (metric, table, time) = WindowKey::from(row).values();
        let (pair, kind) = (&*tag.single_tag_pair, row.key.data_type.as_str());
        let (hash, map) = (tag.tag_collection_hash, map(&row.key.tags));
        let stamp = self.delete_stamp().await;
        let values = (stamp, metric, table, time, pair, kind, hash, map);
        self.write(&tags.delete, values).await?;
        if self.leads_to_data(key).await? {
            return self.write_tag(tag, FOR_EVER).await;
        }
        Ok(!self.tag_row(tag).await?)
    }

    async fn delete_time(&self, row: &Window) -> Result<bool> {
        if self.window_has_data(row).await?.0 {
            return Ok(true);
        }
        let (metric, table, time) = row.key().values();
        let values = (self.delete_stamp().await, metric, table, time);
        self.write(&self.statements.times.delete, values).await?;
        self.leads.forget();
        if self.window_has_data(row).await?.0 {
            return self.write_time(row, FOR_EVER).await;
        }
        Ok(self.time(row.key()).await?.is_none())
    }

    async fn delete_legacy(&self, key: &RowKey) -> Result<bool> {
        let Some(legacy) = &self.statements.legacy else { return Ok(false) };
        let Ok(column) = key.encode() else { return Ok(false) };
        let values = (self.delete_stamp().await, key.metric.as_bytes(), &column[..]);
        self.write(&legacy.delete, values).await?;
        Ok(!self.is_in_legacy(&key.metric, &column).await?)
    }

    async fn delete_data(&self, key: &RowKey) -> Result<bool> {
        let Ok(bytes) = key.encode() else { return Ok(false) };
        self.raise_epoch(&key.metric).await?;
        let values = (self.delete_stamp().await, &bytes[..]);
        let deleted = self.write(&self.statements.data.delete, values).await;
        // Also after a failure: the delete may have been done.
        self.raise_epoch(&key.metric).await?;
        deleted?;
        if self.has_data(&bytes).await? {
            return Ok(false);
        }
        let tags_are_gone = self.delete_tags_of(key).await?;
        Ok(self.delete_row_key(&RowKeyRow::of(key)).await? && tags_are_gone)
    }

    /// Deletes the rows of the tag index that lead to a row of data, whatever their hashes.
    async fn delete_tags_of(&self, key: &RowKey) -> Result<bool> {
        let mut are_gone = true;
        for tag in TagIndexRow::of(key, &IndexedTags::All) {
            let hashes = self.hashes(&tag).await?;
            are_gone &= hashes.is_some();
            for tag_collection_hash in hashes.unwrap_or_default() {
                let tag = TagIndexRow { tag_collection_hash, ..tag.clone() };
                are_gone &= self.delete_tag(&tag).await?;
            }
        }
        Ok(are_gone)
    }

    async fn write_spec(&self, wanted: RowSpec) -> Result<bool> {
        if self.missing.contains(&"spec") {
            return Ok(false);
        }
        self.pace.take(1).await;
        let (session, options) = (&self.cql.executor.session, &self.options);
        spec::write(session, options, wanted).await?;
        Ok(spec::stored(session, &options.keyspace).await? == Some(wanted))
    }

    async fn alter(&self, table: &str, options: &[(String, String)]) -> Result<bool> {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let options: Vec<String> =
            options.iter().map(|(n, v)| format!("{}: {}", quoted(n), quoted(v))).collect();
        let (keyspace, options) = (&self.options.keyspace, options.join(", "));
        let cql = format!("ALTER TABLE {} WITH compaction = {{{options}}}", keyspace.table(table));
        once::run(&self.cql.executor.session, &cql, ()).await?;
        Ok(true)
    }
}

/// Whether a row exists and is known to last long enough.
fn lasts(standing: Option<Standing>, ttl: i32) -> bool {
    let needed = match ttl {
        FOR_EVER => NEVER,
        ttl => now_ms() / 1000 + i64::from(ttl) - crate::doctor::judge::TTL_SLACK,
    };
    standing.is_some_and(|standing| standing.expires.is_none_or(|expires| expires >= needed))
}
