//! Whether the login may write to the tables that every write needs, found out at the start.
//!
//! Nothing is written: each statement has a time to live that cannot be, which Cassandra refuses after it
//! has looked at the permissions and before it does anything. Permissions that go later are errors of
//! the statements that need them.

use scylla::client::session::Session;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};

use super::options::Keyspace;
use super::schema::failed;
use super::tables::NameColumn;
use crate::storage::StoreError;

/// [`StoreError::Denied`] when the login may not write to one of the tables.
pub(super) async fn check(
    session: &Session,
    keyspace: &Keyspace,
    names: NameColumn,
) -> Result<(), StoreError> {
    let name = match names {
        NameColumn::Text => "''",
        NameColumn::Blob => "0x00",
    };
    let window = "metric = '' AND table_name = '' AND row_time = 0";
    let row = format!("{window} AND data_type = '' AND tags = {{}}");
    let in_list = format!("key = 0x00 AND column1 = {name}");
    for (table, value, row) in [
        ("data_points", "0x", "key = 0x00 AND column1 = 0x00"),
        ("row_keys", "''", row.as_str()),
        ("row_key_time_index", "''", window),
        ("string_index", "0x", in_list.as_str()),
        ("service_index", "''", "service = '' AND service_key = '' AND key = ''"),
    ] {
        let cql = format!("UPDATE {keyspace}.{table} USING TTL -1 SET value = {value} WHERE {row}");
        match session.query_unpaged(cql, ()).await {
            // It came as far as the time to live.
            Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(
                DbError::Invalid,
                _,
            )))
            | Ok(_) => {}
            Err(error) => return Err(failed(&format!("{keyspace}.{table}"), error)),
        }
    }
    Ok(())
}
