//! Authentication and authorization. Once users or tokens are configured, every request except those
//! for health needs a user and password or a token. Each route names the right that it needs.
//!
//! Two layers: [`admit`] determines the rights of a request; [`demand`] wraps each route and checks
//! for its right. A request that did not pass [`admit`] has no rights. [`limit`] runs before both and
//! limits the rate of requests. The web configuration may change: each request is judged by the
//! configuration that is in force when it arrives.

mod credentials;
mod passwords;
mod rate;
pub(super) mod settings;

use std::net::SocketAddr;
use std::time::Instant;

use axum::Extension;
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{AppendHeaders, IntoResponse, Response};

use super::routes;
use super::state::SharedState;
pub(super) use credentials::Access;
use credentials::Denied;
use promkairos_model::limits::{NO_SETTING, RETRY_AFTER};
use promkairos_telemetry::{LoginOutcome, RATE};
use settings::{Right, Rights, WebSettings};

/// Default headers of every answer: answers are data, so a browser must neither execute nor frame them.
const HEADERS: [(HeaderName, &str); 4] = [
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "deny"),
];

/// The authentication schemes that a 401 offers.
const SCHEMES: [(HeaderName, &str); 2] = [
    (header::WWW_AUTHENTICATE, "Basic realm=\"promkairos\", charset=\"UTF-8\""),
    (header::WWW_AUTHENTICATE, "Bearer realm=\"promkairos\""),
];

/// The body of a 429.
const TOO_MANY: &str =
    "Too Many Requests: more than rate_limit in the web configuration lets through\n";

/// The answer while too many passwords are being checked.
const BUSY: &str = "too many passwords are being checked";

/// Passes a request on while there are tokens.
pub(super) async fn limit(
    State(state): State<SharedState>,
    request: Request,
    next: Next,
) -> Response {
    let access = &state.access;
    let limit = access.web().rate_limit;
    let is_for_health = routes::is_open(request.uri().path());
    let taken = match limit.filter(|_| !is_for_health) {
        Some(limit) => access.bucket.take(limit, Instant::now()),
        None => Ok(()),
    };
    match taken {
        Ok(()) => next.run(request).await,
        Err(wait) => {
            state.metrics.http.limits.reached(RATE);
            // Whole seconds, and never 0.
            let later = HeaderValue::from(wait.as_secs() + 1);
            (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, later)], TOO_MANY)
                .into_response()
        }
    }
}

/// Adds the default headers to every answer, and [`Login::Unasked`] or [`Login::Open`] where no credentials were
/// checked. Answers that needed a login may not be cached.
pub(super) async fn dress(
    State(state): State<SharedState>,
    request: Request,
    next: Next,
) -> Response {
    let is_for_health = is_for_health(&request);
    let mut response = next.run(request).await;
    let web = state.access.web();
    if response.extensions().get::<Login>().is_none() {
        let login = if web.is_open() { Login::Open } else { Login::Unasked };
        response.extensions_mut().insert(login);
    }
    let headers = response.headers_mut();
    add_headers(&web, headers);
    if !web.is_open() && !is_for_health {
        let no_store = HeaderValue::from_static("no-store");
        headers.entry(header::CACHE_CONTROL).or_insert(no_store);
    }
    response
}

fn is_for_health(request: &Request) -> bool {
    let path = request.extensions().get::<MatchedPath>();
    path.is_some_and(|path| routes::is_open(path.as_str()))
}

/// Attached to an answer: the outcome of the login of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// The credentials are valid.
    LetIn,
    /// Credentials are needed, and missing or wrong.
    Refused,
    /// Not checked: the path is open, or the request was answered earlier. The server has users or tokens.
    Unasked,
    /// The server has neither users nor tokens.
    Open,
}

