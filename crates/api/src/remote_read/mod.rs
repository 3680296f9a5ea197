//! Remote read: `POST /api/v1/read`.
//!
//! Both answer types read the store in runs of series, a bounded amount ahead of the client. Reads
//! beyond the limit wait for a permit for a bounded time. A read ends when its client disconnects
//! or accepts no data for too long. CPU-heavy work runs on the workers, so that writes go on.

mod frames;
pub(super) mod gate;
mod named;
mod protobuf;
mod request;
mod runs;
mod samples;
mod stream;
mod window;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;
use tracing::{Instrument, info_span};

use super::body::receive;
use super::patterns;
use super::proto::v1::read_request::ResponseType;
use super::request_error::RequestError;
use super::slow::Watch;
use super::state::SharedState;
use super::workers::Caller;
use promkairos_ingest::{DECODED_SIZE, Refusal};
use promkairos_model::PatternSet;
use promkairos_model::limits::MAX_DECODED_BYTES;
use promkairos_wire::{WireError, snappy};

use request::{Query, ReadRequest};

/// Refuses a block that declares more than `most` bytes. The decoder refuses malformed blocks.
fn check_decoded(block: &[u8], most: usize) -> Result<(), Refusal> {
    match snappy::declared_len(block) {
        Ok(declared) | Err(WireError::TooLarge { declared, .. }) if declared > most => {
            Err(Refusal::decoded(declared as u64, most))
        }
        _ => Ok(()),
    }
}

