//! The settings of the Cassandra store, checked where a wrong value would reach CQL.
//!
//! The password never appears in `Debug`.

pub(crate) mod certificates;
pub(crate) mod credentials;
pub(crate) mod read_cache;
pub(crate) mod tag_index;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use scylla::client::Compression;
use scylla::statement::Consistency;

use crate::options::certificates::{Certificates, Tls};
use crate::options::credentials::Credentials;
use crate::options::read_cache::ReadCacheOptions;
use crate::options::tag_index::TagIndexOptions;
use crate::skipped::LeftOut;
use promkairos_kairos::RowSpec;
use promkairos_storage::{Clock, StoreError};

/// Replication of a new keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replication {
    /// `SimpleStrategy` with this number of copies.
    Simple(u32),
    /// `NetworkTopologyStrategy`: copies in each data centre.
    ByDatacenter(Vec<(String, u32)>),
}

/// Settings of a [`CassandraStore`](crate::CassandraStore).
#[derive(Debug, Clone)]
pub struct Options {
    /// `host:port` of some nodes; the driver finds the others.
    pub contact_points: Vec<String>,
    /// The keyspace.
    pub keyspace: Keyspace,
    /// What the keyspace is for; decides what happens when it is absent.
    pub role: Role,
    /// How the keyspace is created when it is absent.
    pub replication: Replication,
    /// Only nodes of this data centre are asked; none = any.
    pub local_datacenter: Option<String>,
    /// User and password of new connections.
    pub credentials: Credentials,
    /// TLS to the nodes; none = plain.
    pub tls: Option<Tls>,
    /// The current certificates of those files, for new connections.
    pub certificates: Certificates,
    /// Compression of frames.
    pub compression: Option<Compression>,
    /// Longest wait for a connection at start.
    pub connect_timeout: Duration,
    /// Longest time of a write or of a page of a read, waits and retries included.
    pub request_timeout: Duration,
    /// Consistency of reads, index reads included.
    pub read_consistency: Consistency,
    /// Consistency of writes and deletes.
    pub write_consistency: Consistency,
    /// Rows per page.
    pub page_size: i32,
    /// The most statements in flight, over all requests.
    pub in_flight: usize,
    /// Time to live of data in seconds; 0 = for ever.
    pub ttl_seconds: u32,
    /// TTL of the metrics whose whole name matches a regular expression; the longest matching
    /// expression applies.
    pub ttl_by_metric: Vec<(String, u32)>,
    /// The row spec of a keyspace that is created or empty; an existing `spec` wins.
    pub row_spec: RowSpec,
    /// Remembered index rows are checked again after this time.
    pub index_recheck: Duration,
    /// The most index rows that are remembered.
    pub index_memory_rows: usize,
    /// Series written within this time count as live: their index rows of the next window are
    /// written ahead.
    pub live_within: Duration,
    /// The clock that decides when the next window begins.
    pub clock: Clock,
    /// The tag index.
    pub tag_index: TagIndexOptions,
    /// Bytes of memory for the series of windows that were read, about.
    pub series_cache_bytes: usize,
    /// The read cache for settled points; none = no cache.
    pub read_cache: Option<ReadCacheOptions>,
    /// How long a log in front keeps data that Cassandra acknowledged and may lose.
    pub keep_unsynced: KeepUnsynced,
    /// The file for points of flushes that Cassandra refuses for good; none = they are only reported.
    pub quarantine: Option<PathBuf>,
    /// The cluster to expect: another one is refused before anything is created; none = any cluster.
    pub expected_cluster: Option<ExpectedCluster>,
    /// Lists what a read skips; none = that is only counted.
    pub left_out: Option<Arc<LeftOut>>,
}

/// The expected cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedCluster {
    /// The `cluster_name`.
    pub name: String,
    /// The file that names the cluster, for the error.
    pub said_in: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            contact_points: vec!["127.0.0.1:9042".into()],
            keyspace: Keyspace("kairosdb".into()),
            role: Role::Write,
            replication: Replication::Simple(1),
            local_datacenter: None,
            credentials: Credentials::default(),
            tls: None,
            certificates: Certificates::default(),
            compression: None,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(10),
            read_consistency: Consistency::LocalQuorum,
            write_consistency: Consistency::LocalQuorum,
            page_size: 5_000,
            in_flight: 256,
            ttl_seconds: 0,
            ttl_by_metric: Vec::new(),
            row_spec: RowSpec::DEFAULT,
            index_recheck: Duration::from_secs(300),
            index_memory_rows: 4_000_000,
            live_within: Duration::from_secs(3600),
            clock: Clock::default(),
            tag_index: TagIndexOptions::default(),
            series_cache_bytes: 256 << 20,
            read_cache: None,
            keep_unsynced: KeepUnsynced::AsNodesSay,
            quarantine: None,
            expected_cluster: None,
            left_out: None,
        }
    }
}

impl Options {
    /// The names of the settings for the consistencies of reads and of writes.
    pub const CONSISTENCIES: [&str; 2] =
        ["cassandra-read-consistency", "cassandra-write-consistency"];

    /// A warning about settings that weaken promises but are not refused. The arguments are the names
    /// of the settings for the consistencies of reads and of writes.
    pub fn warning(&self, [of_reads, of_writes]: [&str; 2]) -> Option<String> {
        (!overlap(self.read_consistency, self.write_consistency)).then(|| {
            let [read, write] = [self.read_consistency, self.write_consistency].map(word);
            format!(
                "with {of_reads} {read} and {of_writes} {write} reads may miss what was acknowledged \
                 where there is more than one copy: R + W > RF is not given"
            )
        })
    }
}

