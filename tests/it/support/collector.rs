//! A receiver of traces: OTLP over HTTP, decoded with OpenTelemetry's own message definitions.
//! Written here because Debian and Maven, the sources of the peers, have no OTLP server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode as SpanStatus;
use prost::Message;
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

/// The running receiver. Dropping it stops it.
pub(crate) struct Collector {
    /// Its endpoint.
    pub(crate) url: String,
    received: Arc<Received>,
    server: AbortHandle,
}

struct Received {
    /// The status of every answer.
    status: StatusCode,
    requests: Mutex<Vec<HeaderMap>>,
    spans: Mutex<Vec<Span>>,
}

/// A span as received; ids as hexadecimal digits.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty = no parent.
    pub(crate) parent: String,
    pub(crate) name: String,
    /// As numbered by the protocol: 1 internal, 2 server, 3 client.
    pub(crate) kind: i32,
    pub(crate) is_error: bool,
    pub(crate) attributes: BTreeMap<String, Json>,
    /// Attributes of the resource.
    pub(crate) resource: BTreeMap<String, Json>,
}

impl Collector {
    /// Starts a receiver that accepts everything.
    pub(crate) async fn start() -> Self {
        Self::answering(StatusCode::OK).await
    }

    /// The same with another status in its answers.
    pub(crate) async fn answering(status: StatusCode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let (requests, spans) = (Mutex::default(), Mutex::default());
        let received = Arc::new(Received { status, requests, spans });
        let router =
            Router::new().route("/v1/traces", post(take)).with_state(Arc::clone(&received));
        let server = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("it serves until it is aborted");
        });
        Self { url, received, server: server.abort_handle() }
    }

    /// All spans received.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.received.spans.lock().expect("no test panics with it").clone()
    }

    /// The headers of each request received.
    pub(crate) fn requests(&self) -> Vec<HeaderMap> {
        self.received.requests.lock().expect("no test panics with it").clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn take(
    State(received): State<Arc<Received>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, [(&'static str, &'static str); 1]) {
    const PROTOBUF: &str = "application/x-protobuf";
    assert_eq!(
        headers.get("Content-Type").map(|value| value.as_bytes()),
        Some(PROTOBUF.as_bytes())
    );
    let request = ExportTraceServiceRequest::decode(body).expect("a message of OTLP");
    let mut spans = Vec::new();
    for of_resource in request.resource_spans {
        let resource = attributes(&of_resource.resource.unwrap_or_default().attributes);
        for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            spans.push(Span {
                trace: hexadecimal(&span.trace_id),
                id: hexadecimal(&span.span_id),
                parent: hexadecimal(&span.parent_span_id),
                name: span.name,
                kind: span.kind,
                is_error: span.status.is_some_and(|status| status.code == SpanStatus::Error as i32),
                attributes: attributes(&span.attributes),
                resource: resource.clone(),
            });
        }
    }
    received.requests.lock().expect("no test panics with it").push(headers);
    received.spans.lock().expect("no test panics with it").extend(spans);
    // An answer without fields has no bytes.
    (received.status, [("Content-Type", PROTOBUF)])
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attributes(pairs: &[KeyValue]) -> BTreeMap<String, Json> {
    let pairs = pairs.iter().map(|pair| {
        let value = pair.value.as_ref().and_then(|value| value.value.as_ref());
        let value = match value {
            Some(Value::StringValue(text)) => json!(text),
            Some(Value::IntValue(number)) => json!(number),
            Some(Value::DoubleValue(number)) => json!(number),
            Some(Value::BoolValue(flag)) => json!(flag),
            other => panic!("{}: {other:?}", pair.key),
        };
        (pair.key.clone(), value)
    });
    let count = pairs.len();
    let attributes: BTreeMap<String, Json> = pairs.collect();
    assert_eq!(attributes.len(), count, "an attribute twice: {attributes:?}");
    attributes
}
