//! `--kairosdb-config FILE`: what a `kairosdb.conf` (HOCON) says of its clusters becomes the value
//! of the settings that nobody else gave.
//!
//! What is taken over and what is not understood is kept as lines for the log, which does not run
//! yet. Only what KairosDB's datastore reads is looked at; the rest of the file is its own affair.

mod lines;

use std::path::{Path, PathBuf};

use hocon::{Hocon, HoconLoader};

use super::table::Lines;
use super::{ConfigError, clusters};

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

/// What a file says.
#[derive(Debug)]
pub(super) struct Read {
    /// The settings.
    pub(super) entries: Vec<Entry>,
    /// The entries that were not understood.
    pub(super) ignored: Vec<String>,
    /// Where all keys stand, from the top.
    lines: Lines,
}

impl Read {
    /// Where an entry stands, by the empty path, and what is below it, by the paths of our settings.
    pub(super) fn lines_of(&self, entry: &str) -> Lines {
        let top = format!("{}.{entry}", DATASTORE.join("."));
        let below = self.lines.iter().filter_map(|(path, line)| {
            let rest = path.strip_prefix(&top)?;
            (rest.is_empty() || rest.starts_with(['.', '['])).then_some((ours(rest), *line))
        });
        below.collect()
    }
}

/// The path below an entry with the keys that our tables have.
fn ours(path: &str) -> String {
    let Some((before, key)) = path.rsplit_once('.') else { return path.to_owned() };
    match CLUSTER.iter().find(|(theirs, _)| *theirs == key) {
        Some((_, ours)) => format!("{before}.{ours}"),
        None => path.to_owned(),
    }
}

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

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<Read, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::File { path: path.into(), source })?;
    parse(&text).map_err(|reason| ConfigError::KairosDb { path: path.into(), reason })
}

/// Tables within each other that a file may have: the parser, which is not ours, calls itself for each.
const MOST_DEPTH: usize = 100;

fn parse(text: &str) -> Result<Read, String> {
    let mut depth = 0_usize;
    for byte in text.bytes() {
        depth = match byte {
            b'{' | b'[' => depth + 1,
            b'}' | b']' => depth.saturating_sub(1),
            _ => depth,
        };
        if depth > MOST_DEPTH {
            return Err(format!("more than {MOST_DEPTH} tables and lists within each other"));
        }
    }
    // The parser panics there.
    if let Some(line) = lines::bare_beyond_ascii(text) {
        return Err(format!("line {line}: characters outside ASCII must stand between quotes"));
    }
    let document = HoconLoader::new().strict().load_str(text).and_then(|loaded| loaded.hocon());
    let (lines, alone) = lines::lines(text);
    let document = document.map_err(|error| match (error, alone) {
        (hocon::Error::Parse | hocon::Error::Deserialization { .. }, Some(line)) => {
            format!("is not HOCON: a brace or bracket of line {line} has no other half")
        }
        (hocon::Error::Parse | hocon::Error::Deserialization { .. }, None) => {
            "is not HOCON".to_owned()
        }
        (error, _) => error.to_string(),
    })?;
    let datastore = DATASTORE.iter().fold(&document, |at, key| &at[*key]);
    if !matches!(datastore, Hocon::Hash(_)) {
        return Err(format!("has no {}", DATASTORE.join(".")));
    }
    let mut entries = Vec::new();
    let mut ignored = Vec::new();
    for (path, value) in leaves(datastore) {
        let taken = match other_clusters(&path, value, &mut ignored) {
            Ok(None) => setting(&path, value).map_err(|must| Wrong { path: path.clone(), must }),
            taken => taken,
        };
        match taken.map_err(|wrong| wrong.tell(&lines))? {
            Some((name, value)) => entries.push((name, value, path)),
            None => ignored.push(path),
        }
    }
    Ok(Read { entries, ignored, lines })
}

/// An entry whose value is of another kind than KairosDB takes.
struct Wrong {
    /// Below [`DATASTORE`].
    path: String,
    /// What it must be.
    must: &'static str,
}

impl Wrong {
    fn tell(self, lines: &Lines) -> String {
        let Self { path, must } = self;
        let line = lines.get(&format!("{}.{path}", DATASTORE.join(".")));
        let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        format!("{line}{path} {must}")
    }
}

const LIST: &str = "must be a list of hosts";
const NAMES: &str = "must be a list of metrics, or a table of metrics with a list of tags each";
const TEXT: &str = "must be a text";
const SECONDS: &str = "must be a whole number of seconds";
const CLUSTERS: &str = "must be a list of tables";
const TABLE: &str = "must be a table";