/// `POST /api/v1/read`. As in Prometheus, `Content-Type` and `Content-Encoding` are ignored: a body
/// that is not a snappy block with a request is refused with 400.
pub(super) async fn remote_read(
    State(state): State<SharedState>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, RequestError> {
    state.pressure.check_read()?;
    let gate = &state.reads;
    let limits = state.ingest.limits();
    let http = &state.metrics.http;
    let body = receive(&gate.bodies, &headers, body, limits.body_bytes, http).await?;
    let most = limits.decoded_bytes;
    if let Err(refused) = check_decoded(&body.bytes, most) {
        state.metrics.http.limits.reached(DECODED_SIZE);
        // Beyond the largest value of the setting the decoder refuses the body, in Prometheus' words.
        if most < MAX_DECODED_BYTES {
            return Err(refused.into());
        }
    }
    let store = state.store()?.clone();
    let deadline = Instant::now() + gate.limits.wait;
    let permit = gate.turn(&gate.all, deadline, &state.metrics.http);
    let permit = permit.instrument(info_span!("wait")).await?;
    // Checked again: the request may have waited long.
    state.pressure.check_read()?;
    let bytes = body.bytes.clone();
    let decode =
        move |set: &mut PatternSet, caller: &Caller<'_>| ReadRequest::decode(&bytes, set, caller);
    let compile_deadline = patterns::compile_deadline(&state);
    // Decoding may expand the body a lot, so it runs on the workers.
    let request = patterns::read(&state, &compile_deadline, usize::MAX, decode);
    let (mut request, room) = request.instrument(info_span!("decode")).await?;
    drop(body);
    let watch = Watch::new(&state, "/api/v1/read", request.queries.iter().map(Query::shown));
    let global = state.global();
    request.queries.iter_mut().for_each(|query| query.add_external(&global.external_labels));
    match request.response {
        ResponseType::Samples => {
            let alone = gate.turn(&gate.samples, deadline, &state.metrics.http).await?;
            let permits = [permit, alone];
            let block = samples::answer(&state, &store, &request.queries).await?;
            let headers = [
                (CONTENT_TYPE, "application/x-protobuf".to_owned()),
                (CONTENT_ENCODING, "snappy".to_owned()),
                (CONTENT_LENGTH, block.len().to_string()),
            ];
            Ok((headers, stream::whole(state, block, permits)).into_response())
        }
        ResponseType::StreamedXorChunks => {
            let body = stream::start(state, store, request.queries, (permit, watch, room)).await?;
            // Clients compare this prefix, including the blank.
            const FRAMES: &str =
                "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse";
            Ok(([(CONTENT_TYPE, FRAMES)], body).into_response())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::sync::Arc;
    use std::time::Duration;

    use axum::http::header::RETRY_AFTER;
    use axum::http::{HeaderValue, StatusCode};
    use futures::poll;
    use prost::Message;
    use tokio::sync::OwnedSemaphorePermit;
    use tokio::task::yield_now;

    use super::gate::{ReadGate, ReadLimits};
    use super::*;
    use crate::AppState;
    use crate::proto::v1;
    use promkairos_model::limits::{MAX_CONCURRENT_READS, READ_WAIT};
    use promkairos_model::{Labels, METRIC_NAME, Matcher, TimeRange};
    use promkairos_promql::PatternRoom;
    use promkairos_storage::SharedStore;
    use promkairos_storage::memory::MemoryStore;
    use promkairos_telemetry::Metrics;

    // The runtime has one thread and the store never waits: work on this thread is done after one
    // poll, and only work for the workers is pending while they have no permit.

    async fn one_series() -> (Arc<AppState>, SharedStore) {
        let store = store_of(1).await;
        let state = AppState::new(Arc::new(Metrics::new()));
        state.open(store.clone());
        (Arc::new(state), store)
    }

    async fn store_of(series: usize) -> SharedStore {
        let labels = (0..series).map(|job| {
            let pairs = [(METRIC_NAME, "up".to_owned()), ("job", job.to_string())];
            Labels::from_pairs(pairs).expect("valid")
        });
        Arc::new(MemoryStore::of_series(labels).await.expect("stored"))
    }

    fn queries() -> Vec<Query> {
        let matchers = vec![Matcher::equal(METRIC_NAME, "up")];
        vec![Query { matchers, range: TimeRange::ALL, hints: None, external: Labels::default() }]
    }

    fn no_place(state: &AppState) -> OwnedSemaphorePermit {
        let places = &state.workers.places;
        let all = places.available_permits() as u32;
        places.clone().try_acquire_many_owned(all).expect("nothing is under way")
    }

    async fn waits_for_a_place<T>(
        work: impl Future<Output = T>,
        places: OwnedSemaphorePermit,
    ) -> T {
        let mut work = std::pin::pin!(work);
        for _ in 0..100 {
            assert!(poll!(&mut work).is_pending(), "done on the thread that serves");
            yield_now().await;
        }
        drop(places);
        work.await
    }

    #[tokio::test]
    async fn requests_are_decoded_by_the_workers() {
        let (state, _) = one_series().await;
        let places = no_place(&state);
        let read = remote_read(State(state), HeaderMap::new(), Body::from("not snappy"));
        let refused = waits_for_a_place(read, places).await.expect_err("malformed");
        assert_eq!(refused.to_string(), "snappy: corrupt input");
    }

    #[tokio::test]
    async fn samples_are_encoded_by_the_workers() {
        let (state, store) = one_series().await;
        let (places, queries) = (no_place(&state), queries());
        let answer = samples::answer(&state, &store, &queries);
        waits_for_a_place(answer, places).await.expect("an answer");
        assert_eq!(state.metrics.http.read_series.get(), 1);
    }

    #[tokio::test]
    async fn frames_are_encoded_by_the_workers() {
        let (state, store) = one_series().await;
        let permit = state.reads.all.try_take(1).expect("free");
        let places = no_place(&state);
        let watch = Watch::new(&state, "read", []);
        let answer =
            stream::start(state.clone(), store, queries(), (permit, watch, PatternRoom::default()));
        drop(waits_for_a_place(answer, places).await.expect("an answer"));
        assert_eq!(state.metrics.http.read_series.get(), 1);
    }

    /// A request for every series; `response_type` is the answer type on the wire.
    fn request(response_type: i32) -> Body {
        let matcher = v1::LabelMatcher { r#type: 0, name: METRIC_NAME.into(), value: "up".into() };
        let query =
            v1::Query { matchers: vec![matcher], end_timestamp_ms: 9, ..Default::default() };
        let accepted_response_types = vec![response_type];
        let request = v1::ReadRequest { queries: vec![query], accepted_response_types };
        Body::from(snappy::compress(&request.encode_to_vec()).expect("small"))
    }

    #[tokio::test]
    async fn what_a_body_is_said_to_be_does_not_matter() {
        let (state, _) = one_series().await;
        for said in ["application/x-protobuf", "application/json", "text/plain; charset=utf-8"] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(said))]);
            let read = remote_read(State(state.clone()), headers.clone(), request(0));
            assert_eq!(read.await.expect("an answer").status(), StatusCode::OK, "{said}");
            let read = remote_read(State(state.clone()), headers, Body::from("not snappy"));
            let refused = read.await.expect_err("no request").into_response();
            assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{said}");
        }
    }

    async fn limited(limits: ReadLimits) -> Arc<AppState> {
        let state = AppState::new(Arc::new(Metrics::new()));
        let state = AppState { reads: ReadGate::new(limits), ..state };
        // Several runs: an answer of one piece would be complete before a client takes it.
        state.open(store_of(30).await);
        Arc::new(state)
    }

    #[tokio::test]
    async fn who_gets_no_turn_in_time_is_told_to_come_again() {
        let wait = Duration::from_millis(1);
        let state = limited(ReadLimits { wait, ..ReadLimits::default() }).await;
        let refused = async |response_type| {
            let read = remote_read(State(state.clone()), HeaderMap::new(), request(response_type));
            let answer = read.await.expect_err("no permit is free").into_response();
            assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert!(answer.headers().contains_key(RETRY_AFTER));
        };
        let all = state.reads.samples.try_take(ReadLimits::default().sample_reads()).expect("free");
        refused(0).await;
        drop(all);
        let _all = state.reads.all.try_take(MAX_CONCURRENT_READS).expect("free");
        refused(0).await;
        refused(1).await;
    }

    #[tokio::test]
    async fn who_takes_nothing_of_an_answer_loses_turn_and_answer() {
        for response_type in [0, 1] {
            let stall = Duration::from_millis(1);
            let state = limited(ReadLimits { stall, ..ReadLimits::default() }).await;
            let mut held = Vec::new();
            for _ in 0..3 * MAX_CONCURRENT_READS {
                let read =
                    remote_read(State(state.clone()), HeaderMap::new(), request(response_type));
                // Each read gets its permit although no client takes anything of the earlier answers.
                held.push(read.await.expect("an answer").into_body());
            }
            let all = state.reads.all.take(MAX_CONCURRENT_READS, Instant::now() + READ_WAIT).await;
            drop(all.expect("given back"));
            for body in held {
                let taken = axum::body::to_bytes(body, usize::MAX).await;
                taken.expect_err("a part must not pass for the whole");
            }
        }
    }
}
