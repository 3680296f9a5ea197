//! Settings of one cluster of the Cassandra store. `clusters` adds the others.

pub(super) mod tls;

use std::path::PathBuf;
use std::time::Duration;

use super::error::ConfigError;
use super::memory::MemoryConfig;
use super::raw::Raw;
use super::read_cache::ReadCacheConfig;
use super::{file, settings, tag_index, ttl_by_metric};
use crate::model::Secret;
use crate::storage::cassandra::{Compression, Consistency, Replication, TagIndexOptions};
pub use tls::TlsConfig;

const WRITE_CONSISTENCY: &str = "cassandra-write-consistency";

/// How to reach Cassandra, and how to read and write there.
#[derive(Debug, Clone)]
pub struct CassandraConfig {
    /// `host:port` of the nodes to ask first; at least one.
    pub contact_points: Vec<String>,
    /// Keyspace of KairosDB: letters, digits and underscores.
    pub keyspace: String,
    /// Replication of a keyspace that has to be created.
    pub replication: Replication,
    /// Data centre to prefer.
    pub local_datacenter: Option<String>,
    /// Consistency of reads, index reads included.
    pub read_consistency: Consistency,
    /// Consistency of writes and deletes.
    pub write_consistency: Consistency,
    /// User and password.
    pub credentials: Option<Credentials>,
    /// Encryption; `None` = none.
    pub tls: Option<TlsConfig>,
    /// Compression of the connections; `None` = none.
    pub compression: Option<Compression>,
    /// Timeout of a write or of one page of a read, retries included.
    pub request_timeout: Duration,
    /// Statements in flight at once; at least 1.
    pub max_in_flight: usize,
    /// Bytes, approximately, of the cache of series that are in the index.
    pub series_cache_bytes: usize,
    /// Cache of settled points that were read; `None` = no cache.
    pub read_cache: Option<ReadCacheConfig>,
    /// How long the log keeps samples that Cassandra acknowledged but may still lose; `None` = as its settings say.
    pub keep_unsynced: Option<Duration>,
    /// Retention of the metrics whose names match; zero = for ever.
    pub ttl_by_metric: Vec<(String, Duration)>,
    /// Which tags are indexed.
    pub tag_index: TagIndexOptions,
    /// Clusters that hold older data.
    pub read_clusters: Vec<ReadClusterConfig>,
    /// The cluster for metadata; `None` = this one.
    pub metadata_cluster: Option<Box<Self>>,
}

/// A cluster with older data.
#[derive(Debug, Clone)]
pub struct ReadClusterConfig {
    /// Its name in errors.
    pub name: String,
    /// First time that it is read for, in milliseconds since 1970; `None` = no lower bound.
    pub start: Option<i64>,
    /// Last time that it is read for, likewise; `None` = no upper bound.
    pub end: Option<i64>,
    /// How to reach it.
    pub cassandra: CassandraConfig,
}

/// User and password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub username: String,
    /// The password.
    pub password: Secret,
    /// The file that holds the password.
    pub file: PathBuf,
}

impl CassandraConfig {
    /// The same settings for another keyspace at `host[:port]`, comma-separated; an error says what
    /// is wrong with these arguments.
    pub fn elsewhere(&self, hosts: &str, keyspace: &str) -> Result<Self, String> {
        let (contact_points, keyspace) = (parse_contact_points(hosts)?, parse_keyspace(keyspace)?);
        Ok(Self { contact_points, keyspace, ..self.clone() })
    }

