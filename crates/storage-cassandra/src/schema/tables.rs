//! KairosDB's tables: the statement that creates each, and the comparison with the tables of a keyspace.
//! A table that KairosDB created `WITH COMPACT STORAGE` has the same columns and is accepted. Nothing is
//! written here; see `schema`.

use std::collections::BTreeMap;

use scylla::client::session::Session;
use scylla::value::CqlValue;

use crate::cql::once::rows;
use crate::options::Keyspace;
use promkairos_storage::{Result, StoreError};

/// The type of `string_index.column1`; some installations have `blob`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameColumn {
    /// `text`
    Text,
    /// `blob`
    Blob,
}

impl NameColumn {
    /// A name in the type of this column.
    pub(crate) fn value(self, name: &str) -> CqlValue {
        match self {
            Self::Text => CqlValue::Text(name.to_owned()),
            Self::Blob => CqlValue::Blob(name.as_bytes().to_vec()),
        }
    }
}

/// A table: its columns with their types, and its primary key.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    columns: &'static [(&'static str, &'static str)],
    primary_key: &'static str,
}

const TAGS: &str = "frozen<map<text, text>>";

pub(crate) const TABLES: [Table; 8] = [
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

impl Table {
    pub(crate) fn create(&self, keyspace: &Keyspace) -> String {
        let columns: Vec<_> = self.columns.iter().map(|(n, t)| format!("{n} {t}, ")).collect();
        format!(
            "CREATE TABLE IF NOT EXISTS {} ({}PRIMARY KEY ({}))",
            keyspace.table(self.name),
            columns.concat(),
            self.primary_key
        )
    }

    /// Columns by name: the type, and the place in the primary key.
    fn expected(&self) -> BTreeMap<&'static str, (&'static str, ColumnKind)> {
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
                    (Some(position), _) => ColumnKind::Partition(position),
                    // The clustering part begins with a comma.
                    (None, Some(position)) => ColumnKind::Clustering(position - 1),
                    (None, None) if kind.ends_with(" static") => ColumnKind::Static,
                    (None, None) => ColumnKind::Regular,
                };
                (*name, (kind.trim_end_matches(" static"), at))
            })
            .collect()
    }
}

/// What a column is in its table, and where in its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    Partition(usize),
    Clustering(usize),
    Static,
    Regular,
}

impl ColumnKind {
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

/// Existing tables: column name to type and place.
pub(crate) type Columns = BTreeMap<String, BTreeMap<String, (String, ColumnKind)>>;

pub(crate) async fn columns(session: &Session, keyspace: &Keyspace) -> Result<Columns> {
    let cql = "SELECT table_name, column_name, type, kind, position \
               FROM system_schema.columns WHERE keyspace_name = ?";
    let found: Vec<(String, String, String, String, i32)> =
        rows(session, cql, (keyspace.as_str(),)).await?;
    let mut tables = Columns::new();
    for (table, column, kind, place, position) in found {
        let place = ColumnKind::parse(&place, position);
        tables.entry(table).or_default().insert(column, (kind, place));
    }
    Ok(tables)
}

/// No later release of KairosDB reads these tables.
const BETA: &str = " (KairosDB 1.2.0-beta1 and beta2 had such tables, no later one reads them)";

/// Compares existing tables with KairosDB's; other tables are ignored.
pub(crate) fn verify(keyspace: &Keyspace, there: &Columns) -> Result<NameColumn> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn there(
        table: &str,
        change: impl FnOnce(&mut BTreeMap<String, (String, ColumnKind)>),
    ) -> Columns {
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
                c.insert("extra".into(), ("int".into(), ColumnKind::Regular));
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
                c.insert("row_time".into(), ("bigint".into(), ColumnKind::Clustering(1)));
            }),
            Err("row_key_time_index is not KairosDB's: column row_time has the type bigint, \
                 not timestamp"),
        );
        check(
            &there("row_keys", |c| {
                c.insert("metric".into(), ("text".into(), ColumnKind::Clustering(0)));
            }),
            Err("row_keys is not KairosDB's: column metric is Clustering(0), not Partition(0)"),
        );
    }

    #[test]
    fn names_may_be_blobs() {
        let blob = there("string_index", |c| {
            c.insert("column1".into(), ("blob".into(), ColumnKind::Clustering(0)));
        });
        check(&blob, Ok(NameColumn::Blob));
    }

    #[test]
    fn names_of_any_other_type_are_refused_with_it() {
        for (column, kind, place, want) in [
            ("column1", "ascii", ColumnKind::Clustering(0), "text"),
            ("column1", "int", ColumnKind::Clustering(0), "text"),
            ("key", "text", ColumnKind::Partition(0), "blob"),
            ("value", "text", ColumnKind::Regular, "blob"),
        ] {
            let there = there("string_index", |c| {
                c.insert(column.into(), (kind.into(), place));
            });
            let what = format!(
                "string_index is not KairosDB's: column {column} has the type {kind}, not {want}"
            );
            check(&there, Err(&what));
        }
    }

    #[test]
    fn the_statement_that_creates() {
        assert_eq!(
            TABLES[0].create(&"k".parse().expect("a name")),
            "CREATE TABLE IF NOT EXISTS \"k\".data_points (key blob, column1 blob, value blob, \
             PRIMARY KEY ((key), column1))"
        );
    }
}
