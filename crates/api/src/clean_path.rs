//! Redirects paths with surplus slashes, such as `//api/v1/write` or `/api/v1/labels/`, which result from a base URL
//! with a slash at its end. The status 307 keeps method and body.
//!
//! Such a path has no other answer, so no right depends on it: the redirect needs a login, and the next request is
//! judged by the clean path. The target is always a path of this server, whatever the client sent.

use std::borrow::Cow;

use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};

use super::heads::query_of;

/// Redirects from a path with empty or dot segments to the path without them.
pub(super) async fn redirect(request: Request, next: Next) -> Response {
    match cleaned(request.uri().path()) {
        Cow::Borrowed(_) => next.run(request).await,
        Cow::Owned(path) => to(&path, request.method(), query_in(&request)),
    }
}

/// Redirects from a known path with a slash at its end to the path without it.
pub(super) async fn without_slash(request: Request) -> Response {
    to(request.uri().path().trim_end_matches('/'), request.method(), query_in(&request))
}

fn query_in(request: &Request) -> Option<&str> {
    query_of(request.uri(), request.extensions())
}

/// The path without empty segments, `.` and `..`; a slash at its end stays. Borrowed if nothing changes.
fn cleaned(path: &str) -> Cow<'_, str> {
    // `*` is not a path.
    let Some(rest) = path.strip_prefix('/') else { return Cow::Borrowed(path) };
    let is_clean = |segment: &str| !matches!(segment, "" | "." | "..");
    let segments = rest.split('/');
    if rest.is_empty() || rest.strip_suffix('/').unwrap_or(rest).split('/').all(is_clean) {
        return Cow::Borrowed(path);
    }
    let mut kept: Vec<&str> = Vec::new();
    for segment in segments {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    let slash = if path.ends_with('/') && !kept.is_empty() { "/" } else { "" };
    Cow::Owned(format!("/{}{slash}", kept.join("/")))
}

/// A redirect to a path, with the query of the request and a page for human readers.
fn to(path: &str, method: &Method, query: Option<&str>) -> Response {
    // Browsers treat a backslash as a slash, and `//` at the beginning as another host.
    let path = path.replace('\\', "%5C");
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let target = format!("/{}{query}", path.trim_start_matches('/'));
    let Ok(location) = HeaderValue::from_str(&target) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let (status, location) = (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, location)]);
    if method == Method::GET || method == Method::HEAD {
        let page = format!("<a href=\"{}\">Temporary Redirect</a>.\n\n", in_html(&target));
        return (status, location, Html(page)).into_response();
    }
    (status, location).into_response()
}

fn in_html(text: &str) -> String {
    let escapes = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&#34;"), ("'", "&#39;")];
    escapes.iter().fold(text.to_owned(), |text, (special, escape)| text.replace(special, escape))
}

/// The answer to an unknown path.
pub(super) async fn unknown_path() -> (StatusCode, &'static str) {
    (StatusCode::NOT_FOUND, "404 page not found\n")
}

#[cfg(test)]
mod tests {
    use axum::http::Uri;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn slashes_and_dots() {
        for (path, want) in [
            ("//api/v1/query", "/api/v1/query"),
            ("/api//v1///query", "/api/v1/query"),
            ("/./api/v1/query", "/api/v1/query"),
            ("/api/v1/../v1/query", "/api/v1/query"),
            ("/api/v1/query/../labels", "/api/v1/labels"),
            ("//api/v1/write/", "/api/v1/write/"),
            ("//evil.example/api", "/evil.example/api"),
            ("/../../etc/passwd", "/etc/passwd"),
            ("/api/v1/labels/..", "/api/v1"),
            ("//", "/"),
            ("/..", "/"),
            ("/.//..//", "/"),
        ] {
            assert_eq!(cleaned(path), want, "{path}");
            assert!(matches!(cleaned(path), Cow::Owned(_)), "{path}");
        }
        for path in
            ["", "*", "/", "/api/v1/query", "/api/v1/labels/", "/...", "/a.b/..c", "/%2e%2e/%2F"]
        {
            assert!(matches!(cleaned(path), Cow::Borrowed(same) if same == path), "{path}");
        }
    }

    fn location(response: &Response) -> &str {
        response.headers()[header::LOCATION].to_str().expect("ASCII")
    }

    proptest! {
        #[test]
        fn a_redirect_stays_on_this_server(
            path in r"/[/.\\a%2-]{0,12}(/evil\.example)?/?",
            query in r"(\?[=&a/\\.]{0,6})?",
        ) {
            let uri: Uri = format!("{path}{query}").parse().expect("a path");
            for path in [&*cleaned(uri.path()), uri.path().trim_end_matches('/')] {
                let response = to(path, &Method::GET, uri.query());
                let target = location(&response);
                let path = target.split('?').next().unwrap_or_default();
                prop_assert!(path.starts_with('/') && !path.starts_with("//"), "{target}");
                prop_assert!(!path.contains('\\'), "{target}");
                // A second redirect may follow, but no third.
                let clean = cleaned(path);
                prop_assert_eq!(response.status(), 307);
                prop_assert_eq!(&*cleaned(&clean), &*clean);
            }
        }
    }
}
