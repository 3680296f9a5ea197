//! The tables of KairosDB: created where they are absent, verified where they are not, and `spec`.
//!
//! Nothing is written before everything that is there has been verified. A table created by
//! KairosDB `WITH COMPACT STORAGE` has the same columns and is taken as it is. `spec` is
//! written only into a keyspace without data; data without `spec` is an old, `LEGACY` one.

use std::collections::BTreeMap;

use scylla::client::session::Session;
use scylla::statement::unprepared::Statement;
use scylla::value::CqlValue;

use super::cause;
use super::executor::unreadable;
use super::options::{Absent, Keyspace, Options, replication_cql};
use super::permissions;
use super::retry::{Verdict, judge};
use crate::kairos::{RowSpec, TimeUnit};
use crate::limits::RETRY_AFTER;
use crate::storage::StoreError;

/// What the keyspace turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// How time is cut into rows.
    pub(super) row_spec: RowSpec,
    /// The type of `string_index.column1`.
    pub(super) names: NameColumn,
}

/// The type of `string_index.column1`; some installations have `blob`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameColumn {
    /// `text`
    Text,
    /// `blob`
    Blob,
}

impl NameColumn {
    /// A name as this column takes it.
    pub(super) fn value(self, name: &str) -> CqlValue {
        match self {
            Self::Text => CqlValue::Text(name.to_owned()),
            Self::Blob => CqlValue::Blob(name.as_bytes().to_vec()),
        }
    }
}

/// A table: its columns with their types, and its primary key.
struct Table {
    name: &'static str,
    columns: &'static [(&'static str, &'static str)],
    primary_key: &'static str,
}

const TAGS: &str = "frozen<map<text, text>>";

const TABLES: [Table; 8] = [
    Table {
        name: "data_points",
        columns: &[("key", "blob"), ("column1", "blob"), ("value", "blob")],
        primary_key: "(key), column1",
    },
    Table {
        name: "row_key_index",
        columns: &[("key", "blob"), ("column1", "blob"), ("value", "blob")],
        primary_key: "(key), column1",
    },
    Table {
        name: "row_key_time_index",
        columns: &[
            ("metric", "text"),
            ("table_name", "text"),
            ("row_time", "timestamp"),
            ("value", "text"),
        ],
        primary_key: "(metric), table_name, row_time",
    },
    Table {
        name: "row_keys",
        columns: &[
            ("metric", "text"),
            ("table_name", "text"),
            ("row_time", "timestamp"),
            ("data_type", "text"),
            ("tags", TAGS),
            ("mtime", "timeuuid static"),
            ("value", "text"),
        ],
        primary_key: "(metric, table_name, row_time), data_type, tags",
    },
    Table {
        name: "tag_indexed_row_keys",
        columns: &[
            ("metric", "text"),
            ("table_name", "text"),
            ("row_time", "timestamp"),
            ("single_tag_pair", "text"),
            ("tag_collection_hash", "int"),
            ("data_type", "text"),
            ("tags", TAGS),
            ("mtime", "timeuuid static"),
            ("value", "text"),
        ],
        primary_key: "(metric, table_name, row_time, single_tag_pair), \
                      data_type, tag_collection_hash, tags",
    },
    Table {
        name: "string_index",
        columns: &[("key", "blob"), ("column1", "text"), ("value", "blob")],
        primary_key: "(key), column1",
    },
    Table {
        name: "service_index",
        columns: &[
            ("service", "text"),
            ("service_key", "text"),
            ("key", "text"),
            ("mtime", "timeuuid static"),
            ("value", "text"),
        ],
        primary_key: "(service, service_key), key",
    },
    Table {
        name: "spec",
        columns: &[("spec_type", "text"), ("name", "text"), ("value", "text")],
        primary_key: "(spec_type), name",
    },
];

