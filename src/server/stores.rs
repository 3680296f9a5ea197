//! Opens the configured store. The only file that knows all stores.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::api::AppState;
use crate::config::{Ack, CassandraConfig, Cluster, Config, HeadConfig, StoreConfig};
use crate::limits::SERIES_STAY;
use crate::storage::cassandra::{self as storage_cassandra, CassandraStore};
use crate::storage::disk::Disk;
use crate::storage::embedded::{self, Parts};
use crate::storage::head::wal::{self, Mark};
use crate::storage::head::{self, Head};
use crate::storage::{Pressure, SharedStore, Store, StoreError};
use crate::telemetry::{CassandraMetrics, HeadMetrics, Metrics};

use super::cassandra;
use super::clusters;
use super::error::ServerError;
use super::lazy_store::{LazyStore, Opening};
use super::lock;
use super::readiness_blockers::ReadinessBlockers;
use super::runtime_config::RuntimeConfig;
use super::wal_owner::WalOwner;

/// The folder of the log of a store.
pub fn wal_dir(data_dir: &Path, store: &StoreConfig) -> PathBuf {
    match store {
        StoreConfig::Embedded => data_dir.join("embedded/wal"),
        StoreConfig::Cassandra { .. } => data_dir.join("cassandra/wal"),
    }
}

/// The folder of the part files of the embedded store.
pub(super) fn parts_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("embedded/parts")
}

/// Refuses settings that are invalid for any store; reads and writes no file.
pub fn check(config: &Config) -> Result<(), ServerError> {
    let checked = match &config.store {
        StoreConfig::Embedded => Ok(()),
        StoreConfig::Cassandra { cassandra, ack } => cassandra_options(config, cassandra, *ack)
            .and_then(|options| storage_cassandra::check(&options))
            .and_then(|()| clusters::check(config, cassandra)),
    };
    checked.map_err(ServerError::store("cannot open the store"))
}

/// Warnings about settings of clusters that weaken promises.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let warning = |(cluster, of): (Cluster, &CassandraConfig)| {
        let names = match cluster {
            Cluster::Write => storage_cassandra::Options::CONSISTENCIES,
            Cluster::Read(_) | Cluster::Metadata => ["read_consistency", "write_consistency"],
        };
        // `check` refuses settings from which no options can be made.
        let warning = cassandra::options(config, of, None).ok()?.warning(names)?;
        Some(match cluster {
            Cluster::Write => warning,
            Cluster::Read(name) => format!("read cluster {name:?}: {warning}"),
            Cluster::Metadata => format!("the metadata cluster: {warning}"),
        })
    };
    config.clusters().filter_map(warning).collect()
}

/// Opens the configured store.
pub(super) async fn open(
    config: &Config,
    state: &Arc<AppState>,
    live: &Arc<RuntimeConfig>,
) -> Result<SharedStore, StoreError> {
    let metrics = &state.metrics;
    match &config.store {
        StoreConfig::Embedded => {
            let (store, parts) =
                open_embedded(config, Purpose::Writing, metrics, &state.pressure).await?;
            live.open_parts(parts);
            Ok(store)
        }
        StoreConfig::Cassandra { cassandra, ack } => {
            let mut below = cassandra_options(config, cassandra, *ack)?;
            let home = home(config, cassandra, *ack)?;
            live.follow(&Cluster::Write, &mut below);
            below.expected_cluster = home.as_ref().and_then(WalOwner::expected_cluster);
            let metrics = metrics.cassandra.clone();
            let (pages, settings) = (state.clone(), live.clone());
            let open_below = move || {
                let (below, metrics) = (below.clone(), metrics.clone());
                let (pages, settings, home) = (pages.clone(), settings.clone(), home.clone());
                async move {
                    let opened = CassandraStore::open(below, metrics.clone()).await;
                    count(&opened, &metrics);
                    let store = Arc::new(opened?);
                    if let Some(home) = home {
                        home.learn(store.cluster());
                    }
                    // The settings may have changed since the start.
                    settings.open_cassandra(store.clone())?;
                    pages.open_cassandra(store.clone());
                    Ok(store as SharedStore)
                }
            };
            let obstacles = Arc::new(ReadinessBlockers::new(state.clone()));
            match ack {
                Ack::Store => {
                    let write = open_below().await?;
                    let metrics = &state.metrics.cassandra;
                    clusters::beside(config, cassandra, write, metrics, live, &obstacles)
                }
                Ack::Wal => {
                    // The acknowledgement needs only the log, so Cassandra is opened in the background.
                    let (pages, write) = (state.clone(), obstacles.clone());
                    let note = move |opening| {
                        write.note("", &opening);
                        match opening {
                            Opening::Away(why) => {
                                pages.metrics.cassandra.unanswered();
                                pages.set_away(Some(why));
                            }
                            Opening::Refused(_) => {}
                            Opening::Done => pages.set_away(None),
                        }
                    };
                    let patience = cassandra.request_timeout;
                    let later = LazyStore::begin("Cassandra", patience, open_below, note);
                    let metrics = &state.metrics.cassandra;
                    let below = Arc::new(later);
                    let below =
                        clusters::beside(config, cassandra, below, metrics, live, &obstacles)?;
                    let metrics = state.metrics.head.clone();
                    Ok(Arc::new(Head::open(log_options(config, state), below, metrics).await?))
                }
            }
        }
    }
}