    /// One cluster, without the others.
    pub(super) fn from_raw(raw: &Raw) -> Result<Self, ConfigError> {
        let memory = MemoryConfig::from_raw(raw)?;
        let max_in_flight = |text: &str| match text.parse() {
            Ok(number @ 1..=32_768) => Ok(number),
            _ => Err("must be from 1 to 32768"),
        };
        Ok(Self {
            max_in_flight: raw.parsed("cassandra-max-in-flight", max_in_flight)?,
            request_timeout: raw.positive("cassandra-request-timeout")?,
            contact_points: raw.parsed("cassandra-contact-points", parse_contact_points)?,
            keyspace: raw.parsed("cassandra-keyspace", parse_keyspace)?,
            replication: raw.parsed("cassandra-replication", parse_replication)?,
            local_datacenter: raw.get("cassandra-local-datacenter").map(str::to_owned),
            read_consistency: read_consistency(raw)?,
            write_consistency: consistency(raw, WRITE_CONSISTENCY)?,
            credentials: credentials(raw)?,
            tls: TlsConfig::from_raw(raw)?,
            compression: match raw.word("cassandra-compression")? {
                "lz4" => Some(Compression::Lz4),
                "snappy" => Some(Compression::Snappy),
                _ => None,
            },
            series_cache_bytes: memory.size_or(
                raw,
                "cassandra-series-cache",
                memory.series_cache(),
                1,
            )?,
            read_cache: ReadCacheConfig::from_raw(raw)?,
            keep_unsynced: keep_unsynced(raw)?,
            ttl_by_metric: ttl_by_metric::from_raw(raw)?,
            tag_index: tag_index::from_raw(raw)?,
            read_clusters: Vec::new(),
            metadata_cluster: None,
        })
    }
}

fn keep_unsynced(raw: &Raw) -> Result<Option<Duration>, ConfigError> {
    const NAME: &str = "cassandra-keep-unsynced";
    match raw.required(NAME) {
        "auto" => Ok(None),
        _ => raw.duration(NAME).map(Some),
    }
}

fn parse_contact_points(text: &str) -> Result<Vec<String>, String> {
    let mut points = Vec::new();
    let all = text.split(',').map(str::trim).filter(|point| !point.is_empty());
    for (at, point) in all.enumerate() {
        match point.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>())) {
            Some((host, Ok(_))) if !host.is_empty() => points.push(point.to_owned()),
            None => points.push(format!("{point}:9042")),
            // The value is not repeated: it may be a login in the wrong place.
            _ => return Err(format!("node {} is not host:port", at + 1)),
        }
    }
    if points.is_empty() {
        return Err("names no node".into());
    }
    Ok(points)
}

fn parse_keyspace(name: &str) -> Result<String, &'static str> {
    let valid = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || name.len() > 48 || !valid {
        return Err("must be a letter and up to 47 letters, digits or underscores");
    }
    // Cassandra and KairosDB fold an unquoted name to lower case: it would name another keyspace.
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err("must be in lower case, as KairosDB and cqlsh take a name without quotes");
    }
    Ok(name.to_owned())
}

/// A number, `dc1=3,dc2=2` (or `dc1:3,dc2:2`), or the map as CQL writes it.
fn parse_replication(text: &str) -> Result<Replication, &'static str> {
    const FORM: &str = "must be a number, dc1=3,dc2=2, or a replication map of CQL";
    let text = text.trim();
    if let Ok(copies @ 1..) = text.parse() {
        return Ok(Replication::Simple(copies));
    }
    let map = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let (mut class, mut datacenters) = (None, Vec::new());
    for pair in map.unwrap_or(text).split(',') {
        let (key, value) = pair.split_once(['=', ':']).ok_or(FORM)?;
        let unquoted = |text: &'_ str| text.trim().trim_matches(['\'', '"']).to_owned();
        let (key, value) = (unquoted(key), unquoted(value));
        if map.is_some() && key == "class" {
            class = value.rsplit('.').next().map(str::to_owned);
            continue;
        }
        match value.parse() {
            Ok(copies @ 1..) if is_datacenter(&key) => datacenters.push((key, copies)),
            _ => return Err(FORM),
        }
    }
    match (class.as_deref(), datacenters.as_slice()) {
        (Some("SimpleStrategy"), [(key, copies)]) if key == "replication_factor" => {
            Ok(Replication::Simple(*copies))
        }
        (Some("NetworkTopologyStrategy"), [_, ..]) => Ok(Replication::ByDatacenter(datacenters)),
        (None, [_, ..]) if map.is_none() => Ok(Replication::ByDatacenter(datacenters)),
        _ => Err(FORM),
    }
}

/// Whether a name needs no escaping in a CQL string.
fn is_datacenter(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' '))
}

