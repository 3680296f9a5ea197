//! Every statement on the data, prepared once. Each is idempotent. Each write and delete carries
//! its time in milliseconds, like KairosDB's: a stamp in microseconds would win for ever.
//!
//! `TTL 0` means none. Our index rows have `value = ''`, which makes their TTL readable.

use scylla::client::session::Session;
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::unprepared::Statement;

use super::index_pages::Sliced;
use super::options::Options;
use super::split_point::Order;
use super::tables::NameColumn;
use super::tag_index::{StateStatements, TagIndexStatements, TagRowStatements};
use promkairos_storage::StoreError;

/// The most partitions in one unlogged batch; Cassandra warns above a limit and refuses above a higher one.
pub(super) const MAX_BATCH_PARTITIONS: usize = 50;
/// The most rows in one batch.
pub(super) const MAX_BATCH_ROWS: usize = 240;

/// A prepared statement and its name in metrics.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    pub(super) name: &'static str,
    pub(super) lane: Lane,
    pub(super) statement: PreparedStatement,
}

/// Which permits a statement needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// A common permit only.
    Common,
    /// Before it, a permit for statements on the index rows of a write: they are many when many
    /// series are new.
    Index,
    /// Before it, a permit for writes of points: no more than the servers keep up with.
    Points,
}

impl Prepared {
    /// The statement, in the lane for index rows.
    pub(super) fn of_index(self) -> Self {
        Self { lane: Lane::Index, ..self }
    }

    /// The statement, in the lane for points.
    fn of_points(self) -> Self {
        Self { lane: Lane::Points, ..self }
    }
}

/// A statement for one row, and unlogged batches of it by their number of rows.
pub(super) struct Batches {
    pub(super) one: Prepared,
    by_rows: Vec<Batch>,
}

impl Batches {
    pub(super) fn new(one: Prepared) -> Self {
        let mut statements = Vec::with_capacity(MAX_BATCH_ROWS);
        let mut by_rows = Vec::with_capacity(MAX_BATCH_ROWS);
        let consistency = one.statement.get_consistency();
        for _ in 0..MAX_BATCH_ROWS {
            statements.push(one.statement.clone().into());
            let mut batch = Batch::new_with_statements(BatchType::Unlogged, statements.clone());
            batch.set_is_idempotent(true);
            if let Some(consistency) = consistency {
                batch.set_consistency(consistency);
            }
            by_rows.push(batch);
        }
        Self { one, by_rows }
    }

    /// The batch for `rows` rows; 1 to [`MAX_BATCH_ROWS`].
    pub(super) fn of(&self, rows: usize) -> &Batch {
        &self.by_rows[rows - 1]
    }
}

/// All statements; those on a table that the keyspace lacks are None.
pub(super) struct Statements {
    pub(super) points: PointStatements,
    pub(super) row_keys: RowKeyStatements,
    pub(super) row_times: RowTimeStatements,
    pub(super) names: NameStatements,
    pub(super) legacy: Option<LegacyStatements>,
    pub(super) metadata: Option<MetadataStatements>,
    pub(super) tags: TagIndexStatements,
    /// Milliseconds since 1970 by the coordinator's clock.
    pub(super) clock: Prepared,
    /// The names of the tables of the keyspace.
    pub(super) tables: Prepared,
}

/// On `data_points`.
pub(super) struct PointStatements {
    /// key, column1, value, stamp, ttl
    pub(super) insert: Batches,
    /// key, first column, column after the last
    pub(super) select: Prepared,
    /// like `select`, with the TTL of each cell
    pub(super) select_lasting: Prepared,
    /// key, column1
    pub(super) write_time: Prepared,
    /// key; one cell, if there is any
    pub(super) any: Prepared,
    /// stamp, key, first column, column after the last
    pub(super) delete: Prepared,
    /// stamp, keys
    pub(super) delete_rows: Prepared,
    /// keys; returns those that have any cell
    pub(super) standing: Prepared,
}

