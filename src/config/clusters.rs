//! The other clusters of a KairosDB: clusters with older data, and a cluster for metadata.
//!
//! ```text
//! [[cassandra_read_clusters]]
//! name = "2024"
//! contact_points = ["old1:9042"]
//! start = "2024-01-01T00:00:00Z"    # and `end`: no reads outside
//! ```
//!
//! Each entry of a table is a setting of `--cassandra-*` for that cluster. An entry that is left
//! out is as for the write cluster, except login, TLS, data centre and indexed tags, which are of
//! one cluster alone. Errors name an entry and never its value, which may be a misplaced password.

use clap::ArgMatches;
use jiff::Timestamp;
use serde_json::Value;

use super::arguments::nearest;
use super::cassandra::{CassandraConfig, ReadClusterConfig};
use super::error::{ConfigError, Shown};
use super::keys::{Key, KeyTable, REFUSED};
use super::raw::Raw;
use super::settings;
use super::table::{EntryError, below};

/// The settings' names.
const READ: &str = "cassandra-read-clusters";
const METADATA: &str = "cassandra-metadata-cluster";

/// The entry that is itself a list or a table.
const INDEXED: &str = "tag_indexed_row_key_lookup_metrics";
/// The entry that may be a list of texts.
const LIST: &str = "contact_points";

/// Entries of a table, the settings that they become, and whether an entry that is left out is
/// inherited from the write cluster.
const ENTRIES: [(&str, &str, Unsaid); 14] = [
    (LIST, "cassandra-contact-points", Unsaid::Refused),
    ("keyspace", "cassandra-keyspace", Unsaid::AsForWrites),
    ("local_datacenter", "cassandra-local-datacenter", Unsaid::Unset),
    ("read_consistency", "cassandra-read-consistency", Unsaid::AsForWrites),
    ("write_consistency", "cassandra-write-consistency", Unsaid::AsForWrites),
    ("username", "cassandra-username", Unsaid::Unset),
    ("password_file", "cassandra-password-file", Unsaid::Unset),
    ("tls", "cassandra-tls", Unsaid::Unset),
    ("tls_ca", "cassandra-tls-ca", Unsaid::Unset),
    ("tls_cert", "cassandra-tls-cert", Unsaid::Unset),
    ("tls_key", "cassandra-tls-key", Unsaid::Unset),
    ("compression", "cassandra-compression", Unsaid::AsForWrites),
    ("replication", "cassandra-replication", Unsaid::AsForWrites),
    (INDEXED, "tag-indexed-row-key-lookup-metrics", Unsaid::Unset),
];

/// The value where an entry is left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unsaid {
    Refused,
    AsForWrites,
    Unset,
}

const NAME: Key = Key::new("name", "What errors and the log call the cluster", REFUSED);
const IDLE_NAME: Key = Key::new("name", "Taken, and used nowhere: KairosDB has it", "not set");
const START: Key = Key::new(
    "start",
    "The first time that the cluster is asked for, as 2024-01-01T00:00:00Z; what is before it is not \
     looked at",
    "all before",
);
const END: Key = Key::new("end", "The last time that the cluster is asked for, alike", "all after");

/// The entries of `cassandra_read_clusters` that are not settings.
const OF_READ: [Key; 3] = [NAME, START, END];
const OF_METADATA: [Key; 1] = [IDLE_NAME];

/// The table of a cluster with older data.
pub(super) fn read_table() -> KeyTable {
    KeyTable {
        setting: READ,
        place: "[[cassandra_read_clusters]]",
        help: "A table for each cluster with older data",
        keys: OF_READ.into_iter().chain(ENTRIES.iter().map(key)).collect(),
    }
}

/// The table of the cluster for metadata.
pub(super) fn metadata_table() -> KeyTable {
    KeyTable {
        setting: METADATA,
        place: "[cassandra_metadata_cluster]",
        help: "The cluster for the metadata of metrics, where it is not the one that is written to",
        keys: OF_METADATA.into_iter().chain(ENTRIES.iter().map(key)).collect(),
    }
}

