//! Deletes of KairosDB's API. As all deletes, they need `--enable-admin-api` and the right `admin`.
//!
//! A delete is one of the store, by matchers. In place of a regular expression of KairosDB a matcher has the values
//! that are stored when the delete begins.

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::failure::Failure;
use super::{query, request};
use crate::error::ApiError;
use crate::settings::AdminApi;
use crate::slow::Watch;
use crate::state::{AppState, SharedState};
use promkairos_kairos_query::{MetricQuery, QueryError, TagPattern};
use promkairos_model::{METRIC_NAME, Matcher, TimeRange};
use promkairos_promql::{Held, RawReader};

const DISABLED: &str = "Forbidden: --enable-admin-api of the server allows deletes";

/// `POST /api/v1/datapoints/delete`: deletes the points that a query means, without its groups and aggregators.
pub(super) async fn data_points(
    State(state): State<SharedState>,
    request: Request,
) -> Result<Response, Failure> {
    check_enabled(&state)?;
    let asked = request::read(&state, request).await?;
    let metrics = asked.query.metrics;
    // The memory of what was found counts until all is deleted.
    let (deletes, _memory): (Vec<_>, _) = if metrics.iter().any(has_regex) {
        let found = move |reader: &RawReader| {
            let mut memory = reader.memory();
            let found = metrics.iter().map(|metric| of_stored(reader, metric, &mut memory));
            let found = found.collect::<Result<Vec<_>, _>>()?;
            Ok((found.into_iter().flatten().collect(), Some(memory)))
        };
        query::counted(&state, asked.began, found).await?
    } else {
        (metrics.iter().map(of_metric).collect(), None)
    };
    let deletes = state.workers.run(move |_| deletes.into_iter().map(readable).collect());
    let deletes: Vec<(Vec<Matcher>, TimeRange)> = deletes.await?;
    for (matchers, range) in deletes {
        state.store()?.delete(&matchers, range).await?;
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `DELETE /api/v1/metric/{name}`: deletes all points of a metric, if there is one.
pub(super) async fn metric(
    State(state): State<SharedState>,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    check_enabled(&state)?;
    let _watch = Watch::new(&state, "/api/v1/metric", [name.clone()]);
    let matchers = [Matcher::equal(METRIC_NAME, &name)];
    state.store()?.delete(&matchers, TimeRange::ALL).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The delete of a metric whose filters have no regular expression.
fn of_metric(metric: &MetricQuery) -> (Vec<Matcher>, TimeRange) {
    (query::matchers(metric), TimeRange::new(metric.start, metric.end))
}

/// Like [`of_metric`], for any filters. `None` = no series matches.
fn of_stored(
    reader: &RawReader,
    metric: &MetricQuery,
    memory: &mut Held,
) -> Result<Option<(Vec<Matcher>, TimeRange)>, QueryError> {
    if !has_regex(metric) {
        return Ok(Some(of_metric(metric)));
    }
    let matchers = query::matchers_of_stored(reader, metric, memory)?;
    Ok(matchers.map(|matchers| (matchers, TimeRange::new(metric.start, metric.end))))
}

/// A log keeps a delete with the texts of its matchers. What it could not read back is refused before.
fn readable(
    (matchers, range): (Vec<Matcher>, TimeRange),
) -> Result<(Vec<Matcher>, TimeRange), ApiError> {
    let again = matchers.iter().map(|one| Matcher::new(one.op(), one.name(), one.value()));
    let again = again.collect::<Result<_, _>>().map_err(|error| {
        ApiError::BadRequest(format!("a delete of too many values of a tag at a time: {error}"))
    })?;
    Ok((again, range))
}

fn check_enabled(state: &AppState) -> Result<(), Failure> {
    match state.admin_api {
        AdminApi::Enabled => Ok(()),
        AdminApi::Disabled => Err(Failure::Forbidden(DISABLED)),
    }
}

fn has_regex(metric: &MetricQuery) -> bool {
    let mut patterns = metric.tags.iter().flat_map(|filter| &filter.patterns);
    patterns.any(|pattern| matches!(pattern, TagPattern::Regex(_)))
}
