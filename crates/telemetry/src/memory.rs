//! Metrics of the memory use and the memory limit of the process. Resident memory as the system
//! counts it is `process_resident_memory_bytes`.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// Metrics of memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryMetrics {
    /// Most bytes that the process may have.
    pub limit: Gauge,
    /// Shortage of memory: 0 = none, 1 = frees what it can, 2 = refuses new series, 3 = refuses
    /// writes. Large queries are refused from a part of the limit on that is not a level.
    pub level: Gauge,
    /// Early flushes and cleared caches because memory was short.
    pub relieved: Counter,
    held: Family<Part, Gauge>,
    refused: Family<Kind, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Part {
    part: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

impl MemoryMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let new = Self::default();
        let m = new.clone();
        let registry = registry.sub_registry_with_prefix("memory");
        let help = "Memory that the process may take";
        registry.register_with_unit("limit", help, Unit::Bytes, m.limit);
        let help = "Shortage of memory: 0 none, 1 early flushes (and large queries refused from 85 % of the limit on), \
                    2 new series refused too, 3 writes refused too";
        registry.register("level", help, m.level);
        let help = "Early flushes and cleared caches because memory was short";
        registry.register("relieved", help, m.relieved);
        let help = "Memory that parts of the process hold, as they count it, about";
        registry.register_with_unit("held", help, Unit::Bytes, m.held);
        let help = "Writes, new series, queries and other reads refused for want of memory";
        registry.register("refused", help, m.refused);
        new
    }

    /// Sets the bytes that a part of the process holds.
    pub fn set_held(&self, part: &'static str, bytes: u64) {
        self.held.get_or_create(&Part { part }).set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Counts refusals.
    pub fn add_refused(&self, kind: &'static str, more: u64) {
        self.refused.get_or_create(&Kind { kind }).inc_by(more);
    }
}
