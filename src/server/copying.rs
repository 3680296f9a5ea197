//! Opens stores for a command that works on them without a server: the embedded store of a data folder that no
//! server uses, and a keyspace.
//!
//! The settings apply as in a server. But for reading, no keyspace is created, no sample is removed and no part
//! file is rewritten. The log of a folder is replayed and flushed.

use std::path::Path;
use std::sync::Arc;

use crate::config::{CassandraConfig, Config, StoreConfig};
use crate::storage::cassandra::{CassandraStore, LeftOut, Options, Role};
use crate::storage::{FolderLock, SharedStore, StoreError};
use crate::telemetry::Metrics;

use super::cassandra;
use super::error::ServerError;
use super::lock;
use super::owner::refuse_foreign;
use super::stores::{self, Purpose};

/// The embedded store of a data folder; the folder is locked while this lives.
pub struct EmbeddedFolder {
    /// The store; the caller closes it.
    pub store: SharedStore,
    _lock: FolderLock,
}

/// Opens the embedded store of the data folder `folder`.
pub async fn open_embedded(
    config: &Config,
    folder: &Path,
    purpose: Purpose,
) -> Result<EmbeddedFolder, ServerError> {
    let parts = stores::parts_dir(folder);
    if purpose == Purpose::Reading && !parts.is_dir() {
        let why = "no embedded store is there; the folder is that of a server's --data-dir";
        let source = std::io::Error::new(std::io::ErrorKind::NotFound, why);
        return Err(ServerError::DataDir { path: parts, source });
    }
    refuse_foreign(folder, &StoreConfig::Embedded)?;
    let lock = lock::acquire(folder)?;
    let data_dir = folder.to_owned();
    let config = Config { data_dir, store: StoreConfig::Embedded, ..config.clone() };
    let store = stores::open_embedded(&config, purpose, &Metrics::new(), &Arc::default()).await;
    let (store, _) = store.map_err(ServerError::store("cannot open the embedded store"))?;
    Ok(EmbeddedFolder { store, _lock: lock })
}

/// Opens a keyspace. In one that is only read nothing is created. `left_out` collects rows that are read and
/// cannot be interpreted.
pub async fn open_cassandra(
    config: &Config,
    cassandra: &CassandraConfig,
    role: Role,
    left_out: Arc<LeftOut>,
) -> Result<SharedStore, StoreError> {
    let mut options = cassandra_options(config, cassandra)?;
    options.role = role;
    options.left_out = Some(left_out);
    // The files of the cache belong to a server.
    options.read_cache = None;
    let store = CassandraStore::open(options, Metrics::new().cassandra.clone()).await?;
    Ok(Arc::new(store))
}

/// The options of the Cassandra store, for commands that work on a keyspace without a server. Logs a
/// warning if they weaken promises.
pub fn cassandra_options(
    config: &Config,
    cassandra: &CassandraConfig,
) -> Result<Options, StoreError> {
    let options = cassandra::options(config, cassandra, None)?;
    if let Some(warning) = options.warning(Options::CONSISTENCIES) {
        tracing::warn!("{warning}");
    }
    Ok(options)
}