/// On `row_keys`; all begin with metric, table name, row time, `delete` with its stamp.
pub(super) struct RowKeyStatements {
    /// stamp, ttl, mtime; then data type, tags
    pub(super) insert: Batches,
    /// then data type, tags of two split points
    pub(super) select: Sliced,
    /// with its write time
    pub(super) mtime: Prepared,
    /// like `mtime`, for many metrics, which are the first value
    pub(super) mtimes: Prepared,
    /// like `select`, with value and its TTL
    pub(super) check: Sliced,
    /// one row, if there is any
    pub(super) any: Prepared,
    /// then data type, tags
    pub(super) delete: Prepared,
    /// all rows of the window, of any writer
    pub(super) delete_all: Prepared,
}

/// On `row_key_time_index`.
pub(super) struct RowTimeStatements {
    /// stamp, ttl, metric, table name, row time
    pub(super) insert: Prepared,
    /// metric, table name, first row time, row time after the last
    pub(super) select: Sliced,
    /// metrics, table names, first row time, last row time
    pub(super) select_many: Prepared,
    /// metric, table name, row time
    pub(super) check: Prepared,
    /// stamp, metric, table name, row time
    pub(super) delete: Prepared,
}

/// On `string_index`.
pub(super) struct NameStatements {
    /// list, name, stamp
    pub(super) insert: Prepared,
    /// list, first name, name after the last
    pub(super) select: Sliced,
    /// list, name
    pub(super) check: Prepared,
}

/// On the legacy `row_key_index`; all but `any` begin with the metric, `delete` with its stamp.
pub(super) struct LegacyStatements {
    /// one row of the table, if there is any
    pub(super) any: Prepared,
    /// the first column
    pub(super) first: Prepared,
    /// the last column
    pub(super) last: Prepared,
    /// then first column, column after the last
    pub(super) slice: Sliced,
    /// then column
    pub(super) delete: Prepared,
}

/// On `service_index`; all begin with service, service key.
pub(super) struct MetadataStatements {
    /// then key, value, stamp
    pub(super) insert: Prepared,
    /// then key
    pub(super) select: Prepared,
    pub(super) select_all: Prepared,
}

impl Statements {
    /// Prepares all statements except those on `missing` tables; names are in a column of this type.
    pub(super) async fn prepare(
        session: &Session,
        options: &Options,
        (missing, names): (&[&str], NameColumn),
    ) -> Result<Self, StoreError> {
        let on = Preparer { session, options };
        let clock = "SELECT toUnixTimestamp(now()) FROM system.local".into();
        let tables = format!(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{}'",
            options.keyspace
        );
        Ok(Self {
            points: on.points().await?,
            row_keys: on.row_keys().await?,
            row_times: on.row_times().await?,
            names: on.names(names).await?,
            legacy: match missing.contains(&"row_key_index") {
                true => None,
                false => Some(on.legacy().await?),
            },
            metadata: match missing.contains(&"service_index") {
                true => None,
                false => Some(on.metadata().await?),
            },
            tags: on.tag_index(missing).await?,
            clock: on.prepare("clock", clock, Consistency::One).await?,
            tables: on.prepare("tables", tables, Consistency::One).await?,
        })
    }
}

impl Statements {
    pub(super) fn legacy(&self) -> Result<&LegacyStatements, StoreError> {
        there(&self.legacy, "row_key_index")
    }

    pub(super) fn metadata(&self) -> Result<&MetadataStatements, StoreError> {
        there(&self.metadata, "service_index")
    }

    pub(super) fn tag_rows(&self) -> Result<&TagRowStatements, StoreError> {
        there(&self.tags.rows, "tag_indexed_row_keys")
    }

    pub(super) fn tag_state(&self) -> Result<&StateStatements, StoreError> {
        there(&self.tags.state, "service_index")
    }
}

fn there<'a, T>(statements: &'a Option<T>, table: &str) -> Result<&'a T, StoreError> {
    statements.as_ref().ok_or_else(|| StoreError::Invalid(format!("there is no table {table}")))
}

/// Prepares statements, each with the consistency of its kind.
pub(super) struct Preparer<'a> {
    pub(super) session: &'a Session,
    pub(super) options: &'a Options,
}

