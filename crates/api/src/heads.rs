//! Request heads that determine the answer whatever the path is: a head that is too large, a head that is malformed so
//! that HTTP forbids a guess (RFC 9112 §3.2 and §6.1), and `OPTIONS *`. Statuses and texts are those of Go's
//! `net/http`, the server of Prometheus; only the text about the size differs.
//!
//! The connection's code judges the head and attaches the verdict to the request. Heads that the HTTP library refuses
//! never get here.

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{self, Extensions, HeaderMap, Method, StatusCode, Uri, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::state::SharedState;
use promkairos_model::limits::{
    HEADER_BYTES, MAX_HEAD_BYTES, MAX_HEADERS, MAX_TARGET_BYTES, NO_SETTING,
};
use promkairos_telemetry::HEAD_SIZE;

/// Why a request is refused for its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedHead {
    /// The head exceeds the size limit.
    TooLarge,
    /// HTTP/1.1 without `Host`.
    NoHost,
    /// Several `Host` headers.
    Hosts,
    /// A malformed `Host`.
    MalformedHost,
    /// A `Transfer-Encoding` other than `chunked`.
    TransferEncoding,
}

impl RefusedHead {
    /// Judges a head; `None` = it is accepted.
    pub fn of<B>(request: &http::Request<B>) -> Option<Self> {
        let headers = request.headers();
        let version = request.version();
        if version < Version::HTTP_2 {
            let refused = Self::of_framing(headers)
                .or_else(|| Self::of_host(headers, version, request.method()));
            if refused.is_some() {
                return refused;
            }
        }
        let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
        (target + bytes_of(headers) > MAX_HEAD_BYTES).then_some(Self::TooLarge)
    }

    fn of_framing(headers: &HeaderMap) -> Option<Self> {
        let mut hosts = headers.get_all(header::HOST).iter();
        if hosts.next().is_some() && hosts.next().is_some() {
            return Some(Self::Hosts);
        }
        let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
        let coding = codings.next()?;
        let is_chunked = coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
        (!is_chunked || codings.next().is_some()).then_some(Self::TransferEncoding)
    }

    fn of_host(headers: &HeaderMap, version: Version, method: &Method) -> Option<Self> {
        match headers.get(header::HOST) {
            Some(host) if !host.as_bytes().iter().all(is_of_host) => Some(Self::MalformedHost),
            None if version == Version::HTTP_11 && method != Method::CONNECT => Some(Self::NoHost),
            _ => None,
        }
    }

    /// Whether the end of the body is unknown. Then the following bytes must not be parsed as a request.
    pub fn ends_connection(self) -> bool {
        self != Self::TooLarge
    }

    fn status(self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::TransferEncoding => StatusCode::NOT_IMPLEMENTED,
            Self::NoHost | Self::Hosts | Self::MalformedHost => StatusCode::BAD_REQUEST,
        }
    }

    fn text(self) -> String {
        match self {
            Self::TooLarge => head_too_large(),
            Self::NoHost => "400 Bad Request: missing required Host header".into(),
            Self::Hosts => "400 Bad Request".into(),
            Self::MalformedHost => "400 Bad Request: malformed Host header".into(),
            Self::TransferEncoding => "Unsupported transfer encoding".into(),
        }
    }
}

/// The query of a request, if it was too long for the HTTP library; at most [`MAX_HEAD_BYTES`].
#[derive(Clone)]
pub struct LongQuery(pub Bytes);

/// The encoded query of a request.
pub(super) fn query_of<'a>(uri: &'a Uri, extensions: &'a Extensions) -> Option<&'a str> {
    let long = extensions.get().and_then(|LongQuery(query)| std::str::from_utf8(query).ok());
    long.or(uri.query())
}

/// The answer to a head that is too large.
pub fn head_too_large() -> String {
    format!(
        "the head of a request may have {MAX_HEAD_BYTES} bytes, and over HTTP/1 {MAX_HEADERS} headers; \
         {NO_SETTING}\n"
    )
}

