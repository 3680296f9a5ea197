//! Metrics of remote write.

use prometheus_client::registry::Registry;

/// Metrics of remote write.
#[derive(Debug, Clone, Default)]
pub struct IngestMetrics {}

impl IngestMetrics {
    pub(super) fn register(_registry: &mut Registry) -> Self {
        Self::default()
    }
}
