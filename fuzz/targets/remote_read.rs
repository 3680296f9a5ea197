//! Remote read through the router: any body gets an answer, never a panic, never a 5xx.
use axum::body::Body;
use axum::http::Request;
use promkairos::wire::snappy;

use super::server;

pub(crate) fn check(data: &[u8]) {
    let body = snappy::compress(data).expect("a short message");
    let request = Request::post("/api/v1/read").body(Body::from(body)).expect("a request");
    let status = server::ask(request);
    assert!(!status.is_server_error(), "{status}");
}
