//! Clients that refuse uncompressed answers in `Accept-Encoding`. They get no 406: if they accept no supported
//! compression, the answer is uncompressed. Prometheus ignores such refusals too.

use axum::extract::Request;
use axum::http::header::ACCEPT_ENCODING;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;

/// Passes a request on without its refusals of uncompressed answers.
pub(super) async fn take_uncompressed(mut request: Request, next: Next) -> Response {
    let headers = request.headers_mut();
    if headers.get_all(ACCEPT_ENCODING).iter().any(|value| value.as_bytes().contains(&b'0')) {
        drop_refusals(headers);
    }
    next.run(request).await
}

/// Removes the items that refuse `identity`, by its name or by `*`.
fn drop_refusals(headers: &mut HeaderMap) {
    let said: Vec<HeaderValue> = headers.get_all(ACCEPT_ENCODING).iter().cloned().collect();
    headers.remove(ACCEPT_ENCODING);
    for value in said {
        let Ok(list) = value.to_str() else { continue };
        let kept: Vec<&str> = list.split(',').filter(|one| !refuses_identity(one)).collect();
        if let (Ok(value), false) = (HeaderValue::from_str(&kept.join(",")), kept.is_empty()) {
            headers.append(ACCEPT_ENCODING, value);
        }
    }
}

/// Whether an item is `identity` or `*` with a weight of 0.
fn refuses_identity(one: &str) -> bool {
    let mut parts = one.split(';').map(str::trim);
    let coding = parts.next().unwrap_or_default();
    let names_it = coding == "*" || coding.eq_ignore_ascii_case("identity");
    let weights = parts.filter_map(|part| part.split_once('='));
    let mut weights = weights.filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    names_it && weights.any(|(_, weight)| weight.trim().parse() == Ok(0.0_f32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_refuses_an_answer_that_is_not_compressed_is_left_out() {
        let check = |said: &[&'static str], want: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in said {
                headers.append(ACCEPT_ENCODING, HeaderValue::from_static(value));
            }
            drop_refusals(&mut headers);
            let left: Vec<&[u8]> =
                headers.get_all(ACCEPT_ENCODING).iter().map(HeaderValue::as_bytes).collect();
            let want: Vec<&[u8]> = want.iter().map(|value| value.as_bytes()).collect();
            assert_eq!(left, want, "{said:?}");
        };
        check(&["identity;q=0"], &[]);
        check(&["*;q=0"], &[]);
        check(&["gzip;q=0.5, *;q=0"], &["gzip;q=0.5"]);
        check(&["Identity ; Q = 0.000,gzip"], &["gzip"]);
        check(&["*;q=0", "gzip"], &["gzip"]);
        for kept in ["gzip;q=0", "identity;q=0.1", "identity", "*", "", "identity;q=none"] {
            check(&[kept], &[kept]);
        }
    }
}
