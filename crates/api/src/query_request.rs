//! What the endpoints of queries read from a request: times, options, cost limits and the expression.
//!
//! Parameters are read in the order of Prometheus, so that the same one of several invalid
//! parameters is reported. A parameter can only lower the limit of a setting; a greater value is refused here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use tracing::{Instrument, info_span};

use super::error::ApiError;
use super::parameters::{BACKWARDS, Parameters, invalid, truth, unsigned};
use super::patterns::{self, Read};
use super::state::AppState;
use super::time_param::{self, TimeParam};
use super::workers::Caller;
use promkairos_model::PatternSet;
use promkairos_promql::ast::Expr;
use promkairos_promql::{
    CostLimits, Counting, Estimating, Features, QueryError, QueryOptions, Settings,
    StartTimestamps, Steps, parse_with, quoted,
};
use promkairos_storage::MEMORY_LIMIT;
use promkairos_telemetry::QueryKind;

/// The header that selects whether start timestamps are used.
const USE_START_TIMESTAMPS: &str = "X-Prometheus-Use-Start-Timestamps";
/// Most points of a series in the answer to a range query.
pub const MAX_POINTS: i128 = 11_000;
const BAD_STEP: &str =
    "zero or negative query resolution step widths are not accepted. Try a positive integer";

/// The two kinds of queries of PromQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// At one time.
    Instant,
    /// At many times.
    Range,
}

impl From<Kind> for QueryKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Instant => Self::Instant,
            Kind::Range => Self::Range,
        }
    }
}

/// The steps of a query of this kind.
pub(super) fn steps(
    state: &AppState,
    parameters: &Parameters,
    kind: Kind,
) -> Result<Steps, ApiError> {
    if kind == Kind::Range {
        return range_steps(parameters);
    }
    let time = parameters.time("time")?;
    let time = time.unwrap_or_else(|| TimeParam::from_millis(state.clock.now_ms()));
    Ok(Steps::instant(time.query_millis()))
}

fn range_steps(parameters: &Parameters) -> Result<Steps, ApiError> {
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
        limits: limits(parameters, state.evaluator().engine.settings())?,
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

/// Whether the query is to be estimated too.
pub(super) fn wanted(parameters: &Parameters) -> Result<Estimating, ApiError> {
    match parameters.first("cost") {
        "" => Ok(Estimating::Off),
        text => match truth(text) {
            Ok(true) => Ok(Estimating::On),
            Ok(false) => Ok(Estimating::Off),
            Err(_) => Err(invalid("cost", "must be a boolean")),
        },
    }
}

/// The cost limits in the parameters; none may exceed the settings.
fn limits(parameters: &Parameters, settings: &Settings) -> Result<CostLimits, ApiError> {
    let number = |name| match parameters.first(name) {
        "" => Ok(0),
        text => unsigned(text).map_err(|why| {
            let why = format!("strconv.ParseUint: parsing {}: {why}", quoted(text));
            ApiError::BadRequest(format!("error parsing {name}: {why}"))
        }),
    };
    let (series, samples_read) = (number("max_series")?, number("max_samples_read")?);
    let duration = match parameters.first("max_query_duration") {
        "" => Duration::ZERO,
        text => duration(text).map_err(|why| {
            ApiError::BadRequest(format!("error parsing max_query_duration: {why}"))
        })?,
    };
    let lowers = |name: &str, own: u64, most: u64| match most != 0 && own > most {
        true => Err(above(name, &own.to_string(), &most.to_string())),
        false => Ok(()),
    };
    lowers("max_series", series, settings.max_series)?;
    lowers("max_samples_read", samples_read, settings.max_samples_read)?;
    let (longest, _) = settings.longest();
    if duration > longest {
        let nanoseconds = |length: Duration| i64::try_from(length.as_nanos()).unwrap_or(i64::MAX);
        let [own, most] = [duration, longest].map(nanoseconds).map(time_param::go_duration);
        return Err(above("max_query_duration", &own, &most));
    }
    Ok(CostLimits { series, samples_read, duration })
}

fn duration(text: &str) -> Result<Duration, String> {
    let nanoseconds = time_param::duration(text)?;
    let negative =
        |_| format!("must not be negative, got {}", time_param::go_duration(nanoseconds));
    u64::try_from(nanoseconds).map(Duration::from_nanos).map_err(negative)
}

fn above(name: &str, own: &str, most: &str) -> ApiError {
    ApiError::BadRequest(format!("requested {name} of {own} exceeds the server limit of {most}"))
}

/// Counts the limit that a query has reached.
pub(super) fn reached(state: &AppState, error: &QueryError) {
    // Refusals for lack of memory are counted elsewhere.
    if let Some(setting) = error.setting().filter(|setting| *setting != MEMORY_LIMIT) {
        state.metrics.http.limits.reached(setting);
    }
}
