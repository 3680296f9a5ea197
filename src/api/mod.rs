//! The HTTP surface: the router, and what its handlers share.
//!
//! The only user of axum and prost. A handler decodes, calls the store and encodes; it decides
//! nothing about samples.

mod admin;
mod delete_preview;
mod error;
mod json;
mod match_parameters;
mod patterns;
pub mod proto;
mod remote_read;
mod remote_write;
mod selector;
mod status;
mod tag_index;
mod workers;

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use parking_lot::Mutex;

pub use error::ApiError;

use remote_read::ReadGate;
pub use remote_read::ReadLimits;
use workers::Workers;

use crate::config::AdminApi;
use crate::limits::{MAX_BODY_BYTES, RETRY_AFTER};
use crate::storage::SharedStore;
use crate::storage::cassandra::CassandraStore;
use crate::telemetry::{HandlerLabels, InFlight, Metrics, RequestLabels};

/// What the handlers share.
pub struct AppState {
    store: OnceLock<SharedStore>,
    /// The same or what is behind it, where that is Cassandra.
    cassandra: OnceLock<Arc<CassandraStore>>,
    /// Why the store is not open yet.
    opening: Mutex<String>,
    /// What the operator has to mend before the store can take what waits for it.
    obstacle: Mutex<Option<String>>,
    /// Why what is behind a log is not there, where that may pass by itself.
    away: Mutex<Option<String>>,
    /// The metrics of the process.
    pub metrics: Arc<Metrics>,
    reads: ReadGate,
    /// Decode requests, compile patterns and encode answers.
    workers: Workers,
    intake: remote_write::Intake,
    /// Bodies of deletes.
    deletes: remote_write::Intake,
    admin_api: AdminApi,
}

impl AppState {
    /// The state before the store is open.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            store: OnceLock::new(),
            cassandra: OnceLock::new(),
            opening: Mutex::new("the store is being opened".to_owned()),
            obstacle: Mutex::default(),
            away: Mutex::default(),
            metrics,
            reads: ReadGate::new(ReadLimits::default()),
            workers: Workers::new(),
            intake: remote_write::Intake::new(),
            deletes: remote_write::Intake::new(),
            admin_api: AdminApi::Disabled,
        }
    }

    /// Whether the admin API answers.
    pub fn with_admin_api(self, admin_api: AdminApi) -> Self {
        Self { admin_api, ..self }
    }

    /// How long remote reads may wait.
    pub fn with_read_limits(self, limits: ReadLimits) -> Self {
        Self { reads: ReadGate::new(limits), ..self }
    }

    /// Gives the handlers the store, once.
    pub fn open(&self, store: SharedStore) {
        // A second store would be a mistake of the caller; the first one stays.
        let _ = self.store.set(store);
    }

    /// Gives the handlers what is particular to Cassandra, once.
    pub fn open_cassandra(&self, store: Arc<CassandraStore>) {
        let _ = self.cassandra.set(store);
    }

    /// The Cassandra store; an error where there is none.
    pub fn cassandra(&self) -> Result<&Arc<CassandraStore>, ApiError> {
        let none = "no Cassandra store is open: this is about --store cassandra";
        self.cassandra.get().ok_or_else(|| ApiError::BadRequest(none.into()))
    }

    /// Says why the store is not open yet.
    pub fn opening(&self, why: String) {
        *self.opening.lock() = why;
    }

    /// Says what the operator has to mend; `/-/ready` answers 503 with it. `None` = nothing.
    pub fn set_obstacle(&self, what: Option<String>) {
        *self.obstacle.lock() = what;
    }

    /// Says why what is behind the log is not there; `/-/ready` tells it, and answers 200 all the
    /// same, as what is written can be acknowledged. `None` = it is there.
    pub fn set_away(&self, why: Option<String>) {
        *self.away.lock() = why;
    }

    /// The store; [`ApiError::NotReady`] until it is open.
    pub fn store(&self) -> Result<&SharedStore, ApiError> {
        self.store.get().ok_or_else(|| ApiError::NotReady(self.opening.lock().clone()))
    }
}

