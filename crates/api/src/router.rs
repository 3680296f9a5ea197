//! The router, built from the table of [`routes`](super::routes), and the layers that all routes share.
//!
//! A known path with a wrong method is answered 405 with the allowed methods: clients then try another
//! method. An unknown path is answered 404, unless it is a known one with surplus slashes (`clean_path`).

use std::future::{Ready, ready};
use std::time::Instant;

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, any};
use tower_http::compression::CompressionLayer;
use tracing::Instrument;

use super::access::settings::Right;
use super::kairosdb::KAIROSDB_ROUTES;
use super::route::{Kind, Methods, Route};
use super::routes::ROUTES;
use super::state::SharedState;
use super::{access, answer_room, clean_path, concurrency, cors, encodings, heads, origin, traced};
use promkairos_model::limits::{MAX_BODY_BYTES, RETRY_AFTER};
use promkairos_telemetry::InFlight;

/// The paths of reads and writes. Their failures are counted from the first request on.
pub(super) const WATCHED: [&str; 4] =
    ["/api/v1/write", "/api/v1/read", "/api/v1/query", "/api/v1/query_range"];

/// The status that counts an aborted request, as in other servers.
const GIVEN_UP: u16 = 499;

/// The router of all routes.
pub fn router(state: SharedState) -> Router {
    WATCHED.iter().for_each(|path| state.metrics.http.expect(path));
    layered(ROUTES.iter().chain(KAIROSDB_ROUTES), state)
}

/// The router of KairosDB's routes alone.
pub fn kairosdb_router(state: SharedState) -> Router {
    layered(KAIROSDB_ROUTES.iter(), state)
}

fn layered(routes: impl Iterator<Item = &'static Route>, state: SharedState) -> Router {
    routes
        .map(|route| routed(route, &state))
        .fold(Router::new(), Router::merge)
        .fallback(clean_path::unknown_path)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn(say_when_to_return))
        .layer(middleware::from_fn(cors::preflight))
        .layer(middleware::from_fn(clean_path::redirect))
        .layer(middleware::from_fn_with_state(state.clone(), access::admit))
        .layer(middleware::from_fn_with_state(state.clone(), concurrency::bound))
        .layer(middleware::from_fn_with_state(state.clone(), access::limit))
        .layer(middleware::from_fn_with_state(state.clone(), answer_room::keep))
        .layer(middleware::from_fn_with_state(state.clone(), heads::decide))
        .layer(middleware::from_fn_with_state(state.clone(), access::dress))
        .layer(middleware::from_fn_with_state(state.clone(), observe))
        .with_state(state)
}

/// One route with its layers.
fn routed(route: &Route, state: &SharedState) -> Router<SharedState> {
    let routes = with_slash(route);
    let routes = match route.kind {
        Kind::Page | Kind::Compressed => compressed(routes),
        Kind::Query => {
            compressed(routes.route_layer(middleware::from_fn_with_state(state.clone(), when_open)))
        }
        Kind::Call => routes,
    };
    let routes = match route.right {
        Some(right) => needs(right, state, routes),
        None => routes,
    };
    match route.kind {
        Kind::Page => routes,
        Kind::Query | Kind::Compressed | Kind::Call => {
            routes.route_layer(middleware::from_fn(cors::share))
        }
    }
}

/// Compresses the answers of these routes if the client accepts that.
fn compressed(routes: Router<SharedState>) -> Router<SharedState> {
    routes
        .route_layer(CompressionLayer::new())
        .route_layer(middleware::from_fn(encodings::take_uncompressed))
}

/// The path of a route; with a slash at its end it redirects.
fn with_slash(route: &Route) -> Router<SharedState> {
    let routes = Router::new().route(route.path, answering(route));
    match route.path {
        "/" => routes,
        path => routes.route(&format!("{path}/"), any(clean_path::without_slash)),
    }
}

/// Requires a right for these routes. Routes that change something refuse pages of other sites.
fn needs(right: Right, state: &SharedState, routes: Router<SharedState>) -> Router<SharedState> {
    let routes = match right {
        Right::Read => routes,
        Right::Write | Right::Admin => routes
            .route_layer(middleware::from_fn_with_state(state.clone(), origin::refuse_foreign)),
    };
    routes.route_layer(middleware::from_fn_with_state(right, access::demand))
}

