//! Whether the login may write to the tables that writes need, found out at the start. Deletes are not looked
//! at: they may need `row_key_index` too, where it holds rows.
//!
//! Nothing is written: each statement has a time to live that cannot be, which Cassandra refuses after it
//! has looked at the permissions and before it does anything. Permissions that go later are errors of
//! the statements that need them.

use scylla::client::session::Session;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};

use super::options::{Options, Role};
use super::schema::failed;
use super::tables::NameColumn;
use super::tag_index::Coverage;
use crate::storage::StoreError;

/// [`StoreError::Denied`] when the login may not write to one of the tables.
pub(super) async fn check(
    session: &Session,
    options: &Options,
    names: NameColumn,
) -> Result<(), StoreError> {
    let keyspace = &options.keyspace;
    // What another adapter is told to index this one writes too.
    let is_indexed = !options.tag_index.metrics.is_empty()
        || !Coverage::read(session, keyspace).await?.is_empty();
    let name = match names {
        NameColumn::Text => "''",
        NameColumn::Blob => "0x00",
    };
    let window = "metric = '' AND table_name = '' AND row_time = 0";
    let row = format!("{window} AND data_type = '' AND tags = {{}}");
    let tagged = format!(
        "{window} AND single_tag_pair = '' AND data_type = '' AND tag_collection_hash = 0 \
         AND tags = {{}}"
    );
    let in_list = format!("key = 0x00 AND column1 = {name}");
    let points = options.role == Role::Write;
    for (is_needed, table, value, row) in [
        (points, "data_points", "0x", "key = 0x00 AND column1 = 0x00"),
        (points, "row_keys", "''", row.as_str()),
        (points, "row_key_time_index", "''", window),
        (points, "string_index", "0x", in_list.as_str()),
        (points && is_indexed, "tag_indexed_row_keys", "''", tagged.as_str()),
        (true, "service_index", "''", "service = '' AND service_key = '' AND key = ''"),
    ] {
        if !is_needed {
            continue;
        }
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
