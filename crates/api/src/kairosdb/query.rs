//! `/api/v1/datapoints/query` and `/api/v1/datapoints/query/tags`.
//!
//! A query is parsed by the workers, and evaluated under the limits of a query of PromQL. Chunks of one metric are in
//! memory at a time.

use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{Method, header};
use axum::response::Response;
use tokio::time::timeout_at;

use super::answer::answer;
use super::failure::Failure;
use crate::body::receive;
use crate::error::ApiError;
use crate::heads::query_of;
use crate::query::outcome;
use crate::query_request::reached;
use crate::request_error::RequestError;
use crate::slow::{self, Watch};
use crate::state::{AppState, SharedState};
use promkairos_ingest::ReceivedBody;
use promkairos_kairos_query::{
    Aggregator, Answer, GroupType, Limits, MetricQuery, Order, Point, Query, QueryError, Series,
    TagMatcher, TagPattern, Tags, Value, parse,
};
use promkairos_model::limits::{MAX_KAIROSDB_QUERY_BYTES, NO_SETTING};
use promkairos_model::{Labels, METRIC_NAME, Matcher, ShownSize, TimeRange};
use promkairos_promql::{self as promql, Held, QueryOptions, RawReader, RawSelection};
use promkairos_telemetry::{QueryKind, QueryOutcome};

const NO_QUERY: &str = "query json must not be null or empty";
const NO_SAVE_AS: &str = "the aggregator save_as is not supported yet";

/// `/api/v1/datapoints/query`: the JSON in the body, or in the parameter `query` of GET.
pub(super) async fn query(
    State(state): State<SharedState>,
    request: Request,
) -> Result<Response, Failure> {
    run(&state, request, append_points).await
}

/// `/api/v1/datapoints/query/tags`: the same, of which only tags are answered.
pub(super) async fn tags(
    State(state): State<SharedState>,
    request: Request,
) -> Result<Response, Failure> {
    run(&state, request, append_tags).await
}

/// Adds what is asked of one metric to the answer.
type Evaluate = for<'a> fn(&RawReader, &MetricQuery, &mut Answer<'a>) -> Result<(), QueryError>;

async fn run(state: &AppState, request: Request, evaluate: Evaluate) -> Result<Response, Failure> {
    let began = Instant::now();
    let path = request.uri().path().to_owned();
    let (text, _body) = query_json(state, request).await?;
    let _watch = Watch::new(state, &path, [slow::shown(&text)]);
    state.pressure.check_read()?;
    let (limits, now) = (limits(), state.clock.now_ms());
    let parsed = state.workers.run(move |_| Ok((parse(&text, now, &limits), limits)));
    let (most, setting) = state.evaluator().engine.settings().longest();
    let parsed = timeout_at((began + most).into(), parsed).await.map_err(|_| {
        let (place, of) = ("query queue", promql::LimitSource::Setting(setting));
        let late = promql::QueryError::TimedOut { place, limit: most, of };
        reached(state, &late);
        ApiError::Query(late)
    })?;
    let (query, limits) = parsed?;
    let query = query?;
    let saves = |one: &Aggregator| matches!(one, Aggregator::SaveAs(_));
    if query.metrics.iter().any(|metric| metric.aggregators.iter().any(saves)) {
        return Err(Failure::NotSupported(NO_SAVE_AS));
    }
    state.pressure.check_read()?;
    let store = state.store()?.clone();
    let options = QueryOptions { began: Some(began), ..QueryOptions::default() };
    let work = move |reader: &RawReader| Ok(evaluated(reader, &query, &limits, evaluate));
    let evaluator = state.evaluator();
    let mut running = state.metrics.queries.begin(QueryKind::KairosDb);
    let done = evaluator.engine.evaluate_raw(store, &options, work).await;
    state.metrics.queries.samples_read.inc_by(options.cost.samples_read());
    let done = match done {
        Ok(Ok(json)) => Ok(answer(json)),
        Ok(Err(QueryError::Source(source))) => match source.downcast::<promql::QueryError>() {
            Ok(error) => Err(Failure::from(ApiError::Query(*error))),
            Err(other) => Err(QueryError::Source(other).into()),
        },
        Ok(Err(error)) => Err(error.into()),
        Err(error) => Err(ApiError::Query(error).into()),
    };
    running.ended(match &done {
        Ok(_) => QueryOutcome::Ok,
        Err(failure) => ended(state, failure),
    });
    done
}

/// How a query ended that failed. A limit of a setting is counted.
fn ended(state: &AppState, failure: &Failure) -> QueryOutcome {
    match failure {
        Failure::Request(RequestError::Api(ApiError::Query(error))) => {
            reached(state, error);
            outcome(error)
        }
        Failure::Query(QueryError::Limit { .. }) => QueryOutcome::Limited,
        _ => QueryOutcome::Failed,
    }
}

