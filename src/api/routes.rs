//! All paths, the methods that each takes, and what every answer has in common.
//!
//! A known path with a wrong method is 405 and names the right ones: clients fall back to another
//! method on that. An unknown path is 404, unless it is a known one with a slash too many (`clean_path`).

use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::handler::Handler;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, any, get, on, post};
use tower_http::compression::CompressionLayer;
use tracing::Instrument;

use super::{
    AppState, absent, access, admin, clean_path, concurrency, cors, exemplars, exposition,
    features, federate, labels, metadata, openapi, origin, pages, query, query_cost, remote_read,
    remote_write, status, tag_index, traced, unsent,
};
use crate::config::Right;
use crate::limits::{MAX_BODY_BYTES, RETRY_AFTER};
use crate::telemetry::InFlight;

type Shared = Arc<AppState>;

/// By which data comes and goes. Failures here are told from the first one on.
const WATCHED: [&str; 4] =
    ["/api/v1/write", "/api/v1/read", "/api/v1/query", "/api/v1/query_range"];

/// What counts a request that was given up before its answer, as other servers write it.
const GIVEN_UP: u16 = 499;

/// All routes. Each stands with those that need the same right; health needs none.
pub fn router(state: Shared) -> Router {
    WATCHED.iter().for_each(|path| state.metrics.http.expect(path));
    let health = Router::new()
        .path("/-/healthy", page(get(status::healthy)))
        .path("/-/ready", page(get(status::ready)));
    let shown = Router::new()
        .route("/", page(get(status::index)))
        .path("/metrics", page(get(exposition::metrics)))
        .path("/version", page(get(pages::version)))
        .path("/federate", only("GET, OPTIONS", get(federate::federate)));
    let steers = Router::new()
        .path("/-/reload", lifecycle(pages::reload))
        .path("/-/quit", lifecycle(pages::quit));
    let plain = health
        .merge(needs(Right::Read, &state, shown))
        .merge(needs(Right::Admin, &state, steers))
        .route_layer(CompressionLayer::new());
    Router::new()
        .merge(plain)
        .merge(api(&state))
        .fallback(pages::unknown_path)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn(say_when_to_return))
        .layer(middleware::from_fn(cors::preflight))
        .layer(middleware::from_fn(clean_path::redirect))
        .layer(middleware::from_fn_with_state(state.clone(), access::admit))
        .layer(middleware::from_fn_with_state(state.clone(), concurrency::bound))
        .layer(middleware::from_fn_with_state(state.clone(), access::limit))
        .layer(middleware::from_fn_with_state(state.clone(), unsent::keep))
        .layer(middleware::from_fn_with_state(state.clone(), access::dress))
        .layer(middleware::from_fn_with_state(state.clone(), observe))
        .with_state(state)
}

/// Paths under which something is answered; with a slash at the end they lead there.
trait Paths {
    fn path(self, path: &str, methods: MethodRouter<Shared>) -> Self;
}

impl Paths for Router<Shared> {
    fn path(self, path: &str, methods: MethodRouter<Shared>) -> Self {
        self.route(path, methods).route(&format!("{path}/"), any(clean_path::without_slash))
    }
}

/// Routes that only who has this right may take. Those that change something are closed to pages of other sites.
fn needs(right: Right, state: &Shared, routes: Router<Shared>) -> Router<Shared> {
    let routes = match right {
        Right::Read => routes,
        Right::Write | Right::Admin => routes
            .route_layer(middleware::from_fn_with_state(state.clone(), origin::refuse_foreign)),
    };
    routes.route_layer(middleware::from_fn_with_state(right, access::demand))
}

fn api(state: &Shared) -> Router<Shared> {
    let queries = queries()
        .merge(told())
        .route_layer(middleware::from_fn_with_state(state.clone(), when_open))
        .route_layer(CompressionLayer::new());
    let reads = Router::new()
        .path("/api/v1/read", send(remote_read::remote_read))
        .path("/api/v1/explain", ask(tag_index::explain))
        .path("/api/v1/status/tag_index", ask(tag_index::status));
    let writes = Router::new().path("/api/v1/write", send(remote_write::remote_write));
    let admin = Router::new()
        .path("/api/v1/admin/tsdb/delete_series", change(admin::delete_series))
        .path("/api/v1/admin/tsdb/clean_tombstones", change(admin::clean_tombstones))
        .path("/api/v1/admin/tsdb/snapshot", change(admin::snapshot))
        .path("/api/v1/admin/tag_index/build", send(tag_index::build))
        .path("/api/v1/admin/tag_index/drop", send(tag_index::drop_index));
    needs(Right::Read, state, queries.merge(reads))
        .merge(needs(Right::Write, state, writes))
        .merge(needs(Right::Admin, state, admin))
        .route_layer(middleware::from_fn(cors::share))
}

/// What is asked about data.
fn queries() -> Router<Shared> {
    Router::new()
        .path("/api/v1/query", ask_or_post(query::query))
        .path("/api/v1/query_range", ask_or_post(query::query_range))
        .path("/api/v1/query_cost", ask_or_post(query_cost::query_cost))
        .path("/api/v1/query_range_cost", ask_or_post(query_cost::query_range_cost))
        .path("/api/v1/query_exemplars", ask_or_post(exemplars::query_exemplars))
        .path("/api/v1/format_query", ask_or_post(query::format_query))
        .path("/api/v1/parse_query", ask_or_post(query::parse_query))
        .path("/api/v1/labels", ask_or_post(labels::names))
        .path("/api/v1/label/{name}/values", ask(labels::values))
        .path("/api/v1/series", ask_or_post(labels::series))
        .path("/api/v1/metadata", ask(metadata::metadata))
        .path("/api/v1/status/tsdb", ask(pages::tsdb))
}

