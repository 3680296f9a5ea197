//! An answer with the headers of KairosDB. CORS, compression and the headers of security are layers of the router.

use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};

/// The headers of answers that are not errors, but for those of CORS.
const HEADERS: [(HeaderName, &str); 4] = [
    (header::CONTENT_TYPE, "application/json;charset=utf-8"),
    (header::PRAGMA, "no-cache"),
    (header::CACHE_CONTROL, "no-cache"),
    (header::EXPIRES, "0"),
];

/// An answer with this JSON.
pub(super) fn answer(json: impl IntoResponse) -> Response {
    (HEADERS, json).into_response()
}
