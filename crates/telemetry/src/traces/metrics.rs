//! Metrics of the spans on their way to the collector.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::group::{Labels, label_values};

label_values! {
    /// The outcome of a span.
    pub(super) enum SpanOutcome {
        /// The collector took it.
        Sent = "sent",
        /// The collector refused it or did not answer.
        Failed = "failed",
        /// The queue was full.
        Dropped = "dropped",
    }
}

/// Metrics of traces.
#[derive(Debug, Clone, Default)]
pub struct TracesMetrics {
    spans: Family<Labels<1>, Counter>,
}

impl TracesMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Spans of traces by outcome";
        registry.register("traces_spans", help, self.spans.clone());
    }

    /// Counts spans.
    pub(super) fn count(&self, outcome: SpanOutcome, spans: usize) {
        self.spans.get_or_create(&[("outcome", outcome.value())]).inc_by(spans as u64);
    }
}
