//! Metrics of the embedded store.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Metrics of the embedded store.
#[derive(Debug, Clone, Default)]
pub struct StoreMetrics {
    /// Part files that exist.
    pub parts: Gauge,
    /// Bytes of all part files.
    pub bytes: Gauge,
    /// Deletes that are applied on reading, not yet to the files.
    pub tombstones: Gauge,
    /// Points taken from the head or written directly.
    pub points: Counter,
    /// Parts merged or rewritten.
    pub compactions: Counter,
    /// Compactions and retention runs that failed.
    pub maintenance_failures: Counter,
}

impl StoreMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let Self { parts, bytes, tombstones, points, compactions, maintenance_failures } =
            metrics.clone();
        let store = registry.sub_registry_with_prefix("store");
        store.register("parts", "Part files of the embedded store", parts);
        store.register("part_bytes", "Bytes of all part files", bytes);
        let help = "Deletes that are applied on reading, not yet to the files";
        store.register("tombstones", help, tombstones);
        store.register("points", "Points written to part files", points);
        store.register("compactions", "Parts merged or rewritten", compactions);
        let help = "Compactions and retention runs that failed";
        store.register("maintenance_failures", help, maintenance_failures);
        metrics
    }
}
