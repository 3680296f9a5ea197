//! A gauge of work in progress: up at the start, down at the end, however it ends.

use prometheus_client::metrics::gauge::Gauge;

/// Counts one item as in progress until it is dropped.
pub struct InFlight(Gauge);

impl InFlight {
    /// Counts one more item.
    pub fn enter(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}
