//! Metrics of the statements sent to Cassandra.

use prometheus_client::registry::Registry;

/// Metrics of the statements sent to Cassandra.
#[derive(Debug, Clone, Default)]
pub struct CassandraMetrics {}

impl CassandraMetrics {
    pub(super) fn register(_registry: &mut Registry) -> Self {
        Self::default()
    }
}