/// All routes. A known path with a wrong method is 405, an unknown path 404.
pub fn router(state: Arc<AppState>) -> Router {
    Router::new()
        .route("/", get(status::index))
        .route("/-/healthy", get(status::healthy))
        .route("/-/ready", get(status::ready))
        .route("/metrics", get(status::metrics))
        .route("/api/v1/read", post(remote_read::remote_read))
        .route("/api/v1/write", post(remote_write::remote_write))
        .route(
            "/api/v1/admin/tsdb/delete_series",
            post(admin::delete_series).put(admin::delete_series),
        )
        .route("/api/v1/explain", get(tag_index::explain))
        .route("/api/v1/status/tag_index", get(tag_index::status))
        .route("/api/v1/admin/tag_index/build", post(tag_index::build))
        .route("/api/v1/admin/tag_index/drop", post(tag_index::drop_index))
        .fallback(unknown_path)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn(say_when_to_return))
        .layer(middleware::from_fn_with_state(state.clone(), observe))
        .with_state(state)
}

async fn unknown_path() -> (StatusCode, &'static str) {
    (StatusCode::NOT_FOUND, "404 page not found\n")
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

/// Counts and times every request.
async fn observe(State(state): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    let http = &state.metrics.http;
    let handler = match request.extensions().get::<MatchedPath>() {
        Some(path) => path.as_str().to_owned(),
        None => "other".to_owned(),
    };
    let _in_flight = InFlight::enter(&http.in_flight);
    let start = Instant::now();
    let response = next.run(request).await;
    let labels = HandlerLabels { handler: handler.clone() };
    http.duration.get_or_create(&labels).observe(start.elapsed().as_secs_f64());
    let labels = RequestLabels { handler, code: response.status().as_u16() };
    http.requests.get_or_create(&labels).inc();
    response
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::Body;
    use bytes::Bytes;
    use tower::Service;

    use super::*;
    use crate::storage::memory::MemoryStore;

    const BODIES: [(&str, &str); 3] = [
        ("/api/v1/write", "application/x-protobuf"),
        ("/api/v1/read", "application/x-protobuf"),
        ("/api/v1/admin/tsdb/delete_series", "application/x-www-form-urlencoded"),
    ];

    /// Status and `Retry-After` of a POST to a server that waits a moment for a body.
    async fn post(path: &str, content_type: &str, body: Body) -> (u16, Option<String>) {
        let hasty = || remote_write::Intake::with_body_timeout(Duration::from_millis(1));
        let state = AppState::new(Arc::default()).with_admin_api(AdminApi::Enabled);
        let mut reads = ReadGate::new(ReadLimits::default());
        reads.bodies = hasty();
        let state = AppState { intake: hasty(), deletes: hasty(), reads, ..state };
        state.open(Arc::new(MemoryStore::new()));
        let request = Request::post(path)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::CONTENT_ENCODING, "snappy")
            .body(body)
            .expect("a request");
        let response = router(Arc::new(state)).call(request).await.expect("infallible");
        let retry_after = response.headers().get(header::RETRY_AFTER);
        let retry_after = retry_after.map(|value| value.to_str().expect("ascii").to_owned());
        (response.status().as_u16(), retry_after)
    }

    #[tokio::test]
    async fn who_sends_too_slowly_is_told_to_come_again() {
        for (path, content_type) in BODIES {
            let never = futures::stream::pending::<Result<Bytes, std::io::Error>>();
            let answer = post(path, content_type, Body::from_stream(never)).await;
            assert_eq!(answer, (503, Some("5".into())), "{path}");
        }
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_the_fault_of_its_sender() {
        for (path, content_type) in BODIES {
            let broken = [Ok(Bytes::from_static(b"a")), Err(std::io::Error::other("cut"))];
            let body = Body::from_stream(futures::stream::iter(broken));
            assert_eq!(post(path, content_type, body).await, (400, None), "{path}");
        }
    }
}
