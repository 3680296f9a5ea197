//! Request bodies, correctly compressed or not: the handler of remote write answers each without a panic
//! or a server error, and accepts only a block of Snappy.
use axum::body::Body;
use axum::http::Request;
use promkairos::wire::snappy;

use super::server;

const V1: &str = "application/x-protobuf";
const V2: &str = "application/x-protobuf;proto=io.prometheus.write.v2.Request";

/// A byte for the endpoint, and the body.
pub(crate) fn check(data: &[u8]) {
    let Some((place, body)) = data.split_first() else { return };
    let (path, kind) = match place % 3 {
        0 => ("/api/v1/write", V1),
        1 => ("/api/v1/write", V2),
        _ => ("/api/v1/read", V1),
    };
    let request =
        Request::post(path).header("Content-Type", kind).header("Content-Encoding", "snappy");
    let status = server::ask_empty(request.body(Body::from(body.to_vec())).expect("a request"));
    assert!(!status.is_server_error(), "{status}");
    let is_block = snappy::decompress(body, &mut Vec::new()).is_ok();
    assert!(is_block || status.is_client_error(), "{status}");
}
