//! The keyspace: creates missing tables, verifies existing ones.
//!
//! A keyspace that is only read is never changed, whatever it lacks. In any other, nothing is written
//! before everything that exists was verified. `spec` handles how time is cut.

pub(crate) mod permissions;
pub(crate) mod spec;
pub(crate) mod tables;
pub(crate) mod tag_index_coverage;
pub mod tag_index_document;

use scylla::client::session::Session;
use scylla::errors::{DbError, PrepareError, RequestAttemptError};
use scylla::statement::Consistency;

use crate::cql::datacenter;
use crate::cql::executor::Executor;
use crate::cql::once::{failed, rows, run};
use crate::cql::prepared::{Prepared, Preparer};
use crate::options::{Keyspace, Options, Role, replication_cql};
use crate::schema::tables::{NameColumn, TABLES, Table, columns, verify};
use promkairos_kairos::{RowSpec, TimeUnit};
use promkairos_storage::{Result, StoreError};

/// Tables without which no point can be written or found.
const NEEDED: [&str; 4] = ["data_points", "row_keys", "row_key_time_index", "string_index"];

/// Also needed by writes: it holds the epochs of metrics.
const EPOCHS: &str = "service_index";

/// The properties of an opened keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenedKeyspace {
    /// How time is cut into rows.
    pub(crate) row_spec: RowSpec,
    /// The type of `string_index.column1`.
    pub(crate) names: NameColumn,
    /// Missing tables; only a keyspace that is only read has any.
    pub(crate) missing: Vec<&'static str>,
}

/// Verifies the keyspace and finds its `spec`. Creates what is missing, unless it is only read.
pub(crate) async fn open(session: &Session, options: &Options) -> Result<OpenedKeyspace> {
    match options.role {
        Role::Read => look(session, options).await,
        Role::Write | Role::Metadata => prepare(session, options).await,
    }
}

async fn look(session: &Session, options: &Options) -> Result<OpenedKeyspace> {
    let keyspace = &options.keyspace;
    let Inspected { names, spec, missing } = inspect(session, keyspace).await?;
    permissions::check(session, options, names, &missing).await?;
    let row_spec = match spec {
        Some(spec) => Some(spec),
        None => spec::of_data(session, keyspace, &missing).await?,
    };
    let row_spec = row_spec.ok_or_else(|| {
        let what = "has neither data nor a spec that says how it cuts time";
        StoreError::Invalid(format!("keyspace {keyspace} {what}"))
    })?;
    Ok(OpenedKeyspace { row_spec, names, missing })
}

async fn prepare(session: &Session, options: &Options) -> Result<OpenedKeyspace> {
    let keyspace = &options.keyspace;
    let there = columns(session, keyspace).await?;
    let mut names = verify(keyspace, &there)?;
    let is_known = |name: &&String| TABLES.iter().any(|table| table.name == name.as_str());
    if let Some(foreign) = there.keys().next().filter(|_| !there.keys().any(|name| is_known(&name)))
    {
        return Err(StoreError::Invalid(format!(
            "keyspace {keyspace} is not KairosDB's: it has the table {foreign} and none of \
             KairosDB's; nothing was written"
        )));
    }
    let mut missing = Vec::new();
    for table in &TABLES {
        if !there.contains_key(table.name) || is_forgotten(session, keyspace, table).await? {
            missing.push(table);
        }
    }
    if missing.iter().all(|table| table.name != "spec") {
        spec::stored(session, keyspace).await?;
    }
    if missing.len() == TABLES.len() {
        create_keyspace(session, options).await?;
    }
    for table in &missing {
        run(session, &table.create(keyspace), ()).await?;
    }
    if !missing.is_empty() {
        // Another program may have been first, with other tables or another type of names.
        names = verify(keyspace, &columns(session, keyspace).await?)?;
    }
    permissions::check(session, options, names, &[]).await?;
    let row_spec = spec::settle(session, options).await?;
    if row_spec.unit() == TimeUnit::Seconds {
        tracing::warn!(
            %keyspace,
            "the keyspace counts seconds: points lose the digits below a second after their row \
             time, as KairosDB's do, and of several in one second the last one stays"
        );
    }
    if options.role == Role::Write && options.tag_index.metrics.is_empty() {
        warn_of_neighbours_tags(session, keyspace).await;
    }
    Ok(OpenedKeyspace { row_spec, names, missing: Vec::new() })
}

/// Whether a table is listed, but unknown to the servers. At its start Cassandra reads the list of tables
/// before it replays the log of changes to the list. So a Cassandra that was killed while it created a
/// table knows the table only after one more start, or when the table is created again.
async fn is_forgotten(session: &Session, keyspace: &Keyspace, table: &Table) -> Result<bool> {
    let cql = format!("SELECT value FROM {}", keyspace.table(table.name));
    match session.prepare(cql.as_str()).await {
        Ok(_) => Ok(false),
        Err(PrepareError::AllAttemptsFailed {
            first_attempt: RequestAttemptError::DbError(DbError::Invalid, _),
        }) => Ok(true),
        Err(error) => Err(failed(&cql, error.into())),
    }
}

