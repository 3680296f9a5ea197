//! Refuses requests that change something and that a page of another site made a browser send.
//!
//! A browser declares the origin of a request in `Sec-Fetch-Site` (Fetch Metadata) or, if it is older, in `Origin` (RFC
//! 6454); a page cannot change these headers. Programs other than browsers send neither and are not affected. Requests
//! that only read are answered for every origin (see `cors`).

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::state::SharedState;

const WHY: &str = "Forbidden: a page of another site may not change anything here; the setting allowed-origins \
                   lists the origins that may\n";

/// Passes a request on, unless it comes from a page of an origin that is not allowed: that is 403.
pub(super) async fn refuse_foreign(
    State(state): State<SharedState>,
    request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let origin = headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
    let allowed = || origin.is_some_and(|origin| state.allowed_origins.allows(origin));
    if is_foreign(headers, request.uri().authority().map(|host| host.as_str()), origin)
        && !allowed()
    {
        state.metrics.http.limits.reached("allowed-origins");
        return (StatusCode::FORBIDDEN, WHY).into_response();
    }
    next.run(request).await
}

/// Whether a browser sent this for a page of another origin. `host` is the authority of the request line,
/// which HTTP/2 has instead of a `Host` header.
fn is_foreign(headers: &HeaderMap, host: Option<&str>, origin: Option<&str>) -> bool {
    let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
    match (site, origin) {
        // The browser compared the origins itself, before any proxy changed the host.
        (Some(b"same-origin" | b"none"), _) => false,
        (Some(_), _) => true,
        (None, None) => false,
        (None, Some(origin)) => {
            let named = headers.get(header::HOST).and_then(|host| host.to_str().ok());
            let authority = origin.split_once("://").map(|(_, authority)| authority);
            !authority.is_some_and(|authority| {
                named.or(host).is_some_and(|host| host.eq_ignore_ascii_case(authority))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_browser_says_whose_page_it_is() {
        let check = |pairs: &[(&'static str, &'static str)], want: bool| {
            let mut headers = HeaderMap::new();
            for &(name, value) in pairs {
                headers.insert(name, HeaderValue::from_static(value));
            }
            let origin = headers.get("origin").map(|origin| origin.to_str().expect("ASCII"));
            assert_eq!(is_foreign(&headers, None, origin), want, "{pairs:?}");
        };
        check(&[("host", "a:1")], false);
        check(&[("host", "a:1"), ("origin", "http://a:1")], false);
        check(&[("host", "a:1"), ("origin", "https://A:1")], false);
        check(&[("host", "a:1"), ("origin", "http://a:2")], true);
        check(&[("host", "a:1"), ("origin", "http://a")], true);
        check(&[("host", "a:1"), ("origin", "null")], true);
        check(&[("host", "a:1"), ("origin", "")], true);
        check(&[("origin", "http://a:1")], true);
        check(&[("host", "a:1"), ("sec-fetch-site", "none")], false);
        check(&[("host", "b"), ("origin", "http://a"), ("sec-fetch-site", "same-origin")], false);
        check(&[("host", "a"), ("origin", "http://a"), ("sec-fetch-site", "cross-site")], true);
        check(&[("host", "a:1"), ("origin", "http://a:2"), ("sec-fetch-site", "same-site")], true);
        check(&[("host", "a"), ("sec-fetch-site", "anything")], true);
    }
}
