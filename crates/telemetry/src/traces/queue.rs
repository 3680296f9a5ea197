//! The queue of ended spans: bounded, and counted at both ends.
//!
//! Batches and the sending thread are from OpenTelemetry. The limit is checked here, before its
//! queue of the same length, which so never overflows: each lost span is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor,
};

use super::metrics::{SpanOutcome, TracesMetrics};

/// Most spans that may wait: a few megabytes.
const MOST_WAITING: usize = 4096;

/// Ended spans that wait.
#[derive(Debug)]
pub(super) struct Queue {
    batches: BatchSpanProcessor,
    waiting: Arc<AtomicUsize>,
    metrics: TracesMetrics,
}

impl Queue {
    /// A queue that sends with `exporter`.
    pub(super) fn new(exporter: impl SpanExporter + 'static, metrics: TracesMetrics) -> Self {
        let waiting = Arc::new(AtomicUsize::new(0));
        let sending = Sending { exporter, waiting: Arc::clone(&waiting), metrics: metrics.clone() };
        let config = BatchConfigBuilder::default().with_max_queue_size(MOST_WAITING).build();
        let batches = BatchSpanProcessor::builder(sending).with_batch_config(config).build();
        Self { batches, waiting, metrics }
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.waiting.fetch_add(1, Ordering::Relaxed) < MOST_WAITING {
            self.batches.on_end(span);
        } else {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.metrics.count(SpanOutcome::Dropped, 1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batches.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}

/// Counts the spans that leave the queue, by their outcome.
#[derive(Debug)]
struct Sending<E> {
    exporter: E,
    waiting: Arc<AtomicUsize>,
    metrics: TracesMetrics,
}

impl<E: SpanExporter> SpanExporter for Sending<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        self.waiting.fetch_sub(spans, Ordering::Relaxed);
        let sent = self.exporter.export(batch).await;
        let outcome = if sent.is_ok() { SpanOutcome::Sent } else { SpanOutcome::Failed };
        self.metrics.count(outcome, spans);
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
