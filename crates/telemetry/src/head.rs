//! Metrics of the log and the samples in memory.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::LimitMetrics;
use super::group::metrics;

metrics! {
    /// Metrics of the log and the samples in memory.
    HeadMetrics {
        pub wal_bytes: Gauge, "wal_size" Bytes, "Bytes of records in the log";
        pub wal_limit: Gauge, "wal_limit" Bytes,
            "Bytes of records that the log may have; 0 where there is none";
        pub wal_segments: Gauge, "wal_segments", "Closed segment files of the log";
        pub wal_commit_seconds: Histogram = Histogram::new(exponential_buckets(0.0001, 2.0, 16)),
            "wal_commit" Seconds, "Time to write and sync one round of records";
        pub wal_failures: Counter, "wal_failures", "Rounds that were not written or synced";
        pub replayed_points: Counter, "replayed_points", "Points read back at start";
        pub handed_down_again: Counter, "handed_down_again_points",
            "Points flushed once more, as a server below was started again before it had synced them for sure";
        pub series: Gauge, "series", "Series in memory";
        pub bytes: Gauge, "size" Bytes, "Bytes of points in memory, about";
        pub late_points: Counter, "late_points", "Points not newer than the newest of their series";
        /// Up to an hour and a half, since some flushes are spread.
        pub flush_seconds: Histogram = Histogram::new(exponential_buckets(0.01, 2.0, 20)),
            "flush" Seconds, "Time of one flush to the store below";
        pub flushes: Counter, "flushes", "Flushes taken by the store below";
        pub flush_failures: Counter, "flush_failures", "Flushes to be tried again";
        pub refused: Counter, "refused_points", "Points the store below can never take";
    }
    with {
        /// Approximate bytes of series in memory, without their points.
        pub series_bytes: Gauge,
        /// Counts writes that find the log or memory full.
        pub limits: LimitMetrics,
    }
}

impl HeadMetrics {
    pub(super) fn register(registry: &mut Registry, limits: LimitMetrics) -> Self {
        let registry = registry.sub_registry_with_prefix("head");
        Self { limits, ..Self::default() }.registered(registry)
    }
}
