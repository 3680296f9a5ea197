//! Routers over stores in memory, made once: one store holds the series of `dataset`, the other is
//! emptied before each request.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use promkairos::api::proto::v1;
use promkairos::api::{AppState, router};
use promkairos::model::TimeRange;
use promkairos::storage::SharedStore;
use promkairos::storage::memory::MemoryStore;
use promkairos::telemetry::Metrics;
use promkairos::wire::snappy;
use prost::Message;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

use super::dataset;

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));
static FILLED: LazyLock<Router> = LazyLock::new(|| {
    let router = over(Arc::new(MemoryStore::new()));
    let timeseries = dataset::series(1);
    let message = v1::WriteRequest { timeseries, ..v1::WriteRequest::default() }.encode_to_vec();
    let body = snappy::compress(&message).expect("a short message");
    let request = Request::post("/api/v1/write").body(Body::from(body)).expect("a request");
    assert_eq!(send(&router, request), StatusCode::NO_CONTENT);
    router
});
static EMPTY: LazyLock<(Router, SharedStore)> = LazyLock::new(|| {
    let store: SharedStore = Arc::new(MemoryStore::new());
    (over(store.clone()), store)
});

fn over(store: SharedStore) -> Router {
    let state = AppState::new(Arc::new(Metrics::new()));
    state.open(store);
    router(Arc::new(state))
}

/// The status of the answer, whose body is read.
pub(crate) fn ask(request: Request<Body>) -> StatusCode {
    send(&FILLED, request)
}

/// The status of the answer of the router over the empty store, which is emptied again.
pub(crate) fn ask_empty(request: Request<Body>) -> StatusCode {
    let (router, store) = &*EMPTY;
    let status = send(router, request);
    if status.is_success() {
        RUNTIME.block_on(store.delete(&[], TimeRange::ALL)).expect("a store in memory");
    }
    status
}

/// The status of the answer of any router.
pub(crate) fn send(router: &Router, request: Request<Body>) -> StatusCode {
    RUNTIME.block_on(async {
        let answer = router.clone().oneshot(request).await.expect("an answer");
        let status = answer.status();
        // A truncated answer is allowed too.
        let _ = to_bytes(answer.into_body(), 1 << 24).await;
        status
    })
}
