//! A gauge of what is under way: up at the start, down at the end, whichever way it ends.

use prometheus_client::metrics::gauge::Gauge;

/// Counts one thing as under way until it is dropped.
pub struct InFlight(Gauge);

impl InFlight {
    /// One more is under way.
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
