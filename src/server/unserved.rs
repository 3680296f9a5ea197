//! Data under the data folder that the configured store does not serve.
//!
//! Samples in a log in front of Cassandra exist only there, so a start that would leave them out is
//! refused. The embedded store keeps its data until it is served again, so that is a warning.

use std::io::ErrorKind;
use std::path::Path;

use crate::config::{Ack, Config, StoreConfig};
use crate::storage::disk::{Disk, Folders};
use crate::storage::head::wal::{self, Unflushed};

use super::error::ServerError;
use super::lock;

/// Refuses a start that leaves acknowledged samples out, and warns of a store that is not served. `owns_folder` =
/// this process has the lock of the data folder.
pub(super) fn check(config: &Config, owns_folder: bool) -> Result<(), ServerError> {
    let log = config.data_dir.join("cassandra/wal");
    let serves_log = matches!(config.store, StoreConfig::Cassandra { ack: Ack::Wal, .. });
    if !serves_log {
        let failed = ServerError::store("cannot leave the log out");
        wal::check_there(&log, &Disk).map_err(failed)?;
        match wal::unflushed(&log, &Disk).map_err(failed)? {
            Unflushed::Nothing => {}
            Unflushed::Something => return Err(ServerError::Unserved { log }),
            // The server that owns the folder serves the log.
            Unflushed::InUse if !owns_folder && is_owned(&config.data_dir) => {}
            // The log is being repaired, and its content is unknown.
            Unflushed::InUse => return Err(failed(wal::in_use(&log))),
        }
    }
    let embedded = config.data_dir.join("embedded");
    if matches!(config.store, StoreConfig::Cassandra { .. }) && has_data(&embedded) {
        tracing::warn!(
            "{} holds data of the embedded store: it is NOT served with --store cassandra",
            embedded.display()
        );
    }
    Ok(())
}

/// Whether a server owns this folder.
fn is_owned(folder: &Path) -> bool {
    matches!(lock::acquire(folder), Err(ServerError::Locked { .. }))
}

/// Whether the embedded store in this folder has samples; `true` if that cannot be determined.
fn has_data(embedded: &Path) -> bool {
    let has_part = match Disk.list(&embedded.join("parts")) {
        Ok(files) => files.iter().any(|file| file.ends_with(".part")),
        Err(error) => error.kind() != ErrorKind::NotFound,
    };
    has_part || !matches!(wal::unflushed(&embedded.join("wal"), &Disk), Ok(Unflushed::Nothing))
}
