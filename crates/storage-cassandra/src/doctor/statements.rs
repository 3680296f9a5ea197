//! The doctor's own statements. The scans cover token ranges, page by page; the others read one row
//! or one partition. Fixes write with a write time in milliseconds.
//!
//! Statements on tables that an old KairosDB lacks are None.

use crate::cql::prepared::{Prepared, Preparer, STAMPED, STAMPED_TTL, unless_missing};
use crate::index::pages::Sliced;
use crate::index::split_point::Order;
use crate::schema::tables::NameColumn;
use promkairos_storage::Result;

/// Rows per page of a scan.
const PAGE: i32 = 1_000;

pub(super) struct Statements {
    pub(super) data: Data,
    pub(super) row_keys: RowKeys,
    pub(super) times: Times,
    pub(super) names: Names,
    pub(super) tags: Option<Tags>,
    pub(super) legacy: Option<Legacy>,
}

/// On `data_points`.
pub(super) struct Data {
    /// first token, last token: keys
    pub(super) scan: Prepared,
    /// key, first column, column after the last: column1, write time, TTL
    pub(super) cells: Prepared,
    /// like `cells`: column1, value
    pub(super) values: Prepared,
    /// key: a column, if there is one
    pub(super) any: Prepared,
    /// stamp, key
    pub(super) delete: Prepared,
    /// key and column of a few cells
    pub(super) sample: Prepared,
}

/// On `row_keys`; a window is metric, table name, row time; a row is a window, data type, tags.
pub(super) struct RowKeys {
    /// first token, last token: a row, `mtime` in milliseconds, value, TTL, write time
    pub(super) scan: Prepared,
    /// a row: value, TTL, write time
    pub(super) get: Prepared,
    /// a window: data type, tags, `mtime` in milliseconds
    pub(super) window: Prepared,
    /// stamp, ttl, a row
    pub(super) put: Prepared,
    /// stamp, a row
    pub(super) delete: Prepared,
}

/// On `row_key_time_index`; a row is metric, table name, row time.
pub(super) struct Times {
    /// first token, last token: a row
    pub(super) scan: Prepared,
    /// a row: value, TTL, write time
    pub(super) get: Prepared,
    /// metric, table name: a row time, if there is one
    pub(super) any: Prepared,
    /// stamp, ttl, a row
    pub(super) put: Prepared,
    /// stamp, a row
    pub(super) delete: Prepared,
}

/// On `string_index`.
pub(super) struct Names {
    /// list, first name, name after the last: names
    pub(super) list: Sliced,
    /// list, name
    pub(super) get: Prepared,
    /// list, name, stamp
    pub(super) put: Prepared,
}

/// On `tag_indexed_row_keys`; a row is a window, pair, data type, hash, tags.
pub(super) struct Tags {
    /// first token, last token: a row, `mtime` in milliseconds
    pub(super) scan: Prepared,
    /// a row: its hash
    pub(super) get: Prepared,
    /// a window, pair, data type, tags: the hash
    pub(super) find: Prepared,
    /// stamp, ttl, a row
    pub(super) put: Prepared,
    /// stamp, a row
    pub(super) delete: Prepared,
}

/// On `row_key_index`; a row is metric as bytes, row key.
pub(super) struct Legacy {
    /// first token, last token: metric as bytes, row key
    pub(super) scan: Prepared,
    /// a row
    pub(super) get: Prepared,
    /// metric as bytes: a row key, if there is one
    pub(super) any: Prepared,
    /// stamp, a row
    pub(super) delete: Prepared,
}

/// The partition key of `row_keys`; all columns of a row of `row_key_time_index`.
const PARTITION: &str = "metric, table_name, row_time";
const WINDOW: &str = "metric = ? AND table_name = ? AND row_time = ?";
const STANDING: &str = "value, TTL(value), WRITETIME(value)";

fn between(partition: &str) -> String {
    format!("token({partition}) >= ? AND token({partition}) <= ?")
}

