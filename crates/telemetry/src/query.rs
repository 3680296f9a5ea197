//! Metrics of PromQL queries.
//!
//! A query counts once its evaluation begins; a text that is not a query shows among the HTTP
//! requests. A query whose client goes away is counted as canceled.

use std::time::Instant;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::InFlight;
use super::group::{Labels, label_values, metrics};
use super::http::duration_buckets;

label_values! {
    /// How a query is asked.
    pub enum QueryKind {
        /// At one point in time.
        Instant = "instant",
        /// At many points in time.
        Range = "range",
        /// In KairosDB's language.
        KairosDb = "kairosdb",
    }
}

label_values! {
    /// How a query ended.
    pub enum QueryOutcome {
        /// With an answer.
        Ok = "ok",
        /// With an error caused by the query or the data.
        Failed = "failed",
        /// At a limit of samples, bytes, depth or waiting queries.
        Limited = "limited",
        /// At the end of its time.
        TimedOut = "timed_out",
        /// The client was gone.
        Canceled = "canceled",
        /// The store did not answer.
        Store = "store",
    }
}

metrics! {
    /// Metrics of queries.
    QueryMetrics {
        ended: Family<Labels<2>, Counter>, "queries", "PromQL queries by how they ended";
        duration: Family<Labels<1>, Histogram> = Family::new_with_constructor(duration_buckets),
            "query_duration" Seconds, "Time of a PromQL query, including its wait for a slot";
        in_flight: Gauge, "queries_in_flight", "PromQL queries under way";
        pub concurrent_max: Gauge, "queries_concurrent_max",
            "PromQL queries that are evaluated at a time; more wait";
        pub samples_read: Counter, "query_samples_read",
            "Samples that PromQL queries read from the store";
    }
}

/// A query in progress; it is counted when this is dropped.
pub struct RunningQuery<'a> {
    metrics: &'a QueryMetrics,
    kind: QueryKind,
    outcome: QueryOutcome,
    start: Instant,
    _in_flight: InFlight,
}

impl QueryMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default().registered(registry);
        // Exist before they are counted, so that a first failure shows as an increase.
        for kind in QueryKind::VALUES {
            for outcome in QueryOutcome::VALUES {
                drop(metrics.ended.get_or_create(&[("kind", *kind), ("outcome", *outcome)]));
            }
        }
        metrics
    }

    /// Begins a query.
    pub fn begin(&self, kind: QueryKind) -> RunningQuery<'_> {
        RunningQuery {
            metrics: self,
            kind,
            outcome: QueryOutcome::Canceled,
            start: Instant::now(),
            _in_flight: InFlight::enter(&self.in_flight),
        }
    }
}

impl RunningQuery<'_> {
    /// Sets how the query ended.
    pub fn ended(&mut self, outcome: QueryOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for RunningQuery<'_> {
    fn drop(&mut self) {
        let kind = ("kind", self.kind.value());
        self.metrics.ended.get_or_create(&[kind, ("outcome", self.outcome.value())]).inc();
        let took = self.start.elapsed().as_secs_f64();
        self.metrics.duration.get_or_create(&[kind]).observe(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;

    #[test]
    fn a_query_that_nobody_ends_was_canceled() {
        let metrics = Metrics::new();
        metrics.queries.begin(QueryKind::Range).ended(QueryOutcome::TimedOut);
        let running = metrics.queries.begin(QueryKind::Instant);
        assert!(metrics.encode().contains("promkairos_queries_in_flight 1\n"));
        drop(running);
        let text = metrics.encode();
        for line in [
            "promkairos_queries_total{kind=\"range\",outcome=\"timed_out\"} 1\n",
            "promkairos_queries_total{kind=\"instant\",outcome=\"canceled\"} 1\n",
            "promkairos_query_duration_seconds_count{kind=\"instant\"} 1\n",
            "promkairos_queries_in_flight 0\n",
            // A timeout of 2 minutes is within the buckets.
            "promkairos_query_duration_seconds_bucket{le=\"262.144\",kind=\"instant\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }
}
