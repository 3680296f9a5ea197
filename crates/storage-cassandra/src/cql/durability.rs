//! What survives a kill of a node after an acknowledgement: when nodes sync their commit logs (`commitlog_sync`), and
//! how many nodes have a row.
//!
//! Each node is asked, because each has its own setting. Of the nodes that answer, the one that syncs latest counts. A
//! setting that cannot be read counts as Cassandra's default, so a silent node causes no error.
//!
//! Not here: which nodes were restarted (`node_starts`), and the log that keeps what may be lost.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use scylla::client::session::Session;
use scylla::cluster::Node;
use scylla::cluster::metadata::Strategy;
use scylla::statement::Consistency;

use crate::cql::each_node::{first_row, nodes};
use crate::cql::once::rows;
use crate::options::{KeepUnsynced, Keyspace, Options};

/// The default of `commitlog_sync_period`.
const DEFAULT_PERIOD: Duration = Duration::from_secs(10);
/// Added to one and a half periods: a node that is half a period late holds up writes.
const MARGIN: Duration = Duration::from_secs(1);

/// When a commit log is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LogSync {
    /// Before the acknowledgement.
    Before,
    /// Once per period, whatever was acknowledged.
    Every(Duration),
}

impl LogSync {
    /// Parses `commitlog_sync` and its period; none where the first is unknown.
    fn parse(sync: &str, period: Option<&str>) -> Option<Self> {
        match sync.trim_matches('"').to_ascii_lowercase().as_str() {
            "batch" | "group" => Some(Self::Before),
            "periodic" => {
                Some(Self::Every(period.and_then(parse_period).unwrap_or(DEFAULT_PERIOD)))
            }
            _ => None,
        }
    }
}

/// Parses `10000`, `10000ms`, `10s` or `1m`.
fn parse_period(text: &str) -> Option<Duration> {
    let text = text.trim_matches('"');
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    match text[digits..].trim() {
        "" | "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(number.checked_mul(60)?)),
        _ => None,
    }
}

/// What survives a kill of a node after an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Durability {
    /// The latest sync among the nodes that answered; none = no node answered.
    sync: Option<LogSync>,
    /// The least number of nodes that have a row when it is acknowledged.
    pub(crate) copies: usize,
    /// Whether the keyspace uses a commit log at all.
    durable_writes: bool,
}

impl Durability {
    pub(crate) async fn ask(session: &Session, options: &Options) -> Self {
        let said =
            join_all(nodes(session, options).iter().map(|node| sync_of(session, node))).await;
        let durable_writes = durable_writes(session, &options.keyspace).await.unwrap_or(true);
        Self {
            sync: said.into_iter().flatten().max(),
            copies: copies(session, options),
            durable_writes,
        }
    }

    /// How long a log keeps acknowledged data so that it can be written again.
    pub(crate) fn period(&self, keep: KeepUnsynced) -> Duration {
        let sync = self.sync.unwrap_or(LogSync::Every(DEFAULT_PERIOD));
        match (keep, sync) {
            (KeepUnsynced::For(period), _) => period,
            (KeepUnsynced::AsNodesSay, LogSync::Before) => Duration::ZERO,
            (KeepUnsynced::AsNodesSay, LogSync::Every(period)) => period * 3 / 2 + MARGIN,
        }
    }

    /// What a kill loses where no log keeps it.
    pub(crate) fn risk(&self) -> Option<Risk> {
        match self.sync.unwrap_or(LogSync::Every(DEFAULT_PERIOD)) {
            _ if !self.durable_writes => Some(Risk::NoCommitLog),
            LogSync::Before => None,
            LogSync::Every(_) if self.copies > 1 => None,
            LogSync::Every(period) => Some(Risk::Late { period, is_said: self.sync.is_some() }),
        }
    }
}

/// What is lost when one node is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Risk {
    /// The keyspace has `durable_writes = false`.
    NoCommitLog,
    /// There is one copy, synced once per `period`.
    Late { period: Duration, is_said: bool },
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCommitLog => f.write_str(
                "the keyspace has durable_writes = false: what Cassandra acknowledged since it last wrote its tables \
                 to disk is gone when it is killed; ALTER KEYSPACE ... WITH durable_writes = true",
            ),
            Self::Late { period, is_said } => {
                let sure = if *is_said { "" } else { ", the default: the setting is not known" };
                write!(
                    f,
                    "Cassandra answers a write when one node has it in memory, and that node syncs its commit log \
                     only every {period:?} (commitlog_sync: periodic{sure}). A loss of power loses the writes of the \
                     last {period:?}, a kill -9 those of the last moment. To prevent this, use 3 replicas with \
                     LOCAL_QUORUM, commitlog_sync: group in cassandra.yaml, or --ack wal"
                )
            }
        }
    }
}

