//! Metrics of HTTP requests and of remote read.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::LimitMetrics;
use super::group::metrics;

/// The status of failures of this program.
const FAILED: u16 = 500;

metrics! {
    /// Metrics of HTTP requests.
    HttpMetrics {
        requests: Family<RequestLabels, Counter>, "http_requests", "Answered requests";
        duration: Family<[(&'static str, String); 1], Histogram> = Family::new_with_constructor(duration_buckets),
            "http_request_duration" Seconds, "Time until the answer's head";
        pub in_flight: Gauge, "http_requests_in_flight", "Requests that are being answered";
        pub read_series: Counter, "read_series", "Series sent by remote read";
        pub read_bytes: Counter, "read" Bytes, "Bytes sent by remote read, before compression";
        pub read_aborted: Counter, "read_aborted",
            "Remote reads that broke after the first byte was sent";
        pub connections: Gauge, "http_connections", "Open connections";
        pub ready: Gauge, "ready",
            "Whether what is written can be acknowledged and nothing has to be mended, as /-/ready tells it";
    }
    with {
        /// Limits of requests and all other limits.
        pub limits: LimitMetrics,
    }
}

/// Buckets of durations, each four times the one before, from 1 ms to 262 s, the first beyond the default of
/// `--query-timeout`. Few, since each route has them.
pub(super) fn duration_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 4.0, 10))
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    handler: String,
    code: u16,
}

impl HttpMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self { limits: LimitMetrics::register(registry), ..Self::default() }.registered(registry)
    }

    /// Makes the failures of a route exist with 0 before the first failure, so that a first burst
    /// shows as an increase.
    pub fn expect(&self, handler: &str) {
        let labels = RequestLabels { handler: handler.to_owned(), code: FAILED };
        drop(self.requests.get_or_create(&labels));
    }

    /// Counts a request that was answered with this status, and its time until the head of the
    /// answer; a streamed body follows later. `handler` is its route, or `other` without one.
    pub fn answered(&self, handler: String, code: u16, took: Duration) {
        let labels = [("handler", handler)];
        if self.duration.get(&labels).is_none() {
            self.expect(&labels[0].1);
        }
        self.duration.get_or_create(&labels).observe(took.as_secs_f64());
        let [(_, handler)] = labels;
        self.requests.get_or_create(&RequestLabels { handler, code }).inc();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::Metrics;

    #[test]
    fn a_request_of_two_minutes_has_a_bucket_of_its_own() {
        let metrics = Metrics::new();
        metrics.http.answered("/x".to_owned(), 200, Duration::from_secs(120));
        let text = metrics.encode();
        for (bound, count) in [("65.536", 0), ("262.144", 1), ("+Inf", 1)] {
            let line = format!(
                "promkairos_http_request_duration_seconds_bucket{{le=\"{bound}\",handler=\"/x\"}} {count}\n"
            );
            assert!(text.contains(&line), "{line}{text}");
        }
    }
}