/// What is told about this program.
fn told() -> Router<Shared> {
    Router::new()
        .path("/api/v1/status/buildinfo", ask(pages::buildinfo))
        .path("/api/v1/status/runtimeinfo", ask(pages::runtimeinfo))
        .path("/api/v1/status/config", ask(pages::config))
        .path("/api/v1/status/flags", ask(pages::flags))
        .path("/api/v1/status/walreplay", ask(pages::walreplay))
        .path("/api/v1/status/tsdb/blocks", ask(pages::blocks))
        .path("/api/v1/features", ask(features::features))
        .path("/api/v1/openapi.yaml", ask(openapi::openapi))
        .path("/api/v1/targets", ask(absent::targets))
        .path("/api/v1/targets/metadata", ask(absent::targets_metadata))
        .path("/api/v1/targets/relabel_steps", ask(absent::scrape_pool))
        .path("/api/v1/scrape_pools", ask(absent::scrape_pools))
        .path("/api/v1/scrape_pools/config", ask(absent::scrape_pool))
        .path("/api/v1/search/metric_names", ask_or_post(absent::search))
        .path("/api/v1/search/label_names", ask_or_post(absent::search))
        .path("/api/v1/search/label_values", ask_or_post(absent::search))
        .path("/api/v1/alertmanagers", ask(absent::alertmanagers))
        .path("/api/v1/alerts", ask(absent::alerts))
        .path("/api/v1/rules", ask(absent::rules))
        .path("/api/v1/notifications", ask(absent::notifications))
}

/// GET.
fn ask<T: 'static>(handler: impl Handler<T, Shared>) -> MethodRouter<Shared> {
    only("GET, OPTIONS", get(handler))
}

/// GET or, for what is too long for a URL, POST.
fn ask_or_post<T: 'static>(handler: impl Handler<T, Shared>) -> MethodRouter<Shared> {
    only("GET, OPTIONS, POST", on(MethodFilter::GET.or(MethodFilter::POST), handler))
}

/// POST.
fn send<T: 'static>(handler: impl Handler<T, Shared>) -> MethodRouter<Shared> {
    only("OPTIONS, POST", post(handler))
}

/// POST or PUT.
fn change<T: 'static>(handler: impl Handler<T, Shared>) -> MethodRouter<Shared> {
    only("OPTIONS, POST, PUT", on(MethodFilter::POST.or(MethodFilter::PUT), handler))
}

/// A page of GET, which HEAD looks at too.
fn page(pages: MethodRouter<Shared>) -> MethodRouter<Shared> {
    const ALLOWED: &str = "GET, HEAD, OPTIONS";
    pages.options(tell(ALLOWED)).fallback(refuse(ALLOWED))
}

/// These methods; HEAD is not one of them unless it is named.
fn only(allowed: &'static str, methods: MethodRouter<Shared>) -> MethodRouter<Shared> {
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

fn lifecycle<T: 'static>(handler: impl Handler<T, Shared>) -> MethodRouter<Shared> {
    const ONLY: &str = "Only POST or PUT requests allowed";
    on(MethodFilter::POST.or(MethodFilter::PUT), handler)
        .fallback(async || (StatusCode::METHOD_NOT_ALLOWED, ONLY))
}

/// Nothing is answered before the store is open.
async fn when_open(State(state): State<Shared>, request: Request, next: Next) -> Response {
    match state.store() {
        Ok(_) => next.run(request).await,
        Err(error) => super::json::failure(error),
    }
}

/// Every 503 says when to come again: here, where the handler does not know better.
async fn say_when_to_return(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        let usual = HeaderValue::from(RETRY_AFTER.as_secs());
        response.headers_mut().entry(header::RETRY_AFTER).or_insert(usual);
    }
    response
}

/// Counts and times every request, and traces some.
async fn observe(State(state): State<Shared>, request: Request, next: Next) -> Response {
    let mut asked = Asked::new(&state, &request);
    let headers = request.headers();
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let span = state.traces.request(request.method().as_str(), &asked.handler, header);
    let response = next.run(request).instrument(span.clone()).await;
    let response = traced::answer(response, span);
    asked.code = response.status().as_u16();
    response
}

/// A request until the head of its answer. It is counted, and told at level debug, when this is dropped.
struct Asked {
    state: Shared,
    handler: String,
    /// Method and path, for the log.
    told: Option<(Method, String)>,
    start: Instant,
    /// The status; before there is an answer, that of a request that is given up: by its client, or as the process
    /// ends.
    code: u16,
    _in_flight: InFlight,
}

impl Asked {
    /// Begins now.
    fn new(state: &Shared, request: &Request) -> Self {
        let handler = match request.extensions().get::<MatchedPath>() {
            Some(path) => path.as_str().to_owned(),
            None => "other".to_owned(),
        };
        let told = tracing::enabled!(tracing::Level::DEBUG)
            .then(|| (request.method().clone(), request.uri().path().to_owned()));
        Self {
            state: state.clone(),
            handler,
            told,
            start: Instant::now(),
            code: GIVEN_UP,
            _in_flight: InFlight::enter(&state.metrics.http.in_flight),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // A panic is no fault of who asked.
        let code = if std::thread::panicking() { 500 } else { self.code };
        let took = self.start.elapsed();
        if let Some((method, path)) = &self.told {
            let seconds = took.as_secs_f64();
            tracing::debug!(%method, path, code, seconds, "request");
        }
        self.state.metrics.http.answered(std::mem::take(&mut self.handler), code, took);
    }
}
