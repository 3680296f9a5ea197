//! Remote read: `POST /api/v1/read`.
//!
//! Both types of answer read the store in runs of series, a bounded amount ahead of the client.
//! Requests beyond the gate wait in line; a client that goes away ends its work.

mod frames;
mod protobuf;
mod request;
mod runs;
mod samples;
mod stream;
mod window;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;

use super::AppState;
use super::proto::v1::read_request::ResponseType;
use super::remote_write::{Intake, Refusal};
use crate::limits::{MAX_CONCURRENT_READS, MAX_CONCURRENT_SAMPLE_READS};

use request::ReadRequest;

/// How many reads may be under way; further ones wait in line.
pub(super) struct ReadGate {
    all: Arc<Semaphore>,
    /// Bodies on their way: a slow client holds no more than it sent, and no place in line.
    bodies: Intake,
    /// Answers that are whole in memory.
    samples: Semaphore,
}

impl Default for ReadGate {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(MAX_CONCURRENT_READS)),
            bodies: Intake::new(),
            samples: Semaphore::new(MAX_CONCURRENT_SAMPLE_READS),
        }
    }
}

/// `POST /api/v1/read`. Headers of the request are not needed.
pub(super) async fn remote_read(
    State(state): State<Arc<AppState>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    const OPEN: &str = "the gate is never closed";
    let body = state.reads.bodies.read(&headers, body).await?;
    let store = state.store()?.clone();
    let permit = state.reads.all.clone().acquire_owned().await.expect(OPEN);
    let request = ReadRequest::decode(&body.bytes)?;
    drop(body);
    match request.response {
        ResponseType::Samples => {
            let _permit = (permit, state.reads.samples.acquire().await.expect(OPEN));
            let block = samples::answer(&state, &store, &request.queries).await?;
            let headers = [(CONTENT_TYPE, "application/x-protobuf"), (CONTENT_ENCODING, "snappy")];
            Ok((headers, block).into_response())
        }
        ResponseType::StreamedXorChunks => {
            let body = stream::start(state, store, request.queries, permit).await?;
            // Clients compare the beginning of this, blank included.
            const FRAMES: &str =
                "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse";
            Ok(([(CONTENT_TYPE, FRAMES)], body).into_response())
        }
    }
}
