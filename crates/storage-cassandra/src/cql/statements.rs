//! Every statement on the data, prepared once. Each is idempotent. Each write and delete carries
//! its time in milliseconds, like KairosDB's: a stamp in microseconds would win for ever.
//!
//! `TTL 0` means none. Our index rows have `value = ''`, which makes their TTL readable.

use scylla::client::session::Session;
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::unprepared::Statement;

use crate::index::pages::Sliced;
use crate::index::split_point::Order;
use crate::index::tag_index::statements::{StateStatements, TagIndexStatements, TagRowStatements};
use crate::options::Options;
use crate::schema::tables::NameColumn;
use promkairos_storage::StoreError;

/// The most partitions in one unlogged batch; Cassandra warns above a limit and refuses above a higher one.
pub(crate) const MAX_BATCH_PARTITIONS: usize = 50;
/// The most rows in one batch.
pub(crate) const MAX_BATCH_ROWS: usize = 240;

/// A prepared statement and its name in metrics.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub(crate) name: &'static str,
    pub(crate) lane: Lane,
    pub(crate) statement: PreparedStatement,
}

/// Which permits a statement needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
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
    pub(crate) fn of_index(self) -> Self {
        Self { lane: Lane::Index, ..self }
    }

    /// The statement, in the lane for points.
    fn of_points(self) -> Self {
        Self { lane: Lane::Points, ..self }
    }
}

/// A statement for one row, and unlogged batches of it by their number of rows.
pub(crate) struct Batches {
    pub(crate) one: Prepared,
    by_rows: Vec<Batch>,
}

impl Batches {
    pub(crate) fn new(one: Prepared) -> Self {
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
    pub(crate) fn of(&self, rows: usize) -> &Batch {
        &self.by_rows[rows - 1]
    }
}

/// All statements; those on a table that the keyspace lacks are None.
pub(crate) struct Statements {
    pub(crate) points: PointStatements,
    pub(crate) row_keys: RowKeyStatements,
    pub(crate) row_times: RowTimeStatements,
    pub(crate) names: NameStatements,
    pub(crate) legacy: Option<LegacyStatements>,
    pub(crate) metadata: Option<MetadataStatements>,
    pub(crate) tags: TagIndexStatements,
    /// Milliseconds since 1970 by the coordinator's clock.
    pub(crate) clock: Prepared,
    /// The names of the tables of the keyspace.
    pub(crate) tables: Prepared,
}

/// On `data_points`.
pub(crate) struct PointStatements {
    /// key, column1, value, stamp, ttl
    pub(crate) insert: Batches,
    /// key, first column, column after the last
    pub(crate) select: Prepared,
    /// like `select`, with the TTL of each cell
    pub(crate) select_lasting: Prepared,
    /// key, column1
    pub(crate) write_time: Prepared,
    /// key; one cell, if there is any
    pub(crate) any: Prepared,
    /// stamp, key, first column, column after the last
    pub(crate) delete: Prepared,
    /// stamp, keys
    pub(crate) delete_rows: Prepared,
    /// keys; returns those that have any cell
    pub(crate) standing: Prepared,
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

/// On `service_index`; all begin with service, service key.
pub(crate) struct MetadataStatements {
    /// then key, value, stamp
    pub(crate) insert: Prepared,
    /// then key
    pub(crate) select: Prepared,
    pub(crate) select_all: Prepared,
}

impl Statements {
    /// Prepares all statements except those on `missing` tables; names are in a column of this type.
    pub(crate) async fn prepare(
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
    pub(crate) fn legacy(&self) -> Result<&LegacyStatements, StoreError> {
        there(&self.legacy, "row_key_index")
    }

    pub(crate) fn metadata(&self) -> Result<&MetadataStatements, StoreError> {
        there(&self.metadata, "service_index")
    }

    pub(crate) fn tag_rows(&self) -> Result<&TagRowStatements, StoreError> {
        there(&self.tags.rows, "tag_indexed_row_keys")
    }

    pub(crate) fn tag_state(&self) -> Result<&StateStatements, StoreError> {
        there(&self.tags.state, "service_index")
    }
}

fn there<'a, T>(statements: &'a Option<T>, table: &str) -> Result<&'a T, StoreError> {
    statements.as_ref().ok_or_else(|| StoreError::Invalid(format!("there is no table {table}")))
}

/// Prepares statements, each with the consistency of its kind.
pub(crate) struct Preparer<'a> {
    pub(crate) session: &'a Session,
    pub(crate) options: &'a Options,
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

    pub(crate) async fn write(
        &self,
        name: &'static str,
        cql: String,
    ) -> Result<Prepared, StoreError> {
        self.prepare(name, cql, self.options.write_consistency).await
    }

    pub(crate) async fn read(
        &self,
        name: &'static str,
        cql: String,
    ) -> Result<Prepared, StoreError> {
        self.prepare(name, cql, self.options.read_consistency).await
    }

    pub(crate) async fn prepare(
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
