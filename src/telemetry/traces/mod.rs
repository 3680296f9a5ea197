//! Traces: spans of requests and flushes, for a collector that takes OTLP over HTTP.
//!
//! A span is made with `tracing` where the work is done; [`Traces::request`] and [`flush_span`]
//! begin a trace, all others are parts of one, and come into being only inside of one (`parts`).
//! The log sees none of them. Where traces are off a span costs a look at a flag; of a request that
//! is not traced nothing is made.
//!
//! Nothing waits for the collector: spans that have ended stand in a bounded queue (`queue`), which
//! a thread of its own sends (`collector`). What finds no place, and what the collector does not
//! take, is lost and counted.

mod collector;
mod metrics;
mod parts;
mod queue;

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

use crate::config::TracesConfig;
use collector::Collector;
use parts::{Parts, Statements};
use queue::Queue;

pub use metrics::TracesMetrics;
pub use parts::CASSANDRA_STATEMENT;
pub(super) use parts::is_span_of_ours;

/// Longest time for what waits in the queue at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// What spans come from, where no variable says otherwise.
const SERVICE: &str = "promkairos";
/// Headers of W3C's trace context.
const TRACE_HEADERS: [&str; 2] = ["traceparent", "tracestate"];

/// Which requests are traced, and where their spans go. Clones are the same.
#[derive(Clone, Default)]
pub struct Traces {
    /// `None` = there are no traces.
    running: Option<Arc<Running>>,
    metrics: TracesMetrics,
}

struct Running {
    provider: SdkTracerProvider,
    /// Decides about a request.
    sampler: Sampler,
}

impl Traces {
    /// Starts the thread that sends spans. Variables of OpenTelemetry that make no sense are ignored by
    /// its library. Spans come from the layer that `start_log` adds.
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
            // What is not wanted has no spans in the first place.
            .with_sampler(Sampler::AlwaysOn)
            .build();
        let share = Sampler::TraceIdRatioBased(config.sampling);
        let sampler = Sampler::ParentBased(Box::new(share));
        Ok(Self { running: Some(Arc::new(Running { provider, sampler })), metrics })
    }

    /// The metrics of what is sent.
    pub fn metrics(&self) -> &TracesMetrics {
        &self.metrics
    }

    /// What makes spans of this program part of traces; `None` where there are none.
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

    /// What a request is a part of, which is nothing where it begins a trace; `None` = it is not traced.
    /// Its sender decides that with the header `traceparent`; without one chance does. `header` gives
    /// the value of a header.
    pub fn parent<'a>(
        &self,
        route: &str,
        header: impl Fn(&str) -> Option<&'a str>,
    ) -> Option<Context> {
        let running = self.running.as_ref()?;
        let headers = Headers(TRACE_HEADERS.map(header));
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &headers);
        // For the dice only: the trace gets its number later.
        let number = RandomIdGenerator::default().new_trace_id();
        let (sampler, kind) = (&running.sampler, SpanKind::Server);
        let decided = sampler.should_sample(Some(&parent), number, route, &kind, &[], &[]);
        (decided.decision == SamplingDecision::RecordAndSample).then_some(parent)
    }

    /// The span of a request; none where it is not traced: see [`Self::parent`].
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

    /// Sends what waits, as far as the collector takes it in time. No spans are sent afterwards.
    pub fn close(&self) {
        let Some(running) = &self.running else { return };
        if running.provider.shutdown_with_timeout(CLOSE_TIMEOUT).is_err() {
            tracing::warn!("the last traces were not taken within {CLOSE_TIMEOUT:?}");
        }
    }
}

/// The span of a flush of so many series, a trace of its own.
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

/// Ends what a span is about with an error.
pub fn fail(span: &Span, error: &dyn std::fmt::Display) {
    if !span.is_disabled() {
        span.record("otel.status_description", error.to_string().as_str());
    }
}

fn begin(span: Span, parent: Context) -> Span {
    // Fails only where the span is none.
    let _ = span.set_parent(parent.with_value(Statements::default()));
    span
}

/// Where the spans come from: this program, unless `OTEL_SERVICE_NAME` or
/// `OTEL_RESOURCE_ATTRIBUTES` says otherwise.
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
        // Nobody takes them there, and nobody waits for them.
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