/// The least number of nodes that have a row when it is acknowledged.
fn copies(session: &Session, options: &Options) -> usize {
    let cluster = session.get_cluster_state();
    let strategy =
        cluster.get_keyspace(options.keyspace.as_str()).map(|keyspace| &keyspace.strategy);
    let (local, all) = match strategy {
        Some(Strategy::SimpleStrategy { replication_factor }) => {
            (*replication_factor, *replication_factor)
        }
        Some(Strategy::NetworkTopologyStrategy { datacenter_repfactors: all }) => {
            let local = options.local_datacenter.as_ref().and_then(|local| all.get(local)).copied();
            let least = all.values().copied().filter(|copies| *copies > 0).min().unwrap_or(1);
            (local.unwrap_or(least), all.values().sum())
        }
        _ => (1, 1),
    };
    match options.write_consistency {
        Consistency::Two => 2,
        Consistency::Three => 3,
        Consistency::Quorum | Consistency::EachQuorum => all / 2 + 1,
        Consistency::All => all,
        Consistency::LocalQuorum => local / 2 + 1,
        _ => 1,
    }
}

/// When a node syncs its commit log; none where it does not answer.
async fn sync_of(session: &Session, node: &Arc<Node>) -> Option<LogSync> {
    // Cassandra since 4.0, and ScyllaDB.
    for table in ["system_views.settings", "system.config"] {
        let get = async |name: &str| {
            let cql = format!("SELECT value FROM {table} WHERE name = '{name}'");
            let row: Option<(Option<String>,)> = first_row(session, node, &cql).await.ok()?;
            row.and_then(|(value,)| value)
        };
        if let Some(sync) = get("commitlog_sync").await {
            let mut period = get("commitlog_sync_period").await;
            if period.is_none() {
                period = get("commitlog_sync_period_in_ms").await;
            }
            return LogSync::parse(&sync, period.as_deref());
        }
    }
    None
}

async fn durable_writes(session: &Session, keyspace: &Keyspace) -> Option<bool> {
    let cql = "SELECT durable_writes FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let found: Vec<(bool,)> = rows(session, cql, (keyspace.as_str(),)).await.ok()?;
    found.first().map(|(durable,)| *durable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_as_servers_say_them() {
        let every = |millis| Some(LogSync::Every(Duration::from_millis(millis)));
        for (sync, period, want) in [
            ("periodic", Some("10000ms"), every(10_000)),
            ("periodic", Some("10s"), every(10_000)),
            ("PERIODIC", Some("2500"), every(2_500)),
            ("\"periodic\"", Some("1m"), every(60_000)),
            ("periodic", None, every(10_000)),
            ("periodic", Some("often"), every(10_000)),
            ("batch", None, Some(LogSync::Before)),
            ("group", Some("10s"), Some(LogSync::Before)),
            ("never", None, None),
        ] {
            assert_eq!(LogSync::parse(sync, period), want, "{sync} {period:?}");
        }
    }

    #[test]
    fn what_is_at_risk() {
        let every = LogSync::Every(Duration::from_secs(10));
        let risk = |sync, copies, durable_writes| {
            Durability { sync, copies, durable_writes }.risk().map(|risk| risk.to_string())
        };
        assert_eq!(risk(Some(LogSync::Before), 1, true), None);
        assert_eq!(risk(Some(every), 2, true), None);
        let late = risk(Some(every), 1, true).expect("a risk");
        assert!(late.contains("only every 10s (commitlog_sync: periodic). "), "{late}");
        let unknown = risk(None, 1, true).expect("a risk");
        assert!(
            unknown.contains("(commitlog_sync: periodic, the default: the setting"),
            "{unknown}"
        );
        let none = risk(Some(LogSync::Before), 3, false).expect("a risk");
        assert!(none.contains("durable_writes = false"), "{none}");
        let durability = Durability { sync: Some(every), copies: 1, durable_writes: true };
        assert_eq!(durability.period(KeepUnsynced::AsNodesSay), Duration::from_secs(16));
        assert_eq!(durability.period(KeepUnsynced::For(Duration::ZERO)), Duration::ZERO);
        let group = Durability { sync: Some(LogSync::Before), ..durability };
        assert_eq!(group.period(KeepUnsynced::AsNodesSay), Duration::ZERO);
    }
}
