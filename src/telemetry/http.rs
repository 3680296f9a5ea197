//! Metrics of HTTP requests.

use prometheus_client::registry::Registry;

/// Metrics of HTTP requests.
#[derive(Debug, Clone, Default)]
pub struct HttpMetrics {}

impl HttpMetrics {
    pub(super) fn register(_registry: &mut Registry) -> Self {
        Self::default()
    }
}
