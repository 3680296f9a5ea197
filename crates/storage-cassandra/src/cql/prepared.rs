//! Prepared statements: their names in metrics, the permits that they need, and batches of them. Each is idempotent.
//!
//! Each write and delete carries its time in milliseconds, like KairosDB's: a stamp in microseconds would win for
//! ever. `TTL 0` means none. This file knows no table.

use scylla::client::session::Session;
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::unprepared::Statement;

use crate::options::Options;
use promkairos_storage::{Result, StoreError};

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
    pub(crate) fn of_points(self) -> Self {
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

/// The statements on a table that an old keyspace may lack.
pub(crate) fn there<'a, T>(statements: &'a Option<T>, table: &str) -> Result<&'a T> {
    statements.as_ref().ok_or_else(|| StoreError::Invalid(format!("there is no table {table}")))
}

/// Prepares the statements on a table, unless the keyspace lacks it.
pub(crate) async fn unless_missing<T>(
    missing: &[&str],
    table: &str,
    statements: impl Future<Output = Result<T>>,
) -> Result<Option<T>> {
    if missing.contains(&table) {
        return Ok(None);
    }
    statements.await.map(Some)
}

/// Prepares statements, each with the consistency of its kind.
pub(crate) struct Preparer<'a> {
    pub(crate) session: &'a Session,
    pub(crate) options: &'a Options,
}

/// Stamps a write or a delete.
pub(crate) const STAMPED: &str = "USING TIMESTAMP ?";
/// Stamps a write that expires.
pub(crate) const STAMPED_TTL: &str = "USING TIMESTAMP ? AND TTL ?";

impl Preparer<'_> {
    /// A table of the keyspace in CQL.
    pub(crate) fn table(&self, name: &str) -> String {
        self.options.keyspace.table(name)
    }

    pub(crate) async fn write(&self, name: &'static str, cql: String) -> Result<Prepared> {
        self.prepare(name, cql, self.options.write_consistency).await
    }

    pub(crate) async fn read(&self, name: &'static str, cql: String) -> Result<Prepared> {
        self.prepare(name, cql, self.options.read_consistency).await
    }

    pub(crate) async fn prepare(
        &self,
        name: &'static str,
        cql: String,
        consistency: Consistency,
    ) -> Result<Prepared> {
        let mut statement = Statement::new(cql).with_page_size(self.options.page_size);
        statement.set_is_idempotent(true);
        statement.set_consistency(consistency);
        let prepared = self.session.prepare(statement).await;
        let lane = Lane::Common;
        prepared
            .map(|statement| Prepared { name, lane, statement })
            .map_err(|error| StoreError::backend(format!("Cassandra: preparing {name}"), error))
    }
}
