//! The rows of an answer. A value of an unexpected type is an error that names the statement.

use scylla::deserialize::row::DeserializeRow;
use scylla::response::query_result::{QueryResult, QueryRowsResult};

use promkairos_storage::{Result, StoreError};

/// The rows of an answer, or of a page of it.
pub(crate) struct Rows {
    statement: &'static str,
    rows: QueryRowsResult,
}

impl Rows {
    /// The rows of the answer to a statement.
    pub(crate) fn of(statement: &'static str, answer: QueryResult) -> Result<Self> {
        let rows = answer.into_rows_result().map_err(|e| unreadable(statement, e))?;
        Ok(Self { statement, rows })
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.rows_num()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The warnings of the server.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = &str> {
        self.rows.warnings()
    }

    /// The rows, one by one.
    pub(crate) fn iter<'f, R: DeserializeRow<'f, 'f>>(
        &'f self,
    ) -> Result<impl Iterator<Item = Result<R>>> {
        let rows = self.rows.rows::<R>().map_err(|e| self.unreadable(e))?;
        Ok(rows.map(|row| row.map_err(|e| self.unreadable(e))))
    }

    /// The first row, if there is any.
    pub(crate) fn first<'f, R: DeserializeRow<'f, 'f>>(&'f self) -> Result<Option<R>> {
        self.rows.maybe_first_row::<R>().map_err(|e| self.unreadable(e))
    }

    /// The first row of an answer that always has one.
    pub(crate) fn one<'f, R: DeserializeRow<'f, 'f>>(&'f self) -> Result<R> {
        self.rows.first_row::<R>().map_err(|e| self.unreadable(e))
    }

    /// The error for a value that is not as expected.
    pub(crate) fn unreadable(
        &self,
        error: impl std::error::Error + Send + Sync + 'static,
    ) -> StoreError {
        unreadable(self.statement, error)
    }
}

fn unreadable(
    statement: &'static str,
    error: impl std::error::Error + Send + Sync + 'static,
) -> StoreError {
    StoreError::backend(format!("Cassandra: answer to {statement}"), error)
}