/// The documented key of an entry that is a setting.
fn key(&(name, setting, unsaid): &(&'static str, &'static str, Unsaid)) -> Key {
    let unsaid = match unsaid {
        Unsaid::Refused => REFUSED,
        Unsaid::AsForWrites => "as for the cluster that is written to",
        Unsaid::Unset => {
            settings::find(setting).and_then(|setting| setting.default).unwrap_or("not set")
        }
    };
    Key { name, help: format!("As --{setting}, for this cluster").into(), unsaid }
}

type Table = serde_json::Map<String, Value>;

impl CassandraConfig {
    /// Loads only the settings of Cassandra, whichever store is chosen.
    pub fn load(matches: &ArgMatches) -> Result<Self, ConfigError> {
        Self::with_clusters(&Raw::gather(matches)?)
    }

    /// The cluster that is written to, with the other clusters.
    pub(super) fn with_clusters(raw: &Raw) -> Result<Self, ConfigError> {
        let write = Self::from_raw(raw)?;
        let read = raw.structured(READ, FORM_OF_READ, |value| read_clusters(raw, &value))?;
        let metadata =
            raw.structured(METADATA, FORM_OF_METADATA, |value| metadata_cluster(raw, &value))?;
        Ok(Self {
            read_clusters: read.unwrap_or_default(),
            metadata_cluster: metadata.map(Box::new),
            ..write
        })
    }
}

const FORM_OF_READ: &str = "must be a list of tables, each with name and contact_points";

/// The clusters with older data.
fn read_clusters(raw: &Raw, value: &Value) -> Result<Vec<ReadClusterConfig>, EntryError> {
    let tables = value.as_array().ok_or_else(|| EntryError::new("", FORM_OF_READ))?;
    let mut clusters: Vec<ReadClusterConfig> = Vec::new();
    for (at, table) in tables.iter().enumerate() {
        let path = format!("[{at}]");
        let table = table.as_object().cloned();
        let table = table.ok_or_else(|| EntryError::new(&*path, "must be a table"))?;
        let cluster = read_cluster(raw, &path, table)?;
        if clusters.iter().any(|other| other.name == cluster.name) {
            return Err(EntryError::new(below(&path, NAME.name), "another cluster has it too"));
        }
        clusters.push(cluster);
    }
    Ok(clusters)
}

fn read_cluster(raw: &Raw, path: &str, mut table: Table) -> Result<ReadClusterConfig, EntryError> {
    let name = text_entry(&mut table, path, NAME.name)?.unwrap_or_default();
    if name.is_empty() {
        return Err(EntryError::new(path, "name is missing"));
    }
    let mut time = |key: &str| {
        let text = text_entry(&mut table, path, key)?;
        let time = text.map(|text| parse_time(&text)).transpose();
        time.map_err(|reason| EntryError::new(below(path, key), reason))
    };
    let (start, end) = (time(START.name)?, time(END.name)?);
    if start.zip(end).is_some_and(|(start, end)| start >= end) {
        return Err(EntryError::new(below(path, START.name), "must be before end"));
    }
    let cassandra = cluster(raw, path, table, &OF_READ)?;
    Ok(ReadClusterConfig { name, start, end, cassandra })
}

const FORM_OF_METADATA: &str = "must be a table with contact_points";

/// The cluster for metadata.
fn metadata_cluster(raw: &Raw, value: &Value) -> Result<CassandraConfig, EntryError> {
    let table = value.as_object().cloned();
    let mut table = table.ok_or_else(|| EntryError::new("", FORM_OF_METADATA))?;
    text_entry(&mut table, "", IDLE_NAME.name)?;
    cluster(raw, "", table, &OF_METADATA)
}

