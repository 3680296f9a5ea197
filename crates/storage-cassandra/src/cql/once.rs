//! Queries and statements that run once, at the start or in the doctor: not prepared, not tried again.

use scylla::client::session::Session;

use crate::cql::cause;
use crate::cql::retry::{Verdict, judge};
use crate::cql::rows::Rows;
use promkairos_storage::{Result, StoreError};

/// The rows of a query that runs once.
pub(crate) async fn rows<R>(
    session: &Session,
    cql: &str,
    values: impl scylla::serialize::row::SerializeRow,
) -> Result<Vec<R>>
where
    R: for<'f, 'm> scylla::deserialize::row::DeserializeRow<'f, 'm>,
{
    let result = session.query_unpaged(cql, values).await.map_err(|e| failed(cql, e))?;
    Rows::of("a schema query", result)?.iter()?.collect()
}

/// Runs a statement once.
pub(crate) async fn run(
    session: &Session,
    cql: &str,
    values: impl scylla::serialize::row::SerializeRow,
) -> Result<()> {
    session.query_unpaged(cql, values).await.map(drop).map_err(|e| failed(cql, e))
}

/// The error for what failed at the start.
pub(crate) fn failed(what: &str, error: scylla::errors::ExecutionError) -> StoreError {
    let what = format!("Cassandra: {what}");
    match judge(&error) {
        Verdict::Again | Verdict::Unreached | Verdict::Unread => {
            StoreError::unavailable(format!("{what}: {}", cause::of_execution(&error)))
        }
        Verdict::Denied => StoreError::Denied(format!("{what}: {}", cause::of_execution(&error))),
        Verdict::Refused | Verdict::Broken => StoreError::backend(what, error),
    }
}
