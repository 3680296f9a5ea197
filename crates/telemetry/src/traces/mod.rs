//! Traces: spans of requests and flushes, for a collector that takes OTLP over HTTP.
//!
//! A span is made with `tracing` where the work is done. [`Traces::request`] and [`flush_span`]
//! begin a trace; all other spans are made only inside a trace (`parts`). The log has no spans. If
//! traces are off, a span costs one check of a flag; a request that is not traced makes no spans.
//!
//! Nothing waits for the collector: ended spans are put into a bounded queue (`queue`), which a
//! thread of its own sends (`collector`). Spans that do not fit, and spans that the collector does
//! not take, are lost and counted.

mod collector;
mod metrics;
mod parts;
mod queue;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanKind, TracerProvider};
use opentelemetry::{Context, Key, KeyValue};
use opentelemetry_otlp::{
    ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::resource::{
    EnvResourceDetector, ResourceDetector, SdkProvidedResourceDetector,
};
use opentelemetry_sdk::trace::{
    IdGenerator, RandomIdGenerator, Sampler, SamplingDecision, SdkTracerProvider, ShouldSample,
};
use tracing::field::Empty;
use tracing::{Span, Subscriber, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

use promkairos_model::Secret;

use collector::Collector;
use parts::{Parts, Statements};
use queue::Queue;

pub use metrics::TracesMetrics;
pub use parts::CASSANDRA_STATEMENT;
pub(super) use parts::{OURS, is_span_of_ours};

/// Longest time to send the rest of the queue at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Service name of spans, unless a variable sets another one.
const SERVICE: &str = "promkairos";
/// Headers of W3C's trace context.
const TRACE_HEADERS: [&str; 2] = ["traceparent", "tracestate"];

/// Where traces are sent, and how many requests are traced.
#[derive(Debug, Clone, PartialEq)]
pub struct TracesConfig {
    /// The collector's URL for traces.
    pub url: String,
    /// Share of requests to trace, from 0 to 1, if their sender has not decided.
    pub sampling: f64,
    /// Headers of the requests to the collector.
    pub headers: Vec<(String, Secret)>,
    /// The file of the headers, if a setting names one.
    pub headers_file: Option<PathBuf>,
}

/// Decides which requests are traced, and sends their spans. Clones share it.
#[derive(Clone, Default)]
pub struct Traces {
    /// `None` = there are no traces.
    running: Option<Arc<Running>>,
    metrics: TracesMetrics,
}

struct Running {
    provider: SdkTracerProvider,
    /// Decides whether a request is traced.
    sampler: Sampler,
}

impl Traces {
    /// Starts the thread that sends spans. The OpenTelemetry library ignores its invalid variables.
    /// Spans come from the layer that `start_log` adds.
    pub fn start(config: Option<&TracesConfig>) -> Result<Self, String> {
        let metrics = TracesMetrics::default();
        let Some(config) = config else { return Ok(Self { running: None, metrics }) };
        let headers = config.headers.iter();
        let headers = headers.map(|(name, value)| (name.clone(), value.reveal().to_owned()));
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector::new(&config.url))
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(&config.url)
            .with_headers(headers.collect())
            .build()
            .map_err(|error: ExporterBuildError| format!("traces cannot be sent: {error}"))?;
        let provider = SdkTracerProvider::builder()
            .with_span_processor(Queue::new(exporter, metrics.clone()))
            .with_resource(resource())
            // Spans that are not wanted are not made at all.
            .with_sampler(Sampler::AlwaysOn)
            .build();
        let share = Sampler::TraceIdRatioBased(config.sampling);
        let sampler = Sampler::ParentBased(Box::new(share));
        Ok(Self { running: Some(Arc::new(Running { provider, sampler })), metrics })
    }

    /// The metrics of sent spans.
    pub fn metrics(&self) -> &TracesMetrics {
        &self.metrics
    }

    /// The layer that makes spans of this program part of traces; `None` = there are no traces.
    pub(super) fn layer<S>(&self) -> Option<Box<dyn Layer<S> + Send + Sync>>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let tracer = self.running.as_ref()?.provider.tracer(SERVICE);
        let layer = tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false);
        Some(layer.with_filter(Parts).boxed())
    }

    /// The trace that a request is part of, empty if the request begins one; `None` = it is not
    /// traced. The header `traceparent` of the sender decides; without it chance does. `header`
    /// returns the value of a header.
    pub fn parent<'a>(
        &self,
        route: &str,
        header: impl Fn(&str) -> Option<&'a str>,
    ) -> Option<Context> {
        let running = self.running.as_ref()?;
        let headers = Headers(TRACE_HEADERS.map(header));
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &headers);
        // For the random decision only: the trace gets its number later.
        let number = RandomIdGenerator::default().new_trace_id();
        let (sampler, kind) = (&running.sampler, SpanKind::Server);
        let decided = sampler.should_sample(Some(&parent), number, route, &kind, &[], &[]);
        (decided.decision == SamplingDecision::RecordAndSample).then_some(parent)
    }

    /// The span of a request; no span if it is not traced: see [`Self::parent`].
    pub fn request<'a>(
        &self,
        method: &str,
        route: &str,
        header: impl Fn(&str) -> Option<&'a str>,
    ) -> Span {
        let Some(parent) = self.parent(route, header) else { return Span::none() };
        let span = info_span!(
            parent: None,
            "request",
            otel.name = %format_args!("{method} {route}"),
            otel.kind = "server",
            http.request.method = method,
            http.route = route,
            http.response.status_code = Empty,
            otel.status_code = Empty,
        );
        begin(span, parent)
    }

    /// Sends waiting spans, as far as the collector takes them in time. No spans are sent afterwards.
    pub fn close(&self) {
        let Some(running) = &self.running else { return };
        if running.provider.shutdown_with_timeout(CLOSE_TIMEOUT).is_err() {
            tracing::warn!("the last traces were not taken within {CLOSE_TIMEOUT:?}");
        }
    }
}

