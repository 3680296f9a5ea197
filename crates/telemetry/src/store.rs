//! Metrics of the embedded store.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
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
    /// Lookups of an index block or a directory of a part file that was in memory.
    pub block_cache_hits: Counter,
    /// Lookups of one that was not in memory.
    pub block_cache_misses: Counter,
    /// Approximate bytes of unpacked index blocks and directories in memory.
    pub block_cache_bytes: Gauge,
    /// The least time of all samples, including the samples of the log.
    pub lowest_time: LowestTime,
}

/// The least time of all samples. Not a metric until it is known: to clients a 0 would be a time.
#[derive(Debug, Clone, Default)]
pub struct LowestTime(Arc<Mutex<Option<i64>>>);

impl LowestTime {
    /// Sets the time in milliseconds since 1970; `None` = there is no sample.
    pub fn set(&self, millis: Option<i64>) {
        *self.0.lock() = millis;
    }
}

impl Collector for LowestTime {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(millis) = *self.0.lock() else { return Ok(()) };
        let gauge = ConstGauge::new(millis as f64 / 1000.0);
        let kind = EncodeMetric::metric_type(&gauge);
        // Clients of Prometheus look for this name.
        let name = "prometheus_tsdb_lowest_timestamp_seconds";
        let help = "No sample of the embedded store is older, since 1970; absent without samples, and over Cassandra, \
                    where it is not known";
        gauge.encode(encoder.encode_descriptor(name, help, None, kind)?)
    }
}

impl StoreMetrics {
    /// Registers the metrics in `registry`, and one with a name of Prometheus in `plain`.
    pub(super) fn register(registry: &mut Registry, plain: &mut Registry) -> Self {
        let metrics = Self::default();
        let m = metrics.clone();
        plain.register_collector(Box::new(m.lowest_time));
        let store = registry.sub_registry_with_prefix("store");
        store.register("parts", "Part files of the embedded store", m.parts);
        store.register("part_bytes", "Bytes of all part files", m.bytes);
        let help = "Deletes that are applied on reading, not yet to the files";
        store.register("tombstones", help, m.tombstones);
        store.register("points", "Points written to part files", m.points);
        store.register("compactions", "Parts merged or rewritten", m.compactions);
        let help = "Compactions and retention runs that failed";
        store.register("maintenance_failures", help, m.maintenance_failures);
        let help = "Lookups of an index block or directory of a part file that was in memory";
        store.register("block_cache_hits", help, m.block_cache_hits);
        let help =
            "Lookups of an index block or directory of a part file that was read and unpacked";
        store.register("block_cache_misses", help, m.block_cache_misses);
        let help = "Unpacked index blocks and directories of part files in memory, about";
        store.register_with_unit("block_cache", help, Unit::Bytes, m.block_cache_bytes);
        metrics
    }
}