/// The answer to a path that is too long, or to a query that could not be kept for the request.
pub fn target_too_long() -> String {
    format!(
        "the head of a request may have {MAX_HEAD_BYTES} bytes, its path {MAX_TARGET_BYTES} bytes, over HTTP/2 or \
         before the answer to another request its path and query; {NO_SETTING}: where the path takes POST, send the \
         parameters as a form in the body\n"
    )
}

/// Bytes of headers, counted as in HTTP/2.
fn bytes_of(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_BYTES).sum()
}

/// The bytes that Go allows in a `Host`.
fn is_of_host(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&()*+,-.:;=['_]~".contains(byte)
}

/// Answers requests whose head determines the answer.
pub(super) async fn decide(
    State(state): State<SharedState>,
    request: Request,
    next: Next,
) -> Response {
    if let Some(&refused) = request.extensions().get::<RefusedHead>() {
        if refused == RefusedHead::TooLarge {
            state.metrics.http.limits.reached(HEAD_SIZE);
        }
        return (refused.status(), refused.text()).into_response();
    }
    if request.method() == Method::OPTIONS && request.uri().path() == "*" {
        return StatusCode::OK.into_response();
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn judge(version: Version, headers: &[(&'static str, &'static str)]) -> Option<RefusedHead> {
        let mut request = http::Request::get("/").version(version);
        for &(name, value) in headers {
            request = request.header(name, value);
        }
        RefusedHead::of(&request.body(()).expect("a request"))
    }

    #[test]
    fn hosts_and_framing_are_judged_as_go_judges_them() {
        use RefusedHead::{Hosts, MalformedHost, NoHost, TransferEncoding};
        let check = |headers: &[(&'static str, &'static str)], want: Option<RefusedHead>| {
            assert_eq!(judge(Version::HTTP_11, headers), want, "{headers:?}");
        };
        check(&[], Some(NoHost));
        check(&[("host", "")], None);
        check(&[("host", "a.example:80")], None);
        check(&[("host", "[::1]:80")], None);
        check(&[("host", "a b")], Some(MalformedHost));
        check(&[("host", "a/b")], Some(MalformedHost));
        check(&[("host", "a@b")], Some(MalformedHost));
        check(&[("host", "a"), ("host", "a")], Some(Hosts));
        for coding in ["chunked", "Chunked", " chunked "] {
            check(&[("host", "a"), ("transfer-encoding", coding)], None);
        }
        for coding in ["chunked, chunked", "gzip, chunked", "identity", "gzip", ""] {
            check(&[("host", "a"), ("transfer-encoding", coding)], Some(TransferEncoding));
        }
        let twice = [("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")];
        check(&[("host", "a"), twice[0], twice[1]], Some(TransferEncoding));
        assert_eq!(judge(Version::HTTP_10, &[]), None, "it is older than the header");
        assert_eq!(judge(Version::HTTP_10, &[("host", "a b")]), Some(MalformedHost));
        // `:authority` replaces `Host`.
        assert_eq!(judge(Version::HTTP_2, &[]), None);
    }

    #[test]
    fn a_head_is_too_large_where_its_headers_and_its_target_are_together() {
        for version in [Version::HTTP_11, Version::HTTP_2] {
            let with = |bytes: usize| {
                let value = HeaderValue::from_bytes(&vec![b'a'; bytes]).expect("valid");
                let request = http::Request::get("/").version(version).header("host", "h");
                RefusedHead::of(&request.header("a", value).body(()).expect("a request"))
            };
            // "/", "host: h" and "a".
            let others = 1 + (4 + 1 + HEADER_BYTES) + (1 + HEADER_BYTES);
            assert_eq!(with(MAX_HEAD_BYTES - others), None, "{version:?}");
            assert_eq!(with(MAX_HEAD_BYTES - others + 1), Some(RefusedHead::TooLarge));
        }
        let texts = [head_too_large(), target_too_long()];
        assert!(texts[0].contains("131072 bytes") && texts[1].contains("65534 bytes"), "{texts:?}");
    }
}
