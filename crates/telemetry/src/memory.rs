//! Metrics of the memory use and the memory limit of the process. Resident memory as the system
//! counts it is `process_resident_memory_bytes`.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::group::{Labels, metrics};

metrics! {
    /// Metrics of memory.
    MemoryMetrics {
        pub limit: Gauge, "limit" Bytes, "Memory that the process may take";
        pub level: Gauge, "level",
            "Shortage of memory: 0 none, 1 early flushes (and large queries refused from 85 % of the limit on), \
             2 new series refused too, 3 writes refused too";
        pub relieved: Counter, "relieved",
            "Early flushes and cleared caches because memory was short";
        held: Family<Labels<1>, Gauge>, "held" Bytes,
            "Memory that parts of the process hold, as they count it, about";
        refused: Family<Labels<1>, Counter>, "refused",
            "Writes, new series, queries and other reads refused for want of memory";
    }
}

impl MemoryMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self::default().registered(registry.sub_registry_with_prefix("memory"))
    }

    /// Sets the bytes that a part of the process holds.
    pub fn set_held(&self, part: &'static str, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.held.get_or_create(&[("part", part)]).set(bytes);
    }

    /// Counts refusals.
    pub fn add_refused(&self, kind: &'static str, more: u64) {
        self.refused.get_or_create(&[("kind", kind)]).inc_by(more);
    }
}
