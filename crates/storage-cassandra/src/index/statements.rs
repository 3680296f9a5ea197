//! The statements on the indexes of series. Our index rows have `value = ''`, which makes their
//! TTL readable.

use crate::cql::prepared::{
    Batches, Prepared, Preparer, STAMPED, STAMPED_TTL, there, unless_missing,
};
use crate::index::pages::Sliced;
use crate::index::split_point::Order;
use crate::index::tag_index::statements::{StateStatements, TagIndexStatements, TagRowStatements};
use crate::schema::tables::NameColumn;
use promkairos_storage::Result;

/// All statements of the index; those on a table that the keyspace lacks are None.
pub(crate) struct IndexStatements {
    pub(crate) row_keys: RowKeyStatements,
    pub(crate) row_times: RowTimeStatements,
    pub(crate) names: NameStatements,
    pub(crate) legacy: Option<LegacyStatements>,
    pub(crate) tags: TagIndexStatements,
}

impl IndexStatements {
    /// Prepares the statements, except those on `missing` tables; names are in a column of this type.
    pub(crate) async fn prepare(
        on: &Preparer<'_>,
        missing: &[&str],
        names: NameColumn,
    ) -> Result<Self> {
        Ok(Self {
            row_keys: on.row_keys().await?,
            row_times: on.row_times().await?,
            names: on.names(names).await?,
            legacy: unless_missing(missing, "row_key_index", on.legacy()).await?,
            tags: on.tag_index(missing).await?,
        })
    }

    pub(crate) fn legacy(&self) -> Result<&LegacyStatements> {
        there(&self.legacy, "row_key_index")
    }

    pub(crate) fn tag_rows(&self) -> Result<&TagRowStatements> {
        there(&self.tags.rows, "tag_indexed_row_keys")
    }

    pub(crate) fn tag_state(&self) -> Result<&StateStatements> {
        there(&self.tags.state, "service_index")
    }
}

/// On `row_keys`; all begin with metric, table name, row time, `delete` with its stamp.
pub(crate) struct RowKeyStatements {
    /// stamp, ttl, mtime; then data type, tags
    pub(crate) insert: Batches,
    /// then data type, tags of two split points
    pub(crate) select: Sliced,
    /// with its write time
    pub(crate) mtime: Prepared,
    /// like `mtime`, for many metrics, which are the first value
    pub(crate) mtimes: Prepared,
    /// like `select`, with value and its TTL
    pub(crate) check: Sliced,
    /// one row, if there is any
    pub(crate) any: Prepared,
    /// then data type, tags
    pub(crate) delete: Prepared,
    /// all rows of the window, of any writer
    pub(crate) delete_all: Prepared,
}

/// On `row_key_time_index`.
pub(crate) struct RowTimeStatements {
    /// stamp, ttl, metric, table name, row time
    pub(crate) insert: Prepared,
    /// metric, table name, first row time, row time after the last
    pub(crate) select: Sliced,
    /// metrics, table names, first row time, last row time
    pub(crate) select_many: Prepared,
    /// metric, table name, row time
    pub(crate) check: Prepared,
    /// stamp, metric, table name, row time
    pub(crate) delete: Prepared,
}

/// On `string_index`.
pub(crate) struct NameStatements {
    /// list, name, stamp
    pub(crate) insert: Prepared,
    /// list, first name, name after the last
    pub(crate) select: Sliced,
    /// list, name
    pub(crate) check: Prepared,
}

/// On the legacy `row_key_index`; all but `any` begin with the metric, `delete` with its stamp.
pub(crate) struct LegacyStatements {
    /// one row of the table, if there is any
    pub(crate) any: Prepared,
    /// the first column
    pub(crate) first: Prepared,
    /// the last column
    pub(crate) last: Prepared,
    /// then first column, column after the last
    pub(crate) slice: Sliced,
    /// then column
    pub(crate) delete: Prepared,
}

const INDEX_ROW: &str = "metric = ? AND table_name = ? AND row_time = ?";