impl Statements {
    /// Prepares the statements, except those on `missing` tables.
    pub(super) async fn prepare(
        on: &Preparer<'_>,
        (missing, names): (&[&'static str], NameColumn),
    ) -> Result<Self> {
        Ok(Self {
            data: Data::prepare(on).await?,
            row_keys: RowKeys::prepare(on).await?,
            times: Times::prepare(on).await?,
            names: Names::prepare(on, names).await?,
            tags: unless_missing(missing, "tag_indexed_row_keys", Tags::prepare(on)).await?,
            legacy: unless_missing(missing, "row_key_index", Legacy::prepare(on)).await?,
        })
    }
}

/// The columns of a table, then the token of their partition.
async fn scan(
    on: &Preparer<'_>,
    name: &'static str,
    (columns, table): (&str, &str),
    key: &str,
) -> Result<Prepared> {
    let cql = format!("SELECT {columns}, token({key}) FROM {table} WHERE {}", between(key));
    let mut prepared = on.read(name, cql).await?;
    prepared.statement.set_page_size(PAGE);
    Ok(prepared)
}

impl Data {
    async fn prepare(on: &Preparer<'_>) -> Result<Self> {
        let table = on.table("data_points");
        let cells = format!("SELECT column1, WRITETIME(value), TTL(value) FROM {table}");
        let any = format!("SELECT column1 FROM {table} WHERE key = ? LIMIT 1");
        let slice = "key = ? AND column1 >= ? AND column1 < ?";
        let values = format!("SELECT column1, value FROM {table} WHERE {slice}");
        let delete = format!("DELETE FROM {table} {STAMPED} WHERE key = ?");
        let sample = format!("SELECT key, column1 FROM {table} LIMIT 2000");
        Ok(Self {
            scan: scan(on, "scan_data", ("DISTINCT key", &table), "key").await?,
            cells: on.read("read_cells", format!("{cells} WHERE {slice}")).await?,
            values: on.read("read_values", values).await?,
            any: on.read("any_point", any).await?,
            delete: on.write("delete_row", delete).await?,
            sample: on.read("sample_cells", sample).await?,
        })
    }
}

impl RowKeys {
    async fn prepare(on: &Preparer<'_>) -> Result<Self> {
        let table = on.table("row_keys");
        let row = format!("{WINDOW} AND data_type = ? AND tags = ?");
        let columns = format!(
            "metric, table_name, row_time, data_type, tags, toUnixTimestamp(mtime), {STANDING}"
        );
        let get = format!("SELECT {STANDING} FROM {table} WHERE {row}");
        let window =
            format!("SELECT data_type, tags, toUnixTimestamp(mtime) FROM {table} WHERE {WINDOW}");
        // An UPDATE does not change how long a row of a neighbour lasts.
        let put = format!("UPDATE {table} {STAMPED_TTL} SET mtime = now(), value = '' WHERE {row}");
        let delete = format!("DELETE FROM {table} {STAMPED} WHERE {row}");
        Ok(Self {
            scan: scan(on, "scan_row_keys", (&columns, &table), PARTITION).await?,
            get: on.read("get_row_key", get).await?,
            window: {
                // Mostly the first row is enough.
                let mut window = on.read("read_window", window).await?;
                window.statement.set_page_size(20);
                window
            },
            put: on.write("put_row_key", put).await?,
            delete: on.write("delete_row_key", delete).await?,
        })
    }
}

impl Times {
    async fn prepare(on: &Preparer<'_>) -> Result<Self> {
        let table = on.table("row_key_time_index");
        let get = format!("SELECT {STANDING} FROM {table} WHERE {WINDOW}");
        let any =
            format!("SELECT row_time FROM {table} WHERE metric = ? AND table_name = ? LIMIT 1");
        let put = format!("UPDATE {table} {STAMPED_TTL} SET value = '' WHERE {WINDOW}");
        let delete = format!("DELETE FROM {table} {STAMPED} WHERE {WINDOW}");
        Ok(Self {
            scan: scan(on, "scan_row_times", (PARTITION, &table), "metric").await?,
            get: on.read("get_row_time", get).await?,
            any: on.read("any_row_time", any).await?,
            put: on.write("put_row_time", put).await?,
            delete: on.write("delete_row_time", delete).await?,
        })
    }
}

impl Names {
    async fn prepare(on: &Preparer<'_>, column: NameColumn) -> Result<Self> {
        let table = on.table("string_index");
        let name = format!("SELECT column1 FROM {table} WHERE key = ? AND column1");
        let put =
            format!("INSERT INTO {table} (key, column1, value) VALUES (?, ?, 0x00) {STAMPED}");
        Ok(Self {
            get: on.read("get_name", format!("{name} = ?")).await?,
            list: Sliced::new(
                on.read("list_names", format!("{name} >= ? AND column1 < ?")).await?,
                Order::Names(column),
            ),
            put: on.write("put_name", put).await?,
        })
    }
}

impl Tags {
    async fn prepare(on: &Preparer<'_>) -> Result<Self> {
        let table = on.table("tag_indexed_row_keys");
        let partition = "metric, table_name, row_time, single_tag_pair";
        let columns =
            format!("{partition}, tag_collection_hash, data_type, tags, toUnixTimestamp(mtime)");
        let pair = format!("{WINDOW} AND single_tag_pair = ? AND data_type = ?");
        let row = format!("{pair} AND tag_collection_hash = ? AND tags = ?");
        let get = format!("SELECT tag_collection_hash FROM {table} WHERE {row}");
        let find = format!(
            "SELECT tag_collection_hash FROM {table} WHERE {pair} AND tags = ? ALLOW FILTERING"
        );
        let put = format!("UPDATE {table} {STAMPED_TTL} SET mtime = now(), value = '' WHERE {row}");
        let delete = format!("DELETE FROM {table} {STAMPED} WHERE {row}");
        Ok(Self {
            scan: scan(on, "scan_tag_index", (&columns, &table), partition).await?,
            get: on.read("get_tag_row", get).await?,
            find: on.read("find_tag_row", find).await?,
            put: on.write("put_tag_row", put).await?,
            delete: on.write("delete_tag_row", delete).await?,
        })
    }
}

impl Legacy {
    async fn prepare(on: &Preparer<'_>) -> Result<Self> {
        let table = on.table("row_key_index");
        let row = "key = ? AND column1 = ?";
        let any = format!("SELECT column1 FROM {table} WHERE key = ? LIMIT 1");
        Ok(Self {
            scan: scan(on, "scan_legacy_index", ("key, column1", &table), "key").await?,
            get: on
                .read("get_legacy_row", format!("SELECT column1 FROM {table} WHERE {row}"))
                .await?,
            any: on.read("any_legacy_row", any).await?,
            delete: on
                .write("delete_legacy_row", format!("DELETE FROM {table} {STAMPED} WHERE {row}"))
                .await?,
        })
    }
}
