//! `/api/v1/query` and `/api/v1/query_range`: pass parameters to the engine and return its answer.
//!
//! `format_query` and `parse_query` only parse the text.

use std::future::Future;
use std::time::Instant;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use tracing::field::Empty;
use tracing::{Instrument, Span, info_span};

use super::error::ApiError;
use super::parameters::Parameters;
use super::query_request::{Kind, expression, options, reached, steps, wanted};
use super::state::{AppState, SharedState};
use super::{json, parse_query, query_result, slow};
use promkairos_promql::{Cost, QueryError, QueryOptions, QueryResult, Steps};
use promkairos_telemetry::{self as telemetry, QueryOutcome, RunningQuery};

/// `/api/v1/query`, parameters `query`, `time`, `timeout`, `limit`, `lookback_delta`, `stats`.
pub(super) async fn query(
    State(state): State<SharedState>,
    headers: HeaderMap,
    parameters: Parameters,
) -> Response {
    json::respond(answer(&state, &headers, &parameters, Kind::Instant).await)
}

/// `/api/v1/query_range`; parameters like `query`, but `start`, `end` and `step` instead of `time`.
pub(super) async fn query_range(
    State(state): State<SharedState>,
    headers: HeaderMap,
    parameters: Parameters,
) -> Response {
    json::respond(answer(&state, &headers, &parameters, Kind::Range).await)
}

/// `/api/v1/format_query`, parameter `query`.
pub(super) async fn format_query(
    State(state): State<SharedState>,
    parameters: Parameters,
) -> Response {
    let expr = expression(&state, parameters.first("query"), &QueryOptions::default()).await;
    json::answer(expr.map(|(expr, _)| expr.pretty()))
}

/// `/api/v1/parse_query`, parameter `query`.
pub(super) async fn parse_query(
    State(state): State<SharedState>,
    parameters: Parameters,
) -> Response {
    let expr = expression(&state, parameters.first("query"), &QueryOptions::default()).await;
    json::answer(expr.map(|(expr, _)| parse_query::tree(&expr)))
}

async fn answer(
    state: &AppState,
    headers: &HeaderMap,
    parameters: &Parameters,
    kind: Kind,
) -> Result<Response, ApiError> {
    let limit = parameters.limit()?;
    let steps = steps(state, parameters, kind)?;
    let mut options = options(state, headers, parameters)?;
    options.estimate = wanted(parameters)?;
    let query = parameters.first("query");
    let (expr, _room) = expression(state, query, &options).await?;
    let store = state.store()?.clone();
    let evaluator = state.evaluator();
    let engine = &evaluator.engine;
    let evaluation = async {
        match kind {
            Kind::Instant => engine.instant(store, &expr, steps.start, &options).await,
            Kind::Range => engine.range(store, &expr, steps, &options).await,
        }
    };
    let asked = Asked { query, kind, steps, cost: &options.cost };
    let result = counted(state, asked, evaluation).await?;
    Ok(query_result::answer(result, query, limit, parameters.first("stats")))
}

/// A query with its kind and its steps.
struct Asked<'a> {
    query: &'a str,
    kind: Kind,
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
        let running = state.metrics.queries.begin(asked.kind.into());
        let end = ": the client went away".to_owned();
        Self { state, asked, running, start: Instant::now(), end }
    }

    /// Notes the result.
    fn ended(&mut self, result: &Result<QueryResult, QueryError>) {
        self.running.ended(result.as_ref().map_or_else(outcome, |_| QueryOutcome::Ok));
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

/// How a query ended that failed.
pub(super) fn outcome(error: &QueryError) -> QueryOutcome {
    match error {
        QueryError::Invalid(_) | QueryError::Execution(_) => QueryOutcome::Failed,
        QueryError::TooManySamples { .. }
        | QueryError::TooCostly { .. }
        | QueryError::Limit { .. }
        | QueryError::Busy { .. } => QueryOutcome::Limited,
        QueryError::TimedOut { .. } => QueryOutcome::TimedOut,
        QueryError::Canceled => QueryOutcome::Canceled,
        QueryError::Store(_) => QueryOutcome::Store,
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
