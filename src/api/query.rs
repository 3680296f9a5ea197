//! `/api/v1/query` and `/api/v1/query_range`: pass parameters to the engine and return its answer.
//!
//! Parameters are read in the order of Prometheus, so that the same one of several invalid
//! parameters is reported. `format_query` and `parse_query` only parse the text.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use tracing::field::Empty;
use tracing::{Instrument, Span, info_span};

use super::parameters::{BACKWARDS, Parameters, invalid, truth};
use super::patterns::Read;
use super::time_param::{self, TimeParam};
use super::workers::Caller;
use super::{ApiError, AppState, json, parse_query, patterns, query_cost, query_result, slow};
use crate::model::PatternSet;
use crate::promql::ast::Expr;
use crate::promql::{
    Cost, Counting, Estimating, Features, QueryError, QueryOptions, QueryResult, StartTimestamps,
    Steps, parse_with,
};
use crate::storage::MEMORY_LIMIT;
use crate::telemetry::{self, QueryKind, QueryOutcome, RunningQuery};

/// The header that selects whether start timestamps are used.
const USE_START_TIMESTAMPS: &str = "X-Prometheus-Use-Start-Timestamps";
/// Most points of a series in an answer.
const MAX_POINTS: i128 = 11_000;
const BAD_STEP: &str =
    "zero or negative query resolution step widths are not accepted. Try a positive integer";

/// `/api/v1/query`, parameters `query`, `time`, `timeout`, `limit`, `lookback_delta`, `stats`.
pub(super) async fn query(
    State(state): State<Arc<AppState>>,
    headers: HeaderMap,
    parameters: Parameters,
) -> Response {
    json::respond(instant(&state, &headers, &parameters).await)
}

/// `/api/v1/query_range`; parameters like `query`, but `start`, `end` and `step` instead of `time`.
pub(super) async fn query_range(
    State(state): State<Arc<AppState>>,
    headers: HeaderMap,
    parameters: Parameters,
) -> Response {
    json::respond(range(&state, &headers, &parameters).await)
}

/// `/api/v1/format_query`, parameter `query`.
pub(super) async fn format_query(
    State(state): State<Arc<AppState>>,
    parameters: Parameters,
) -> Response {
    let expr = expression(&state, parameters.first("query"), &QueryOptions::default()).await;
    json::answer(expr.map(|(expr, _)| expr.pretty()))
}

/// `/api/v1/parse_query`, parameter `query`.
pub(super) async fn parse_query(
    State(state): State<Arc<AppState>>,
    parameters: Parameters,
) -> Response {
    let expr = expression(&state, parameters.first("query"), &QueryOptions::default()).await;
    json::answer(expr.map(|(expr, _)| parse_query::tree(&expr)))
}

async fn instant(
    state: &AppState,
    headers: &HeaderMap,
    parameters: &Parameters,
) -> Result<Response, ApiError> {
    let limit = parameters.limit()?;
    let time = instant_time(state, parameters)?;
    let mut options = options(state, headers, parameters)?;
    options.estimate = query_cost::wanted(parameters)?;
    let query = parameters.first("query");
    let (expr, _room) = expression(state, query, &options).await?;
    let store = state.store()?.clone();
    let evaluator = state.evaluator();
    let evaluation = evaluator.engine.instant(store, &expr, time, &options);
    let (steps, cost) = (Steps::instant(time), &options.cost);
    let asked = Asked { query, kind: QueryKind::Instant, steps, cost };
    let result = counted(state, asked, evaluation).await?;
    Ok(query_result::answer(result, query, limit, parameters.first("stats")))
}

/// The time of an instant query.
pub(super) fn instant_time(state: &AppState, parameters: &Parameters) -> Result<i64, ApiError> {
    let time = parameters.time("time")?;
    Ok(time.unwrap_or_else(|| TimeParam::from_millis(state.clock.now_ms())).query_millis())
}

/// The steps of a range query.
pub(super) fn range_steps(parameters: &Parameters) -> Result<Steps, ApiError> {
    let time = |name| TimeParam::parse(parameters.first(name)).map_err(|why| invalid(name, why));
    let (start, end) = (time("start")?, time("end")?);
    if end < start {
        return Err(invalid("end", BACKWARDS));
    }
    let step =
        time_param::duration(parameters.first("step")).map_err(|why| invalid("step", why))?;
    let interval = step / 1_000_000;
    if interval <= 0 {
        return Err(invalid("step", BAD_STEP));
    }
    if (end.0 - start.0) / i128::from(step) > MAX_POINTS {
        return Err(ApiError::BadRequest(
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the \
             query resolution (?step=XX)"
                .into(),
        ));
    }
    Ok(Steps { start: start.query_millis(), end: end.query_millis(), interval })
}