/// A level as settings write it: `LOCAL_QUORUM`, where the driver prints `LocalQuorum`.
fn word(level: Consistency) -> String {
    let mut word = String::new();
    for letter in level.to_string().chars() {
        if letter.is_ascii_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.push(letter.to_ascii_uppercase());
    }
    word
}

/// Whether reads and writes at these levels always share a replica.
fn overlap(read: Consistency, write: Consistency) -> bool {
    use Consistency::{All, Any, EachQuorum, LocalQuorum, Quorum};
    match (read, write) {
        (All, write) => write != Any,
        (_, All) => true,
        (Quorum, Quorum | EachQuorum) => true,
        (LocalQuorum, LocalQuorum | EachQuorum) => true,
        _ => false,
    }
}

/// The use of a keyspace, as in KairosDB's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Points are written to it. Missing parts are created.
    Write,
    /// It keeps only the metadata of metrics. Missing parts are created.
    Metadata,
    /// It holds older data. A missing keyspace is an error, and so is one without KairosDB's tables; an
    /// old one may lack some tables. Nothing is created, and only deletes are written.
    Read,
}

/// How long a log keeps acknowledged data so that it can be written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeepUnsynced {
    /// As the settings of the nodes require.
    #[default]
    AsNodesSay,
    /// For this time.
    For(Duration),
}

/// Why a setting is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// Not a valid name of a keyspace, or a name with capitals.
    #[error(
        "keyspace {0:?}: a name begins with a letter and has at most 48 lower-case letters, digits and underscores"
    )]
    Keyspace(String),
    /// More than 20 years.
    #[error("ttl of {0} s: Cassandra takes at most 20 years")]
    Ttl(u32),
    /// Later than the servers can store.
    #[error(
        "ttl of {0} s: rows would expire after 2038-01-19, which Cassandra refuses as its \
         storage_compatibility_mode is {1}, not NONE"
    )]
    TtlBeyond2038(u32, String),
    /// Not a regular expression.
    #[error("ttl of metrics {0:?}: {1}")]
    TtlPattern(String, String),
}

impl From<OptionsError> for StoreError {
    fn from(error: OptionsError) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// A keyspace name. It is quoted in CQL, because it may be a keyword. It is in lower case, like KairosDB's, which
/// KairosDB does not quote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyspace(String);

impl Keyspace {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A table of the keyspace in CQL.
    pub(crate) fn table(&self, name: &str) -> String {
        format!("\"{}\".{name}", self.0)
    }
}

impl FromStr for Keyspace {
    type Err = OptionsError;

    fn from_str(name: &str) -> Result<Self, OptionsError> {
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let good = name.len() <= 48
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(word);
        if good { Ok(Self(name.to_owned())) } else { Err(OptionsError::Keyspace(name.into())) }
    }
}

impl fmt::Display for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The replication of a new keyspace in CQL.
pub(crate) fn replication_cql(replication: &Replication) -> String {
    match replication {
        Replication::Simple(copies) => {
            format!("{{'class': 'SimpleStrategy', 'replication_factor': {copies}}}")
        }
        Replication::ByDatacenter(all) => {
            let list: Vec<_> = all.iter().map(|(dc, n)| format!(", '{dc}': {n}")).collect();
            format!("{{'class': 'NetworkTopologyStrategy'{}}}", list.concat())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replications() {
        let simple = replication_cql(&Replication::Simple(3));
        assert_eq!(simple, "{'class': 'SimpleStrategy', 'replication_factor': 3}");
        let list = [("dc1".to_owned(), 3), ("dc2".to_owned(), 2)];
        let topology = replication_cql(&Replication::ByDatacenter(list.into()));
        assert_eq!(topology, "{'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': 2}");
    }

    #[test]
    fn who_reads_and_writes_at_too_few_replicas_is_warned() {
        let warning = |read_consistency, write_consistency| {
            Options { read_consistency, write_consistency, ..Options::default() }
                .warning(["reads", "writes"])
        };
        use Consistency::{All, LocalOne, LocalQuorum, One, Quorum};
        for (read, write) in [(LocalQuorum, LocalQuorum), (Quorum, Quorum), (One, All), (All, One)]
        {
            assert_eq!(warning(read, write), None, "{read} {write}");
        }
        for (read, write, levels) in [
            (One, LocalQuorum, ["ONE", "LOCAL_QUORUM"]),
            (LocalOne, LocalOne, ["LOCAL_ONE", "LOCAL_ONE"]),
            (LocalQuorum, Quorum, ["LOCAL_QUORUM", "QUORUM"]),
        ] {
            let text = warning(read, write).expect("too few");
            let [read, write] = levels;
            let levels = format!("with reads {read} and writes {write} reads may miss ");
            assert!(text.contains(&levels), "{text}");
        }
    }

    #[test]
    fn keyspace_names() {
        for good in ["kairosdb", "token", "a_1"] {
            assert_eq!(good.parse::<Keyspace>().map(|k| k.to_string()), Ok(good.into()));
        }
        assert!("KairosDB".parse::<Keyspace>().is_err());
        for bad in ["", "1a", "a-b", "a;drop", "ä", &"a".repeat(49)] {
            assert!(bad.parse::<Keyspace>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_password_is_not_printed() {
        let credentials = Credentials::new("me", "secret");
        let options = Options { credentials, ..Options::default() };
        let text = format!("{options:?}");
        assert!(text.contains("me") && !text.contains("secret"), "{text}");
    }
}