/// The settings of the write cluster, overridden by the entries of a table. `others` are the
/// entries that the table may have besides settings.
fn cluster(
    raw: &Raw,
    path: &str,
    mut table: Table,
    others: &[Key],
) -> Result<CassandraConfig, EntryError> {
    let known = || ENTRIES.iter().map(|(key, _, _)| *key);
    if let Some(key) = table.keys().find(|key| !known().any(|known| known == *key)) {
        let all = known().chain(others.iter().map(|other| other.name));
        let hint = match nearest(key, all.map(str::to_owned)) {
            Some(meant) => format!(", did you mean {meant}?"),
            None => String::new(),
        };
        return Err(EntryError::new(below(path, key), format!("unknown entry{hint}")));
    }
    let mut own = raw.clone();
    for (key, setting, unsaid) in ENTRIES {
        match (table.remove(key), unsaid) {
            (Some(value), _) => own.set(setting, Some(text_of(path, key, value)?)),
            (None, Unsaid::Refused) => {
                return Err(EntryError::new(path, format!("{key} is missing")));
            }
            (None, Unsaid::Unset) => own.set(setting, None),
            (None, Unsaid::AsForWrites) => {}
        }
    }
    CassandraConfig::from_raw(&own).map_err(|error| of_entry(path, &error))
}

/// Turns an error about a setting into one about the entry that it comes from.
fn of_entry(path: &str, error: &ConfigError) -> EntryError {
    let ConfigError::Invalid { name, shown, reason, .. } = error else {
        return EntryError::new(path, error);
    };
    match ENTRIES.iter().find(|(_, setting, _)| setting == name) {
        Some((key, _, _)) => {
            let within = match shown {
                Shown::Entry(within) => within.as_str(),
                Shown::Value(_) => "",
            };
            EntryError::new(below(path, key) + within, reason)
        }
        None => EntryError::new(path, format!("--{name}: {reason}")),
    }
}

/// The text of the setting that an entry becomes.
fn text_of(path: &str, key: &str, value: Value) -> Result<String, EntryError> {
    use Value::{Array, Bool, Object, String as Text};
    let refused = |reason| EntryError::new(below(path, key), reason);
    match value {
        Text(text) => Ok(text),
        Bool(switch) => Ok(switch.to_string()),
        structured @ (Array(_) | Object(_)) if key == INDEXED => Ok(structured.to_string()),
        Array(items) if key == LIST => {
            let texts: Option<Vec<&str>> = items.iter().map(|item| item.as_str()).collect();
            texts.map(|texts| texts.join(",")).ok_or_else(|| refused("must list strings"))
        }
        _ => Err(refused("must be a string")),
    }
}

fn text_entry(table: &mut Table, path: &str, key: &str) -> Result<Option<String>, EntryError> {
    table.remove(key).map(|value| text_of(path, key, value)).transpose()
}

/// Parses RFC 3339, or KairosDB's form `2001-07-04T12:08-0700`.
fn parse_time(text: &str) -> Result<i64, &'static str> {
    let kairosdb = || jiff::fmt::strtime::parse("%Y-%m-%dT%H:%M%z", text).ok()?.to_timestamp().ok();
    let time = text.parse::<Timestamp>().ok().or_else(kairosdb);
    let time = time.ok_or("must be a time like 2024-01-01T00:00:00Z")?;
    Ok(time.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_entries_that_are_taken() {
        for (table, others) in [(read_table(), &OF_READ[..]), (metadata_table(), &OF_METADATA)] {
            let names: Vec<&str> = table.keys.iter().map(|key| key.name).collect();
            let taken = others.iter().map(|key| key.name).chain(ENTRIES.map(|(key, ..)| key));
            assert_eq!(names, taken.collect::<Vec<_>>());
        }
        let [points, keyspace, .., tls] = [0, 1, 2, 7].map(|at| key(&ENTRIES[at]));
        assert_eq!(
            (points.help.as_ref(), points.unsaid),
            ("As --cassandra-contact-points, for this cluster", REFUSED)
        );
        assert_eq!(
            (keyspace.name, keyspace.unsaid),
            ("keyspace", "as for the cluster that is written to")
        );
        assert_eq!((tls.name, tls.unsaid), ("tls", "false"));
    }

    #[test]
    fn times_of_both_forms() {
        assert_eq!(parse_time("1970-01-01T00:00:01Z"), Ok(1_000));
        assert_eq!(parse_time("1970-01-01T02:00:00.5+02:00"), Ok(500));
        assert_eq!(parse_time("2001-07-04T12:08-0700"), Ok(994_273_680_000));
        assert!(parse_time("2001-07-04").is_err() && parse_time("").is_err());
    }
}
