//! `/api/v1/datapoints/query` and `/api/v1/datapoints/query/tags`.
//!
//! A query is parsed by the workers, and evaluated under the limits of a query of PromQL. Chunks of one metric are in
//! memory at a time.

use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::Response;

use super::answer::answer;
use super::failure::Failure;
use crate::body::receive;
use crate::error::ApiError;
use crate::heads::query_of;
use crate::query_request::reached;
use crate::slow::Watch;
use crate::state::{AppState, SharedState};
use promkairos_kairos_query::{
    Aggregator, Answer, GroupType, Limits, MetricQuery, Order, Point, Query, QueryError, Series,
    TagMatcher, TagPattern, Tags, Value, parse,
};
use promkairos_model::limits::MAX_KAIROSDB_QUERY_BYTES;
use promkairos_model::{Labels, METRIC_NAME, Matcher, TimeRange};
use promkairos_promql::{self as promql, Held, QueryOptions, RawReader, RawSelection};

const NO_QUERY: &str = "query json must not be null or empty";
const NO_SAVE_AS: &str = "the aggregator save_as is not supported yet";

/// `/api/v1/datapoints/query`: the JSON in the body, or in the parameter `query` of GET.
pub(super) async fn query(
    State(state): State<SharedState>,
    request: Request,
) -> Result<Response, Failure> {
    asked(&state, request, points).await
}

/// `/api/v1/datapoints/query/tags`: the same, of which only tags are answered.
pub(super) async fn tags(
    State(state): State<SharedState>,
    request: Request,
) -> Result<Response, Failure> {
    asked(&state, request, tag_sets).await
}

/// Adds what is asked of one metric to the answer.
type Evaluate = for<'a> fn(&RawReader, &MetricQuery, &mut Answer<'a>) -> Result<(), QueryError>;

async fn asked(
    state: &AppState,
    request: Request,
    evaluate: Evaluate,
) -> Result<Response, Failure> {
    let began = Instant::now();
    let path = request.uri().path().to_owned();
    let text = text(state, request).await?;
    let _watch = Watch::new(state, &path, [text.clone()]);
    let (limits, now) = (limits(), state.clock.now_ms());
    let parsed = state.workers.run(move |_| Ok((parse(&text, now, &limits), limits)));
    let (query, limits) = parsed.await?;
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
    let done = evaluator.engine.evaluate_raw(store, &options, work).await;
    match done {
        Ok(Ok(json)) => Ok(answer(json)),
        Ok(Err(QueryError::Source(source))) => match source.downcast::<promql::QueryError>() {
            Ok(error) => Err(failed(state, *error)),
            Err(other) => Err(QueryError::Source(other).into()),
        },
        Ok(Err(error)) => Err(error.into()),
        Err(error) => Err(failed(state, error)),
    }
}

/// The failure of an evaluation, which is counted if it is a limit.
fn failed(state: &AppState, error: promql::QueryError) -> Failure {
    reached(state, &error);
    ApiError::Query(error).into()
}

/// The JSON of a query.
async fn text(state: &AppState, request: Request) -> Result<String, Failure> {
    let (parts, body) = request.into_parts();
    if parts.method != Method::GET {
        let (most, http) = (MAX_KAIROSDB_QUERY_BYTES, &state.metrics.http);
        let body = receive(&state.forms, &parts.headers, body, most, http).await?;
        return Ok(String::from_utf8_lossy(&body.bytes).into_owned());
    }
    let query = query_of(&parts.uri, &parts.extensions).unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    match pairs.find(|(name, text)| name == "query" && !text.is_empty()) {
        Some((_, text)) => Ok(text.into_owned()),
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
    let cover = |bytes| memory.cover(bytes).map_err(source);
    let mut answer = Answer::new(limits).counted(cover);
    for metric in &query.metrics {
        evaluate(reader, metric, &mut answer)?;
    }
    Ok(answer.finish())
}

fn points(
    reader: &RawReader,
    metric: &MetricQuery,
    answer: &mut Answer<'_>,
) -> Result<(), QueryError> {
    let (selection, wanted) = select(reader, metric)?;
    let found = selection.read(|labels| wanted.has(labels)).map_err(source)?;
    let mut memory = reader.memory();
    let series = found.iter().map(|one| {
        let points = one.points().map(point);
        let points: Box<dyn Iterator<Item = _>> = match metric.order {
            Order::Ascending => Box::new(points),
            Order::Descending => {
                memory.take(0, one.max_points() * size_of::<Point>()).map_err(source)?;
                let points = points.collect::<Result<Vec<Point>, QueryError>>()?;
                Box::new(points.into_iter().rev().map(Ok))
            }
        };
        Ok(Series { tags: tags_of(one.labels), group_type: GroupType::Number, points })
    });
    answer.metric(metric, series).map(drop)
}

fn tag_sets(
    reader: &RawReader,
    metric: &MetricQuery,
    answer: &mut Answer<'_>,
) -> Result<(), QueryError> {
    let (selection, wanted) = select(reader, metric)?;
    let sets: Vec<Tags> = selection.labels().filter(|one| wanted.has(one)).map(tags_of).collect();
    answer.tags(metric, &sets);
    Ok(())
}

/// The filters of a metric, compiled.
struct Wanted<'a> {
    filters: TagMatcher<'a>,
    _memory: Held,
}

impl Wanted<'_> {
    fn has(&self, labels: &Labels) -> bool {
        self.filters.matches(&tags_of(labels))
    }
}

/// The series of a metric, and its filters. A filter of one value is a matcher too, so that an index may serve it.
fn select<'a>(
    reader: &RawReader,
    metric: &'a MetricQuery,
) -> Result<(RawSelection, Wanted<'a>), QueryError> {
    let mut matchers = vec![Matcher::equal(METRIC_NAME, &metric.name)];
    for filter in &metric.tags {
        if let [TagPattern::Exact(value)] = &filter.patterns[..] {
            matchers.push(Matcher::equal(&filter.name, value));
        }
    }
    let mut memory = reader.memory();
    memory.take(0, TagMatcher::max_bytes(&metric.tags)).map_err(source)?;
    let filters = TagMatcher::new(&metric.tags)?;
    let range = TimeRange::new(metric.start, metric.end);
    let selection = reader.select(matchers, range).map_err(source)?;
    Ok((selection, Wanted { filters, _memory: memory }))
}

/// The labels as tags, without the name of the metric.
fn tags_of(labels: &Labels) -> Tags {
    let tags = labels.iter().filter(|(name, _)| *name != METRIC_NAME);
    tags.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn point(point: Result<(i64, f64), promql::QueryError>) -> Result<Point, QueryError> {
    let (time, value) = point.map_err(source)?;
    Ok(Point { time, value: Value::Double(value) })
}

fn source(error: promql::QueryError) -> QueryError {
    QueryError::Source(Box::new(error))
}
