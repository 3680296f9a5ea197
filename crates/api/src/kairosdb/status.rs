//! Version and health, for clients that ask before they do anything else.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::answer::answer;
use super::failure::Failure;
use crate::state::{AppState, SharedState};
use promkairos_model::{METRIC_NAME, TimeRange};
use promkairos_storage::{ListSize, SeriesQuery};

/// Most bytes of the name that a check reads.
const NAME_BYTES: usize = 64 << 10;
/// Clients look for a number after `KairosDB`.
const VERSION: &str =
    concat!(r#"{"version": "KairosDB 1.3.0 (promkairos "#, env!("CARGO_PKG_VERSION"), ")\"}\n");

/// `GET /api/v1/version`
pub(super) async fn version() -> Response {
    answer(VERSION)
}

/// `GET /api/v1/health/check`: 204, or an error while the store cannot be read.
pub(super) async fn check(State(state): State<SharedState>) -> Result<Response, Failure> {
    read(&state).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `GET /api/v1/health/status`
pub(super) async fn status(State(state): State<SharedState>) -> Response {
    let datastore = if read(&state).await.is_ok() { "OK" } else { "FAIL" };
    answer(format!(r#"["JVM-Thread-Deadlock: OK","Datastore-Query: {datastore}"]"#))
}

/// Reads the name of one metric.
async fn read(state: &AppState) -> Result<(), Failure> {
    let limit = ListSize { items: 1, bytes: NAME_BYTES };
    let query = SeriesQuery { matchers: Vec::new(), range: TimeRange::ALL, limit };
    state.store()?.label_values(METRIC_NAME, &query).await?;
    Ok(())
}