/// Verifies the keyspace, creates what is missing, and finds its `spec`.
pub(super) async fn prepare(session: &Session, options: &Options) -> Result<Found, StoreError> {
    let keyspace = &options.keyspace;
    let there = columns(session, keyspace).await?;
    let names = verify(keyspace, &there)?;
    let is_known = |name: &&String| TABLES.iter().any(|table| table.name == name.as_str());
    if let Some(foreign) = there.keys().next().filter(|_| !there.keys().any(|name| is_known(&name)))
    {
        return Err(StoreError::Invalid(format!(
            "keyspace {keyspace} is not KairosDB's: it has the table {foreign} and none of \
             KairosDB's; nothing was written"
        )));
    }
    if there.contains_key("spec") {
        stored_spec(session, keyspace).await?;
    }
    let exists = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let exists: Vec<(String,)> = rows(session, exists, (keyspace.as_str(),)).await?;
    if exists.is_empty() {
        let replication = replication_cql(&options.replication);
        let cql =
            format!("CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH REPLICATION = {replication}");
        run(session, &cql, ()).await?;
    }
    let mut created = false;
    for table in TABLES.iter().filter(|table| !there.contains_key(table.name)) {
        run(session, &table.create(keyspace), ()).await?;
        created = true;
    }
    if created {
        // Another program may have been first, with other tables.
        verify(keyspace, &columns(session, keyspace).await?)?;
    }
    if options.absent == Absent::Create {
        permissions::check(session, keyspace, names).await?;
    }
    let row_spec = row_spec(session, options).await?;
    if row_spec.unit() == TimeUnit::Seconds {
        tracing::warn!(
            %keyspace,
            "the keyspace counts seconds: points lose the digits below a second after their row \
             time, as KairosDB's do, and of several in one second the last one stays"
        );
    }
    if options.absent == Absent::Create && options.tag_index.metrics.is_empty() {
        warn_of_neighbours_tags(session, keyspace).await?;
    }
    Ok(Found { row_spec, names })
}

/// KairosDB finds by an indexed tag only what has rows of `tag_indexed_row_keys`.
async fn warn_of_neighbours_tags(session: &Session, keyspace: &Keyspace) -> Result<(), StoreError> {
    let cql = format!("SELECT data_type, value FROM {keyspace}.tag_indexed_row_keys LIMIT 100");
    let found: Vec<(Option<String>, Option<String>)> = rows(session, &cql, ()).await?;
    // Ours have a value.
    if found.iter().any(|(data_type, value)| data_type.is_some() && value.is_none()) {
        tracing::warn!(
            %keyspace,
            "KairosDB indexes tags here and promkairos was not told which: of the metrics that it \
             indexes it will not find by a tag what promkairos writes; repeat its list in \
             tag_indexed_row_key_lookup_metrics, or take it over with --kairosdb-config"
        );
    }
    Ok(())
}

/// What stands there, for those who create nothing.
pub(super) struct Inspected {
    pub(super) names: NameColumn,
    /// None = there is no `spec`.
    pub(super) spec: Option<RowSpec>,
    /// Tables that are absent; those without which there is no data are none of them.
    pub(super) missing: Vec<&'static str>,
}

/// Verifies the keyspace and writes nothing. Refuses one that is absent or holds no data of KairosDB.
pub(super) async fn inspect(
    session: &Session,
    keyspace: &Keyspace,
) -> Result<Inspected, StoreError> {
    const NEEDED: [&str; 4] = ["data_points", "row_keys", "row_key_time_index", "string_index"];
    let there = columns(session, keyspace).await?;
    let names = verify(keyspace, &there)?;
    let is_missing = |table: &&'static str| !there.contains_key(*table);
    let missing: Vec<&str> = TABLES.iter().map(|table| table.name).filter(is_missing).collect();
    if let Some(table) = missing.iter().find(|table| NEEDED.contains(table)) {
        return Err(StoreError::Invalid(format!(
            "{keyspace} is no keyspace of a KairosDB from 1.2 on: there is no table {table}"
        )));
    }
    let spec = match missing.contains(&"spec") {
        true => None,
        false => stored_spec(session, keyspace).await?,
    };
    Ok(Inspected { names, spec, missing })
}

impl Table {
    fn create(&self, keyspace: &Keyspace) -> String {
        let columns: Vec<_> = self.columns.iter().map(|(n, t)| format!("{n} {t}, ")).collect();
        format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.{} ({}PRIMARY KEY ({}))",
            self.name,
            columns.concat(),
            self.primary_key
        )
    }

    /// Columns by name: the type, and the place in the primary key.
    fn expected(&self) -> BTreeMap<&'static str, (&'static str, Place)> {
        let (partition, clustering) =
            self.primary_key.split_once(')').expect("every partition key is in parentheses");
        let place = |keys: &str, column: &str| {
            let mut names = keys.split(',').map(|name| name.trim_matches([' ', '(']));
            names.position(|name| name == column)
        };
        self.columns
            .iter()
            .map(|(name, kind)| {
                let at = match (place(partition, name), place(clustering, name)) {
                    (Some(position), _) => Place::Partition(position),
                    // The clustering part begins with a comma.
                    (None, Some(position)) => Place::Clustering(position - 1),
                    (None, None) if kind.ends_with(" static") => Place::Static,
                    (None, None) => Place::Regular,
                };
                (*name, (kind.trim_end_matches(" static"), at))
            })
            .collect()
    }
}

/// The place of a column in its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Partition(usize),
    Clustering(usize),
    Static,
    Regular,
}

