//! CORS: browsers may send requests from all origins, as with Prometheus.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

const GRANTED: [(HeaderName, &str); 3] = [
    (header::ACCESS_CONTROL_ALLOW_HEADERS, "Accept, Authorization, Content-Type, Origin"),
    (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, OPTIONS"),
    (header::ACCESS_CONTROL_EXPOSE_HEADERS, "Date"),
];

/// Answers CORS preflight requests for every path of the API.
pub(super) async fn preflight(request: Request, next: Next) -> Response {
    if request.method() != Method::OPTIONS || !request.uri().path().starts_with("/api/v1/") {
        return next.run(request).await;
    }
    let origin = request.headers().get(header::ORIGIN).cloned();
    let mut response = StatusCode::NO_CONTENT.into_response();
    grant(origin, response.headers_mut());
    response
}

/// Allows the origin of a request to read its answer.
pub(super) async fn share(request: Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let mut response = next.run(request).await;
    // 404 and 405 are not answers of an endpoint.
    let nobodys = [StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED];
    if !nobodys.contains(&response.status()) {
        grant(origin, response.headers_mut());
    }
    response
}

fn grant(origin: Option<HeaderValue>, headers: &mut HeaderMap) {
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    if let Some(origin) = origin.filter(|origin| !origin.is_empty()) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        for (name, value) in GRANTED {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
}
