//! `POST /api/v1/write`: remote write 1.0 and 2.0.
//!
//! Type and encoding are checked before the body is read. One request is one batch of the store: the pipeline of
//! `ingest` limits, stores and counts it. Parts that are refused do not hinder the rest of a request.

mod negotiate;
mod parser;
mod respond;
mod zstd_body;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use tracing::{Instrument, info_span};

use super::body::receive;
use super::request_error::RequestError;
use super::settings::TypeAndUnitLabels;
use super::state::{AppState, SharedState};
use super::write_request::{WriteRequest, note};
use negotiate::Encoding;
use parser::RemoteWrite;
use promkairos_ingest::{Parser, ReceivedBody};
use promkairos_model::{Protocol, WriteOutcome};
use promkairos_storage::SharedStore;

/// The handler.
pub(crate) async fn remote_write(State(state): State<SharedState>, request: Request) -> Response {
    let attempt = WriteRequest::begin(&state);
    let (parts, body) = request.into_parts();
    let protocol = negotiate::protocol(&parts.headers)
        .inspect_err(|error| note(&state, RemoteWrite::REQUESTS, error));
    let (protocol, result) = match protocol {
        Ok(protocol) => (Some(protocol), accept(&state, protocol, &parts.headers, body).await),
        Err(error) => (None, Err(error)),
    };
    let response = respond::respond(protocol, result, state.ingest.limits().series_answer);
    let protocol = match protocol {
        Some(Protocol::V1) => "1",
        Some(Protocol::V2 | Protocol::V2Typed | Protocol::V2Longs) => "2",
        None => "unknown",
    };
    attempt.end(protocol, response.status());
    response
}

/// Receives and writes the body.
async fn accept(
    state: &AppState,
    protocol: Protocol,
    headers: &HeaderMap,
    body: Body,
) -> Result<WriteOutcome, RequestError> {
    let received = received(state, protocol, headers, body).await;
    let (store, body) = received.inspect_err(|error| note(state, RemoteWrite::REQUESTS, error))?;
    let protocol = match (protocol, state.type_and_unit_labels) {
        (Protocol::V2, TypeAndUnitLabels::Enabled) => Protocol::V2Typed,
        (protocol, _) => protocol,
    };
    Ok(state.ingest.write(&**store, body, &RemoteWrite { protocol }).await?)
}

/// The store, and the body as a snappy block.
async fn received<'a>(
    state: &'a AppState,
    protocol: Protocol,
    headers: &HeaderMap,
    body: Body,
) -> Result<(&'a SharedStore, ReceivedBody), RequestError> {
    let encoding = negotiate::encoding(headers, protocol)?;
    state.ingest.admit()?;
    let store = state.store()?;
    let (intake, limits) = (state.ingest.intake(), state.ingest.limits());
    let body = receive(intake, headers, body, limits.body_bytes, &state.metrics.http);
    let body = body.instrument(info_span!("body")).await?;
    let body = match encoding {
        Encoding::Snappy => body,
        Encoding::Zstd => zstd_body::as_snappy(intake, body, limits.decoded_bytes).await?,
    };
    Ok((store, body))
}
