//! Stores for a command that works on them itself, without a server: the embedded store of a data
//! folder that nobody serves, and a keyspace.
//!
//! What they are told by settings is what a server would be told, but that where they are only read no keyspace is
//! made, no sample is removed and no part file is rewritten. The log of a folder is read back and flushed.

use std::path::Path;
use std::sync::Arc;

use crate::config::{CassandraConfig, Config, StoreConfig};
use crate::storage::cassandra::{CassandraStore, LeftOut, Role};
use crate::storage::{SharedStore, StoreError};
use crate::telemetry::Metrics;

use super::lock::DataLock;
use super::owner::refuse_foreign;
use super::stores::{self, Upkeep};
use super::{ServerError, cassandra_options};

/// The embedded store of a data folder, which is locked as long as this lives.
pub struct EmbeddedFolder {
    /// The store; to be closed.
    pub store: SharedStore,
    _lock: DataLock,
}

/// What the embedded store of a folder is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It has to be there, and keeps what is beyond the retention.
    Reading,
    /// It is made where it is not, and kept as a server keeps it.
    Writing,
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
    let lock = DataLock::acquire(folder)?;
    let data_dir = folder.to_owned();
    let config = Config { data_dir, store: StoreConfig::Embedded, ..config.clone() };
    let upkeep = match purpose {
        Purpose::Reading => Upkeep::Left,
        Purpose::Writing => Upkeep::Done,
    };
    let store = stores::open_embedded(&config, upkeep, &Metrics::new(), &Arc::default()).await;
    let (store, _) = store
        .map_err(|source| ServerError::Store { what: "cannot open the embedded store", source })?;
    Ok(EmbeddedFolder { store, _lock: lock })
}

/// Opens a keyspace. Nothing is made in one that is only read. `left_out` takes in what is read there and is
/// none to us.
pub async fn open_cassandra(
    config: &Config,
    cassandra: &CassandraConfig,
    role: Role,
    left_out: Arc<LeftOut>,
) -> Result<SharedStore, StoreError> {
    let mut options = cassandra_options(config, cassandra)?;
    options.role = role;
    options.left_out = Some(left_out);
    // The files of the cache are those of a server.
    options.read_cache = None;
    let store = CassandraStore::open(options, Metrics::new().cassandra.clone()).await?;
    Ok(Arc::new(store))
}