impl Place {
    fn parse(kind: &str, position: i32) -> Self {
        let position = usize::try_from(position).unwrap_or(0);
        match kind {
            "partition_key" => Self::Partition(position),
            "clustering" => Self::Clustering(position),
            "static" => Self::Static,
            _ => Self::Regular,
        }
    }
}

/// Tables that are there: column name to type and place.
type Columns = BTreeMap<String, BTreeMap<String, (String, Place)>>;

async fn columns(session: &Session, keyspace: &Keyspace) -> Result<Columns, StoreError> {
    let cql = "SELECT table_name, column_name, type, kind, position \
               FROM system_schema.columns WHERE keyspace_name = ?";
    let found: Vec<(String, String, String, String, i32)> =
        rows(session, cql, (keyspace.as_str(),)).await?;
    let mut tables = Columns::new();
    for (table, column, kind, place, position) in found {
        let place = Place::parse(&place, position);
        tables.entry(table).or_default().insert(column, (kind, place));
    }
    Ok(tables)
}

/// No release of KairosDB has read these tables since.
const BETA: &str = " (KairosDB 1.2.0-beta1 and beta2 had such tables, no later one reads them)";

/// Compares the tables that are there with KairosDB's; tables of others do not matter.
fn verify(keyspace: &Keyspace, there: &Columns) -> Result<NameColumn, StoreError> {
    let mut names = NameColumn::Text;
    for table in &TABLES {
        let Some(found) = there.get(table.name) else { continue };
        let refuse = |what: String| {
            let table = table.name;
            Err(StoreError::Invalid(format!(
                "table {keyspace}.{table} is not KairosDB's: {what}; nothing was written"
            )))
        };
        let expected = table.expected();
        if let Some(column) = found.keys().find(|name| !expected.contains_key(name.as_str())) {
            return refuse(format!("unexpected column {column}"));
        }
        for (name, (kind, place)) in expected {
            let Some((found_kind, found_place)) = found.get(name) else {
                let beta = match name {
                    "table_name" | "mtime" => BETA,
                    _ => "",
                };
                return refuse(format!("column {name} is missing{beta}"));
            };
            if (table.name, name, found_kind.as_str()) == ("string_index", "column1", "blob") {
                names = NameColumn::Blob;
            } else if found_kind != kind {
                return refuse(format!("column {name} has the type {found_kind}, not {kind}"));
            }
            if *found_place != place {
                return refuse(format!("column {name} is {found_place:?}, not {place:?}"));
            }
        }
    }
    Ok(names)
}

async fn row_spec(session: &Session, options: &Options) -> Result<RowSpec, StoreError> {
    let keyspace = &options.keyspace;
    if let Some(found) = stored_spec(session, keyspace).await? {
        return Ok(found);
    }
    for table in ["string_index", "row_keys", "row_key_index", "data_points"] {
        let column = if table == "row_keys" { "data_type" } else { "column1" };
        let cql = format!("SELECT {column} FROM {keyspace}.{table} LIMIT 1");
        let result = session.query_unpaged(cql.as_str(), ()).await.map_err(|e| failed(&cql, e))?;
        let rows = result.into_rows_result().map_err(|e| unreadable("a look for data", e))?;
        if rows.rows_num() > 0 {
            tracing::warn!(%keyspace, "no spec but data: taken as LEGACY, and left as it is");
            return Ok(RowSpec::LEGACY);
        }
    }
    let stamp = super::stamp::now_ms();
    let cql = format!(
        "INSERT INTO {keyspace}.spec (spec_type, name, value) VALUES ('cluster_config', ?, ?) \
         USING TIMESTAMP {stamp}"
    );
    let (unit, width) = (options.row_spec.unit().as_str(), options.row_spec.width().to_string());
    let mut statement = Statement::new(cql);
    statement.set_consistency(options.write_consistency);
    for (name, value) in [("row_width", width.as_str()), ("row_time_unit", unit)] {
        let result = session.query_unpaged(statement.clone(), (name, value)).await;
        result.map_err(|e| failed("the write of spec", e))?;
    }
    // Another program may have written its own at the same moment: what stands there counts.
    Ok(stored_spec(session, keyspace).await?.unwrap_or(options.row_spec))
}

