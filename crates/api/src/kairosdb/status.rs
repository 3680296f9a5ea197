//! Version and health, for clients that ask before they do anything else.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::answer::answer;
use super::failure::Failure;
use crate::state::SharedState;

/// Clients look for a number after `KairosDB`.
const VERSION: &str =
    concat!(r#"{"version": "KairosDB 1.3.0 (promkairos "#, env!("CARGO_PKG_VERSION"), ")\"}\n");

/// `GET /api/v1/version`
pub(super) async fn version() -> Response {
    answer(VERSION)
}

/// `GET /api/v1/health/check`: 204, or an error while the store cannot serve.
pub(super) async fn check(State(state): State<SharedState>) -> Result<Response, Failure> {
    state.store()?.ready().await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `GET /api/v1/health/status`
pub(super) async fn status(State(state): State<SharedState>) -> Response {
    let ready = match state.store() {
        Ok(store) => store.ready().await.is_ok(),
        Err(_) => false,
    };
    let datastore = if ready { "OK" } else { "FAIL" };
    answer(format!(r#"["JVM-Thread-Deadlock: OK","Datastore-Query: {datastore}"]"#))
}