/// The setting that an entry becomes, if it becomes one. Fails with what its value must be.
fn setting(path: &str, value: &Hocon) -> Result<Option<(&'static str, String)>, &'static str> {
    if is_null(value) {
        return Ok(None);
    }
    if path == "datapoint_ttl" {
        let seconds = value.as_i64().ok_or(SECONDS)?;
        return Ok(Some(("retention", format!("{seconds}s"))));
    }
    let Some(entry) = path.strip_prefix("write_cluster.") else { return Ok(None) };
    if entry == "cql_host_list" {
        let hosts = names(value).ok_or(LIST)?;
        return Ok(Some(("cassandra-contact-points", hosts.join(","))));
    }
    if entry == INDEXED.0 {
        return Ok(Some((INDEXED.1, indexed(value).ok_or(NAMES)?.to_string())));
    }
    let Some((_, name)) = TEXTS.iter().find(|(key, _)| *key == entry) else { return Ok(None) };
    Ok(Some((name, value.as_string().ok_or(TEXT)?)))
}

/// Entries of another cluster, and those of our tables that they become.
const CLUSTER: [(&str, &str); 10] = [
    ("name", "name"),
    ("keyspace", "keyspace"),
    ("cql_host_list", "contact_points"),
    ("replication", "replication"),
    ("local_dc_name", "local_datacenter"),
    ("read_consistency_level", "read_consistency"),
    ("write_consistency_level", "write_consistency"),
    (INDEXED.0, INDEXED.0),
    ("start_time", "start"),
    ("end_time", "end"),
];

/// The setting that other clusters than the one for writes become.
fn other_clusters(
    path: &str,
    value: &Hocon,
    ignored: &mut Vec<String>,
) -> Result<Option<(&'static str, String)>, Wrong> {
    match (path, value) {
        ("read_clusters", Hocon::Array(list)) => {
            let mut tables = Vec::with_capacity(list.len());
            for (at, cluster) in list.iter().enumerate() {
                let mut table = cluster_table(&format!("{path}[{at}]"), cluster, ignored)?;
                // As KairosDB calls one without a name.
                table.entry("name").or_insert_with(|| "default".into());
                tables.push(table);
            }
            let list: serde_json::Value = tables.into();
            Ok((list != serde_json::json!([])).then(|| (clusters::READ, list.to_string())))
        }
        ("meta_cluster", cluster) if !is_null(cluster) => {
            let mut table = cluster_table(path, cluster, ignored)?;
            for entry in ["start", "end"] {
                table.remove(entry);
            }
            Ok(Some((clusters::METADATA, serde_json::Value::from(table).to_string())))
        }
        ("read_clusters", value) if !is_null(value) => {
            Err(Wrong { path: path.to_owned(), must: CLUSTERS })
        }
        _ => Ok(None),
    }
}

fn cluster_table(
    path: &str,
    cluster: &Hocon,
    ignored: &mut Vec<String>,
) -> Result<serde_json::Map<String, serde_json::Value>, Wrong> {
    let wrong = |path: &str, must| Wrong { path: path.to_owned(), must };
    let Hocon::Hash(_) = cluster else { return Err(wrong(path, TABLE)) };
    let mut table = serde_json::Map::new();
    for (entry, value) in leaves(cluster) {
        let known = CLUSTER.iter().find(|(key, _)| *key == entry);
        let path = format!("{path}.{entry}");
        let Some((_, key)) = known.filter(|_| !is_null(value)) else {
            ignored.push(path);
            continue;
        };
        let (value, must) = match entry.as_str() {
            "cql_host_list" => (names(value).map(Into::into), LIST),
            entry if entry == INDEXED.0 => (indexed(value), NAMES),
            _ => (value.as_string().map(Into::into), TEXT),
        };
        table.insert((*key).to_owned(), value.ok_or_else(|| wrong(&path, must))?);
    }
    Ok(table)
}

/// Whether an entry is as if it were not there. The parser makes a text of a null before a space.
fn is_null(value: &Hocon) -> bool {
    match value {
        Hocon::Null => true,
        Hocon::String(text) => text == "null",
        _ => false,
    }
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

/// The entries below a table by their paths; the list of indexed metrics counts as one, and so does
/// another cluster.
fn leaves(table: &Hocon) -> Vec<(String, &Hocon)> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), table)];
    while let Some((path, value)) = open.pop() {
        match value {
            Hocon::Hash(table) if path != "meta_cluster" && !path.ends_with(INDEXED.0) => {
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
        let Read { entries, ignored, .. } = parse(
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
    fn tables_within_each_other_are_bounded() {
        let nested = |depth: usize| "{a:".repeat(depth) + "1" + &"}".repeat(depth);
        let refused = parse(&nested(20_000)).expect_err("too deep");
        assert_eq!(refused, "more than 100 tables and lists within each other");
        assert!(parse(&nested(100)).expect_err("no KairosDB's").starts_with("has no kairosdb."));
    }

    #[test]
    fn other_clusters_become_tables() {
        let Read { entries, ignored, .. } = parse(
            "kairosdb.datastore.cassandra: { read_clusters: [\n\
             { name: \"old\", keyspace: k, cql_host_list: [\"a:1\", b], use_ssl: false,\n\
               start_time: \"2001-07-04T12:08-0700\", connections_per_host: { local.core: 5 },\n\
               tag_indexed_row_key_lookup_metrics: { m: [t] } }\n\
             { cql_host_list: [c] } ]\n\
             meta_cluster: { name: m, cql_host_list: [d], start_time: \"2001-07-04T12:08-0700\" } }",
        )
        .expect("HOCON");
        let taken: Vec<_> =
            entries.iter().map(|(name, value, _)| (*name, value.as_str())).collect();
        let meta = r#"{"contact_points":["d"],"name":"m"}"#;
        let read = concat!(
            r#"[{"contact_points":["a:1","b"],"keyspace":"k","name":"old","#,
            r#""start":"2001-07-04T12:08-0700","tag_indexed_row_key_lookup_metrics":{"m":["t"]}},"#,
            r#"{"contact_points":["c"],"name":"default"}]"#,
        );
        assert_eq!(taken, [(clusters::METADATA, meta), (clusters::READ, read)]);
        let want = ["read_clusters[0].connections_per_host.local.core", "read_clusters[0].use_ssl"];
        assert_eq!(ignored, want);
    }

    #[test]
    fn another_file_is_refused() {
        let check = |text: &str, want: &str| {
            assert_eq!(parse(text).err().as_deref(), Some(want), "{text}");
        };
        check("a: 1", "has no kairosdb.datastore.cassandra");
        check("\na: [1", "is not HOCON: a brace or bracket of line 2 has no other half");
        check("a: \"b", "is not HOCON");
        let wrong = |entry: &str, want: &str| {
            check(&format!("kairosdb.datastore.cassandra {{\n{entry}\n}}"), want);
        };
        wrong("datapoint_ttl: abc", "line 2: datapoint_ttl must be a whole number of seconds");
        wrong("datapoint_ttl: \"1y\"", "line 2: datapoint_ttl must be a whole number of seconds");
        let hosts = "cql_host_list must be a list of hosts";
        wrong("\nwrite_cluster: {cql_host_list: 5}", &format!("line 3: write_cluster.{hosts}"));
        wrong("write_cluster.keyspace: [a]", "line 2: write_cluster.keyspace must be a text");
        wrong("read_clusters: 5", "line 2: read_clusters must be a list of tables");
        wrong("read_clusters: [5]", "line 2: read_clusters[0] must be a table");
        let entry = "read_clusters: [\n{name: a,\ncql_host_list: \"b\"}]";
        wrong(entry, &format!("line 4: read_clusters[0].{hosts}"));
        wrong("meta_cluster: x", "line 2: meta_cluster must be a table");
    }

    #[test]
    fn nothing_is_no_value() {
        let entries = "datapoint_ttl: null, read_clusters: null, meta_cluster: null\n\
                       write_cluster: { keyspace: null, cql_host_list: null }";
        let text = format!("kairosdb.datastore.cassandra {{ {entries} }}");
        let read = parse(&text).expect("HOCON");
        assert_eq!((read.entries.len(), read.ignored.len()), (0, 5), "{:?}", read.ignored);
    }

    #[test]
    fn entries_have_the_line_that_holds() {
        let read = parse(
            "kairosdb.datastore.cassandra {\n write_cluster.keyspace: a\n read_clusters: [\n\
             {name: a}\n{\nname: a\n cql_host_list: [b]}]\n}\n\
             # The last one counts.\n\
             kairosdb { datastore { cassandra.write_cluster.keyspace: b } }\n",
        )
        .expect("HOCON");
        let lines = |entry: &str| read.lines_of(entry).into_iter().collect::<Vec<_>>();
        assert_eq!(lines("write_cluster.keyspace"), [(String::new(), 10)]);
        let want = [
            ("", 3),
            ("[0]", 4),
            ("[0].name", 4),
            ("[1]", 5),
            ("[1].contact_points", 7),
            ("[1].cql_host_list[0]", 7),
            ("[1].name", 6),
        ];
        assert_eq!(lines("read_clusters"), want.map(|(path, line)| (path.to_owned(), line)));
        assert_eq!(lines("write"), []);
    }
}
