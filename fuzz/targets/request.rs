//! Requests with parameters, through the router: any of them gets an answer, never a panic, and
//! never a server error except the one that reports a limit.
use axum::body::Body;
use axum::http::{Request, StatusCode};

use super::server;

const PATHS: [&str; 13] = [
    "/api/v1/query",
    "/api/v1/query_range",
    "/api/v1/query_exemplars",
    "/api/v1/format_query",
    "/api/v1/parse_query",
    "/api/v1/labels",
    "/api/v1/label/job/values",
    "/api/v1/series",
    "/api/v1/metadata",
    "/federate",
    "/api/v1/explain",
    "/api/v1/status/tsdb",
    "/api/v1/label/",
];

/// A byte for the path and the position of the parameters (URL or body), and the parameters.
pub(crate) fn check(data: &[u8]) {
    let Some((selector, parameters)) = data.split_first() else { return };
    let path = PATHS[usize::from(selector / 2) % PATHS.len()];
    let request = match selector % 2 {
        0 => {
            let uri = match path.strip_suffix("label/") {
                // The name of the label is fuzzed as well.
                Some(api) => [api.as_bytes(), b"label/", parameters].concat(),
                None => [path.as_bytes(), b"?", parameters].concat(),
            };
            Request::get(&uri[..]).body(Body::empty())
        }
        _ => Request::post(path)
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(Body::from(parameters.to_vec())),
    };
    // No client can send other values.
    let Ok(request) = request else { return };
    let status = server::ask(request);
    let is_refused = status == StatusCode::SERVICE_UNAVAILABLE;
    assert!(!status.is_server_error() || is_refused, "{status}");
}
