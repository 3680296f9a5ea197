//! Metrics of the embedded store.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

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
    /// Looks for an index block or a directory of a part file that was in memory.
    pub block_cache_hits: Counter,
    /// Looks for one that was not.
    pub block_cache_misses: Counter,
    /// Bytes of unpacked index blocks and directories in memory, about.
    pub block_cache_bytes: Gauge,
}

impl StoreMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let m = metrics.clone();
        let store = registry.sub_registry_with_prefix("store");
        store.register("parts", "Part files of the embedded store", m.parts);
        store.register("part_bytes", "Bytes of all part files", m.bytes);
        let help = "Deletes that are applied on reading, not yet to the files";
        store.register("tombstones", help, m.tombstones);
        store.register("points", "Points written to part files", m.points);
        store.register("compactions", "Parts merged or rewritten", m.compactions);
        let help = "Compactions and retention runs that failed";
        store.register("maintenance_failures", help, m.maintenance_failures);
        let help = "Looks for an index block or directory of a part file that was in memory";
        store.register("block_cache_hits", help, m.block_cache_hits);
        let help =
            "Looks for an index block or directory of a part file that was read and unpacked";
        store.register("block_cache_misses", help, m.block_cache_misses);
        let help = "Unpacked index blocks and directories of part files in memory, about";
        store.register_with_unit("block_cache", help, Unit::Bytes, m.block_cache_bytes);
        metrics
    }
}
