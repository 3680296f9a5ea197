//! Data under the data folder that the configured store does not serve.
//!
//! Samples in a log before Cassandra are nowhere else: a start that would leave them out is
//! refused. The embedded store keeps its data until it is served again, so that is a warning.

use std::io::ErrorKind;
use std::path::Path;

use crate::config::{Ack, Config, StoreConfig};
use crate::storage::disk::{Disk, Folders};
use crate::storage::head::wal;

use super::ServerError;

/// Refuses to leave acknowledged samples out, and warns of a store that is not served.
pub(super) fn check(config: &Config) -> Result<(), ServerError> {
    let log = config.data_dir.join("cassandra/wal");
    let serves_log = matches!(config.store, StoreConfig::Cassandra { ack: Ack::Wal, .. });
    if !serves_log {
        let held = wal::holds_unflushed(&log, &Disk)
            .map_err(|source| ServerError::Store { what: "cannot leave the log out", source })?;
        if held {
            return Err(ServerError::Unserved { log });
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

/// Whether the embedded store in this folder has samples; one that cannot be told counts.
fn has_data(embedded: &Path) -> bool {
    let has_part = match Disk.list(&embedded.join("parts")) {
        Ok(files) => files.iter().any(|file| file.ends_with(".part")),
        Err(error) => error.kind() != ErrorKind::NotFound,
    };
    has_part || wal::holds_unflushed(&embedded.join("wal"), &Disk).unwrap_or(true)
}
