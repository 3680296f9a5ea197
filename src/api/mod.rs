//! The HTTP surface: what its handlers share.
//!
//! The only user of prost, and of axum but for the connections. A handler decodes, calls the store
//! and encodes; it decides nothing about samples.

mod absent;
mod access;
mod admin;
mod cardinality;
mod clean_path;
mod concurrency;
mod config_yaml;
mod cors;
mod delete_preview;
mod encodings;
mod endpoints;
mod error;
mod escaping;
mod evaluator;
mod exemplars;
mod exposition;
mod features;
mod federate;
mod heads;
mod json;
mod label_name;
mod labels;
mod matches;
mod metadata;
mod moment;
mod multipart;
mod openapi;
mod origin;
mod pages;
mod parameters;
mod parse_query;
mod patterns;
mod pieces;
pub mod proto;
mod query;
mod query_cost;
mod query_result;
mod remote_read;
mod remote_write;
mod router;
mod routes;
mod selected;
mod slow;
mod status;
mod tag_index;
mod traced;
mod turns;
mod unsent;
mod workers;

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

pub use access::Login;
pub use concurrency::{SharedConnection, SpareConnection};
pub use error::ApiError;
pub use heads::{LongQuery, RefusedHead, head_too_large, target_too_long};
pub use moment::parse_time;
pub use pieces::Pieces;
pub use router::router;
pub use routes::{Methods, ROUTES, Route};
pub use unsent::{AnswerTo, Taker};

use access::Access;
use concurrency::RequestLimit;
use evaluator::Evaluator;
use remote_read::ReadGate;
pub use remote_read::ReadLimits;
pub use remote_write::{learn_metadata, learn_series};
use turns::{Turn, Turns};
use unsent::Unsent;
use workers::Workers;

use crate::config::{
    Ack, AdminApi, AllowedOrigins, GlobalConfig, LimitsConfig, MemoryConfig, QueryConfig,
    StoreConfig, TypeAndUnitLabels, WebConfig,
};
use crate::limits::MAX_READ_RESPONSE_BYTES;
use crate::promql::{QueryMemory, RegexCompiler, Settings, Syntax};
use crate::storage::cassandra::CassandraStore;
use crate::storage::{Clock, Level, Pressure, SelectHints, SharedStore};
use crate::telemetry::{Metrics, Traces};

/// A wish that the settings be read again: answered with what changed, or why nothing did.
pub type Reload = oneshot::Sender<Result<String, String>>;

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
    /// Requests under way.
    concurrency: RequestLimit,
    /// The metrics of the process.
    pub metrics: Arc<Metrics>,
    /// Which requests are traced.
    traces: Traces,
    /// How near the process is to the memory that it may take.
    pressure: Arc<Pressure>,
    /// Whether a log stands before the store: it refuses new series where memory is short.
    has_log: bool,
    /// Turns of questions whose whole answer is in memory, and how large that may be.
    turns: RwLock<Arc<Turns>>,
    /// Room for answers that wait for their clients.
    unsent: Unsent,
    /// Most bytes of a remote read's answer that is whole in memory.
    read_answer_bytes: usize,
    /// What one remote read may select.
    read_hints: SelectHints,
    reads: ReadGate,
    /// Decode requests, compile patterns and encode answers.
    workers: Workers,
    intake: remote_write::Intake,
    /// The limits of remote writes that are settings.
    writes: remote_write::Gate,
    /// Bodies that are forms.
    forms: remote_write::Intake,
    admin_api: AdminApi,
    /// Origins whose pages may change something.
    allowed_origins: AllowedOrigins,
    /// Who may ask what.
    access: Access,
    /// What becomes of the type and unit in a remote write.
    type_and_unit_labels: TypeAndUnitLabels,
    /// Evaluates queries.
    evaluator: RwLock<Arc<Evaluator>>,
    /// Who reads the settings again.
    reloader: OnceLock<mpsc::Sender<Reload>>,
    /// How long samples are kept; none = for ever.
    retention: Mutex<Option<Duration>>,
    /// What a Prometheus has in its section `global`.
    global: RwLock<Arc<GlobalConfig>>,
    clock: Clock,
    /// When this state was made, in milliseconds since 1970.
    started: i64,
}

