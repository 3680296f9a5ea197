//! Metrics of the embedded store.

use prometheus_client::registry::Registry;

/// Metrics of the embedded store.
#[derive(Debug, Clone, Default)]
pub struct StoreMetrics {}

impl StoreMetrics {
    pub(super) fn register(_registry: &mut Registry) -> Self {
        Self::default()
    }
}
