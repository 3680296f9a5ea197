//! Metrics of reading the settings.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::group::metrics;

metrics! {
    /// Metrics of reading the settings.
    ConfigMetrics {
        /// If not, they were refused and nothing changed.
        pub last_reload_successful: Gauge, "config_last_reload_successful",
            "Whether the settings that were last read are in force";
        pub last_reload_success: Gauge, "config_last_reload_success_timestamp" Seconds,
            "When settings were last taken over, since 1970";
    }
}

impl ConfigMetrics {
    /// Notes that settings took effect at this time, in milliseconds since 1970.
    pub fn taken_over(&self, now: i64) {
        self.last_reload_successful.set(1);
        self.last_reload_success.set(now / 1000);
    }

    pub(super) fn register(registry: &mut Registry) -> Self {
        Self::default().registered(registry)
    }
}
