//! `--kairosdb-config FILE`: the clusters of a `kairosdb.conf` (HOCON) become the values of settings
//! that are given nowhere else.
//!
//! What is taken over or ignored is kept as lines for the log, which is not started yet. Only the
//! section of KairosDB's Cassandra datastore is read.

mod layers;
mod values;

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::error::ConfigError;
use super::file;
use super::table::{self, Lines};

use layers::Table;
use values::{Value, Values};

/// What was read from the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KairosDbConf {
    /// The file; `None` = not set.
    pub path: Option<PathBuf>,
    /// Settings that were taken over, as `setting = value`.
    pub taken: Vec<String>,
    /// Entries that have no meaning for promkairos, or that it could not read.
    pub ignored: Vec<String>,
    /// Entries that switch on TLS, with their lines. They are not taken over: promkairos needs other files.
    pub tls: Vec<String>,
}

/// A setting, its value, and the entry that it comes from.
pub(super) type Entry = (&'static str, String, String);

/// The content of a file.
#[derive(Debug)]
pub(super) struct Read {
    /// The settings.
    pub(super) entries: Vec<Entry>,
    /// The entries that were ignored.
    pub(super) ignored: Vec<String>,
    /// Entries that switch on TLS, with their lines.
    pub(super) tls: Vec<String>,
    /// The lines of all entries, and of the entries within them.
    lines: Lines,
}

impl Read {
    /// Line of an entry, by the empty path, and lines below it, by the paths of promkairos' settings.
    pub(super) fn lines_of(&self, entry: &str) -> Lines {
        let below = self.lines.iter().filter_map(|(path, line)| {
            let rest = path.strip_prefix(entry)?;
            (rest.is_empty() || rest.starts_with(['.', '['])).then_some((ours(rest), *line))
        });
        below.collect()
    }
}

/// The path below an entry, with the keys of promkairos' tables.
fn ours(path: &str) -> String {
    let Some((before, key)) = path.rsplit_once('.') else { return path.to_owned() };
    match CLUSTER.iter().find(|(theirs, ..)| *theirs == key) {
        Some((_, ours, _)) => format!("{before}.{ours}"),
        None => path.to_owned(),
    }
}

/// The section of the file that is read.
const DATASTORE: [&str; 3] = ["kairosdb", "datastore", "cassandra"];

/// The list of hosts, and the list of indexed metrics.
const HOSTS: &str = "cql_host_list";
const INDEXED: &str = "tag_indexed_row_key_lookup_metrics";

/// The settings that other clusters become.
const READ_CLUSTERS: &str = "cassandra-read-clusters";
const METADATA_CLUSTER: &str = "cassandra-metadata-cluster";

/// Entries of a `kairosdb.properties`, the format before there were clusters.
const OLD: [&str; 3] = ["cql_host_list", "host_list", "keyspace"];

const PROPERTIES: &str = "is of a KairosDB before 1.3 (kairosdb.properties), and is not read: give \
    --cassandra-contact-points, --cassandra-keyspace and, for datapoint_ttl, --retention";

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<Read, ConfigError> {
    if path.extension().is_some_and(|extension| extension == "properties") {
        return Err(ConfigError::KairosDb { path: path.into(), reason: PROPERTIES.into() });
    }
    let text =
        file::read_text(path).map_err(|source| ConfigError::File { path: path.into(), source })?;
    let variable = |name: &str| std::env::var(name).ok();
    parse(&text, &variable).map_err(|reason| ConfigError::KairosDb { path: path.into(), reason })
}

/// Whether a line belongs to a `kairosdb.properties`, whose lists are not HOCON.
fn is_old(line: &str) -> bool {
    let entry = line.trim_start().strip_prefix("kairosdb.datastore.cassandra.");
    let value = entry.and_then(|entry| OLD.iter().find_map(|old| entry.strip_prefix(old)));
    value.is_some_and(|value| value.trim_start().starts_with(['=', ':']))
}

fn parse(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Read, String> {
    if let Some(line) = text.lines().position(is_old) {
        return Err(layers::at(line + 1, PROPERTIES));
    }
    let syntax = layers::syntax(text)?;
    let table = Table::of(&syntax)?.unwrap_or_default();
    let datastore = Values::new(&table, text.len(), variable).get(&DATASTORE)?;
    let Some(datastore) = datastore.filter(|value| value.table().is_some()) else {
        return Err(format!("has no {}", DATASTORE.join(".")));
    };
    let mut lines = Lines::new();
    add_lines(&mut lines, String::new(), &datastore);
    let mut entries = Vec::new();
    let mut ignored = Vec::new();
    for (path, value) in leaves(&datastore) {
        let taken = match other_clusters(&path, value, &mut ignored) {
            Ok(None) => setting(&path, value).map_err(|must| Wrong { path: path.clone(), must }),
            taken => taken,
        };
        match taken.map_err(|wrong| wrong.tell(&lines))? {
            Some((name, value)) => entries.push((name, value, path)),
            None => ignored.push(path),
        }
    }
    let tls = asks_for_tls(String::new(), &datastore);
    let tls = tls.into_iter().map(|entry| match lines.get(&entry) {
        Some(line) => format!("{entry} (line {line})"),
        None => entry,
    });
    Ok(Read { entries, ignored, tls: tls.collect(), lines })
}

/// The entries of clusters that switch on TLS.
fn asks_for_tls(path: String, value: &Value<'_>) -> Vec<String> {
    let items = value.list().unwrap_or_default().iter().enumerate();
    let items = items.flat_map(|(at, item)| asks_for_tls(format!("{path}[{at}]"), item));
    let entries = value.table().into_iter().flatten();
    let entries = entries.flat_map(|(key, value)| asks_for_tls(below(&path, key), value));
    let is_asked =
        path.ends_with(".use_ssl") && matches!(value.text(), Some("true" | "yes" | "on"));
    items.chain(entries).chain(is_asked.then(|| path.clone())).collect()
}

/// An entry whose value is of a kind that KairosDB does not accept.
struct Wrong {
    /// Its path below [`DATASTORE`].
    path: String,
    /// What it must be.
    must: &'static str,
}

impl Wrong {
    fn tell(self, lines: &Lines) -> String {
        let Self { path, must } = self;
        let line = lines.get(&path).map(|line| format!("line {line}: ")).unwrap_or_default();
        format!("{line}{path} {must}")
    }
}

const LIST: &str = "must be a list of hosts";
const NAMES: &str = "must be a list of metrics, or a table of metrics with a list of tags each";
const TEXT: &str = "must be a text";
const SECONDS: &str = "must be a whole number of seconds";
const CLUSTERS: &str = "must be a list of tables";
const TABLE: &str = "must be a table";

/// The setting that an entry becomes, if any. Fails with what its value must be.
fn setting(path: &str, value: &Value<'_>) -> Result<Option<(&'static str, String)>, &'static str> {
    if value.is_null() {
        return Ok(None);
    }
    if path == "datapoint_ttl" {
        let seconds = value.text().and_then(|text| text.parse::<i64>().ok()).ok_or(SECONDS)?;
        return Ok(Some(("retention", format!("{seconds}s"))));
    }
    let entry = path.strip_prefix("write_cluster.").unwrap_or_default();
    let known = CLUSTER.iter().find(|(theirs, ..)| *theirs == entry);
    let Some((_, _, Some(setting))) = known else { return Ok(None) };
    let text = match (entry, json_of(entry, value)?) {
        (_, Json::String(text)) => text,
        (HOSTS, _) => names(value).unwrap_or_default().join(","),
        (_, list) => list.to_string(),
    };
    Ok(Some((setting, text)))
}

/// Entries of a cluster, the entries of promkairos' tables of other clusters that they become, and the settings that
/// they become for the write cluster.
const CLUSTER: [(&str, &str, Option<&str>); 10] = [
    ("name", "name", None),
    ("keyspace", "keyspace", Some("cassandra-keyspace")),
    (HOSTS, "contact_points", Some("cassandra-contact-points")),
    ("replication", "replication", Some("cassandra-replication")),
    ("local_dc_name", "local_datacenter", Some("cassandra-local-datacenter")),
    ("read_consistency_level", "read_consistency", Some("cassandra-read-consistency")),
    ("write_consistency_level", "write_consistency", Some("cassandra-write-consistency")),
    (INDEXED, INDEXED, Some("tag-indexed-row-key-lookup-metrics")),
    ("start_time", "start", None),
    ("end_time", "end", None),
];

/// The value of an entry of a cluster in the form of promkairos' tables; the error says what it must be.
fn json_of(entry: &str, value: &Value<'_>) -> Result<Json, &'static str> {
    match entry {
        HOSTS => names(value).map(Into::into).ok_or(LIST),
        INDEXED => indexed(value).ok_or(NAMES),
        _ => value.text().map(Into::into).ok_or(TEXT),
    }
}

/// The setting that clusters other than the write cluster become.
fn other_clusters(
    path: &str,
    value: &Value<'_>,
    ignored: &mut Vec<String>,
) -> Result<Option<(&'static str, String)>, Wrong> {
    match (path, value) {
        ("read_clusters", value) if !value.is_null() => {
            let wrong = || Wrong { path: path.to_owned(), must: CLUSTERS };
            let list = value.list().ok_or_else(wrong)?;
            let mut tables = Vec::with_capacity(list.len());
            for (at, cluster) in list.iter().enumerate() {
                let mut table = cluster_table(&format!("{path}[{at}]"), cluster, ignored)?;
                // KairosDB's own name for a cluster without one.
                table.entry("name").or_insert_with(|| "default".into());
                tables.push(table);
            }
            Ok((!tables.is_empty()).then(|| (READ_CLUSTERS, Json::from(tables).to_string())))
        }
        ("meta_cluster", cluster) if !cluster.is_null() => {
            let mut table = cluster_table(path, cluster, ignored)?;
            for entry in ["start", "end"] {
                table.remove(entry);
            }
            Ok(Some((METADATA_CLUSTER, Json::from(table).to_string())))
        }
        _ => Ok(None),
    }
}

fn cluster_table(
    path: &str,
    cluster: &Value<'_>,
    ignored: &mut Vec<String>,
) -> Result<serde_json::Map<String, Json>, Wrong> {
    let wrong = |path: &str, must| Wrong { path: path.to_owned(), must };
    if cluster.table().is_none() {
        return Err(wrong(path, TABLE));
    }
    let mut table = serde_json::Map::new();
    for (entry, value) in leaves(cluster) {
        let known = CLUSTER.iter().find(|(theirs, ..)| *theirs == entry);
        let path = format!("{path}.{entry}");
        let Some((_, ours, _)) = known.filter(|_| !value.is_null()) else {
            ignored.push(path);
            continue;
        };
        let value = json_of(&entry, value).map_err(|must| wrong(&path, must))?;
        table.insert((*ours).to_owned(), value);
    }
    Ok(table)
}

fn indexed(value: &Value<'_>) -> Option<Json> {
    let Some(table) = value.table() else { return names(value).map(Into::into) };
    let pairs =
        table.iter().map(|(metric, tags)| Some(((*metric).to_owned(), names(tags)?.into())));
    let pairs: Option<serde_json::Map<_, _>> = pairs.collect();
    pairs.map(Into::into)
}

fn names(value: &Value<'_>) -> Option<Vec<String>> {
    value.list()?.iter().map(|name| name.text().map(str::to_owned)).collect()
}

/// The entries below a table by their paths. The list of indexed metrics counts as one entry, and so
/// does another cluster.
fn leaves<'v, 'a>(table: &'v Value<'a>) -> Vec<(String, &'v Value<'a>)> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), table)];
    while let Some((path, value)) = open.pop() {
        let is_one = path == "meta_cluster" || path.ends_with(INDEXED);
        match value.table().filter(|_| !is_one) {
            Some(table) => open.extend(table.iter().map(|(key, value)| (below(&path, key), value))),
            None => found.push((path, value)),
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// The path of an entry; a key that is not a plain name is put between quotes.
fn below(path: &str, key: &str) -> String {
    table::below(path, key).trim_start_matches('.').to_owned()
}

fn add_lines(lines: &mut Lines, path: String, value: &Value<'_>) {
    for (at, item) in value.list().unwrap_or_default().iter().enumerate() {
        add_lines(lines, format!("{path}[{at}]"), item);
    }
    for (key, value) in value.table().into_iter().flatten() {
        add_lines(lines, below(&path, key), value);
    }
    lines.insert(path, value.line);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses with an empty environment.
    fn parse(text: &str) -> Result<Read, String> {
        super::parse(text, &|_| None)
    }

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
                (
                    "tag-indexed-row-key-lookup-metrics",
                    "{\"a.b\":[],\"m\":[\"tag1\"],\"n\":[\"*\"]}"
                ),
            ]
        );
        assert_eq!(ignored, ["simultaneous_cql_queries", "write_cluster.auth.user_name"]);
    }

    #[test]
    fn what_asks_for_tls_is_told_apart() {
        let Read { ignored, tls, .. } = parse(
            "kairosdb.datastore.cassandra: {\n write_cluster: { use_ssl: true }\n read_clusters: [\n\
             { use_ssl: false },\n { name: b, use_ssl: true } ]\n meta_cluster: { use_ssl: no }\n}",
        )
        .expect("HOCON");
        assert_eq!(tls, ["read_clusters[1].use_ssl (line 5)", "write_cluster.use_ssl (line 2)"]);
        assert!(tls.iter().all(|entry| ignored.iter().any(|all| entry.starts_with(all))));
    }

    #[test]
    fn the_file_of_an_old_kairosdb_is_refused() {
        let old = "# old\nkairosdb.port=4242\nkairosdb.datastore.cassandra.cql_host_list=h1,h2\n";
        let refused = parse(old).expect_err("refused");
        assert!(refused.starts_with("line 3: is of a KairosDB before 1.3"), "{refused}");
        let refused = read(Path::new("kairosdb.properties")).expect_err("refused").to_string();
        assert!(refused.contains("is not read: give --cassandra-contact-points"), "{refused}");
    }

    #[test]
    fn tables_within_each_other_are_bounded() {
        let nested = |depth: usize| "{a:".repeat(depth) + "1" + &"}".repeat(depth);
        let refused = parse(&nested(20_000)).expect_err("too deep");
        assert_eq!(refused, "line 1: more than 100 tables and lists within each other");
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
        assert_eq!(taken, [(METADATA_CLUSTER, meta), (READ_CLUSTERS, read)]);
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
        check("a: \"b", "line 1, column 4: is not HOCON");
        check("[{kairosdb: 1}]", "has no kairosdb.datastore.cassandra");
        check("kairosdb.datastore.cassandra: 1", "has no kairosdb.datastore.cassandra");
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
    fn variables_and_other_keys_are_followed() {
        let text = "env: ${?NONE}\nkairosdb.jetty.password: ${ELSEWHERE}\n\
                    kairosdb.datastore.cassandra.write_cluster {\n keyspace: kairosdb\n\
                    keyspace: ${?KEYSPACE}\n cql_host_list: [${HOST}\":9042\"]\n\
                    cql_host_list += b\n local_dc_name: ${?NONE} }";
        let variable = |name: &str| match name {
            "KEYSPACE" => Some("k".to_owned()),
            "HOST" => Some("a".to_owned()),
            _ => None,
        };
        let read = super::parse(text, &variable).expect("HOCON");
        let entries = read.entries.iter().map(|(name, value, _)| (*name, value.as_str()));
        let want = [("cassandra-contact-points", "a:9042,b"), ("cassandra-keyspace", "k")];
        assert_eq!(entries.collect::<Vec<_>>(), want);
        assert_eq!(parse(text).expect_err("no HOST"), "line 6: there is no ${HOST}");
    }

    #[test]
    fn keys_between_quotes_are_one_key() {
        let read = parse(
            "kairosdb.datastore.cassandra { write_cluster.\"keyspace\": a\n\
             \"write_cluster.keyspace\": b\n\"a b\".c: 1 }",
        );
        let read = read.expect("HOCON");
        let entries: Vec<_> = read.entries.iter().map(|(_, value, _)| value.as_str()).collect();
        assert_eq!(entries, ["a"]);
        assert_eq!(read.ignored, ["\"a b\".c", "\"write_cluster.keyspace\""]);
        assert_eq!(read.lines_of("\"a b\".c").get(""), Some(&3));
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
