//! Metrics of the spans on their way to the collector.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// The outcome of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpanOutcome {
    /// The collector took it.
    Sent,
    /// The collector refused it or did not answer.
    Failed,
    /// The queue was full.
    Dropped,
}

impl SpanOutcome {
    fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    outcome: &'static str,
}

/// Metrics of traces.
#[derive(Debug, Clone, Default)]
pub struct TracesMetrics {
    spans: Family<Ended, Counter>,
}

impl TracesMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Spans of traces by outcome";
        registry.register("traces_spans", help, self.spans.clone());
    }

    /// Counts spans.
    pub(super) fn count(&self, outcome: SpanOutcome, spans: usize) {
        self.spans.get_or_create(&Ended { outcome: outcome.name() }).inc_by(spans as u64);
    }
}
