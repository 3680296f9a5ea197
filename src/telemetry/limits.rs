//! Limits that were reached, by the name of the setting: one family for all parts of the program.
//!
//! It is counted where something is refused, closed or cut, once for each of them.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Limits that were reached. Clones count together; the default is printed by no registry.
#[derive(Debug, Clone, Default)]
pub struct LimitMetrics {
    reached: Family<LimitLabels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabels {
    /// The name of the setting.
    limit: &'static str,
}

impl LimitMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "limits_reached",
            "Series, requests, queries, connections and answers refused, cut or given up at a limit, \
             by its setting",
            metrics.reached.clone(),
        );
        metrics
    }

    /// The limit that is the setting of this name was reached once.
    pub fn reached(&self, setting: &'static str) {
        self.add(setting, 1);
    }

    /// The same several times.
    pub fn add(&self, setting: &'static str, times: u64) {
        if times > 0 {
            self.reached.get_or_create(&LimitLabels { limit: setting }).inc_by(times);
        }
    }
}