/// The handler of a route for its methods, and a refusal for all others.
fn answering(route: &Route) -> MethodRouter<SharedState> {
    let (posts, gets) = (MethodFilter::POST, MethodFilter::GET);
    match route.methods {
        // GET includes HEAD.
        Methods::Page => {
            const ALLOWED: &str = "GET, HEAD, OPTIONS";
            (route.handler)(gets).options(tell(ALLOWED)).fallback(refuse(ALLOWED))
        }
        Methods::Get => only("GET, OPTIONS", (route.handler)(gets)),
        Methods::GetOrPost => only("GET, OPTIONS, POST", (route.handler)(gets.or(posts))),
        Methods::Post => only("OPTIONS, POST", (route.handler)(posts)),
        Methods::Delete => only("DELETE, OPTIONS", (route.handler)(MethodFilter::DELETE)),
        Methods::Change => only("OPTIONS, POST, PUT", (route.handler)(posts.or(MethodFilter::PUT))),
        Methods::Steer => {
            const ONLY: &str = "Only POST or PUT requests allowed";
            let refuse = async || (StatusCode::METHOD_NOT_ALLOWED, ONLY);
            (route.handler)(posts.or(MethodFilter::PUT)).fallback(refuse)
        }
    }
}

/// Only these methods, without HEAD.
fn only(allowed: &'static str, methods: MethodRouter<SharedState>) -> MethodRouter<SharedState> {
    let methods = methods.options(tell(allowed));
    let gets = allowed.contains("GET");
    let methods = if gets { methods.head(refuse(allowed)) } else { methods };
    methods.fallback(refuse(allowed))
}

type Allowed = [(header::HeaderName, &'static str); 1];

fn tell(allowed: &'static str) -> impl Fn() -> Ready<Allowed> + Clone {
    move || ready([(header::ALLOW, allowed)])
}

fn refuse(
    allowed: &'static str,
) -> impl Fn() -> Ready<(StatusCode, Allowed, &'static str)> + Clone {
    let why = "Method Not Allowed\n";
    move || ready((StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, allowed)], why))
}

/// Refuses requests before the store is open.
async fn when_open(State(state): State<SharedState>, request: Request, next: Next) -> Response {
    match state.store() {
        Ok(_) => next.run(request).await,
        Err(error) => super::json::failure(error),
    }
}

/// Adds `Retry-After` to every 503 without one.
async fn say_when_to_return(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        let usual = HeaderValue::from(RETRY_AFTER.as_secs());
        response.headers_mut().entry(header::RETRY_AFTER).or_insert(usual);
    }
    response
}

/// Counts and times every request, and traces selected ones.
async fn observe(State(state): State<SharedState>, request: Request, next: Next) -> Response {
    let mut asked = Asked::new(&state, &request);
    let headers = request.headers();
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let span = state.traces.request(request.method().as_str(), &asked.handler, header);
    let response = next.run(request).instrument(span.clone()).await;
    let response = traced::answer(response, span);
    asked.code = response.status().as_u16();
    response
}

/// A request until the head of its answer. When dropped, it is counted and logged at level debug.
struct Asked {
    state: SharedState,
    handler: String,
    /// Method and path, for the log.
    line: Option<(Method, String)>,
    start: Instant,
    /// The status; before there is an answer, the status of an aborted request: the client disconnected, or the
    /// process ends.
    code: u16,
    _in_flight: InFlight,
}

impl Asked {
    /// Starts the clock.
    fn new(state: &SharedState, request: &Request) -> Self {
        let handler = match request.extensions().get::<MatchedPath>() {
            Some(path) => path.as_str().to_owned(),
            None => "other".to_owned(),
        };
        let line = tracing::enabled!(tracing::Level::DEBUG)
            .then(|| (request.method().clone(), request.uri().path().to_owned()));
        Self {
            state: state.clone(),
            handler,
            line,
            start: Instant::now(),
            code: GIVEN_UP,
            _in_flight: InFlight::enter(&state.metrics.http.in_flight),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // A panic is a failure of the server.
        let code = if std::thread::panicking() { 500 } else { self.code };
        let took = self.start.elapsed();
        if let Some((method, path)) = &self.line {
            let seconds = took.as_secs_f64();
            tracing::debug!(%method, path, code, seconds, "request");
        }
        self.state.metrics.http.answered(std::mem::take(&mut self.handler), code, took);
    }
}
