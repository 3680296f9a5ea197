//! The other clusters of the configuration, beside the one that is written to.
//!
//! Each is opened in the background and retried: an unreachable or refusing cluster stops neither the
//! start nor writes. Meanwhile requests that need it fail with an error that names it. A refusal is also
//! reported on `/-/ready`, because the operator has to fix it.

use std::sync::Arc;

use super::cassandra;
use super::lazy_store::LazyStore;
use super::readiness_blockers::ReadinessBlockers;
use super::runtime_config::RuntimeConfig;
use crate::config::{CassandraConfig, Cluster, Config};
use crate::model::TimeRange;
use crate::storage::cassandra::{self as storage_cassandra, CassandraStore, Options, Role};
use crate::storage::clusters::{Clusters, ReadCluster};
use crate::storage::{SharedStore, StoreError};
use crate::telemetry::CassandraMetrics;

/// Refuses settings that are invalid for any cluster; opens none.
pub(super) fn check(config: &Config, cassandra: &CassandraConfig) -> Result<(), StoreError> {
    for cluster in &cassandra.read_clusters {
        storage_cassandra::check(&read_options(config, &cluster.cassandra)?)?;
    }
    match &cassandra.metadata_cluster {
        Some(cluster) => storage_cassandra::check(&metadata_options(config, cluster)?),
        None => Ok(()),
    }
}

/// The store `write`, combined with the other clusters if there are any.
pub(super) fn beside(
    config: &Config,
    cassandra: &CassandraConfig,
    write: SharedStore,
    metrics: &CassandraMetrics,
    live: &RuntimeConfig,
    obstacles: &Arc<ReadinessBlockers>,
) -> Result<SharedStore, StoreError> {
    if cassandra.read_clusters.is_empty() && cassandra.metadata_cluster.is_none() {
        return Ok(write);
    }
    let mut read = Vec::with_capacity(cassandra.read_clusters.len());
    for cluster in &cassandra.read_clusters {
        let name = cluster.name.clone();
        let mut options = read_options(config, &cluster.cassandra)?;
        live.follow(&Cluster::Read(name.clone()), &mut options);
        let start = cluster.start.unwrap_or(i64::MIN);
        let range = TimeRange::new(start, cluster.end.unwrap_or(i64::MAX));
        let store = open(format!("read cluster {name:?}"), options, metrics, obstacles);
        read.push(ReadCluster { name, range, store });
    }
    let metadata = match &cassandra.metadata_cluster {
        Some(cluster) => {
            let mut options = metadata_options(config, cluster)?;
            live.follow(&Cluster::Metadata, &mut options);
            Some(open("metadata cluster".into(), options, metrics, obstacles))
        }
        None => None,
    };
    Ok(Arc::new(Clusters { write, read, metadata }))
}

/// Only deletes are written there, so no expiry is needed and no table is created.
fn read_options(config: &Config, cluster: &CassandraConfig) -> Result<Options, StoreError> {
    let options = cassandra::options(config, cluster, None)?;
    let ttl_by_metric = Vec::new();
    Ok(Options { role: Role::Read, ttl_seconds: 0, ttl_by_metric, ..options })
}

fn metadata_options(config: &Config, cluster: &CassandraConfig) -> Result<Options, StoreError> {
    Ok(Options { role: Role::Metadata, ..cassandra::options(config, cluster, None)? })
}

fn open(
    name: String,
    options: Options,
    metrics: &CassandraMetrics,
    obstacles: &Arc<ReadinessBlockers>,
) -> SharedStore {
    let (metrics, patience) = (metrics.of_other_cluster(), options.request_timeout);
    let open = move || {
        let (options, metrics) = (options.clone(), metrics.clone());
        async move { Ok(Arc::new(CassandraStore::open(options, metrics).await?) as SharedStore) }
    };
    let (obstacles, whose) = (obstacles.clone(), name.clone());
    let note = move |opening| obstacles.note(&whose, &opening);
    Arc::new(LazyStore::begin(&name, patience, open, note))
}