/// Attaches the rights of a request, or answers 401.
pub(super) async fn admit(
    State(state): State<SharedState>,
    mut request: Request,
    next: Next,
) -> Response {
    let web = state.access.web();
    let is_for_health = is_for_health(&request);
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip());
    let rights = match (is_for_health, web.is_open()) {
        (true, _) => Ok(Rights::NONE),
        (false, true) => Ok(Rights::ALL),
        (false, false) => {
            let rights = state.access.rights(&web, request.headers(), peer).await;
            state.metrics.web.login(outcome(&rights));
            rights
        }
    };
    match rights {
        Ok(rights) => {
            request.extensions_mut().insert(rights);
            let mut response = next.run(request).await;
            if !is_for_health && !web.is_open() {
                response.extensions_mut().insert(Login::LetIn);
            }
            response
        }
        Err(Denied::Busy) => {
            let later = [(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER.as_secs()))];
            let why = format!("Service Unavailable: {BUSY}; {NO_SETTING}: come again\n");
            (StatusCode::SERVICE_UNAVAILABLE, later, why).into_response()
        }
        Err(denied) => {
            if let Denied::Wrong(user) = denied {
                state.access.say_refused(user.as_deref(), peer);
            }
            tracing::debug!("a request to {} has no valid credentials", request.uri().path());
            let refused = Extension(Login::Refused);
            (StatusCode::UNAUTHORIZED, refused, AppendHeaders(SCHEMES), "Unauthorized\n")
                .into_response()
        }
    }
}

fn outcome(rights: &Result<Rights, Denied>) -> LoginOutcome {
    match rights {
        Ok(_) => LoginOutcome::Accepted,
        Err(Denied::Silent) => LoginOutcome::Missing,
        Err(Denied::Wrong(_)) => LoginOutcome::Wrong,
        Err(Denied::Busy) => LoginOutcome::Busy,
    }
}