async fn range(
    state: &AppState,
    headers: &HeaderMap,
    parameters: &Parameters,
) -> Result<Response, ApiError> {
    let limit = parameters.limit()?;
    let steps = range_steps(parameters)?;
    let mut options = options(state, headers, parameters)?;
    options.estimate = query_cost::wanted(parameters)?;
    let query = parameters.first("query");
    let (expr, _room) = expression(state, query, &options).await?;
    let store = state.store()?.clone();
    let evaluator = state.evaluator();
    let evaluation = evaluator.engine.range(store, &expr, steps, &options);
    let asked = Asked { query, kind: QueryKind::Range, steps, cost: &options.cost };
    let result = counted(state, asked, evaluation).await?;
    Ok(query_result::answer(result, query, limit, parameters.first("stats")))
}

/// A query with its kind and its steps.
struct Asked<'a> {
    query: &'a str,
    kind: QueryKind,
    steps: Steps,
    cost: &'a Cost,
}

impl Asked<'_> {
    /// The text for the log, shortened.
    fn shown(&self) -> String {
        slow::shown(self.query)
    }

    /// The span of the query, without its cost.
    fn span(&self) -> Span {
        let Steps { start, end, interval } = self.steps;
        info_span!(
            "query",
            query = self.shown(),
            start,
            end,
            step = interval,
            samples_read = Empty,
            peak_samples = Empty,
            otel.status_description = Empty,
        )
    }
}

/// Records in the span what a query cost, or why it failed.
fn record(span: &Span, result: &Result<QueryResult, QueryError>) {
    match result {
        Ok(result) => {
            span.record("samples_read", result.stats.samples_read as i64);
            span.record("peak_samples", result.stats.peak_samples as i64);
        }
        Err(error) => telemetry::fail(span, error),
    }
}

/// A running query. When this is dropped, its cost is counted, and logged if it was slow. If it is dropped
/// early, the client has disconnected.
struct UnderWay<'a> {
    state: &'a AppState,
    asked: Asked<'a>,
    running: RunningQuery<'a>,
    start: Instant,
    /// The end of the log line.
    end: String,
}

impl<'a> UnderWay<'a> {
    /// Starts the count and the clock.
    fn new(state: &'a AppState, asked: Asked<'a>) -> Self {
        let running = state.metrics.queries.begin(asked.kind);
        let end = ": the client went away".to_owned();
        Self { state, asked, running, start: Instant::now(), end }
    }

    /// Notes the result.
    fn ended(&mut self, result: &Result<QueryResult, QueryError>) {
        self.running.ended(outcome(result));
        self.end = result.as_ref().err().map(|error| format!(": {error}")).unwrap_or_default();
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let (took, cost) = (self.start.elapsed(), self.asked.cost);
        self.state.metrics.queries.samples_read.inc_by(cost.samples_read());
        if took <= self.state.evaluator().slow {
            return;
        }
        let Steps { start, end, interval } = self.asked.steps;
        let how = if std::thread::panicking() { ": it panicked" } else { &self.end };
        tracing::warn!(
            seconds = took.as_secs_f64(),
            queued = cost.queued().as_secs_f64(),
            samples_read = cost.samples_read(),
            samples_seen = cost.queryable_samples(),
            series_touched = cost.series_touched(),
            start,
            end,
            step = interval,
            "slow query: {}{how}",
            self.asked.shown(),
        );
    }
}

fn outcome(result: &Result<QueryResult, QueryError>) -> QueryOutcome {
    match result {
        Ok(_) => QueryOutcome::Ok,
        Err(QueryError::Invalid(_) | QueryError::Execution(_)) => QueryOutcome::Failed,
        Err(
            QueryError::TooManySamples { .. }
            | QueryError::TooCostly { .. }
            | QueryError::Limit { .. }
            | QueryError::Busy { .. },
        ) => QueryOutcome::Limited,
        Err(QueryError::TimedOut { .. }) => QueryOutcome::TimedOut,
        Err(QueryError::Canceled) => QueryOutcome::Canceled,
        Err(QueryError::Store(_)) => QueryOutcome::Store,
    }
}

