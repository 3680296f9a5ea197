//! The other clusters of a KairosDB: those with older data, and the one for metadata.
//!
//! ```text
//! [[cassandra_read_clusters]]
//! name = "2024"
//! contact_points = ["old1:9042"]
//! start = "2024-01-01T00:00:00Z"    # and `end`: what is outside is not looked at
//! ```
//!
//! Each entry of a table is a setting of `--cassandra-*` for that cluster. What is left out is as for
//! the write cluster, but for what belongs to a cluster alone: login, TLS, data centre, indexed tags.

use jiff::Timestamp;

use super::raw::Raw;
use super::table::value_of;
use super::{CassandraConfig, ConfigError};

/// The settings' names.
pub(super) const READ: &str = "cassandra-read-clusters";
pub(super) const METADATA: &str = "cassandra-metadata-cluster";

/// A cluster with older data.
#[derive(Debug, Clone)]
pub struct ReadClusterConfig {
    /// What errors call it.
    pub name: String,
    /// First millisecond since 1970 that it is asked for; `None` = all before.
    pub start: Option<i64>,
    /// The last one; `None` = all after.
    pub end: Option<i64>,
    /// How to reach it.
    pub cassandra: CassandraConfig,
}

/// The entry that is a list or a table itself.
const INDEXED: &str = "tag_indexed_row_key_lookup_metrics";

/// Entries of a table, the settings that they become, and whether another cluster's holds where
/// nothing is said.
const ENTRIES: [(&str, &str, Unsaid); 14] = [
    ("contact_points", "cassandra-contact-points", Unsaid::Refused),
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

/// What holds where an entry is left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unsaid {
    Refused,
    AsForWrites,
    Unset,
}

type Table = serde_json::Map<String, serde_json::Value>;

/// The clusters with older data.
pub(super) fn read_clusters(raw: &Raw) -> Result<Vec<ReadClusterConfig>, ConfigError> {
    const FORM: &str = "must be a list of tables, each with name and contact_points";
    let Some(text) = raw.get(READ) else { return Ok(Vec::new()) };
    let refuse = |reason: String| raw.refuse(READ, reason);
    let value = value_of(text.trim(), FORM).map_err(refuse)?;
    let tables = value.as_array().ok_or_else(|| refuse(FORM.into()))?;
    let mut clusters: Vec<ReadClusterConfig> = Vec::new();
    for table in tables {
        let mut table = table.as_object().cloned().ok_or_else(|| refuse(FORM.into()))?;
        let name = text_entry(&mut table, "name").map_err(refuse)?;
        let name = name.filter(|name| !name.is_empty()).ok_or_else(|| refuse(FORM.into()))?;
        let cluster = read_cluster(raw, &name, table);
        let cluster = cluster.map_err(|reason| refuse(format!("{name:?}: {reason}")))?;
        if clusters.iter().any(|other| other.name == name) {
            return Err(refuse(format!("{name:?} is there twice")));
        }
        clusters.push(cluster);
    }
    Ok(clusters)
}

fn read_cluster(raw: &Raw, name: &str, mut table: Table) -> Result<ReadClusterConfig, String> {
    let mut time = |key| text_entry(&mut table, key)?.map(|text| parse_time(&text)).transpose();
    let (start, end) = (time("start")?, time("end")?);
    if start.zip(end).is_some_and(|(start, end)| start >= end) {
        return Err("start must be before end".into());
    }
    let cassandra = cluster(raw, table)?;
    Ok(ReadClusterConfig { name: name.to_owned(), start, end, cassandra })
}

/// The cluster for metadata.
pub(super) fn metadata_cluster(raw: &Raw) -> Result<Option<Box<CassandraConfig>>, ConfigError> {
    const FORM: &str = "must be a table with contact_points";
    let Some(text) = raw.get(METADATA) else { return Ok(None) };
    let refuse = |reason: String| raw.refuse(METADATA, reason);
    let value = value_of(text.trim(), FORM).map_err(refuse)?;
    let mut table = value.as_object().cloned().ok_or_else(|| refuse(FORM.into()))?;
    text_entry(&mut table, "name").map_err(refuse)?;
    cluster(raw, table).map(|cluster| Some(Box::new(cluster))).map_err(refuse)
}

/// The settings of the write cluster, with the entries of a table in their places.
fn cluster(raw: &Raw, mut table: Table) -> Result<CassandraConfig, String> {
    let mut own = raw.without(&[READ, METADATA]);
    for (key, setting, unsaid) in ENTRIES {
        match (table.remove(key), unsaid) {
            (Some(value), _) => own.set(setting, Some(text_of(key, value)?)),
            (None, Unsaid::Refused) => return Err(format!("{key} is missing")),
            (None, Unsaid::Unset) => own.set(setting, None),
            (None, Unsaid::AsForWrites) => {}
        }
    }
    if let Some(key) = table.keys().next() {
        return Err(format!("unknown entry {key:?}"));
    }
    CassandraConfig::from_raw(&own).map_err(|error| error.to_string())
}

/// The text that a setting would have been given.
fn text_of(key: &str, value: serde_json::Value) -> Result<String, String> {
    use serde_json::Value::{Array, Bool, Object, String as Text};
    match value {
        Text(text) => Ok(text),
        Bool(switch) => Ok(switch.to_string()),
        structured @ (Array(_) | Object(_)) if key == INDEXED => Ok(structured.to_string()),
        Array(items) => {
            let texts: Option<Vec<&str>> = items.iter().map(|item| item.as_str()).collect();
            texts.map(|texts| texts.join(",")).ok_or_else(|| format!("{key} must list strings"))
        }
        _ => Err(format!("{key} must be a string")),
    }
}

fn text_entry(table: &mut Table, key: &str) -> Result<Option<String>, String> {
    table.remove(key).map(|value| text_of(key, value)).transpose()
}

/// RFC 3339, or as KairosDB has it: `2001-07-04T12:08-0700`.
fn parse_time(text: &str) -> Result<i64, String> {
    let kairosdb = || jiff::fmt::strtime::parse("%Y-%m-%dT%H:%M%z", text).ok()?.to_timestamp().ok();
    let time = text.parse::<Timestamp>().ok().or_else(kairosdb);
    let time = time.ok_or_else(|| format!("{text:?} is no time like 2024-01-01T00:00:00Z"))?;
    Ok(time.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_both_forms() {
        assert_eq!(parse_time("1970-01-01T00:00:01Z"), Ok(1_000));
        assert_eq!(parse_time("1970-01-01T02:00:00.5+02:00"), Ok(500));
        assert_eq!(parse_time("2001-07-04T12:08-0700"), Ok(994_273_680_000));
        assert!(parse_time("2001-07-04").is_err() && parse_time("").is_err());
    }
}