impl Preparer<'_> {
    async fn row_keys(&self) -> Result<RowKeyStatements> {
        let table = self.table("row_keys");
        // An INSERT with our TTL would replace a neighbour's row that lasts longer.
        let insert = format!(
            "UPDATE {table} {STAMPED_TTL} SET mtime = ?, value = '' \
             WHERE {INDEX_ROW} AND data_type = ? AND tags = ?"
        );
        let slice = "(data_type, tags) >= (?, ?) AND (data_type, tags) < (?, ?)";
        let select = format!("SELECT data_type, tags FROM {table} WHERE {INDEX_ROW} AND {slice}");
        let mtime =
            format!("SELECT mtime, WRITETIME(mtime) FROM {table} WHERE {INDEX_ROW} LIMIT 1");
        let mtimes = format!(
            "SELECT DISTINCT metric, mtime, WRITETIME(mtime) FROM {table} \
             WHERE metric IN ? AND table_name = ? AND row_time = ?"
        );
        let check = format!(
            "SELECT data_type, tags, value, TTL(value) FROM {table} WHERE {INDEX_ROW} AND {slice}"
        );
        let any = format!("SELECT data_type FROM {table} WHERE {INDEX_ROW} LIMIT 1");
        // The part that a neighbour wrote stays: see `delete`.
        let delete = format!(
            "DELETE value FROM {table} {STAMPED} WHERE {INDEX_ROW} AND data_type = ? AND tags = ?"
        );
        // One range tombstone; the static `mtime` stays.
        let delete_all =
            format!("DELETE FROM {table} {STAMPED} WHERE {INDEX_ROW} AND data_type >= ''");
        Ok(RowKeyStatements {
            insert: Batches::new(self.write("insert_row_key", insert).await?.of_index()),
            select: Sliced::new(self.read("select_row_keys", select).await?, Order::Tags),
            mtime: self.read("select_mtime", mtime).await?,
            mtimes: self.read("select_mtimes", mtimes).await?,
            check: Sliced::new(self.read("check_row_keys", check).await?.of_index(), Order::Tags),
            any: self.read("any_row_key", any).await?,
            delete: self.write("delete_row_key", delete).await?,
            delete_all: self.write("delete_row_keys", delete_all).await?,
        })
    }

    async fn row_times(&self) -> Result<RowTimeStatements> {
        let table = self.table("row_key_time_index");
        let insert = format!("UPDATE {table} {STAMPED_TTL} SET value = '' WHERE {INDEX_ROW}");
        let select = format!(
            "SELECT row_time FROM {table} \
             WHERE metric = ? AND table_name = ? AND row_time >= ? AND row_time < ?"
        );
        let select_many = format!(
            "SELECT metric, table_name, row_time FROM {table} \
             WHERE metric IN ? AND table_name IN ? AND row_time >= ? AND row_time <= ?"
        );
        let check = format!("SELECT value, TTL(value) FROM {table} WHERE {INDEX_ROW}");
        let delete = format!("DELETE value FROM {table} {STAMPED} WHERE {INDEX_ROW}");
        Ok(RowTimeStatements {
            insert: self.write("insert_row_time", insert).await?.of_index(),
            select: Sliced::new(self.read("select_row_times", select).await?, Order::Times),
            select_many: self.read("select_many_row_times", select_many).await?,
            check: self.read("check_row_time", check).await?.of_index(),
            delete: self.write("delete_row_time", delete).await?,
        })
    }

    async fn names(&self, names: NameColumn) -> Result<NameStatements> {
        let table = self.table("string_index");
        let columns = "(key, column1, value) VALUES (?, ?, 0x00)";
        let insert = format!("INSERT INTO {table} {columns} {STAMPED}");
        let select = format!("SELECT column1 FROM {table} WHERE key = ? AND column1");
        Ok(NameStatements {
            insert: self.write("insert_name", insert).await?.of_index(),
            select: Sliced::new(
                self.read("select_names", format!("{select} >= ? AND column1 < ?")).await?,
                Order::Names(names),
            ),
            check: self.read("check_name", format!("{select} = ?")).await?.of_index(),
        })
    }

    async fn legacy(&self) -> Result<LegacyStatements> {
        let table = self.table("row_key_index");
        let select = format!("SELECT column1 FROM {table}");
        let metric = format!("{select} WHERE key = ?");
        let slice = format!("{metric} AND column1 >= ? AND column1 < ?");
        let last = format!("{metric} ORDER BY column1 DESC LIMIT 1");
        let delete = format!("DELETE FROM {table} {STAMPED} WHERE key = ? AND column1 = ?");
        Ok(LegacyStatements {
            any: self.read("any_legacy_row", format!("{select} LIMIT 1")).await?,
            first: self.read("first_legacy_row", format!("{metric} LIMIT 1")).await?,
            last: self.read("last_legacy_row", last).await?,
            slice: Sliced::new(self.read("select_legacy_rows", slice).await?, Order::Bytes),
            delete: self.write("delete_legacy_row", delete).await?,
        })
    }
}