/// The JSON of a query, and the body that it was in. While the body is there, its room is taken.
async fn query_json(
    state: &AppState,
    request: Request,
) -> Result<(String, Option<ReceivedBody>), Failure> {
    let (parts, body) = request.into_parts();
    if parts.method != Method::GET {
        let encoding = parts.headers.get(header::CONTENT_ENCODING);
        if let Some(encoding) = encoding.filter(|encoding| *encoding != "identity") {
            let why = format!("a query is not taken with the Content-Encoding {encoding:?}");
            return Err(RequestError::UnsupportedType(why).into());
        }
        let (most, http) = (state.body_bytes(), &state.metrics.http);
        let body = receive(&state.forms, &parts.headers, body, most, http).await?;
        if body.bytes.len() > MAX_KAIROSDB_QUERY_BYTES {
            let most = ShownSize::of(MAX_KAIROSDB_QUERY_BYTES);
            let why = format!("query of more than {most}; {NO_SETTING}");
            return Err(ApiError::BadRequest(why).into());
        }
        return Ok((String::from_utf8_lossy(&body.bytes).into_owned(), Some(body)));
    }
    let query = query_of(&parts.uri, &parts.extensions).unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    match pairs.find(|(name, text)| name == "query" && !text.is_empty()) {
        Some((_, text)) => Ok((text.into_owned(), None)),
        None => Err(ApiError::BadRequest(NO_QUERY.into()).into()),
    }
}

/// The limits of a query that no setting changes. Its memory is limited by that of a query of PromQL.
fn limits() -> Limits {
    let (max_points_in_memory, max_answer_bytes) = (u64::MAX, usize::MAX);
    Limits { max_points_in_memory, max_answer_bytes, ..Limits::default() }
}

fn evaluated(
    reader: &RawReader,
    query: &Query,
    limits: &Limits,
    evaluate: Evaluate,
) -> Result<Vec<u8>, QueryError> {
    let mut memory = reader.memory();
    let cover = |bytes| memory.cover(bytes).and_then(|()| reader.check()).map_err(source);
    let mut answer = Answer::new(limits).counted(cover);
    for metric in &query.metrics {
        evaluate(reader, metric, &mut answer)?;
    }
    Ok(answer.finish())
}

fn append_points(
    reader: &RawReader,
    metric: &MetricQuery,
    answer: &mut Answer<'_>,
) -> Result<(), QueryError> {
    let (selection, filter) = select(reader, metric)?;
    let found = selection.read(|labels| filter.matches(labels)).map_err(source)?;
    let mut memory = reader.memory();
    let series = found.iter().map(|one| {
        let points = one.points().filter(is_visible).map(point);
        let points: Box<dyn Iterator<Item = _>> = match metric.order {
            Order::Ascending => Box::new(points),
            Order::Descending => {
                let points_held = one.max_points();
                memory.take(points_held, points_held * size_of::<Point>()).map_err(source)?;
                let points = points.collect::<Result<Vec<Point>, QueryError>>()?;
                Box::new(points.into_iter().rev().map(Ok))
            }
        };
        Ok(Series { tags: tags_of(one.labels), group_type: GroupType::Number, points })
    });
    answer.metric(metric, series).map(drop)
}

fn append_tags(
    reader: &RawReader,
    metric: &MetricQuery,
    answer: &mut Answer<'_>,
) -> Result<(), QueryError> {
    let (selection, filter) = select(reader, metric)?;
    answer.tags(metric, selection.labels().filter(|one| filter.matches(one)).map(tags_of))
}

/// The filters of a metric, compiled.
struct SeriesFilter<'a> {
    filters: TagMatcher<'a>,
    _memory: Held,
}

impl SeriesFilter<'_> {
    fn matches(&self, labels: &Labels) -> bool {
        let value = |name: &str| Some(labels.get(name)).filter(|value| !value.is_empty());
        self.filters.matches(value)
    }
}

/// The series of a metric, and its filters. A filter without a regular expression is a matcher too, so that an index
/// may serve it, and no other series count.
fn select<'a>(
    reader: &RawReader,
    metric: &'a MetricQuery,
) -> Result<(RawSelection, SeriesFilter<'a>), QueryError> {
    let mut matchers = vec![Matcher::equal(METRIC_NAME, &metric.name)];
    for filter in &metric.tags {
        let values = filter.patterns.iter().map(|pattern| match pattern {
            TagPattern::Exact(value) => Some(value.as_str()),
            TagPattern::Regex(_) => None,
        });
        match values.collect::<Option<Vec<&str>>>().as_deref() {
            Some([value]) => matchers.push(Matcher::equal(&filter.name, value)),
            Some(values) => matchers.push(Matcher::one_of(&filter.name, values)),
            None => {}
        }
    }
    let mut memory = reader.memory();
    memory.take(0, TagMatcher::max_bytes(&metric.tags)).map_err(source)?;
    let filters = TagMatcher::new(&metric.tags)?;
    let range = TimeRange::new(metric.start, metric.end);
    let selection = reader.select(matchers, range).map_err(source)?;
    Ok((selection, SeriesFilter { filters, _memory: memory }))
}

/// The labels as tags, without the name of the metric.
fn tags_of(labels: &Labels) -> Tags {
    let tags = labels.iter().filter(|(name, _)| *name != METRIC_NAME);
    tags.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A KairosDB sees no NaN, no infinity and no stale marker, and its JSON has none.
fn is_visible(point: &Result<(i64, f64), promql::QueryError>) -> bool {
    point.as_ref().map_or(true, |(_, value)| value.is_finite())
}

fn point(point: Result<(i64, f64), promql::QueryError>) -> Result<Point, QueryError> {
    let (time, value) = point.map_err(source)?;
    Ok(Point { time, value: Value::Double(value) })
}

fn source(error: promql::QueryError) -> QueryError {
    QueryError::Source(Box::new(error))
}
