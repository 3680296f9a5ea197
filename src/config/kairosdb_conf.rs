//! `--kairosdb-config FILE`: what a `kairosdb.conf` (HOCON) says of its write cluster becomes the
//! value of the settings that nobody else gave.
//!
//! What is taken over and what is not understood is kept as lines for the log, which does not run
//! yet. Only what KairosDB's datastore reads is looked at; the rest of the file is its own affair.

use std::path::{Path, PathBuf};

use hocon::{Hocon, HoconLoader};

use super::ConfigError;

/// What was made of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KairosDbConf {
    /// The file; `None` = none was given.
    pub path: Option<PathBuf>,
    /// Settings that were taken over, as `setting = value`.
    pub taken: Vec<String>,
    /// Entries that mean nothing to promkairos, or that it could not read.
    pub ignored: Vec<String>,
}

/// A setting, its value, and the entry it comes from.
pub(super) type Entry = (&'static str, String, String);

/// The part of the file that is looked at.
const DATASTORE: [&str; 3] = ["kairosdb", "datastore", "cassandra"];

/// Entries of the write cluster that are texts, and the settings that they become.
const TEXTS: [(&str, &str); 5] = [
    ("keyspace", "cassandra-keyspace"),
    ("replication", "cassandra-replication"),
    ("local_dc_name", "cassandra-local-datacenter"),
    ("read_consistency_level", "cassandra-read-consistency"),
    ("write_consistency_level", "cassandra-write-consistency"),
];

/// The list of indexed metrics, and the setting that it becomes.
const INDEXED: (&str, &str) =
    ("tag_indexed_row_key_lookup_metrics", "tag-indexed-row-key-lookup-metrics");

/// Reads a file: settings, and the entries that were not understood.
pub(super) fn read(path: &Path) -> Result<(Vec<Entry>, Vec<String>), ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::File { path: path.into(), source })?;
    parse(&text).map_err(|reason| ConfigError::KairosDb { path: path.into(), reason })
}

fn parse(text: &str) -> Result<(Vec<Entry>, Vec<String>), String> {
    let document = HoconLoader::new().strict().load_str(text).and_then(|loaded| loaded.hocon());
    let document = document.map_err(|error| error.to_string())?;
    let datastore = DATASTORE.iter().fold(&document, |at, key| &at[*key]);
    if !matches!(datastore, Hocon::Hash(_)) {
        return Err(format!("has no {}", DATASTORE.join(".")));
    }
    let mut entries = Vec::new();
    let mut ignored = Vec::new();
    for (path, value) in leaves(datastore) {
        match setting(&path, value) {
            Some((name, value)) => entries.push((name, value, path)),
            None => ignored.push(path),
        }
    }
    Ok((entries, ignored))
}

/// The setting that an entry becomes.
fn setting(path: &str, value: &Hocon) -> Option<(&'static str, String)> {
    if path == "datapoint_ttl" {
        return Some(("retention", format!("{}s", value.as_i64()?)));
    }
    let entry = path.strip_prefix("write_cluster.")?;
    if entry == "cql_host_list" {
        return Some(("cassandra-contact-points", names(value)?.join(",")));
    }
    if entry == INDEXED.0 {
        return Some((INDEXED.1, indexed(value)?.to_string()));
    }
    let (_, name) = TEXTS.iter().find(|(key, _)| *key == entry)?;
    Some((name, value.as_string()?))
}

fn indexed(value: &Hocon) -> Option<serde_json::Value> {
    let Hocon::Hash(table) = value else { return names(value).map(Into::into) };
    let pairs = table.iter().map(|(metric, tags)| {
        // KairosDB's own parser keeps the quotes around a key as they are meant: as none.
        Some((metric.trim_matches('"').to_owned(), names(tags)?.into()))
    });
    let pairs: Option<serde_json::Map<_, _>> = pairs.collect();
    pairs.map(Into::into)
}

fn names(value: &Hocon) -> Option<Vec<String>> {
    match value {
        Hocon::Array(items) => items.iter().map(Hocon::as_string).collect(),
        _ => None,
    }
}

/// The entries below a table by their paths; the list of indexed metrics counts as one.
fn leaves(table: &Hocon) -> Vec<(String, &Hocon)> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), table)];
    while let Some((path, value)) = open.pop() {
        match value {
            Hocon::Hash(table) if !path.ends_with(INDEXED.0) => {
                for (key, value) in table.iter() {
                    let dot = if path.is_empty() { "" } else { "." };
                    open.push((format!("{path}{dot}{key}"), value));
                }
            }
            _ => found.push((path, value)),
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_write_cluster_becomes_settings() {
        let (entries, ignored) = parse(
            "kairosdb: {\n  # a comment\n  jetty.port: 8080\n  datastore.cassandra: {\n\
             datapoint_ttl: 31536000\n    simultaneous_cql_queries: 20 // another\n\
             write_cluster: {\n      keyspace: \"k1\"\n      cql_host_list: [\"a:1\", b]\n\
             read_consistency_level: \"ONE\"\n      auth.user_name=admin\n\
             tag_indexed_row_key_lookup_metrics: { m: [ tag1 ], \"a.b\": [], n: [\"*\"] }\n\
             }\n  }\n}\nkairosdb.datastore.cassandra.write_cluster.keyspace: k2\n",
        )
        .expect("HOCON");
        let taken: Vec<_> =
            entries.iter().map(|(name, value, _)| (*name, value.as_str())).collect();
        assert_eq!(
            taken,
            [
                ("retention", "31536000s"),
                ("cassandra-contact-points", "a:1,b"),
                ("cassandra-keyspace", "k2"),
                ("cassandra-read-consistency", "ONE"),
                (INDEXED.1, "{\"a.b\":[],\"m\":[\"tag1\"],\"n\":[\"*\"]}"),
            ]
        );
        assert_eq!(ignored, ["simultaneous_cql_queries", "write_cluster.auth.user_name"]);
    }

    #[test]
    fn another_file_is_refused() {
        assert_eq!(parse("a: 1").err().as_deref(), Some("has no kairosdb.datastore.cassandra"));
        assert!(parse("a: [1").is_err());
    }
}
