//! Checks at the start whether the login may read and write the tables that reads and writes need.
//! Deletes are not checked: they may also need to write `row_key_index`, where it holds rows.
//!
//! Nothing is written: each write statement has an invalid TTL, which Cassandra refuses after it checked
//! the permissions and before it does anything. The rows that are read do not exist. Permissions that are
//! revoked later are errors of the statements that need them.

use scylla::client::session::Session;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};

use crate::cql::once::failed;
use crate::options::{Options, Role};
use crate::schema::tables::NameColumn;
use crate::schema::tag_index_coverage::Coverage;
use promkairos_storage::Result;

/// The permissions that a table needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Nothing,
    Read,
    ReadAndWrite,
}

/// `StoreError::Denied` when the login lacks a permission on a table. Tables in `missing` are not
/// checked.
pub(crate) async fn check(
    session: &Session,
    options: &Options,
    names: NameColumn,
    missing: &[&str],
) -> Result<()> {
    let keyspace = &options.keyspace;
    for (need, table, value, row) in tables(session, options, names, missing).await? {
        let full = keyspace.table(table);
        let select = format!("SELECT value FROM {full} WHERE {row}");
        let update = format!("UPDATE {full} USING TTL -1 SET value = {value} WHERE {row}");
        let statements: &[String] = match need {
            _ if missing.contains(&table) => &[],
            Need::Nothing => &[],
            Need::Read => &[select],
            Need::ReadAndWrite => &[select, update],
        };
        for cql in statements {
            match session.query_unpaged(cql.as_str(), ()).await {
                // The server got as far as the TTL.
                Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(
                    DbError::Invalid,
                    _,
                )))
                | Ok(_) => {}
                Err(error) => return Err(failed(&format!("{keyspace}.{table}"), error)),
            }
        }
    }
    Ok(())
}

/// The tables with the needed permissions, a value, and the key of a row that does not exist.
async fn tables(
    session: &Session,
    options: &Options,
    names: NameColumn,
    missing: &[&str],
) -> Result<[(Need, &'static str, &'static str, String); 7]> {
    let points = match options.role {
        Role::Write => Need::ReadAndWrite,
        Role::Read => Need::Read,
        Role::Metadata => Need::Nothing,
    };
    let metadata = if options.role == Role::Read { Need::Read } else { Need::ReadAndWrite };
    // This adapter also writes index rows for tags that another adapter was set to index.
    let is_indexed = points != Need::Nothing
        && (!options.tag_index.metrics.is_empty()
            || !missing.contains(&"service_index")
                && !Coverage::read(session, &options.keyspace).await?.is_empty());
    let tags = if is_indexed { points } else { Need::Nothing };
    let legacy = if points == Need::Nothing { Need::Nothing } else { Need::Read };
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
    let cell = "key = 0x00 AND column1 = 0x00".to_owned();
    let service = "service = '' AND service_key = '' AND key = ''".to_owned();
    Ok([
        (metadata, "service_index", "''", service),
        (points, "data_points", "0x", cell.clone()),
        (points, "row_keys", "''", row),
        (points, "row_key_time_index", "''", window.to_owned()),
        (points, "string_index", "0x", format!("key = 0x00 AND column1 = {name}")),
        (legacy, "row_key_index", "0x", cell),
        (tags, "tag_indexed_row_keys", "''", tagged),
    ])
}
