//! Converts the settings of the Cassandra store to its options.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::{self, CassandraConfig, Config, StoreConfig};
use crate::storage::cassandra::{Credentials, KeepUnsynced, Options, ReadCacheOptions};
use crate::storage::{Clock, StoreError};

/// The options of the store. `quarantine` is the file for rows that Cassandra refuses for good.
pub(super) fn options(
    config: &Config,
    cassandra: &CassandraConfig,
    quarantine: Option<PathBuf>,
) -> Result<Options, StoreError> {
    let keyspace =
        cassandra.keyspace.parse().map_err(|error| StoreError::Invalid(format!("{error}")))?;
    let (ttl_seconds, ttl_by_metric) = lifetimes(config, cassandra)?;
    let login = cassandra.credentials.as_ref();
    let login = login.map(|login| Credentials::new(&login.username, login.password.reveal()));
    Ok(Options {
        contact_points: cassandra.contact_points.clone(),
        keyspace,
        replication: cassandra.replication.clone(),
        local_datacenter: cassandra.local_datacenter.clone(),
        credentials: login.unwrap_or_default(),
        tls: cassandra.tls.as_ref().map(|tls| tls.connections.clone()),
        compression: cassandra.compression,
        request_timeout: cassandra.request_timeout,
        read_consistency: cassandra.read_consistency,
        write_consistency: cassandra.write_consistency,
        in_flight: cassandra.max_in_flight,
        series_cache_bytes: cassandra.series_cache_bytes,
        read_cache: read_cache(config, cassandra),
        ttl_seconds,
        ttl_by_metric,
        tag_index: cassandra.tag_index.clone(),
        keep_unsynced: cassandra.keep_unsynced.map_or_else(Default::default, KeepUnsynced::For),
        quarantine,
        ..Options::default()
    })
}

/// The TTL of samples in seconds, and the TTLs of metrics that match a pattern; 0 = no expiry.
pub(super) fn lifetimes(
    config: &Config,
    cassandra: &CassandraConfig,
) -> Result<(u32, Vec<(String, u32)>), StoreError> {
    let of_others = ttl("retention", config.retention.unwrap_or_default())?;
    let by_metric = cassandra.ttl_by_metric.iter();
    let by_metric = by_metric.map(|(pattern, kept)| Ok((pattern.clone(), ttl(pattern, *kept)?)));
    Ok((of_others, by_metric.collect::<Result<_, StoreError>>()?))
}

/// Each cluster gets an equal share of disk and memory. File names do not collide, so all share a folder.
fn read_cache(config: &Config, cassandra: &CassandraConfig) -> Option<ReadCacheOptions> {
    let config::ReadCacheConfig { bytes, settled_after, max_age } = cassandra.read_cache.clone()?;
    let clusters = match &config.store {
        StoreConfig::Cassandra { cassandra, .. } => 1 + cassandra.read_clusters.len() as u64,
        StoreConfig::Embedded => 1,
    };
    let dir = config.data_dir.join("cassandra/read-cache");
    let (bytes, memory) = (bytes / clusters, config.memory.read_cache() / clusters);
    let (min_age, clock) = (config::FIRST_CACHE_AGE, Clock::monotonic());
    Some(ReadCacheOptions { dir, bytes, memory, settled_after, min_age, max_age, clock })
}

/// A TTL in seconds; 0 = no expiry.
fn ttl(what: &str, kept: Duration) -> Result<u32, StoreError> {
    if !kept.is_zero() && kept < Duration::from_secs(1) {
        return Err(StoreError::Invalid(format!("{what}: a TTL has at least one second")));
    }
    u32::try_from(kept.as_secs())
        .map_err(|_| StoreError::Invalid(format!("{what}: longer than a TTL can be")))
}
