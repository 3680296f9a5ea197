//! Answers in the JSON envelope of the Prometheus API: `{"status": "success", "data": ...}` or
//! `{"status": "error", "errorType": ..., "error": ...}`.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::ApiError;
use crate::storage::StoreError;

/// What was asked for, or why not.
pub(super) fn answer(data: Result<Value, ApiError>) -> Response {
    match data {
        Ok(data) => envelope(StatusCode::OK, &json!({ "status": "success", "data": data })),
        Err(error) => failure(error),
    }
}

/// What the client can mend in the envelope, the rest as plain text.
pub(super) fn failure(error: ApiError) -> Response {
    match error {
        ApiError::Store(StoreError::Invalid(why)) | ApiError::BadRequest(why) => {
            self::error(StatusCode::BAD_REQUEST, "bad_data", &why)
        }
        error => error.into_response(),
    }
}

/// An error as Prometheus answers it.
pub(super) fn error(status: StatusCode, kind: &str, why: &str) -> Response {
    envelope(status, &json!({ "status": "error", "errorType": kind, "error": why }))
}

fn envelope(status: StatusCode, json: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], json.to_string()).into_response()
}