/// Creates the keyspace. A listed keyspace may be unknown to the servers, like its tables (see
/// [`is_forgotten`]). A login that may not create it then gets the error of the first table.
async fn create_keyspace(session: &Session, options: &Options) -> Result<()> {
    let keyspace = &options.keyspace;
    let listed = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let listed: Vec<(String,)> = rows(session, listed, (keyspace.as_str(),)).await?;
    if listed.is_empty() {
        datacenter::check_copies(session, &options.replication)?;
    }
    let replication = replication_cql(&options.replication);
    let cql =
        format!("CREATE KEYSPACE IF NOT EXISTS \"{keyspace}\" WITH REPLICATION = {replication}");
    match run(session, &cql, ()).await {
        Err(StoreError::Denied(_)) if !listed.is_empty() => Ok(()),
        created => created,
    }
}

/// KairosDB finds by an indexed tag only series with rows in `tag_indexed_row_keys`.
async fn warn_of_neighbours_tags(session: &Session, keyspace: &Keyspace) {
    let table = keyspace.table("tag_indexed_row_keys");
    let cql = format!("SELECT data_type, value FROM {table} LIMIT 100");
    type Row = (Option<String>, Option<String>);
    let found: Vec<Row> = match rows(session, &cql, ()).await {
        Ok(found) => found,
        // Also where too many rows are dead: nothing depends on the answer.
        Err(error) => return tracing::debug!(%error, "whether KairosDB indexes tags is not known"),
    };
    // Our rows have a value.
    if found.iter().any(|(data_type, value)| data_type.is_some() && value.is_none()) {
        tracing::warn!(
            %keyspace,
            "KairosDB indexes tags here and promkairos has no list of them: of the metrics that it \
             indexes it will not find by a tag what promkairos writes; repeat its list in \
             tag_indexed_row_key_lookup_metrics, or take it over with --kairosdb-config"
        );
    }
}

/// The statement for [`check_tables`].
pub(crate) async fn prepare_tables(on: &Preparer<'_>) -> Result<Prepared> {
    let tables = format!(
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{}'",
        on.options.keyspace
    );
    on.prepare("tables", tables, Consistency::One).await
}

/// Whether the tables that writes need still exist. A table that was dropped while the keyspace is open is created
/// again when the keyspace is opened.
pub(crate) async fn check_tables(
    executor: &Executor,
    statement: &Prepared,
    keyspace: &Keyspace,
) -> Result<()> {
    let rows = executor.rows(statement, (), executor.deadline()).await?;
    let mut missing: Vec<&str> = NEEDED.into_iter().chain([EPOCHS]).collect();
    for row in rows.iter::<(&str,)>()? {
        let (table,) = row?;
        missing.retain(|needed| *needed != table);
    }
    let Some(table) = missing.first() else { return Ok(()) };
    Err(StoreError::unavailable(format!(
        "keyspace {keyspace} has no table {table} any more: a start of promkairos makes it again, empty, and \
         promkairos doctor --fix finds what the index misses"
    )))
}

/// The properties of a keyspace, for callers that create nothing.
pub(crate) struct Inspected {
    pub(crate) names: NameColumn,
    /// None = there is no `spec`.
    pub(crate) spec: Option<RowSpec>,
    /// Missing tables, except those that data needs: without them the keyspace is refused.
    pub(crate) missing: Vec<&'static str>,
}

/// Verifies the keyspace and writes nothing. Refuses one that is missing or is not KairosDB's.
pub(crate) async fn inspect(session: &Session, keyspace: &Keyspace) -> Result<Inspected> {
    let there = columns(session, keyspace).await?;
    let names = verify(keyspace, &there)?;
    let is_missing = |table: &&'static str| !there.contains_key(*table);
    let missing: Vec<&str> = TABLES.iter().map(|table| table.name).filter(is_missing).collect();
    if let Some(table) = missing.iter().find(|table| NEEDED.contains(table)) {
        return Err(StoreError::Invalid(if missing.contains(&"data_points") {
            format!("{keyspace} is no keyspace of a KairosDB: there is no table {table}")
        } else {
            format!(
                "keyspace {keyspace} has no table {table}, which KairosDB has since 1.2: start such a \
                 KairosDB on it once, or promkairos as its cluster to write, which makes what is missing"
            )
        }));
    }
    let spec = match missing.contains(&"spec") {
        true => None,
        false => spec::stored(session, keyspace).await?,
    };
    Ok(Inspected { names, spec, missing })
}
