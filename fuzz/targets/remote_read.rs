//! Remote read through the router: any body gets an answer, never a panic, never a 5xx.
use std::sync::{Arc, LazyLock};

use axum::body::{Body, to_bytes};
use axum::http::Request;
use promkairos::api::{AppState, router};
use promkairos::storage::memory::MemoryStore;
use promkairos::telemetry::Metrics;
use promkairos::wire::snappy;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));
static STATE: LazyLock<Arc<AppState>> = LazyLock::new(|| {
    let state = AppState::new(Arc::new(Metrics::new()));
    state.open(Arc::new(MemoryStore::new()));
    Arc::new(state)
});

pub(crate) fn check(data: &[u8]) {
    let body = snappy::compress(data).expect("a short message");
    RUNTIME.block_on(async {
        let request = Request::post("/api/v1/read").body(Body::from(body)).expect("a request");
        let answer = router(STATE.clone()).oneshot(request).await.expect("an answer");
        assert!(!answer.status().is_server_error(), "{}", answer.status());
        let _ = to_bytes(answer.into_body(), 1 << 20).await;
    });
}
