//! Data under the data folder that the configured store does not serve.
//!
//! Samples in a log before Cassandra are nowhere else: a start that would leave them out is
//! refused. The embedded store keeps its data until it is served again, so that is a warning.

use crate::config::{Ack, Config, StoreConfig};
use crate::storage::head::wal::{self, disk::RealDisk};

use super::ServerError;

/// Refuses to leave acknowledged samples out, and warns of a store that is not served.
pub(super) fn check(config: &Config) -> Result<(), ServerError> {
    let log = config.data_dir.join("cassandra/wal");
    let serves_log = matches!(config.store, StoreConfig::Cassandra { ack: Ack::Wal, .. });
    if !serves_log {
        let held = wal::holds_unflushed(&log, &RealDisk)
            .map_err(|source| ServerError::Store { what: "cannot leave the log out", source })?;
        if held {
            return Err(ServerError::Unserved { log });
        }
    }
    let embedded = config.data_dir.join("embedded");
    let has_data = ["wal", "parts"].iter().any(|folder| {
        std::fs::read_dir(embedded.join(folder)).is_ok_and(|mut entries| entries.next().is_some())
    });
    if matches!(config.store, StoreConfig::Cassandra { .. }) && has_data {
        tracing::warn!(
            "{} holds data of the embedded store: it is NOT served with --store cassandra",
            embedded.display()
        );
    }
    Ok(())
}