/// What `spec` says; none when there is nothing in it.
pub(super) async fn stored_spec(
    session: &Session,
    keyspace: &Keyspace,
) -> Result<Option<RowSpec>, StoreError> {
    let cql = format!("SELECT name, value FROM {keyspace}.spec WHERE spec_type = 'cluster_config'");
    let all: Vec<(String, Option<String>)> = rows(session, &cql, ()).await?;
    let get = |name: &str| {
        all.iter().find(|(found, _)| found == name).and_then(|(_, value)| value.as_deref())
    };
    let (unit, width) = (get("row_time_unit"), get("row_width"));
    if unit.is_none() && width.is_none() {
        return Ok(None);
    }
    let width = width.map_or_else(|| RowSpec::DEFAULT.width().to_string(), str::to_owned);
    RowSpec::parse(unit.unwrap_or(TimeUnit::Legacy.as_str()), &width)
        .map(Some)
        .map_err(|error| StoreError::Invalid(format!("keyspace {keyspace}: {error}")))
}

/// The rows of a query that is asked once.
pub(super) async fn rows<R>(
    session: &Session,
    cql: &str,
    values: impl scylla::serialize::row::SerializeRow,
) -> Result<Vec<R>, StoreError>
where
    R: for<'f, 'm> scylla::deserialize::row::DeserializeRow<'f, 'm>,
{
    let result = session.query_unpaged(cql, values).await.map_err(|e| failed(cql, e))?;
    let rows = result.into_rows_result().map_err(|e| unreadable("a schema query", e))?;
    let rows = rows.rows::<R>().map_err(|e| unreadable("a schema query", e))?;
    rows.collect::<Result<_, _>>().map_err(|e| unreadable("a schema query", e))
}

/// Runs a statement once.
pub(super) async fn run(
    session: &Session,
    cql: &str,
    values: impl scylla::serialize::row::SerializeRow,
) -> Result<(), StoreError> {
    session.query_unpaged(cql, values).await.map(drop).map_err(|e| failed(cql, e))
}

pub(super) fn failed(what: &str, error: scylla::errors::ExecutionError) -> StoreError {
    match judge(&error) {
        Verdict::Again | Verdict::Unreached => StoreError::Unavailable {
            what: format!("Cassandra: {what}: {}", cause::of_execution(&error)),
            retry_after: RETRY_AFTER,
        },
        Verdict::Denied => {
            StoreError::Denied(format!("Cassandra: {what}: {}", cause::of_execution(&error)))
        }
        Verdict::Refused | Verdict::Broken => {
            StoreError::Backend { what: format!("Cassandra: {what}"), source: Box::new(error) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(table: &str, change: impl FnOnce(&mut BTreeMap<String, (String, Place)>)) -> Columns {
        let table = TABLES.iter().find(|t| t.name == table).expect("a table of ours");
        let mut columns = table
            .expected()
            .into_iter()
            .map(|(name, (kind, place))| (name.to_owned(), (kind.to_owned(), place)))
            .collect();
        change(&mut columns);
        Columns::from([(table.name.to_owned(), columns)])
    }

    fn check(there: &Columns, want: Result<NameColumn, &str>) {
        let got = verify(&"k".parse().expect("a name"), there).map_err(|error| error.to_string());
        let want = want.map_err(|w| format!("table k.{w}; nothing was written"));
        assert_eq!(got, want);
    }

    #[test]
    fn own_tables_pass() {
        for table in &TABLES {
            check(&there(table.name, |_| {}), Ok(NameColumn::Text));
        }
        check(&Columns::new(), Ok(NameColumn::Text));
    }

    #[test]
    fn foreign_tables_are_named() {
        check(
            &there("data_points", |c| {
                c.insert("extra".into(), ("int".into(), Place::Regular));
            }),
            Err("data_points is not KairosDB's: unexpected column extra"),
        );
        check(
            &there("row_keys", |c| {
                c.remove("mtime");
            }),
            Err(&format!("row_keys is not KairosDB's: column mtime is missing{BETA}")),
        );
        check(
            &there("row_key_time_index", |c| {
                c.insert("row_time".into(), ("bigint".into(), Place::Clustering(1)));
            }),
            Err("row_key_time_index is not KairosDB's: column row_time has the type bigint, \
                 not timestamp"),
        );
        check(
            &there("row_keys", |c| {
                c.insert("metric".into(), ("text".into(), Place::Clustering(0)));
            }),
            Err("row_keys is not KairosDB's: column metric is Clustering(0), not Partition(0)"),
        );
    }

    #[test]
    fn names_may_be_blobs() {
        let blob = there("string_index", |c| {
            c.insert("column1".into(), ("blob".into(), Place::Clustering(0)));
        });
        check(&blob, Ok(NameColumn::Blob));
    }

    #[test]
    fn the_statement_that_creates() {
        assert_eq!(
            TABLES[0].create(&"k".parse().expect("a name")),
            "CREATE TABLE IF NOT EXISTS k.data_points (key blob, column1 blob, value blob, \
             PRIMARY KEY ((key), column1))"
        );
    }
}
