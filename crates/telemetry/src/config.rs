//! Metrics of reading the settings.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// Metrics of reading the settings.
#[derive(Debug, Clone, Default)]
pub struct ConfigMetrics {
    /// 1 = the settings that were last read are in force, 0 = they were refused and nothing changed.
    pub last_reload_successful: Gauge,
    /// When settings last took effect, in seconds since 1970.
    pub last_reload_success: Gauge,
}

impl ConfigMetrics {
    /// Notes that settings took effect at this time, in milliseconds since 1970.
    pub fn taken_over(&self, now: i64) {
        self.last_reload_successful.set(1);
        self.last_reload_success.set(now / 1000);
    }

    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "config_last_reload_successful",
            "Whether the settings that were last read are in force",
            metrics.last_reload_successful.clone(),
        );
        registry.register_with_unit(
            "config_last_reload_success_timestamp",
            "When settings were last taken over, since 1970",
            Unit::Seconds,
            metrics.last_reload_success.clone(),
        );
        metrics
    }
}