/// Counts an attempt to open the store. A store that refuses has answered too.
fn count<T>(opened: &Result<T, StoreError>, metrics: &CassandraMetrics) {
    match opened {
        Ok(_) => metrics.answered(),
        Err(StoreError::Unavailable { .. }) => metrics.unanswered(),
        Err(_) => {
            metrics.answered();
            metrics.open_refused.inc();
        }
    }
}

/// Why the embedded store of a folder is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// For reading: the store has to exist, samples beyond the retention stay, and no files are merged.
    Reading,
    /// For writing: the store is created if missing, and maintained as in a server.
    Writing,
}

/// Opens the embedded store of the data folder, with its log in front. Also returns its part files,
/// so that their retention can be changed.
pub(super) async fn open_embedded(
    config: &Config,
    purpose: Purpose,
    metrics: &Metrics,
    pressure: &Arc<Pressure>,
) -> Result<(SharedStore, Arc<Parts>), StoreError> {
    let log = wal_dir(&config.data_dir, &StoreConfig::Embedded);
    // Checked before a part file is touched.
    wal::check_there(&log, &Disk)?;
    let options = head_options(log, &config.head, &metrics.head, pressure);
    let through = wal::checkpoint(&options.dir, options.disk.as_ref())?;
    let parts = open_parts(config, purpose, through, metrics).await?;
    check_together(&options, parts.stats().await?.flushed_through, config)?;
    let head = Head::open(options, parts.clone(), metrics.head.clone()).await?;
    Ok((Arc::new(head), parts))
}

/// The options of the log in front of Cassandra.
fn log_options(config: &Config, state: &AppState) -> head::Options {
    let log = wal_dir(&config.data_dir, &config.store);
    let options = head_options(log, &config.head, &state.metrics.head, &state.pressure);
    let refuse = Some(storage_cassandra::refuse as head::Refuse);
    head::Options { keeps_stamps: true, refuse, ..options }
}

/// The keyspace of the log in front of Cassandra, if there is a log.
fn home(
    config: &Config,
    cassandra: &CassandraConfig,
    ack: Ack,
) -> Result<Option<WalOwner>, StoreError> {
    if ack == Ack::Store {
        return Ok(None);
    }
    let folder = config.data_dir.join("cassandra");
    let log = wal_dir(&config.data_dir, &config.store);
    // Checked before the keyspace of an empty log is recorded.
    wal::check_there(&log, &Disk)?;
    WalOwner::settle(&folder, &log, &cassandra.keyspace).map(Some)
}

fn cassandra_options(
    config: &Config,
    cassandra: &CassandraConfig,
    ack: Ack,
) -> Result<storage_cassandra::Options, StoreError> {
    // Only a flush can find rows that are refused for good after they were acknowledged.
    let quarantine = config.data_dir.join("cassandra/quarantine.jsonl");
    let mut options =
        cassandra::options(config, cassandra, (ack == Ack::Wal).then_some(quarantine))?;
    if ack == Ack::Wal {
        // A series is seen once per flush.
        options.live_within = options.live_within.max(config.head.flush_interval * 2);
    }
    Ok(options)
}

async fn open_parts(
    config: &Config,
    purpose: Purpose,
    through: u64,
    metrics: &Metrics,
) -> Result<Arc<Parts>, StoreError> {
    let folder = parts_dir(&config.data_dir);
    let cache_bytes = usize::try_from(config.memory.blocks()).unwrap_or(usize::MAX);
    let write_bytes = usize::try_from(config.memory.parts()).unwrap_or(usize::MAX);
    let options =
        embedded::Options { cache_bytes, write_bytes, through, ..embedded::Options::default() };
    let options = match purpose {
        Purpose::Writing => {
            let retention = config.retention.unwrap_or_default();
            embedded::Options { retention, ..options }
        }
        Purpose::Reading => embedded::Options { maintenance: None, ..options },
    };
    let metrics = metrics.store.clone();
    let parts = tokio::task::spawn_blocking(move || Parts::open(&folder, options, metrics));
    match parts.await {
        Ok(parts) => Ok(Arc::new(parts?)),
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Logs an error if the log is missing although the part files contain flushed records. [`wal::check_there`] has
/// refused a folder with a mark; without one (version 0.1, a copy of the part files alone) no more is known.
fn check_together(log: &head::Options, flushed: u64, config: &Config) -> Result<(), StoreError> {
    if flushed > 0 && wal::is_new(&log.dir, log.disk.as_ref())? {
        tracing::error!(
            "{} is gone: samples that were in it and are not in {} yet are lost",
            log.dir.display(),
            parts_dir(&config.data_dir).display()
        );
    }
    Ok(())
}

/// Abandons the missing log of the configured store: the next start creates a new one.
pub fn give_up_log(config: &Config) -> Result<(), ServerError> {
    let _lock = lock::acquire(&config.data_dir)?;
    let log = wal_dir(&config.data_dir, &config.store);
    wal::forget_mark(&log, &Disk).map_err(ServerError::store("cannot give the log up"))
}

fn head_options(
    dir: PathBuf,
    config: &HeadConfig,
    metrics: &HeadMetrics,
    pressure: &Arc<Pressure>,
) -> head::Options {
    let HeadConfig { flush_interval, wal_limit, flush_memory } = *config;
    metrics.wal_limit.set(i64::try_from(wal_limit).unwrap_or(i64::MAX));
    let pressure = pressure.clone();
    head::Options {
        flush_interval,
        flush_spread: flush_interval / 2,
        // Keeps active series in memory when memory is short and flushes follow each other quickly.
        series_stay: flush_interval.min(SERIES_STAY),
        wal_limit,
        flush_memory,
        pressure,
        mark: Mark::Beside,
        ..head::Options::new(dir)
    }
}
