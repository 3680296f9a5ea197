//! Metrics of writes over HTTP.
//!
//! Reasons of refusals and failures exist from the start with 0, so that a first burst shows as an increase.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::group::{Labels, metrics};
use super::limits::OF_WRITES;
use promkairos_model::RejectReason;

/// Reason for a body that is malformed, or beyond a limit that is not a setting. Of a body of KairosDB's API the rest
/// may be stored.
pub const BODY_REFUSED: &str = "body";
/// The setting for the size of a body as received. It limits other requests than remote writes too.
const BODY_SIZE: &str = "max-request-body-size";

/// Protocols and statuses of requests that failed.
const PROTOCOLS: [&str; 4] = ["1", "2", "kairosdb", "kairosdb-telnet"];
const FAILURES: [u16; 5] = [400, 413, 429, 500, 503];

metrics! {
    /// Metrics of writes over HTTP.
    IngestMetrics {
        pub samples: Counter, "write_samples", "Floats and integers stored";
        pub histograms: Counter, "write_histograms", "Native histograms stored";
        pub exemplars: Counter, "write_exemplars", "Exemplars stored by remote write";
        pub metadata: Counter, "write_metadata", "Metadata entries stored by remote write";
        /// A reason is a word of [`RejectReason`], the name of a setting, or [`BODY_REFUSED`].
        rejected: Family<Labels<1>, Counter>, "write_rejected",
            "Parts of requests that were refused, by reason; a series counts as one, and so does \
             a request that is refused as a whole";
        refused: Family<Labels<1>, Counter>, "write_samples_refused",
            "Floats and histograms refused, by reason; without those of bodies that are too large, \
             malformed or not decoded to their end, which are requests in promkairos_write_rejected_total, and of \
             requests that are answered 5xx";
        pub active_series: Gauge, "active_series",
            "Series written to within the last hour; after a start, with those of that hour in the store";
        pub active_series_of_a_metric: Gauge, "active_series_of_largest_metric",
            "Active series of the metric that has most of them";
        pub active_series_limit: Gauge, "active_series_limit",
            "The setting max-active-series; 0 = no limit";
        pub active_series_per_metric_limit: Gauge, "active_series_per_metric_limit",
            "The setting max-active-series-per-metric; 0 = no limit";
        pub metadata_bytes: Gauge, "metadata_bytes",
            "Metadata of metric families as --max-metadata-size counts it; over Cassandra that taken since the start";
        pub requests: Family<WriteLabels, Counter>, "write_requests",
            "Answered requests that write: remote write by its version, KairosDB's API, and batches of telnet \
             lines, with the status that they would have over HTTP";
        pub duration: Histogram = Histogram::new(exponential_buckets(0.001, 2.0, 14)),
            "write_duration" Seconds, "Time from the head of a request that writes to its answer";
        pub in_flight: Gauge, "write_in_flight", "Requests that write and are being answered";
    }
    with {
        /// Floats and histograms stored of series without metadata, by requests of version 2.
        pub without_metadata: Counter,
    }
}

/// A protocol and a status.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct WriteLabels {
    /// `1`, `2` or `unknown` for remote write; `kairosdb` and `kairosdb-telnet`.
    pub protocol: &'static str,
    /// The status.
    pub code: u16,
}

impl IngestMetrics {
    /// Registers the metrics in `registry`, and some with names of Prometheus in `plain`.
    pub(super) fn register(registry: &mut Registry, plain: &mut Registry) -> Self {
        let metrics = Self::default().registered(registry);
        plain.register(
            "prometheus_api_remote_write_without_metadata_appended_samples",
            "Floats and histograms stored by remote write 2.0 of series without metadata",
            metrics.without_metadata.clone(),
        );
        metrics.begin();
        metrics
    }

    /// Makes the counters of alerts exist before they are counted.
    fn begin(&self) {
        for reason in reasons() {
            drop(self.rejected.get_or_create(&[("reason", reason)]));
            drop(self.refused.get_or_create(&[("reason", reason)]));
        }
        for protocol in PROTOCOLS {
            for code in FAILURES {
                drop(self.requests.get_or_create(&WriteLabels { protocol, code }));
            }
        }
    }

    /// Counts refused parts of requests, or whole requests; some of them may be accepted later.
    pub fn reject(&self, reason: &'static str, parts: u64) {
        debug_assert!(reasons().any(|known| known == reason), "{reason}");
        self.rejected.get_or_create(&[("reason", reason)]).inc_by(parts);
    }

    /// Counts refused floats and histograms.
    pub fn refuse(&self, reason: &'static str, points: u64) {
        debug_assert!(reasons().any(|known| known == reason), "{reason}");
        if points > 0 {
            self.refused.get_or_create(&[("reason", reason)]).inc_by(points);
        }
    }
}

/// All reasons of refusals.
fn reasons() -> impl Iterator<Item = &'static str> {
    RejectReason::WORDS.into_iter().chain(OF_WRITES).chain([BODY_SIZE, BODY_REFUSED])
}
