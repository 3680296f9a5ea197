//! Metrics of the embedded store.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::group::metrics;
use super::process::encode_gauge;

metrics! {
    /// Metrics of the embedded store.
    StoreMetrics {
        pub parts: Gauge, "parts", "Part files of the embedded store";
        pub bytes: Gauge, "part_bytes", "Bytes of all part files";
        pub tombstones: Gauge, "tombstones",
            "Deletes that are applied on reading, not yet to the files";
        pub points: Counter, "points", "Points written to part files";
        pub compactions: Counter, "compactions", "Parts merged or rewritten";
        pub maintenance_failures: Counter, "maintenance_failures",
            "Compactions and retention runs that failed";
        pub block_cache_hits: Counter, "block_cache_hits",
            "Lookups of an index block or directory of a part file that was in memory";
        pub block_cache_misses: Counter, "block_cache_misses",
            "Lookups of an index block or directory of a part file that was read and unpacked";
        pub block_cache_bytes: Gauge, "block_cache" Bytes,
            "Unpacked index blocks and directories of part files in memory, about";
    }
    with {
        /// The least time of all samples, including the samples of the log.
        pub lowest_time: LowestTime,
    }
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
        // Clients of Prometheus look for this name.
        let name = "prometheus_tsdb_lowest_timestamp_seconds";
        let help = "No sample of the embedded store is older, since 1970; absent without samples, and over Cassandra, \
                    where it is not known";
        encode_gauge(&mut encoder, name, help, millis as f64 / 1000.0)
    }
}

impl StoreMetrics {
    /// Registers the metrics in `registry`, and one with a name of Prometheus in `plain`.
    pub(super) fn register(registry: &mut Registry, plain: &mut Registry) -> Self {
        let metrics = Self::default().registered(registry.sub_registry_with_prefix("store"));
        plain.register_collector(Box::new(metrics.lowest_time.clone()));
        metrics
    }
}
