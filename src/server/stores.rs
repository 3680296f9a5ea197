//! From the configuration to an open store. The only place that knows all stores.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::{Ack, Config, HeadConfig, StoreConfig};
use crate::storage::cassandra::{self as storage_cassandra, CassandraStore};
use crate::storage::embedded::{self, Parts};
use crate::storage::head::{self, Head, Stamps};
use crate::storage::{SharedStore, StoreError};
use crate::telemetry::Metrics;

use super::cassandra;

/// Folder of the log of a store.
pub fn wal_dir(data_dir: &Path, store: &StoreConfig) -> PathBuf {
    match store {
        StoreConfig::Embedded => data_dir.join("embedded/wal"),
        StoreConfig::Cassandra { .. } => data_dir.join("cassandra/wal"),
    }
}

/// Opens the store that the configuration asks for.
pub(super) async fn open(config: &Config, metrics: &Metrics) -> Result<SharedStore, StoreError> {
    let wal = wal_dir(&config.data_dir, &config.store);
    match &config.store {
        StoreConfig::Embedded => {
            let parts = open_parts(config, metrics).await?;
            let options = head_options(wal, &config.head);
            Ok(Arc::new(Head::open(options, parts, metrics.head.clone()).await?))
        }
        StoreConfig::Cassandra { cassandra, ack } => {
            // Only a flush can meet rows that are refused for good after they were acknowledged.
            let quarantine = config.data_dir.join("cassandra/quarantine.jsonl");
            let quarantine = (*ack == Ack::Wal).then_some(quarantine);
            let options = cassandra::options(config, cassandra, quarantine)?;
            let store = CassandraStore::open(options, metrics.cassandra.clone()).await?;
            let store: SharedStore = Arc::new(store);
            match ack {
                Ack::Store => Ok(store),
                Ack::Wal => {
                    let refuse = Some(storage_cassandra::refuse as head::Refuse);
                    let options = head_options(wal, &config.head);
                    let options = head::Options { stamps: Stamps::Kept, refuse, ..options };
                    Ok(Arc::new(Head::open(options, store, metrics.head.clone()).await?))
                }
            }
        }
    }
}

async fn open_parts(config: &Config, metrics: &Metrics) -> Result<SharedStore, StoreError> {
    let folder = config.data_dir.join("embedded/parts");
    let retention = config.retention.unwrap_or_default();
    let options = embedded::Options { retention, ..embedded::Options::default() };
    let metrics = metrics.store.clone();
    let parts = tokio::task::spawn_blocking(move || Parts::open(&folder, options, metrics));
    match parts.await {
        Ok(parts) => Ok(Arc::new(parts?)),
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn head_options(dir: PathBuf, config: &HeadConfig) -> head::Options {
    let HeadConfig { flush_interval, wal_limit } = *config;
    head::Options { flush_interval, wal_limit, ..head::Options::new(dir) }
}
