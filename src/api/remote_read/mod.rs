//! Remote read: `POST /api/v1/read`.
//!
//! Both types of answer read the store in runs of series, a bounded amount ahead of the client.
//! Requests beyond the gate wait in line; a client that goes away ends its work. What keeps a
//! processor busy is done by the workers, so that writes go on.

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
use super::workers::Caller;
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
    let bytes = body.bytes.clone();
    let decode = move |caller: &Caller<'_>| ReadRequest::decode(&bytes, caller);
    let request = state.workers.run(decode).await?;
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

#[cfg(test)]
mod tests {
    use std::future::Future;

    use futures::poll;
    use tokio::sync::OwnedSemaphorePermit;
    use tokio::task::yield_now;

    use super::request::Query;
    use super::*;
    use crate::model::{
        Labels, METRIC_NAME, Matcher, RawLabels, Sample, SeriesEntry, TimeRange, WriteBatch,
    };
    use crate::storage::memory::MemoryStore;
    use crate::storage::{SharedStore, Store};
    use crate::telemetry::Metrics;

    // One thread and a store that never waits: what is done on this thread is done when it is
    // polled, and only what the workers do is still to come while they have no place.

    async fn one_series() -> (Arc<AppState>, SharedStore) {
        let labels = Labels::from_pairs([(METRIC_NAME, "up")]).expect("valid");
        let series = SeriesEntry {
            labels: RawLabels(labels.as_bytes()),
            index: 0,
            samples: 0..1,
            histograms: 0..0,
            exemplars: 0..0,
        };
        let samples = vec![Sample { timestamp: 1, start_timestamp: 0, value: 1.0 }];
        let batch = WriteBatch { series: vec![series], samples, ..WriteBatch::default() };
        let store = MemoryStore::new();
        store.write(batch).await.expect("stored");
        let store: SharedStore = Arc::new(store);
        let state = AppState::new(Arc::new(Metrics::new()));
        state.open(store.clone());
        (Arc::new(state), store)
    }

    fn queries() -> Vec<Query> {
        vec![Query { matchers: vec![Matcher::equal(METRIC_NAME, "up")], range: TimeRange::ALL }]
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
        let permit = state.reads.all.clone().acquire_owned().await.expect("never closed");
        let places = no_place(&state);
        let answer = stream::start(state.clone(), store, queries(), permit);
        drop(waits_for_a_place(answer, places).await.expect("an answer"));
        assert_eq!(state.metrics.http.read_series.get(), 1);
    }
}