/// Evaluates the query; counts it, and logs it if it was slow.
async fn counted(
    state: &AppState,
    asked: Asked<'_>,
    evaluation: impl Future<Output = Result<QueryResult, QueryError>>,
) -> Result<QueryResult, QueryError> {
    let span = asked.span();
    let mut under_way = UnderWay::new(state, asked);
    let result = evaluation.instrument(span.clone()).await;
    record(&span, &result);
    under_way.ended(&result);
    result.inspect_err(|error| reached(state, error))
}

/// Counts the limit that a query has reached.
fn reached(state: &AppState, error: &QueryError) {
    // Refusals for lack of memory are counted elsewhere.
    if let Some(setting) = error.setting().filter(|setting| *setting != MEMORY_LIMIT) {
        state.metrics.http.limits.reached(setting);
    }
}

/// The options in the parameters of a query.
pub(super) fn options(
    state: &AppState,
    headers: &HeaderMap,
    parameters: &Parameters,
) -> Result<QueryOptions, ApiError> {
    let given = |name| Some(parameters.first(name)).filter(|text| !text.is_empty());
    let timeout = given("timeout").map(timeout).transpose();
    let timeout = timeout.map_err(|why| invalid("timeout", why))?;
    let lookback = given("lookback_delta").map(time_param::duration).transpose();
    let lookback = lookback.map_err(|why| {
        ApiError::BadRequest(format!("error parsing lookback delta duration: {why}"))
    })?;
    let experimental = state.evaluator().syntax.features == Features::Experimental;
    let by_step = experimental && parameters.first("stats") == "all";
    Ok(QueryOptions {
        timeout,
        lookback: lookback.map(|length| Duration::from_nanos(length.try_into().unwrap_or(0))),
        start_timestamps: start_timestamps(headers)?,
        counting: if by_step { Counting::ByStep } else { Counting::Total },
        limits: query_cost::limits(parameters, state.evaluator().engine.settings())?,
        estimate: Estimating::Off,
        cost: Arc::default(),
        began: Some(Instant::now()),
    })
}

/// Parses the timeout of a query.
fn timeout(text: &str) -> Result<Duration, String> {
    let nanoseconds = time_param::duration(text)?;
    match u64::try_from(nanoseconds) {
        Ok(positive @ 1..) => Ok(Duration::from_nanos(positive)),
        _ => Err(format!("timeout must be positive, got {}", time_param::go_duration(nanoseconds))),
    }
}

/// Whether the header selects start timestamps; `None` = the setting decides.
fn start_timestamps(headers: &HeaderMap) -> Result<Option<StartTimestamps>, ApiError> {
    let Some(value) = headers.get(USE_START_TIMESTAMPS).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    match truth(&String::from_utf8_lossy(value.as_bytes())) {
        Ok(true) => Ok(Some(StartTimestamps::Used)),
        Ok(false) => Ok(Some(StartTimestamps::Ignored)),
        Err(why) => {
            let text = format!("error parsing {USE_START_TIMESTAMPS} header: {why}");
            Err(ApiError::BadRequest(text))
        }
    }
}

/// The syntax tree of a query, with the memory of its patterns.
pub(super) async fn expression(
    state: &AppState,
    query: &str,
    options: &QueryOptions,
) -> Result<Read<Expr>, ApiError> {
    let (parsed, room) = parsed(state, query, options).await?;
    Ok((parsed.map_err(|why| invalid("query", why))?, room))
}

/// Like [`expression`], but returns parse errors too. Compiling patterns counts towards the query's time.
pub(super) async fn parsed(
    state: &AppState,
    query: &str,
    options: &QueryOptions,
) -> Result<Read<Result<Expr, String>>, ApiError> {
    let evaluator = state.evaluator();
    let (text, syntax) = (query.to_owned(), evaluator.syntax);
    let parse = move |set: &mut PatternSet, _: &Caller<'_>| {
        Ok(parse_with(&text, syntax, set).map_err(|error| error.to_string()))
    };
    let deadline = evaluator.engine.compile_deadline(options);
    let read = patterns::read(state, &deadline, query.len(), parse);
    let read = read.instrument(info_span!("parse")).await;
    read.inspect_err(|error| {
        if let ApiError::Query(error) = error {
            reached(state, error);
        }
    })
}
