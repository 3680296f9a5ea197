//! Metrics of the log and the samples in memory.

use prometheus_client::registry::Registry;

/// Metrics of the log and the samples in memory.
#[derive(Debug, Clone, Default)]
pub struct HeadMetrics {}

impl HeadMetrics {
    pub(super) fn register(_registry: &mut Registry) -> Self {
        Self::default()
    }
}