const INDEX_ROW: &str = "metric = ? AND table_name = ? AND row_time = ?";
const STAMPED: &str = "USING TIMESTAMP ?";
const STAMPED_TTL: &str = "USING TIMESTAMP ? AND TTL ?";

impl Preparer<'_> {
    async fn points(&self) -> Result<PointStatements, StoreError> {
        let table = self.options.keyspace.table("data_points");
        let slice = "key = ? AND column1 >= ? AND column1 < ?";
        let columns = "(key, column1, value) VALUES (?, ?, ?)";
        let insert =
            self.write("insert_point", format!("INSERT INTO {table} {columns} {STAMPED_TTL}"));
        let insert = insert.await?.of_points();
        let select = format!("SELECT column1, value FROM {table} WHERE {slice}");
        let lasting = format!("SELECT column1, value, TTL(value) FROM {table} WHERE {slice}");
        let write_time =
            format!("SELECT WRITETIME(value) FROM {table} WHERE key = ? AND column1 = ?");
        let delete = format!("DELETE FROM {table} {STAMPED} WHERE {slice}");
        let any = format!("SELECT column1 FROM {table} WHERE key = ? LIMIT 1");
        let delete_rows = format!("DELETE FROM {table} {STAMPED} WHERE key IN ?");
        let standing = format!("SELECT DISTINCT key FROM {table} WHERE key IN ?");
        Ok(PointStatements {
            insert: Batches::new(insert),
            select: self.read("select_points", select).await?,
            select_lasting: self.read("select_lasting_points", lasting).await?,
            write_time: self.read("select_write_time", write_time).await?,
            any: self.read("any_point", any).await?,
            delete: self.write("delete_points", delete).await?,
            delete_rows: self.write("delete_rows", delete_rows).await?,
            standing: self.read("standing_rows", standing).await?,
        })
    }

    async fn row_keys(&self) -> Result<RowKeyStatements, StoreError> {
        let table = self.options.keyspace.table("row_keys");
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

    async fn row_times(&self) -> Result<RowTimeStatements, StoreError> {
        let table = self.options.keyspace.table("row_key_time_index");
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

    async fn names(&self, names: NameColumn) -> Result<NameStatements, StoreError> {
        let table = self.options.keyspace.table("string_index");
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

    async fn legacy(&self) -> Result<LegacyStatements, StoreError> {
        let table = self.options.keyspace.table("row_key_index");
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

    async fn metadata(&self) -> Result<MetadataStatements, StoreError> {
        let table = self.options.keyspace.table("service_index");
        let insert = format!(
            "INSERT INTO {table} (service, service_key, key, mtime, value) \
             VALUES (?, ?, ?, now(), ?) {STAMPED}"
        );
        let all = format!("SELECT key, value FROM {table} WHERE service = ? AND service_key = ?");
        let select = format!("{all} AND key = ?");
        Ok(MetadataStatements {
            insert: self.write("insert_metadata", insert).await?,
            select: self.read("select_metadata", select).await?,
            select_all: self.read("select_all_metadata", all).await?,
        })
    }

    pub(super) async fn write(
        &self,
        name: &'static str,
        cql: String,
    ) -> Result<Prepared, StoreError> {
        self.prepare(name, cql, self.options.write_consistency).await
    }

    pub(super) async fn read(
        &self,
        name: &'static str,
        cql: String,
    ) -> Result<Prepared, StoreError> {
        self.prepare(name, cql, self.options.read_consistency).await
    }

    pub(super) async fn prepare(
        &self,
        name: &'static str,
        cql: String,
        consistency: Consistency,
    ) -> Result<Prepared, StoreError> {
        let mut statement = Statement::new(cql).with_page_size(self.options.page_size);
        statement.set_is_idempotent(true);
        statement.set_consistency(consistency);
        let prepared = self.session.prepare(statement).await;
        let lane = Lane::Common;
        prepared.map(|statement| Prepared { name, lane, statement }).map_err(|error| {
            StoreError::Backend {
                what: format!("Cassandra: preparing {name}"),
                source: Box::new(error),
            }
        })
    }
}