impl AppState {
    /// The state before the store is open.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        let clock = Clock::default();
        metrics.config.taken_over(clock.now_ms());
        Self {
            store: OnceLock::new(),
            cassandra: OnceLock::new(),
            opening: Mutex::new("the store is being opened".to_owned()),
            obstacle: Mutex::default(),
            away: Mutex::default(),
            concurrency: RequestLimit::default(),
            metrics,
            traces: Traces::default(),
            pressure: Arc::default(),
            has_log: true,
            turns: RwLock::default(),
            unsent: Unsent::default(),
            read_answer_bytes: MAX_READ_RESPONSE_BYTES,
            read_hints: SelectHints::default(),
            reads: ReadGate::new(ReadLimits::default()),
            workers: Workers::new(),
            intake: remote_write::Intake::new(),
            writes: remote_write::Gate::default(),
            forms: remote_write::Intake::new(),
            admin_api: AdminApi::Disabled,
            allowed_origins: AllowedOrigins::default(),
            access: Access::open(),
            type_and_unit_labels: TypeAndUnitLabels::Disabled,
            evaluator: RwLock::default(),
            reloader: OnceLock::new(),
            retention: Mutex::default(),
            global: RwLock::default(),
            started: clock.now_ms(),
            clock,
        }
    }

    /// How queries are evaluated, and what they may use of the language.
    pub fn with_queries(self, settings: Settings, syntax: impl Into<Syntax>) -> Self {
        let evaluator = Evaluator::new(settings, syntax, self.evaluator().slow);
        Self { evaluator: RwLock::new(Arc::new(evaluator)), ..self }
    }

    /// How queries are evaluated from now on; those under way end as they began.
    pub fn set_query_config(&self, config: &QueryConfig) {
        let most = i64::try_from(config.max_concurrency).unwrap_or(i64::MAX);
        self.metrics.queries.concurrent_max.set(most);
        if let Some(evaluator) = self.evaluator().configured(config) {
            *self.evaluator.write() = Arc::new(evaluator);
        }
    }

    /// What evaluates a query that begins now.
    fn evaluator(&self) -> Arc<Evaluator> {
        Arc::clone(&self.evaluator.read())
    }

    /// Whether type and unit become labels in a remote write, and tell counters in a query.
    pub fn with_type_and_unit_labels(self, type_and_unit_labels: TypeAndUnitLabels) -> Self {
        let evaluator = RwLock::new(Arc::new(self.evaluator().typed(type_and_unit_labels)));
        Self { type_and_unit_labels, evaluator, ..self }
    }

    /// What is taken of senders and askers from now on.
    pub fn set_limits(&self, limits: &LimitsConfig) {
        self.concurrency.set(limits.http.requests);
        self.writes.set(limits.writes);
        if self.turns().limits != limits.lists {
            *self.turns.write() = Arc::new(Turns::new(limits.lists));
        }
    }

    /// Most bytes of the body of a request that comes now, of whatever kind.
    fn body_bytes(&self) -> usize {
        self.writes.limits().body_bytes
    }

    /// The turns of questions that begin now.
    fn turns(&self) -> Arc<Turns> {
        Arc::clone(&self.turns.read())
    }

    /// How long samples are kept from now on; none = for ever.
    pub fn set_retention(&self, retention: Option<Duration>) {
        *self.retention.lock() = retention;
    }

    /// External labels, and the intervals of the senders, from now on.
    pub fn set_global(&self, global: &GlobalConfig) {
        *self.global.write() = Arc::new(global.clone());
    }

    /// The same for a request that begins now.
    fn global(&self) -> Arc<GlobalConfig> {
        Arc::clone(&self.global.read())
    }

    /// Which requests are traced.
    pub fn with_traces(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }

    /// Whether the admin API answers.
    pub fn with_admin_api(self, admin_api: AdminApi) -> Self {
        Self { admin_api, ..self }
    }

    /// Origins, besides the server's own, whose pages may change something.
    pub fn with_allowed_origins(self, allowed_origins: AllowedOrigins) -> Self {
        Self { allowed_origins, ..self }
    }

    /// Who may ask what, as it is at any time.
    pub fn with_web(self, web: watch::Receiver<Arc<WebConfig>>) -> Self {
        Self { access: Access::new(web), ..self }
    }

    /// How much memory the process and its requests may take, how long bodies and answers may, and
    /// how many remote reads are under way.
    pub fn with_limits(self, memory: &MemoryConfig, limits: &LimitsConfig) -> Self {
        let bytes = |share| usize::try_from(share).unwrap_or(usize::MAX);
        let pressure = Arc::new(Pressure::new(memory.limit));
        let queries = QueryMemory::new(bytes(memory.queries()), pressure.clone());
        let body_timeout = limits.http.body_timeout;
        let room =
            || remote_write::Intake::with_room(memory.bodies(), memory.decoded(), body_timeout);
        let (at_once, stall) = (limits.reads, limits.http.answer_timeout);
        let mut reads = ReadGate::new(ReadLimits { at_once, stall, ..ReadLimits::default() });
        reads.bodies = room();
        let compiler = RegexCompiler::new(bytes(memory.patterns()));
        let evaluator = self.evaluator().within(Arc::new(queries), compiler);
        // The label sets of all at a time may have half of what the process may, and the points that they keep from
        // being forgotten as much again.
        let share = bytes(memory.queries()) / limits.reads;
        let read_hints = SelectHints {
            max_label_bytes: self.read_hints.max_label_bytes.min(share),
            max_bytes: share.saturating_mul(2),
            // With the next one and the frames of both.
            max_series_bytes: share / 2,
            ..self.read_hints
        };
        Self {
            concurrency: RequestLimit::within(pressure.clone()),
            unsent: Unsent::new(&pressure),
            pressure,
            read_answer_bytes: bytes(memory.read_answer()),
            read_hints,
            intake: room(),
            forms: room(),
            reads,
            evaluator: RwLock::new(Arc::new(evaluator)),
            ..self
        }
    }

    /// Which store takes the writes.
    pub fn with_store(self, store: &StoreConfig) -> Self {
        Self { has_log: !matches!(store, StoreConfig::Cassandra { ack: Ack::Store, .. }), ..self }
    }

    /// How many remote reads are under way, and how long they may wait.
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
        let none = "no Cassandra store is open: this server uses the embedded store, or Cassandra does not answer \
                    yet; explain and index work only with --store cassandra";
        self.cassandra.get().ok_or_else(|| ApiError::BadRequest(none.into()))
    }

    /// Says who reads the settings again, once.
    pub fn reload_by(&self, reloader: mpsc::Sender<Reload>) {
        let _ = self.reloader.set(reloader);
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

    /// How near the process is to the memory that it may take.
    pub fn pressure(&self) -> &Arc<Pressure> {
        &self.pressure
    }

    /// The process has so many bytes. Gives the level of memory before and the one now.
    pub fn note_memory(&self, resident: u64) -> (Level, Level) {
        let levels = self.pressure.note(resident);
        self.evaluator().engine.settings().memory.looked_at();
        levels
    }

    /// Brings the metric of active series up to date; those that are not active any more are forgotten.
    pub fn publish_active_series(&self) {
        self.writes.publish(&self.metrics);
    }

    /// Where the result of a query waits for room that other results hold, one result gives way that nobody takes.
    pub fn make_room_for_results(&self) {
        if self.evaluator().engine.wants_room() {
            self.unsent.make_room();
        }
    }

    /// Parts that hold memory, and the bytes of each as it counts them.
    pub fn held_by_part(&self) -> [(&'static str, u64); 6] {
        let intakes = [&self.intake, &self.forms, &self.reads.bodies].map(|intake| intake.held());
        let counted = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
        [
            ("series", counted(self.metrics.head.series_bytes.get())),
            ("points", counted(self.metrics.head.bytes.get())),
            ("blocks", counted(self.metrics.store.block_cache_bytes.get())),
            ("queries", self.evaluator().engine.settings().memory.bytes() as u64),
            ("bodies", intakes.iter().map(|(bodies, _)| bodies).sum()),
            ("decoded", intakes.iter().map(|(_, decoded)| decoded).sum()),
        ]
    }

    /// Whether what is written now can be acknowledged; else the error says what is in the way.
    pub async fn ready(&self) -> Result<(), ApiError> {
        self.store()?.ready().await?;
        if self.pressure.level() == Level::Over {
            return Err(ApiError::NotReady(self.pressure.text()));
        }
        match self.obstacle.lock().clone() {
            Some(what) => Err(ApiError::NotReady(what)),
            None => Ok(()),
        }
    }

    /// What a question to the store gives, in turn with others whose answers are whole in memory, and within the
    /// time that a query may take. The turn is for who makes the answer, and for that until it has its room.
    async fn in_turn<T>(
        &self,
        answer: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<(T, Turn), ApiError> {
        self.pressure.check_read()?;
        let most = self.evaluator().engine.settings().timeout;
        let turns = self.turns();
        let answer = async {
            let turn = turns.take(&self.metrics.http.limits).await?;
            // It may have waited long.
            self.pressure.check_read()?;
            Ok((answer.await?, turn))
        };
        timeout(most, answer).await.unwrap_or_else(|_| {
            self.metrics.http.limits.reached("query-timeout");
            let why = format!("it takes longer than {most:?}, which is the setting query-timeout");
            Err(ApiError::TimedOut(why))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::Body;
    use axum::extract::Request;
    use axum::http::header;
    use bytes::Bytes;
    use tower::Service;

    use super::*;
    use crate::storage::memory::MemoryStore;

    const BODIES: [(&str, &str); 3] = [
        ("/api/v1/write", "application/x-protobuf"),
        ("/api/v1/read", "application/x-protobuf"),
        ("/api/v1/admin/tsdb/delete_series", "application/x-www-form-urlencoded"),
    ];

    /// Status and `Retry-After` of a POST to a server that waits a moment for a body, and how often
    /// that was too short.
    async fn post(path: &str, content_type: &str, body: Body) -> (u16, Option<String>, usize) {
        let metrics = Arc::new(Metrics::new());
        let hasty = || remote_write::Intake::with_body_timeout(Duration::from_millis(1));
        let state = AppState::new(metrics.clone()).with_admin_api(AdminApi::Enabled);
        let mut reads = ReadGate::new(ReadLimits::default());
        reads.bodies = hasty();
        let state = AppState { intake: hasty(), forms: hasty(), reads, ..state };
        state.open(Arc::new(MemoryStore::new()));
        let request = Request::post(path)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::CONTENT_ENCODING, "snappy")
            .body(body)
            .expect("a request");
        let response = router(Arc::new(state)).call(request).await.expect("infallible");
        let retry_after = response.headers().get(header::RETRY_AFTER);
        let retry_after = retry_after.map(|value| value.to_str().expect("ascii").to_owned());
        let counted = "promkairos_limits_reached_total{limit=\"http-body-timeout\"} 1\n";
        (response.status().as_u16(), retry_after, metrics.encode().matches(counted).count())
    }

    #[tokio::test]
    async fn who_sends_too_slowly_is_told_to_come_again_and_counted() {
        for (path, content_type) in BODIES {
            let never = futures::stream::pending::<Result<Bytes, std::io::Error>>();
            let answer = post(path, content_type, Body::from_stream(never)).await;
            assert_eq!(answer, (503, Some("5".into()), 1), "{path}");
        }
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_the_fault_of_its_sender() {
        for (path, content_type) in BODIES {
            let broken = [Ok(Bytes::from_static(b"a")), Err(std::io::Error::other("cut"))];
            let body = Body::from_stream(futures::stream::iter(broken));
            assert_eq!(post(path, content_type, body).await, (400, None, 0), "{path}");
        }
    }
}
