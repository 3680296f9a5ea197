//! Limits that were reached, by the name of the setting: one family for all parts of the program.
//!
//! Each refused, closed or cut item is counted once. All limits exist from the start with 0, so
//! that a first burst shows as an increase.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::group::Labels;

/// Settings with limits of writes, at which a part of a request or all of it is refused.
pub(super) const OF_WRITES: [&str; 15] = [
    "memory-limit",
    "max-decoded-body-size",
    "max-series-per-request",
    "max-samples-per-request",
    "max-samples-per-second",
    "max-sample-age",
    "max-sample-lead",
    "retention",
    "max-active-series",
    "max-active-series-per-metric",
    "max-metadata-size",
    "max-labels-per-series",
    "max-label-name-size",
    "max-label-value-size",
    "max-labels-size",
];

/// The other settings whose limits are counted.
const ELSEWHERE: [&str; 22] = [
    "allowed-origins",
    "flush-memory",
    "wal-limit",
    "max-connections",
    "max-concurrent-requests",
    "http-head-timeout",
    "http-body-timeout",
    "http-answer-timeout",
    "remote-read-max-concurrency",
    "max-request-body-size",
    "max-label-results",
    "max-label-results-size",
    "label-max-wait",
    "query-timeout",
    "query-max-duration",
    "query-max-series",
    "query-max-samples-read",
    "query-max-samples",
    "query-max-memory",
    "query-max-queue",
    "query-max-depth",
    "cassandra-max-in-flight",
];

/// The limit for the size of the head of a request.
pub const HEAD_SIZE: &str = "http-head-size";
/// The limit for the rate of requests: a key of the web configuration.
pub const RATE: &str = "rate_limit";
/// Limits that are not settings.
const OTHERS: [&str; 2] = [HEAD_SIZE, RATE];

/// The settings whose limits are counted.
fn settings() -> impl Iterator<Item = &'static str> {
    OF_WRITES.into_iter().chain(ELSEWHERE)
}

/// Limits that were reached. Clones count together; the default is printed by no registry.
#[derive(Debug, Clone, Default)]
pub struct LimitMetrics {
    /// By the name of the setting, or one of [`OTHERS`].
    reached: Family<Labels<1>, Counter>,
}

impl LimitMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        for limit in settings().chain(OTHERS) {
            drop(metrics.reached.get_or_create(&[("limit", limit)]));
        }
        registry.register(
            "limits_reached",
            "Series, samples, metadata entries, requests, queries, statements, connections and answers refused, cut or \
             given up at a limit, by its setting; http-head-size and rate_limit are not settings",
            metrics.reached.clone(),
        );
        metrics
    }

    /// Counts one reach of the limit that is this setting.
    pub fn reached(&self, setting: &'static str) {
        self.add(setting, 1);
    }

    /// Counts several reaches of the limit.
    pub fn add(&self, setting: &'static str, times: u64) {
        debug_assert!(settings().chain(OTHERS).any(|known| known == setting), "{setting}");
        if times > 0 {
            self.reached.get_or_create(&[("limit", setting)]).inc_by(times);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;

    #[test]
    fn all_limits_are_counted_from_the_start() {
        let text = Metrics::new().encode();
        assert!(OF_WRITES.iter().all(|name| settings().any(|known| known == *name)));
        for name in settings().chain(OTHERS) {
            let line = format!("promkairos_limits_reached_total{{limit=\"{name}\"}} 0\n");
            assert!(text.contains(&line), "{name}");
        }
        let lines = text.lines().filter(|line| line.starts_with("promkairos_limits_reached_total"));
        assert_eq!(lines.count(), settings().count() + OTHERS.len());
    }
}
