//! The state that the handlers share.
//!
//! It stands below the handlers: it knows the limits and the parts that hold memory, but no route and no layer.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::access::Access;
use super::access::settings::WebSettings;
use super::admission::{ListPermit, ListPermits};
use super::allowed_origins::AllowedOrigins;
use super::error::ApiError;
use super::evaluator::Evaluator;
use super::remote_read::gate::{ReadGate, ReadLimits};
use super::request_limit::RequestLimit;
use super::response_budget::ResponseBudget;
use super::settings::{
    AdminApi, GlobalConfig, LimitsConfig, ListLimits, QueryConfig, RequestMemory, TypeAndUnitLabels,
};
use super::workers::Workers;
use promkairos_ingest::{Intake, Pipeline};
use promkairos_model::limits::MAX_READ_RESPONSE_BYTES;
use promkairos_promql::{QueryMemory, RegexCompiler, Settings, Syntax};
use promkairos_storage::{
    Clock, Level, Pressure, QueryHints, ReadRoom, SelectHints, SelectionMemory, SharedStore,
};
use promkairos_storage_cassandra::CassandraStore;
use promkairos_telemetry::{Metrics, Traces};

/// A request to reload the settings; the answer is a report of the changes, or the reason for none.
pub type Reload = oneshot::Sender<Result<String, String>>;

/// The state as handlers get it.
pub(super) type SharedState = Arc<AppState>;

/// The state that handlers share.
pub struct AppState {
    pub(super) store: OnceLock<SharedStore>,
    /// The store, or the store behind its log, if that is Cassandra.
    pub(super) cassandra: OnceLock<Arc<CassandraStore>>,
    /// Why the store is not open yet.
    pub(super) opening: Mutex<String>,
    /// A problem that the operator has to fix before the store can accept pending writes.
    pub(super) obstacle: Mutex<Option<String>>,
    /// Why the store behind a log is unavailable, if that is temporary.
    pub(super) away: Mutex<Option<String>>,
    /// The limit of concurrent requests.
    pub(super) concurrency: RequestLimit,
    /// The metrics of the process.
    pub metrics: Arc<Metrics>,
    /// Selects the requests that are traced.
    pub(super) traces: Traces,
    /// How near the process is to its memory limit.
    pub pressure: Arc<Pressure>,
    /// Permits for requests whose whole answer is in memory, and the limits of such answers.
    pub(super) turns: RwLock<Arc<ListPermits>>,
    /// Memory for answers that wait for their clients.
    pub(super) unsent: ResponseBudget,
    /// Most bytes of a remote read's answer that is in memory whole.
    pub(super) read_answer_bytes: usize,
    /// Limits of one remote read.
    pub(super) read_hints: SelectHints,
    pub(super) reads: ReadGate,
    /// Threads that decode requests, compile patterns and encode answers.
    pub(super) workers: Workers,
    /// What every write passes.
    pub ingest: Pipeline,
    /// Bodies that are forms.
    pub(super) forms: Intake,
    pub(super) admin_api: AdminApi,
    /// Origins whose pages may change data.
    pub(super) allowed_origins: AllowedOrigins,
    /// Authentication and authorization.
    pub(super) access: Access,
    /// How remote writes store type and unit.
    pub(super) type_and_unit_labels: TypeAndUnitLabels,
    /// Evaluates queries.
    pub(super) evaluator: RwLock<Arc<Evaluator>>,
    /// The task that reloads the settings.
    pub(super) reloader: OnceLock<mpsc::Sender<Reload>>,
    /// How long samples are kept; `None` = for ever.
    pub(super) retention: Mutex<Option<Duration>>,
    /// The values of the section `global` of a Prometheus.
    pub(super) global: RwLock<Arc<GlobalConfig>>,
    pub(super) clock: Clock,
    /// When the program was built, in Prometheus' notation; empty = not known.
    pub(super) build_date: &'static str,
    /// When this state was created, in milliseconds since 1970.
    pub(super) started: i64,
}