fn read_consistency(raw: &Raw) -> Result<Consistency, ConfigError> {
    match consistency(raw, "cassandra-read-consistency")? {
        Consistency::EachQuorum => {
            Err(raw.refuse("cassandra-read-consistency", "Cassandra has it for writes only"))
        }
        level => Ok(level),
    }
}

/// The level of a setting. Both settings know the words for writes.
fn consistency(raw: &Raw, name: &'static str) -> Result<Consistency, ConfigError> {
    Ok(match raw.word_of(name, settings::words(WRITE_CONSISTENCY))? {
        "ONE" => Consistency::One,
        "TWO" => Consistency::Two,
        "THREE" => Consistency::Three,
        "QUORUM" => Consistency::Quorum,
        "ALL" => Consistency::All,
        "EACH_QUORUM" => Consistency::EachQuorum,
        "LOCAL_ONE" => Consistency::LocalOne,
        _ => Consistency::LocalQuorum,
    })
}

fn credentials(raw: &Raw) -> Result<Option<Credentials>, ConfigError> {
    match (raw.get("cassandra-username"), raw.get("cassandra-password-file")) {
        (None, None) => Ok(None),
        (Some(username), Some(path)) => {
            let file = PathBuf::from(path);
            let password = file::read_secret(&file)
                .map_err(|why| raw.refuse("cassandra-password-file", why))?;
            Ok(Some(Credentials { username: username.to_owned(), password, file }))
        }
        (Some(_), None) => Err(raw.refuse("cassandra-username", "needs --cassandra-password-file")),
        (None, Some(_)) => Err(raw.refuse("cassandra-password-file", "needs --cassandra-username")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{load as load_all, load_cassandra as load};
    use super::*;

    #[test]
    fn defaults() {
        let config = load(&[]).expect("valid");
        assert_eq!(config.contact_points, ["127.0.0.1:9042"]);
        assert_eq!(config.keyspace, "kairosdb");
        assert_eq!(config.replication, Replication::Simple(1));
        assert_eq!(config.read_consistency, Consistency::LocalQuorum);
        assert_eq!(config.write_consistency, Consistency::LocalQuorum);
        assert!(config.credentials.is_none() && config.tls.is_none());
    }

    #[test]
    fn lists_and_levels() {
        let config = load(&[
            "--cassandra-contact-points=a, b:1,[::1]:2",
            "--cassandra-write-consistency=each_quorum",
        ])
        .expect("valid");
        assert_eq!(config.contact_points, ["a:9042", "b:1", "[::1]:2"]);
        assert_eq!(config.write_consistency, Consistency::EachQuorum);
    }

    #[test]
    fn replications() {
        let check = |text: &str, want: Option<Replication>| {
            let got = load(&[&format!("--cassandra-replication={text}")]);
            assert_eq!(got.ok().map(|config| config.replication), want, "{text}");
        };
        let datacenters = || {
            let list = vec![("dc1".to_owned(), 3), ("dc2".to_owned(), 2)];
            Some(Replication::ByDatacenter(list))
        };
        check("3", Some(Replication::Simple(3)));
        check("dc1=3,dc2=2", datacenters());
        check("dc1:3, dc2:2", datacenters());
        check("{'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': '2'}", datacenters());
        let simple = "{\"class\": \"org.x.SimpleStrategy\", \"replication_factor\": 3}";
        check(simple, Some(Replication::Simple(3)));
        for bad in ["", "0", "-1", "dc1", "dc1=0", "{}", "{'class': 'X', 'a': 1}", "a'b=1"] {
            check(bad, None);
        }
    }

    #[test]
    fn a_password_is_read_from_its_file_and_never_printed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("password");
        std::fs::write(&path, "s3cret\n").expect("written");
        let file = format!("--cassandra-password-file={}", path.display());
        let config = load(&["--cassandra-username=u", &file]).expect("valid");
        let credentials = config.credentials.as_ref().expect("given");
        assert_eq!(credentials.password.reveal(), "s3cret");
        assert!(!format!("{config:?}").contains("s3cret"));
    }

    #[test]
    fn a_kairosdb_is_taken_over_where_nothing_else_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kairosdb.conf");
        let conf = "kairosdb.datastore.cassandra { datapoint_ttl: 60, query_limit: 1\n\
                    write_cluster { keyspace: theirs, cql_host_list: [\"a:1\"]\n\
                    write_consistency_level: ONE, tag_indexed_row_key_lookup_metrics: [m] } }";
        std::fs::write(&path, conf).expect("written");
        let toml = folder.path().join("x.toml");
        std::fs::write(&toml, "cassandra_write_consistency = \"ALL\"\n").expect("written");
        let settings = [
            format!("--kairosdb-config={}", path.display()),
            format!("--config={}", toml.display()),
            "--cassandra-keyspace=ours".to_owned(),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let config = load(&settings).expect("valid");
        assert_eq!(
            (config.keyspace.as_str(), &config.contact_points[..]),
            ("ours", &["a:1".to_owned()][..])
        );
        assert_eq!(config.write_consistency, Consistency::All);
        assert_eq!(config.read_consistency, Consistency::LocalQuorum);
        assert_eq!(config.tag_index.metrics.keys().collect::<Vec<_>>(), ["m"]);
        let whole = load_all(&[&["--store=cassandra"][..], &settings[..]].concat()).expect("valid");
        assert_eq!(whole.retention, Some(Duration::from_secs(60)));
        assert_eq!(whole.kairosdb.ignored, ["query_limit"]);
        assert_eq!(whole.kairosdb.taken.len(), 3, "{:?}", whole.kairosdb.taken);
    }

    #[test]
    fn what_a_kairosdb_has_that_is_refused_names_file_line_and_entry() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kairosdb.conf");
        let check = |conf: &str, want: &str| {
            std::fs::write(&path, conf).expect("written");
            let read = load(&[&format!("--kairosdb-config={}", path.display())]);
            let error = read.expect_err(conf).to_string();
            let error = error.replace(&format!("{}/", folder.path().display()), "");
            assert!(error.starts_with(want), "{error}");
        };
        let top = "kairosdb.datastore.cassandra {\nwrite_cluster.keyspace: k\n";
        check(
            &format!("{top}write_cluster {{\nkeyspace: \"a b\"\n}}\n}}"),
            "\"a b\" of write_cluster.keyspace in kairosdb.conf:4 for --cassandra-keyspace: ",
        );
        check(
            &format!(
                "{top}read_clusters: [\n{{ name: a, cql_host_list: [x] }}\n{{\nname: a\n\
                      cql_host_list: [y] }} ] }}"
            ),
            "read_clusters in kairosdb.conf:6 for --cassandra-read-clusters[1].name: another",
        );
        check(
            &format!("{top}read_clusters: [\n{{ cql_host_list: [x],\nkeyspace: \"a b\" }} ] }}"),
            "read_clusters in kairosdb.conf:5 for --cassandra-read-clusters[0].keyspace: ",
        );
        check(
            &format!("{top}\n"),
            "kairosdb.conf: is not HOCON: a brace or bracket of line 1 has no other half",
        );
    }

    #[test]
    fn indexed_tags_stand_in_the_file_as_in_kairosdb() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.toml");
        let check = |text: &str, want: &[(&str, usize)]| {
            std::fs::write(&path, text).expect("written");
            let config = load(&[&format!("--config={}", path.display())]).expect(text);
            let metrics = config.tag_index.metrics;
            let got: Vec<_> = metrics.iter().map(|(m, tags)| (m.as_str(), tags.len())).collect();
            assert_eq!(got, want, "{text}");
        };
        check("tag_indexed_row_key_lookup_metrics = [\"m\", \"a,b\"]", &[("a,b", 0), ("m", 0)]);
        check("tag_indexed_row_key_lookup_metrics = \"*\"", &[("*", 0)]);
        check(
            "[tag_indexed_row_key_lookup_metrics]\nm = [\"host\"]\n\"n.o\" = []\n",
            &[("m", 1), ("n.o", 0)],
        );
    }

    #[test]
    fn other_clusters_have_settings_of_their_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.toml");
        let key = rcgen::KeyPair::generate().expect("a key");
        let ca = rcgen::CertificateParams::default().self_signed(&key).expect("signed");
        for name in ["ours.pem", "theirs.pem"] {
            std::fs::write(folder.path().join(name), ca.pem()).expect("written");
        }
        let theirs = folder.path().join("theirs.pem");
        let text = "cassandra_keyspace = \"now\"\ncassandra_compression = \"lz4\"\n\
                    cassandra_local_datacenter = \"dc1\"\n\
                    cassandra_tls = true\ncassandra_tls_ca = \"ours.pem\"\n\
                    [[cassandra_read_clusters]]\nname = \"a\"\ncontact_points = [\"x:1\", \"y\"]\n\
                    start = \"1970-01-01T00:00:01Z\"\nend = \"2001-07-04T12:08-0700\"\n\
                    tag_indexed_row_key_lookup_metrics = { m = [\"host\"] }\n\
                    [[cassandra_read_clusters]]\nname = \"b\"\ncontact_points = \"z\"\n\
                    keyspace = \"old\"\nread_consistency = \"ONE\"\ntls = true\n\
                    tls_ca = \"theirs.pem\"\n\
                    [cassandra_metadata_cluster]\ncontact_points = [\"m\"]\nkeyspace = \"meta\"\n";
        let at = |name: &str| format!("{}/{name}", folder.path().display());
        let text = text.replace("ours.pem", &at("ours.pem"));
        std::fs::write(&path, text.replace("\"theirs.pem", &format!("\"{}", at("theirs.pem"))))
            .expect("written");
        let config = load(&[&format!("--config={}", path.display())]).expect("valid");
        let [a, b] = &config.read_clusters[..] else { panic!("{config:?}") };
        assert_eq!((&*a.name, a.start, a.end), ("a", Some(1_000), Some(994_273_680_000)));
        assert_eq!(a.cassandra.contact_points, ["x:1", "y:9042"]);
        assert_eq!(
            (&*a.cassandra.keyspace, a.cassandra.compression),
            ("now", Some(Compression::Lz4))
        );
        assert_eq!(a.cassandra.tag_index.metrics["m"].len(), 1);
        // Settings of one cluster are not inherited by another.
        assert!(a.cassandra.tls.is_none() && a.cassandra.local_datacenter.is_none());
        assert_eq!((&*b.name, b.start, b.end, &*b.cassandra.keyspace), ("b", None, None, "old"));
        assert_eq!(b.cassandra.read_consistency, Consistency::One);
        assert_eq!(b.cassandra.tls.as_ref().map(|tls| &*tls.connections.ca_file), Some(&*theirs));
        assert!(b.cassandra.tag_index.metrics.is_empty() && b.cassandra.read_clusters.is_empty());
        let metadata = config.metadata_cluster.expect("given");
        assert_eq!((&*metadata.keyspace, &metadata.contact_points[0]), ("meta", &"m:9042".into()));
    }

    #[test]
    fn what_is_refused_of_clusters() {
        let check = |text: &str, want: &str| {
            let error = load(&[&format!("--cassandra-read-clusters={text}")]).expect_err(text);
            assert_eq!(error, format!("--cassandra-read-clusters{want}"));
        };
        let form = "must be a list of tables, each with name and contact_points";
        check("{a = \"b\"}", &format!(": {form}"));
        check("[\"a\"]", "[0]: must be a table");
        check("[{contact_points = \"a\"}]", "[0]: name is missing");
        check("[{name = \"a\"}]", "[0]: contact_points is missing");
        check(
            "[{name = \"a\", contact_point = \"x\"}]",
            "[0].contact_point: unknown entry, did you mean contact_points?",
        );
        let with = |more: &str| format!("[{{name = \"a\", contact_points = \"x\", {more}}}]");
        check(&with("keyspac = \"k\""), "[0].keyspac: unknown entry, did you mean keyspace?");
        check(&with("zzz = \"k\""), "[0].zzz: unknown entry");
        check(&with("end = [\"k\"]"), "[0].end: must be a string");
        check(&with("read_consistency = \"k\""), &format!("[0].read_consistency: {LEVELS}"));
        check(
            &with("tag_indexed_row_key_lookup_metrics = {m = [true]}"),
            "[0].tag_indexed_row_key_lookup_metrics.m[0]: must be a string",
        );
        check(
            "[{name = \"a\", contact_points = \"x:y\"}]",
            "[0].contact_points: node 1 is not host:port",
        );
        check(&with("start = \"2001\""), "[0].start: must be a time like 2024-01-01T00:00:00Z");
        check(
            &with("start = \"2001-01-01T00:00:00Z\", end = \"2000-01-01T00:00:00Z\""),
            "[0].start: must be before end",
        );
        let twice = "{name = \"a\", contact_points = \"x\"}";
        check(&format!("[{twice}, {twice}]"), "[1].name: another cluster has it too");
        assert!(load(&["--cassandra-read-clusters=x"]).is_err_and(|error| error.contains(form)));
    }

    const LEVELS: &str = "must be one of ONE, TWO, THREE, QUORUM, ALL, LOCAL_QUORUM, EACH_QUORUM, \
                          LOCAL_ONE";

    #[test]
    fn passwords_in_wrong_places_are_not_repeated() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.toml");
        let flag = format!("--config={}", path.display());
        let check = |text: &str, want: &str| {
            std::fs::write(&path, text).expect("written");
            let error = load(&[&flag]).expect_err(text);
            assert!(!error.contains("hunter2"), "{error}");
            let want = want.replace("FILE", &path.display().to_string());
            assert_eq!(error, want, "{text}");
        };
        let first = "[[cassandra_read_clusters]]\nname = \"a\"\ncontact_points = [\"a\"]\n";
        let second = "[[cassandra_read_clusters]]\nname = \"b\"\ncontact_points = [\"b\"]\n";
        check(
            &format!("{first}{second}password = \"hunter2\"\n"),
            "cassandra_read_clusters[1].password in FILE:7: unknown entry, did you mean \
             password_file?",
        );
        check(
            &format!("{first}password_file = \"hunter2\"\nusername = \"u\"\n"),
            "cassandra_read_clusters[0].password_file in FILE:4: No such file or directory \
             (os error 2)",
        );
        check(
            &format!("{first}{}", second.replace("\"b\"]", "\"op:hunter2@b\"]")),
            "cassandra_read_clusters[1].contact_points in FILE:6: node 1 is not host:port",
        );
        check(
            &format!("{first}password = 7\n"),
            "cassandra_read_clusters[0].password in FILE:4: must be a string, true or false, a \
             list or a table",
        );
        check(
            "[cassandra_metadata_cluster]\ncontact_points = [\"a\"]\npasword = \"hunter2\"\n",
            "cassandra_metadata_cluster.pasword in FILE:3: unknown entry, did you mean \
             password_file?",
        );
        let metadata = "--cassandra-metadata-cluster={contact_points = \"a\", pw = \"hunter2\"}";
        let error = load(&[metadata]).expect_err("refused");
        assert!(error.starts_with("--cassandra-metadata-cluster.pw: unknown entry"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn what_is_refused() {
        let check = |settings: &[&str], want: &str| {
            let error = load(settings).expect_err("refused");
            assert!(error.contains(want), "{error}");
        };
        check(&["--cassandra-keyspace=a;b"], "must be a letter and");
        check(&["--cassandra-contact-points=,"], "names no node");
        check(&["--cassandra-contact-points=a:x"], "node 1 is not host:port");
        check(&["--cassandra-replication=0"], "must be a number, dc1=3");
        check(&["--cassandra-read-consistency=EACH_QUORUM"], "for writes only");
        check(&["--cassandra-read-consistency=x"], "must be one of ONE, TWO");
        check(&["--cassandra-username=u"], "needs --cassandra-password-file");
        check(&["--cassandra-tls-ca=x"], "means nothing without --cassandra-tls");
        for (file, why) in [
            ("Cargo.toml", "holds no certificate in PEM"),
            ("/nowhere/ca.pem", "No such file or directory (os error 2)"),
        ] {
            let ca = format!("--cassandra-tls-ca={file}");
            let want = format!("--cassandra-tls-ca {file:?}: {why}");
            check(&["--cassandra-tls", &ca], &want);
        }
        check(&["--cassandra-tls"], "needs --cassandra-tls-ca");
        check(&["--cassandra-max-in-flight=0"], "must be from 1 to 32768");
    }
}
