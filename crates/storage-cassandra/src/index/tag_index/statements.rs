//! Statements on `tag_indexed_row_keys`, and those on `service_index` that record its state.
//!
//! The document is replaced only if it is still as it was read (a lightweight transaction), because
//! several adapters may take a step at once. Only these cells carry Cassandra's own write times; no
//! other program writes them, so they override nothing.

use scylla::statement::SerialConsistency;

use crate::cql::prepared::{Batches, Prepared, Preparer, STAMPED, STAMPED_TTL, unless_missing};
use crate::index::pages::Sliced;
use crate::index::split_point::Order;
use promkairos_storage::Result;

/// The statements; those on a table that the keyspace lacks are None.
pub(crate) struct TagIndexStatements {
    pub(crate) rows: Option<TagRowStatements>,
    /// metric, table name; the last row time
    pub(crate) last_row_time: Prepared,
    /// first and last token; the row times of every metric
    pub(crate) every_row_time: Prepared,
    /// first and last token; metric, table name, row time of every partition of `row_keys`
    pub(crate) every_window: Prepared,
    pub(crate) state: Option<StateStatements>,
}

/// On `tag_indexed_row_keys`.
pub(crate) struct TagRowStatements {
    /// stamp, ttl, metric, table name, row time, pair, data type, hash, tags
    pub(crate) insert: Batches,
    /// metric, table name, row time, pair; then data type and hash of two split points
    pub(crate) select: Sliced,
    /// metric, table name, row time, pair, the most rows
    pub(crate) probe: Prepared,
    /// stamp, metric, table name, row time, pair, data type, hash, tags
    pub(crate) delete: Prepared,
    /// stamp, metric, table name, row time, pairs; all their rows
    pub(crate) delete_pairs: Prepared,
    /// one row of the table, if there is any
    pub(crate) any: Prepared,
    /// like `select`; the key of each row, and when our cell of it was written, if it has one
    pub(crate) select_pair: Sliced,
}

/// On `service_index`; all begin with service, service key, key, except as noted.
pub(crate) struct StateStatements {
    pub(crate) get: Prepared,
    /// service, service key
    pub(crate) list: Prepared,
    /// then value, stamp, ttl
    pub(crate) put: Prepared,
    /// stamp first
    pub(crate) remove: Prepared,
    /// then value
    pub(crate) create: Prepared,
    /// value first, the previous value last
    pub(crate) replace: Prepared,
}

impl Preparer<'_> {
    /// Prepares the statements, except those on `missing` tables.
    pub(crate) async fn tag_index(&self, missing: &[&str]) -> Result<TagIndexStatements> {
        let of_ring = |key: &str| format!("WHERE token({key}) >= ? AND token({key}) <= ?");
        let time = format!("SELECT row_time FROM {}", self.table("row_key_time_index"));
        let every_time = format!("{time} {}", of_ring("metric"));
        let last = format!(
            "{time} WHERE metric = ? AND table_name = ? \
             ORDER BY table_name DESC, row_time DESC LIMIT 1"
        );
        let window = "metric, table_name, row_time";
        let row_keys = self.table("row_keys");
        let windows = format!("SELECT DISTINCT {window} FROM {row_keys} {}", of_ring(window));
        let mut every_window = self.read("every_window", windows).await?;
        // Each row of a page is a partition to look up.
        every_window.statement.set_page_size(1_000.min(self.options.page_size));
        Ok(TagIndexStatements {
            rows: unless_missing(missing, "tag_indexed_row_keys", self.tag_rows()).await?,
            last_row_time: self.read("last_row_time", last).await?,
            every_row_time: self.read("every_row_time", every_time).await?,
            every_window,
            state: unless_missing(missing, "service_index", self.state()).await?,
        })
    }

    async fn tag_rows(&self) -> Result<TagRowStatements> {
        let table = self.table("tag_indexed_row_keys");
        let window = "metric = ? AND table_name = ? AND row_time = ?";
        let pair = format!("{window} AND single_tag_pair = ?");
        // An INSERT with our TTL would replace a neighbour's row that lasts longer.
        let row = format!("{pair} AND data_type = ? AND tag_collection_hash = ? AND tags = ?");
        let insert =
            format!("UPDATE {table} {STAMPED_TTL} SET mtime = now(), value = '' WHERE {row}");
        let insert = self.write("insert_tag_row", insert).await?.of_index();
        let tags = format!("SELECT data_type, tags FROM {table} WHERE {pair}");
        let slice = "(data_type, tag_collection_hash) >= (?, ?) AND (data_type, tag_collection_hash) < (?, ?)";
        let select = format!("{tags} AND {slice}");
        let delete = format!("DELETE value FROM {table} {STAMPED} WHERE {row}");
        let delete_pairs =
            format!("DELETE FROM {table} {STAMPED} WHERE {window} AND single_tag_pair IN ?");
        let whole = format!(
            "SELECT data_type, tag_collection_hash, tags, WRITETIME(value) FROM {table} \
             WHERE {pair} AND {slice}"
        );
        Ok(TagRowStatements {
            insert: Batches::new(insert),
            probe: self.read("probe_tag_rows", format!("{tags} LIMIT ?")).await?,
            select: Sliced::new(self.read("select_tag_rows", select).await?, Order::Hashes),
            delete: self.write("delete_tag_row", delete).await?,
            delete_pairs: self.write("delete_tag_pairs", delete_pairs).await?,
            any: self.read("any_tag_row", format!("SELECT data_type FROM {table} LIMIT 1")).await?,
            select_pair: Sliced::new(self.read("select_tag_pair", whole).await?, Order::Hashes),
        })
    }

    async fn state(&self) -> Result<StateStatements> {
        let table = self.table("service_index");
        let row = "service = ? AND service_key = ? AND key = ?";
        let list = format!("SELECT key, value FROM {table} WHERE service = ? AND service_key = ?");
        let insert = format!("INSERT INTO {table} (service, service_key, key, value)");
        let put = format!("{insert} VALUES (?, ?, ?, ?) {STAMPED_TTL}");
        let remove = format!("DELETE FROM {table} {STAMPED} WHERE {row}");
        let create = format!("{insert} VALUES (?, ?, ?, ?) IF NOT EXISTS");
        let replace = format!("UPDATE {table} SET value = ? WHERE {row} IF value = ?");
        Ok(StateStatements {
            get: self.read("get_tag_index", format!("{list} AND key = ?")).await?,
            list: self.read("list_tag_index", list).await?,
            put: self.write("put_tag_index", put).await?,
            remove: self.write("remove_tag_index", remove).await?,
            create: serial(self.write("create_tag_index", create).await?),
            replace: serial(self.write("replace_tag_index", replace).await?),
        })
    }
}

/// Adapters may run in several data centres: one adapter of all takes a step, not one in each.
fn serial(mut prepared: Prepared) -> Prepared {
    prepared.statement.set_serial_consistency(Some(SerialConsistency::Serial));
    prepared
}