impl AppState {
    /// The state before the store is open.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        let clock = Clock::default();
        metrics.config.taken_over(clock.now_ms());
        let pressure = Arc::<Pressure>::default();
        let ingest = Pipeline::new(metrics.clone()).within(Intake::default(), pressure.clone());
        Self {
            store: OnceLock::new(),
            cassandra: OnceLock::new(),
            opening: Mutex::new("the store is being opened".to_owned()),
            obstacle: Mutex::default(),
            away: Mutex::default(),
            concurrency: RequestLimit::default(),
            metrics,
            traces: Traces::default(),
            pressure,
            turns: RwLock::new(Arc::new(ListPermits::new(ListLimits::default()))),
            unsent: ResponseBudget::default(),
            read_answer_bytes: MAX_READ_RESPONSE_BYTES,
            read_hints: SelectHints::default(),
            reads: ReadGate::new(ReadLimits::default()),
            workers: Workers::new(),
            ingest,
            forms: Intake::default(),
            admin_api: AdminApi::Disabled,
            allowed_origins: AllowedOrigins::default(),
            access: Access::open(),
            type_and_unit_labels: TypeAndUnitLabels::Disabled,
            evaluator: RwLock::default(),
            reloader: OnceLock::new(),
            retention: Mutex::default(),
            global: RwLock::default(),
            build_date: "",
            started: clock.now_ms(),
            clock,
        }
    }

    /// Sets the engine's settings and the language features.
    pub fn with_queries(self, settings: Settings, syntax: impl Into<Syntax>) -> Self {
        let evaluator = Evaluator::new(settings, syntax, self.evaluator().slow);
        Self { evaluator: RwLock::new(Arc::new(evaluator)), ..self }
    }

    /// Sets how queries are evaluated from now on; running queries keep their settings.
    pub fn set_query_config(&self, config: &QueryConfig) {
        let most = i64::try_from(config.max_concurrency).unwrap_or(i64::MAX);
        self.metrics.queries.concurrent_max.set(most);
        if let Some(evaluator) = self.evaluator().configured(config) {
            *self.evaluator.write() = Arc::new(evaluator);
        }
    }

    /// The evaluator for a query that starts now.
    pub(super) fn evaluator(&self) -> Arc<Evaluator> {
        Arc::clone(&self.evaluator.read())
    }

    /// Sets whether type and unit become labels in a remote write and identify counters in a query.
    pub fn with_type_and_unit_labels(self, type_and_unit_labels: TypeAndUnitLabels) -> Self {
        let evaluator = RwLock::new(Arc::new(self.evaluator().typed(type_and_unit_labels)));
        Self { type_and_unit_labels, evaluator, ..self }
    }

    /// Sets the limits of requests from now on.
    pub fn set_limits(&self, limits: &LimitsConfig) {
        self.concurrency.set(limits.requests);
        self.ingest.set_limits(limits.writes);
        if self.turns().limits != limits.lists {
            *self.turns.write() = Arc::new(ListPermits::new(limits.lists));
        }
    }

    /// Most bytes of a request body, of any kind.
    pub(super) fn body_bytes(&self) -> usize {
        self.ingest.limits().body_bytes
    }

    /// The permits for requests that start now.
    pub(super) fn turns(&self) -> Arc<ListPermits> {
        Arc::clone(&self.turns.read())
    }

    /// Sets how long samples are kept from now on; `None` = for ever.
    pub fn set_retention(&self, retention: Option<Duration>) {
        *self.retention.lock() = retention;
    }

    /// Sets who may send requests, and the headers of answers, from now on.
    pub fn set_web(&self, web: WebSettings) {
        self.access.set(web);
    }

    /// Sets external labels and the intervals of the senders from now on.
    pub fn set_global(&self, global: &GlobalConfig) {
        *self.global.write() = Arc::new(global.clone());
    }

    /// External labels and intervals for a request that starts now.
    pub(super) fn global(&self) -> Arc<GlobalConfig> {
        Arc::clone(&self.global.read())
    }

    /// Sets when the program was built, in Prometheus' notation.
    pub fn with_build_date(self, build_date: &'static str) -> Self {
        Self { build_date, ..self }
    }

    /// Sets which requests are traced.
    pub fn with_traces(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }

    /// Sets whether the admin API is enabled.
    pub fn with_admin_api(self, admin_api: AdminApi) -> Self {
        Self { admin_api, ..self }
    }

    /// Sets the origins, besides the server's own, whose pages may change data.
    pub fn with_allowed_origins(self, allowed_origins: AllowedOrigins) -> Self {
        Self { allowed_origins, ..self }
    }

    /// Sets the memory limits of the process and its requests, the timeouts of bodies and answers,
    /// and the number of concurrent remote reads.
    pub fn with_limits(self, memory: &RequestMemory, limits: &LimitsConfig) -> Self {
        let bytes = |share| usize::try_from(share).unwrap_or(usize::MAX);
        let pressure = Arc::new(Pressure::new(memory.limit));
        let queries = QueryMemory::new(bytes(memory.queries), pressure.clone());
        let body_timeout = limits.body_timeout;
        let room = || Intake::with_room(memory.bodies, memory.decoded, body_timeout);
        let (at_once, stall) = (limits.reads, limits.answer_timeout);
        let mut reads = ReadGate::new(ReadLimits { at_once, stall, ..ReadLimits::default() });
        reads.bodies = room();
        let compiler = RegexCompiler::new(bytes(memory.patterns));
        let evaluator = self.evaluator().within(Arc::new(queries), compiler);
        // All reads together may use half of the memory limit for label sets, and as much again for points
        // that they pin in a cache.
        let share = bytes(memory.queries) / limits.reads;
        let read_hints = SelectHints {
            max_label_bytes: self.read_hints.max_label_bytes.min(share),
            max_bytes: share.saturating_mul(2),
            // Half of the share: the next series and the frames of both are in memory too.
            max_series_bytes: share / 2,
            ..self.read_hints
        };
        Self {
            concurrency: RequestLimit::within(pressure.clone()),
            unsent: ResponseBudget::new(&pressure),
            ingest: self.ingest.within(room(), pressure.clone()),
            pressure,
            read_answer_bytes: bytes(memory.read_answer),
            read_hints,
            forms: room(),
            reads,
            evaluator: RwLock::new(Arc::new(evaluator)),
            ..self
        }
    }

    /// Says that there is no log in front of the store: a write is acknowledged when the store has it.
    pub fn over_store_without_log(self) -> Self {
        Self { ingest: self.ingest.over_store_without_log(), ..self }
    }

    /// Sets the store, once.
    pub fn open(&self, store: SharedStore) {
        // A second call would be a bug of the caller; the first store stays.
        let _ = self.store.set(store);
    }

    /// Sets the Cassandra store, once.
    pub fn open_cassandra(&self, store: Arc<CassandraStore>) {
        let _ = self.cassandra.set(store);
    }

    /// The Cassandra store; an error if none is open.
    pub(super) fn cassandra(&self) -> Result<&Arc<CassandraStore>, ApiError> {
        let none = "no Cassandra store is open: this server uses the embedded store, or Cassandra does not answer \
                    yet; explain and index work only with --store cassandra";
        self.cassandra.get().ok_or_else(|| ApiError::BadRequest(none.into()))
    }

    /// Sets the task that reloads the settings, once.
    pub fn reload_by(&self, reloader: mpsc::Sender<Reload>) {
        let _ = self.reloader.set(reloader);
    }

    /// Sets why the store is not open yet.
    pub fn opening(&self, why: String) {
        *self.opening.lock() = why;
    }

    /// Sets a problem that the operator has to fix; `/-/ready` then answers 503 with it. `None` = no problem.
    pub fn set_obstacle(&self, what: Option<String>) {
        *self.obstacle.lock() = what;
    }

    /// Sets why the store behind the log is unavailable. `/-/ready` reports it, but answers 200,
    /// because writes can still be acknowledged. `None` = it is available.
    pub fn set_away(&self, why: Option<String>) {
        *self.away.lock() = why;
    }

    /// The store; [`ApiError::NotReady`] until it is open.
    pub fn store(&self) -> Result<&SharedStore, ApiError> {
        self.store.get().ok_or_else(|| ApiError::NotReady(self.opening.lock().clone()))
    }

    /// The options of a selection for a remote read. Its memory is counted until the options are dropped.
    pub(super) fn read_hints(&self, query: Option<Arc<QueryHints>>) -> SelectHints {
        let memory: Arc<dyn SelectionMemory> = Arc::new(ReadRoom::new(&self.pressure));
        SelectHints { query, memory: Some(memory), ..self.read_hints.clone() }
    }

    /// If a query result waits for memory that other results hold, aborts a result that its client does not read.
    pub fn make_room_for_results(&self) {
        if self.evaluator().engine.wants_room() {
            self.unsent.make_room();
        }
    }

    /// The parts that hold memory, with their bytes.
    pub fn held_by_part(&self) -> [(&'static str, u64); 6] {
        let intakes =
            [self.ingest.intake(), &self.forms, &self.reads.bodies].map(|intake| intake.held());
        let counted = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
        [
            ("series", counted(self.metrics.head.series_bytes.get())),
            ("points", counted(self.metrics.head.bytes.get())),
            ("blocks", counted(self.metrics.store.block_cache_bytes.get())),
            ("queries", self.evaluator().engine.settings().memory.bytes()),
            ("bodies", intakes.iter().map(|(bodies, _)| bodies).sum()),
            ("decoded", intakes.iter().map(|(_, decoded)| decoded).sum()),
        ]
    }

    /// Whether new writes can be acknowledged; otherwise the error says why not.
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

    /// Runs `answer` with a permit for answers that are in memory whole, within the time limit of a query. The
    /// caller keeps the permit until the answer has its room in memory.
    pub(super) async fn in_turn<T>(
        &self,
        answer: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<(T, ListPermit), ApiError> {
        self.pressure.check_read()?;
        let most = self.evaluator().engine.settings().timeout;
        let turns = self.turns();
        let answer = async {
            let turn = turns.take(&self.metrics.http.limits).await?;
            // Checked again: the request may have waited long.
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

    use super::super::router;
    use super::*;
    use promkairos_storage::memory::MemoryStore;

    const BODIES: [(&str, &str); 3] = [
        ("/api/v1/write", "application/x-protobuf"),
        ("/api/v1/read", "application/x-protobuf"),
        ("/api/v1/admin/tsdb/delete_series", "application/x-www-form-urlencoded"),
    ];

    /// Status and `Retry-After` of a POST to a server with a body timeout of 1 ms, and the number of timeouts.
    async fn post(path: &str, content_type: &str, body: Body) -> (u16, Option<String>, usize) {
        let metrics = Arc::new(Metrics::new());
        let hasty = || Intake::with_body_timeout(Duration::from_millis(1));
        let state = AppState::new(metrics.clone()).with_admin_api(AdminApi::Enabled);
        let mut reads = ReadGate::new(ReadLimits::default());
        reads.bodies = hasty();
        let ingest = Pipeline::new(metrics.clone()).within(hasty(), Arc::default());
        let state = AppState { ingest, forms: hasty(), reads, ..state };
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
