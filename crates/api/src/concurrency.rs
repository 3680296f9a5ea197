//! Refuses requests beyond the limit of concurrent requests (`request_limit`).
//!
//! A request counts from its head until the head of its answer, including its body and all waiting. A request beyond
//! the limit is refused at once, with `Retry-After`; so is one on a spare connection. Requests for health and metrics
//! do not count: operators need them to see why others are refused.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::error::ApiError;
use super::request_limit::{SharedConnection, SpareConnection};
use super::state::{AppState, SharedState};

/// The setting that limits connections.
const CONNECTIONS: &str = "max-connections";

/// Paths that are always answered.
pub(super) const UNCOUNTED: [&str; 3] = ["/-/healthy", "/-/ready", "/metrics"];

/// Refuses requests beyond the limit.
pub(super) async fn bound(
    State(state): State<SharedState>,
    request: Request,
    next: Next,
) -> Response {
    if UNCOUNTED.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    if let Some(SpareConnection { beyond }) = request.extensions().get() {
        let what = format!("more than {beyond} connections, which is the setting {CONNECTIONS}");
        return refuse(&state, CONNECTIONS, what);
    }
    let is_alone = request.extensions().get::<SharedConnection>().is_none();
    match state.concurrency.enter(is_alone) {
        Ok(_counted) => next.run(request).await,
        Err(too_many) => refuse(&state, too_many.setting, too_many.text(is_alone)),
    }
}

fn refuse(state: &AppState, setting: &'static str, what: String) -> Response {
    ApiError::busy(&state.metrics.http.limits, setting, what).into_response()
}
