//! Metrics of the log and the samples in memory.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::LimitMetrics;

/// Metrics of the log and the samples in memory.
#[derive(Debug, Clone)]
pub struct HeadMetrics {
    /// Bytes of records in the log.
    pub wal_bytes: Gauge,
    /// Most bytes of records in the log; 0 = there is no log.
    pub wal_limit: Gauge,
    /// Closed segment files.
    pub wal_segments: Gauge,
    /// Time to write and sync one round of records.
    pub wal_commit_seconds: Histogram,
    /// Rounds that could not be written or synced.
    pub wal_failures: Counter,
    /// Points read back from the log at start.
    pub replayed_points: Counter,
    /// Points handed down again, since the store below may have lost them.
    pub handed_down_again: Counter,
    /// Series in memory.
    pub series: Gauge,
    /// Approximate bytes of series in memory, without their points.
    pub series_bytes: Gauge,
    /// Approximate bytes of points in memory.
    pub bytes: Gauge,
    /// Points that were not newer than the newest of their series.
    pub late_points: Counter,
    /// Time of one flush.
    pub flush_seconds: Histogram,
    /// Flushes that the store below took.
    pub flushes: Counter,
    /// Flushes that failed and are tried again.
    pub flush_failures: Counter,
    /// Points that the store below can never take.
    pub refused: Counter,
    /// Counts writes that find the log or memory full.
    pub limits: LimitMetrics,
}

impl HeadMetrics {
    pub(super) fn register(registry: &mut Registry, limits: LimitMetrics) -> Self {
        let registry = registry.sub_registry_with_prefix("head");
        let metrics = Self { limits, ..Self::default() };
        let m = metrics.clone();
        let help = "Bytes of records in the log";
        registry.register_with_unit("wal_size", help, Unit::Bytes, m.wal_bytes);
        let help = "Bytes of records that the log may have; 0 where there is none";
        registry.register_with_unit("wal_limit", help, Unit::Bytes, m.wal_limit);
        registry.register("wal_segments", "Closed segment files of the log", m.wal_segments);
        registry.register_with_unit(
            "wal_commit",
            "Time to write and sync one round of records",
            Unit::Seconds,
            m.wal_commit_seconds,
        );
        registry.register("wal_failures", "Rounds that were not written or synced", m.wal_failures);
        registry.register("replayed_points", "Points read back at start", m.replayed_points);
        let help = "Points flushed once more, as a server below was started again before it had synced them for sure";
        registry.register("handed_down_again_points", help, m.handed_down_again);
        registry.register("series", "Series in memory", m.series);
        let help = "Bytes of points in memory, about";
        registry.register_with_unit("size", help, Unit::Bytes, m.bytes);
        registry.register(
            "late_points",
            "Points not newer than the newest of their series",
            m.late_points,
        );
        let help = "Time of one flush to the store below";
        registry.register_with_unit("flush", help, Unit::Seconds, m.flush_seconds);
        registry.register("flushes", "Flushes taken by the store below", m.flushes);
        registry.register("flush_failures", "Flushes to be tried again", m.flush_failures);
        registry.register("refused_points", "Points the store below can never take", m.refused);
        metrics
    }
}

/// Metrics that no registry prints.
impl Default for HeadMetrics {
    fn default() -> Self {
        Self {
            wal_bytes: Gauge::default(),
            wal_limit: Gauge::default(),
            wal_segments: Gauge::default(),
            wal_commit_seconds: Histogram::new(exponential_buckets(0.0001, 2.0, 16)),
            wal_failures: Counter::default(),
            replayed_points: Counter::default(),
            handed_down_again: Counter::default(),
            series: Gauge::default(),
            series_bytes: Gauge::default(),
            bytes: Gauge::default(),
            late_points: Counter::default(),
            // Up to an hour and a half, since some flushes are spread.
            flush_seconds: Histogram::new(exponential_buckets(0.01, 2.0, 20)),
            flushes: Counter::default(),
            flush_failures: Counter::default(),
            refused: Counter::default(),
            limits: LimitMetrics::default(),
        }
    }
}
