//! `/api/v1/datapoints/query` and `/api/v1/datapoints/query/tags`.
//!
//! A query is evaluated under the limits of a query of PromQL. Chunks of one metric are in memory at a time.

use std::collections::BTreeSet;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::Response;

use super::answer::answer;
use super::failure::Failure;
use super::request;
use crate::error::ApiError;
use crate::query::outcome;
use crate::query_request::reached;
use crate::request_error::RequestError;
use crate::state::{AppState, SharedState};
use promkairos_kairos_query::{
    Aggregator, Answer, GroupType, Limits, MetricQuery, Order, Point, Query, QueryError, Series,
    TagMatcher, TagPattern, Tags, Value,
};
use promkairos_model::{Labels, METRIC_NAME, Matcher, TimeRange};
use promkairos_promql::{self as promql, Held, QueryOptions, RawReader, RawSelection, RawValue};
use promkairos_telemetry::{QueryKind, QueryOutcome};

/// Bytes of a value in a set and in a matcher, without its text.
const VALUE_BYTES: usize = 128;
/// How often the text of a value is in a matcher at most. An escaped text has twice the length.
const VALUE_COPIES: usize = 6;
/// Series between two looks at the time of a query.
const CHECKED_SERIES: usize = 1_024;
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
    let asked = request::read(state, request).await?;
    let query = asked.query;
    let saves = |one: &Aggregator| matches!(one, Aggregator::SaveAs(_));
    if query.metrics.iter().any(|metric| metric.aggregators.iter().any(saves)) {
        return Err(Failure::NotSupported(NO_SAVE_AS));
    }
    let limits = asked.limits;
    let work = move |reader: &RawReader| evaluated(reader, &query, &limits, evaluate);
    counted(state, asked.began, work).await.map(answer)
}

/// Runs `work` under the limits of a query of PromQL, and counts it as a query.
pub(super) async fn counted<T: Send + 'static>(
    state: &AppState,
    began: Instant,
    work: impl FnOnce(&RawReader) -> Result<T, QueryError> + Send + 'static,
) -> Result<T, Failure> {
    state.pressure.check_read()?;
    let store = state.store()?.clone();
    let options = QueryOptions { began: Some(began), ..QueryOptions::default() };
    let evaluator = state.evaluator();
    let mut running = state.metrics.queries.begin(QueryKind::KairosDb);
    let done = evaluator.engine.evaluate_raw(store, &options, |reader| Ok(work(reader))).await;
    state.metrics.queries.samples_read.inc_by(options.cost.samples_read());
    let done = match done {
        Ok(Ok(done)) => Ok(done),
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
                memory.take(0, one.max_points() * size_of::<Point>()).map_err(source)?;
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
    let matchers = matchers(metric);
    let mut memory = reader.memory();
    memory.take(0, TagMatcher::max_bytes(&metric.tags)).map_err(source)?;
    let filters = TagMatcher::new(&metric.tags)?;
    let range = TimeRange::new(metric.start, metric.end);
    let selection = reader.select(matchers, range).map_err(source)?;
    Ok((selection, SeriesFilter { filters, _memory: memory }))
}

/// Matchers of the series that a metric means. The matcher of a filter with a regular expression has the values that
/// are stored now, and `memory` counts them. `None` = there is no such series.
pub(super) fn matchers_of_stored(
    reader: &RawReader,
    metric: &MetricQuery,
    memory: &mut Held,
) -> Result<Option<Vec<Matcher>>, QueryError> {
    let (selection, filter) = select(reader, metric)?;
    let mut values = vec![BTreeSet::new(); metric.tags.len()];
    for (at, labels) in selection.labels().enumerate() {
        if at % CHECKED_SERIES == 0 {
            reader.check().map_err(source)?;
        }
        if !filter.matches(labels) {
            continue;
        }
        for (filter, values) in metric.tags.iter().zip(&mut values) {
            let value = labels.get(&filter.name);
            if values.insert(value) {
                memory.take(0, VALUE_BYTES + VALUE_COPIES * value.len()).map_err(source)?;
            }
        }
    }
    if values.iter().any(BTreeSet::is_empty) {
        return Ok(None);
    }
    let mut matchers = vec![Matcher::equal(METRIC_NAME, &metric.name)];
    for (filter, values) in metric.tags.iter().zip(values) {
        let values: Vec<&str> = values.into_iter().collect();
        matchers.push(Matcher::one_of(&filter.name, &values));
    }
    Ok(Some(matchers))
}

/// The name of the metric, and its filters that have no regular expression.
pub(super) fn matchers(metric: &MetricQuery) -> Vec<Matcher> {
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
    matchers
}

/// The labels as tags, without the name of the metric.
fn tags_of(labels: &Labels) -> Tags {
    let tags = labels.iter().filter(|(name, _)| *name != METRIC_NAME);
    tags.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A KairosDB sees no NaN, no infinity and no stale marker, and its JSON has none.
fn is_visible(point: &Result<(i64, RawValue), promql::QueryError>) -> bool {
    match point {
        Ok((_, RawValue::Double(value))) => value.is_finite(),
        Ok((_, RawValue::Long(_))) | Err(_) => true,
    }
}

fn point(point: Result<(i64, RawValue), promql::QueryError>) -> Result<Point, QueryError> {
    let (time, value) = point.map_err(source)?;
    let value = match value {
        RawValue::Double(value) => Value::Double(value),
        RawValue::Long(value) => Value::Long(value),
    };
    Ok(Point { time, value })
}

fn source(error: promql::QueryError) -> QueryError {
    QueryError::Source(Box::new(error))
}