/// The span of a flush of `series` series, a trace of its own.
pub fn flush_span(series: usize) -> Span {
    let span = info_span!(
        parent: None,
        "flush",
        series = series as i64,
        points = Empty,
        otel.status_description = Empty,
    );
    begin(span, Context::new())
}

/// Marks a span as failed with an error.
pub fn fail(span: &Span, error: &dyn std::fmt::Display) {
    if !span.is_disabled() {
        span.record("otel.status_description", error.to_string().as_str());
    }
}

fn begin(span: Span, parent: Context) -> Span {
    // Fails only if there is no span.
    let _ = span.set_parent(parent.with_value(Statements::default()));
    span
}

/// The origin of spans, unless `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` sets another one.
fn resource() -> Resource {
    let named = SdkProvidedResourceDetector.detect();
    let name = named.get(&Key::from_static_str("service.name"));
    let name =
        name.map(|name| name.to_string()).filter(|name| !name.starts_with("unknown_service"));
    Resource::builder_empty()
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_detector(Box::new(EnvResourceDetector::new()))
        .with_service_name(name.unwrap_or_else(|| SERVICE.to_owned()))
        .build()
}

/// The values of [`TRACE_HEADERS`] in a request.
struct Headers<'a>([Option<&'a str>; TRACE_HEADERS.len()]);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0[TRACE_HEADERS.iter().position(|name| *name == key)?]
    }

    fn keys(&self) -> Vec<&str> {
        TRACE_HEADERS.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::Registry;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const NOT_SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

    fn traces(sampling: f64) -> Traces {
        // No collector listens there, and the test does not need one.
        let url = "http://127.0.0.1:9/v1/traces".into();
        let config = TracesConfig { url, sampling, headers: Vec::new(), headers_file: None };
        Traces::start(Some(&config)).expect("started")
    }

    /// Whether a request with this `traceparent` has a span.
    fn is_traced(traces: &Traces, traceparent: Option<&str>) -> bool {
        let layer = traces.layer().expect("traces are on");
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            let header = |name: &str| traceparent.filter(|_| name == "traceparent");
            !traces.request("GET", "/", header).is_disabled()
        })
    }

    #[test]
    fn the_sender_decides_or_else_the_share() {
        for (sampling, traceparent, want) in [
            (0.0, None, false),
            (1.0, None, true),
            (0.0, Some(SAMPLED), true),
            (1.0, Some(NOT_SAMPLED), false),
            (0.0, Some("nonsense"), false),
            (1.0, Some("nonsense"), true),
        ] {
            let traced = is_traced(&traces(sampling), traceparent);
            assert_eq!(traced, want, "{sampling} {traceparent:?}");
        }
    }

    #[test]
    fn without_an_endpoint_there_are_no_traces() {
        let traces = Traces::start(None).expect("nothing is started");
        assert!(traces.layer::<Registry>().is_none());
        let header = |_: &str| Some(SAMPLED);
        assert!(traces.request("GET", "/", header).is_none());
        traces.close();
    }
}