/// Adds the headers of the web configuration, except blank ones, and the defaults that it does not name.
fn add_headers(web: &WebSettings, headers: &mut HeaderMap) {
    let is_said = |name: &HeaderName| web.headers.iter().any(|(said, _)| name.as_str() == *said);
    for (name, value) in HEADERS.into_iter().filter(|(name, _)| !is_said(name)) {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for &(name, ref value) in web.headers.iter().filter(|(_, value)| !value.is_empty()) {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

/// Passes on a request that has this right; otherwise answers 403 and names the right.
pub(super) async fn demand(State(right): State<Right>, request: Request, next: Next) -> Response {
    let rights = request.extensions().get::<Rights>().copied().unwrap_or(Rights::NONE);
    if rights.has(right) {
        return next.run(request).await;
    }
    let why = format!("Forbidden: this needs the right \"{}\"\n", right.name());
    (StatusCode::FORBIDDEN, why).into_response()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use axum::body::Body;
    use tower::Service;

    use super::settings::{RateLimit, Token, TokenDigest};
    use super::*;
    use crate::{AdminApi, AllowedOrigins, AppState, KAIROSDB_ROUTES, ROUTES, router};
    use promkairos_storage::memory::MemoryStore;
    use promkairos_telemetry::Metrics;

    /// Each route with each method whose answer has a body: method, path, and the required right.
    fn requests() -> impl Iterator<Item = (&'static str, String, Option<Right>)> {
        ROUTES.iter().chain(KAIROSDB_ROUTES).flat_map(|route| {
            let methods = route.methods.names().iter().filter(|method| **method != "HEAD");
            let path = route.path.replace("{name}", "a");
            methods.map(move |method| (*method, path.clone(), route.right))
        })
    }

    /// A configuration with one token for each right, named like the right.
    fn configured() -> WebSettings {
        let token = |right: Right| Token {
            name: right.name().to_owned(),
            digest: TokenDigest::of(format!("token-{}", right.name()).as_bytes()),
            rights: Rights::NONE.with(right),
        };
        WebSettings { tokens: Right::ALL.map(token).into(), ..WebSettings::default() }
    }

    async fn ask(web: WebSettings, method: &str, path: &str, said: Option<&str>) -> Response {
        let state = AppState::new(Arc::default());
        state.set_web(web);
        ask_of(state, method, path, said).await
    }

    async fn ask_of(state: AppState, method: &str, path: &str, said: Option<&str>) -> Response {
        let state = state.with_admin_api(AdminApi::Enabled);
        state.open(Arc::new(MemoryStore::new()));
        let mut request = Request::builder().method(method).uri(path);
        if let Some(said) = said {
            request = request.header(header::AUTHORIZATION, said);
        }
        let request = request.body(Body::empty()).expect("a request");
        router(Arc::new(state)).call(request).await.expect("infallible")
    }

    #[tokio::test]
    async fn each_route_asks_for_its_right() {
        let web = configured();
        for (method, path, needed) in requests() {
            let path = path.as_str();
            let status = ask(web.clone(), method, path, None).await.status();
            assert_eq!(status == 401, needed.is_some(), "{method} {path} without a word: {status}");
            for right in Right::ALL {
                let said = format!("Bearer token-{}", right.name());
                let response = ask(web.clone(), method, path, Some(&said)).await;
                let body = axum::body::to_bytes(response.into_body(), 1 << 20).await;
                let body = body.expect("a body");
                let is_refused = body.starts_with(b"Forbidden: this needs the right ");
                let is_wrong = needed.is_some_and(|needed| needed != right);
                assert_eq!(is_refused, is_wrong, "{method} {path} with {right:?}: {body:?}");
            }
        }
    }

    #[tokio::test]
    async fn every_answer_says_whether_somebody_logged_in() {
        let (query, right) = ("/api/v1/query?query=1", Some("Bearer token-read"));
        for (path, said, where_asked) in [
            (query, right, Login::LetIn),
            (query, Some("Bearer wrong"), Login::Refused),
            (query, None, Login::Refused),
            ("/nowhere", None, Login::Refused),
            ("/-/healthy", right, Login::Unasked),
            ("/-/ready", None, Login::Unasked),
        ] {
            for (web, want) in [(configured(), where_asked), (WebSettings::default(), Login::Open)]
            {
                let answer = ask(web, "GET", path, said).await;
                assert_eq!(answer.extensions().get::<Login>(), Some(&want), "{path} {said:?}");
            }
        }
    }

    #[tokio::test]
    async fn what_changes_something_is_closed_to_pages_of_other_sites() {
        let from = async |method: &str, path: &str, origin: &str, allowed: &str| {
            let allowed = AllowedOrigins::parse(allowed).expect("valid");
            let state = AppState::new(Arc::default()).with_allowed_origins(allowed);
            let state = state.with_admin_api(AdminApi::Enabled);
            state.open(Arc::new(MemoryStore::new()));
            let request = Request::builder().method(method).uri(path);
            let request = request.header("host", "here:9201").header("origin", origin);
            let request = request.body(Body::empty()).expect("a request");
            let response = router(Arc::new(state)).call(request).await.expect("infallible");
            let body = axum::body::to_bytes(response.into_body(), 1 << 20).await;
            String::from_utf8(body.expect("a body").into())
                .expect("UTF-8")
                .contains("a page of another site")
        };
        for (method, path, needed) in requests() {
            let path = path.as_str();
            let changes = matches!(needed, Some(Right::Write | Right::Admin));
            assert_eq!(from(method, path, "http://evil.example", "").await, changes, "{path}");
            assert!(!from(method, path, "http://here:9201", "").await, "{path}");
            let allowed = "https://tools.example,http://evil.example";
            assert!(!from(method, path, "http://evil.example", allowed).await, "{path}");
        }
    }

    #[tokio::test]
    async fn no_path_and_no_method_tells_anything_to_a_stranger() {
        let web = configured();
        for (method, path) in [
            ("GET", "/nowhere"),
            ("OPTIONS", "/api/v1/query"),
            ("PUT", "/api/v1/write"),
            ("GET", "/-/healthy/"),
            ("GET", "/metrics?a=/-/healthy"),
        ] {
            let response = ask(web.clone(), method, path, None).await;
            assert_eq!(response.status(), 401, "{method} {path}");
            let schemes = response.headers().get_all(header::WWW_AUTHENTICATE).iter();
            let schemes: Vec<&str> = schemes.map(|value| value.to_str().expect("ASCII")).collect();
            assert!(schemes[0].starts_with("Basic ") && schemes[1].starts_with("Bearer "));
        }
        for said in ["", "Bearer", "Bearer ", "Bearer token", "token-read", "Basic !", "Digest a"] {
            let response = ask(web.clone(), "GET", "/metrics", Some(said)).await;
            assert_eq!(response.status(), 401, "{said:?}");
        }
        let response = ask(web, "GET", "/metrics", Some("bearer  token-read")).await;
        assert_eq!(response.status(), 200, "a scheme has any case");
    }

    #[tokio::test]
    async fn a_path_that_is_not_clean_gives_nothing_but_the_clean_one() {
        let web = configured();
        for (method, path, needed) in requests().filter(|(_, path, _)| path != "/") {
            for unclean in [format!("/{path}"), format!("/.{path}"), format!("{path}/")] {
                let stranger = ask(web.clone(), method, &unclean, None).await.status();
                assert_eq!(stranger, 401, "{method} {unclean}");
                for right in Right::ALL {
                    let said = format!("Bearer token-{}", right.name());
                    let response = ask(web.clone(), method, &unclean, Some(&said)).await;
                    let location = response.headers().get(header::LOCATION);
                    // A path of this server needs the same right as without the slash.
                    let is_wrong = needed.is_some_and(|needed| needed != right);
                    if unclean.ends_with('/') && is_wrong {
                        assert_eq!(
                            (response.status().as_u16(), location),
                            (403, None),
                            "{unclean}"
                        );
                    } else {
                        assert_eq!(response.status(), 307, "{method} {unclean} with {right:?}");
                        assert_eq!(location.expect("a path"), path.as_str());
                    }
                }
            }
        }
    }

    #[tokio::test]
    async fn without_credentials_set_everybody_may_do_everything() {
        for (method, path, _) in requests() {
            let response = ask(WebSettings::default(), method, &path, None).await;
            let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.expect("a body");
            assert!(!body.starts_with(b"Forbidden: "), "{method} {path}");
        }
    }

    #[tokio::test]
    async fn a_request_beyond_the_rate_is_told_when_to_return() {
        let limit = RateLimit { interval: Duration::from_secs(3600), burst: 2 };
        let mut web = configured();
        web.rate_limit = Some(limit);
        let metrics = Arc::new(Metrics::new());
        let state = Arc::new(AppState::new(metrics.clone()));
        state.set_web(web);
        let ask = async |path: &str| {
            let request = Request::get(path).body(Body::empty()).expect("a request");
            router(state.clone()).call(request).await.expect("infallible")
        };
        // Requests without a valid login take tokens too: the limit runs before the login.
        for (path, status) in [
            ("/version", 401),
            ("/-/healthy", 200),
            ("/nowhere", 401),
            ("/version", 429),
            ("/-/healthy", 200),
            ("/api/v1/write", 429),
        ] {
            assert_eq!(ask(path).await.status(), status, "{path}");
        }
        let refused = ask("/metrics").await;
        let wait = refused.headers()[header::RETRY_AFTER].to_str().expect("ASCII");
        assert!((3590..=3600).contains(&wait.parse::<u32>().expect("seconds")), "{wait}");
        assert_eq!(refused.headers()[header::X_FRAME_OPTIONS], "deny");
        let counted = "promkairos_limits_reached_total{limit=\"rate_limit\"} 3\n";
        assert!(metrics.encode().contains(counted), "{}", metrics.encode());
    }

    #[tokio::test]
    async fn answers_have_headers_for_browsers() {
        let mut web = configured();
        web.headers = vec![
            ("strict-transport-security", "max-age=9".into()),
            ("x-frame-options", "sameorigin".into()),
            ("content-security-policy", String::new()),
        ];
        for (path, status) in [("/-/healthy", 200), ("/metrics", 401), ("/version", 503)] {
            let state = AppState::new(Arc::default());
            state.set_web(web.clone());
            if status == 503 {
                state.concurrency.set(0);
            }
            let response = ask_of(state, "GET", path, None).await;
            assert_eq!(response.status(), status, "{path}");
            let header = |name: &str| {
                let value = response.headers().get(name);
                value.map(|value| value.to_str().expect("ASCII").to_owned())
            };
            assert_eq!(header("x-content-type-options").as_deref(), Some("nosniff"));
            assert_eq!(header("x-frame-options").as_deref(), Some("sameorigin"));
            assert_eq!(header("strict-transport-security").as_deref(), Some("max-age=9"));
            assert_eq!(header("content-security-policy"), None);
        }
    }
}
