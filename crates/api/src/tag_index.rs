//! How a selection is executed over Cassandra, and the state of its tag index.
//!
//! `GET /api/v1/explain`, `GET /api/v1/status/tag_index`, and, if the admin API is enabled, `POST
//! /api/v1/admin/tag_index/build` and `drop`, which start a job and do not wait for its end.

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use super::admin::refused_unless_enabled;
use super::parameters::{Parameters, invalid};
use super::state::SharedState;
use super::{ApiError, AppState, json, matches};
use promkairos_storage_cassandra::{Explanation, Job, JobKind, TagIndexStatus, WindowPath};

/// The default of `rows_per_second`.
const ROWS_PER_SECOND: u32 = 2_000;

/// `GET /api/v1/explain`, parameters `match[]`, `start`, `end`.
pub(super) async fn explain(State(state): State<SharedState>, parameters: Parameters) -> Response {
    json::answer(explanation(&state, &parameters).await)
}

/// How the selection is executed; of several selectors the last one.
async fn explanation(state: &AppState, parameters: &Parameters) -> Result<Value, ApiError> {
    let range = parameters.range()?;
    let (mut selectors, _room) = matches::required(state, parameters).await?;
    let matchers = selectors.pop().unwrap_or_default();
    Ok(explanation_json(&state.cassandra()?.explain(&matchers, range).await?))
}

/// `GET /api/v1/status/tag_index`
pub(super) async fn status(State(state): State<SharedState>) -> Response {
    let status = match state.cassandra() {
        Ok(store) => store.tag_index_status().await.map_err(ApiError::from),
        Err(error) => Err(error),
    };
    json::answer(status.map(|status| status_json(&status)))
}

/// `POST /api/v1/admin/tag_index/build`, parameters `metric`, `rows_per_second`.
pub(super) async fn build(State(state): State<SharedState>, parameters: Parameters) -> Response {
    begin(&state, &parameters, JobKind::Build).await
}

/// `POST /api/v1/admin/tag_index/drop`; parameters like `build`.
pub(super) async fn drop_index(
    State(state): State<SharedState>,
    parameters: Parameters,
) -> Response {
    begin(&state, &parameters, JobKind::Drop).await
}

async fn begin(state: &AppState, parameters: &Parameters, kind: JobKind) -> Response {
    match refused_unless_enabled(state) {
        Some(refused) => refused,
        None => json::answer(begin_job(state, parameters, kind).await),
    }
}

async fn begin_job(
    state: &AppState,
    parameters: &Parameters,
    kind: JobKind,
) -> Result<Value, ApiError> {
    let metric = parameters.first("metric");
    if metric.is_empty() {
        return Err(invalid("metric", "no metric is named"));
    }
    let pace = match parameters.first("rows_per_second") {
        "" => ROWS_PER_SECOND,
        text => text.parse().map_err(|error| invalid("rows_per_second", error))?,
    };
    state.cassandra()?.begin_tag_index_job(metric, kind, pace).await?;
    Ok(json!({ "metric": metric }))
}

fn explanation_json(explanation: &Explanation) -> Value {
    let path = |path: &WindowPath| match path {
        WindowPath::TagIndex { tag, values } => {
            json!({ "path": "tag_index", "tag": tag, "values": values })
        }
        WindowPath::Memory => json!({ "path": "memory" }),
        WindowPath::RowKeys => json!({ "path": "row_keys" }),
    };
    let windows = explanation.windows.iter().map(|window| {
        json!({
            "metric": window.metric,
            "table_name": window.table_name,
            "row_time": window.row_time,
            "paths": window.paths.iter().map(path).collect::<Vec<_>>(),
            "partitions": window.partitions,
            "rows": window.rows,
        })
    });
    let legacy = explanation.legacy.iter();
    let legacy = legacy.map(|read| json!({ "metric": read.metric, "rows": read.rows }));
    json!({
        "legacy": legacy.collect::<Vec<_>>(),
        "series": explanation.series,
        "data_partitions": explanation.partitions,
        "cached_data_partitions": explanation.cached_partitions,
        "windows": windows.collect::<Vec<_>>(),
    })
}

fn status_json(status: &TagIndexStatus) -> Value {
    let tags = status.tags.iter().map(|tag| {
        json!({
            "metric": tag.metric,
            "tag": tag.tag,
            "state": tag.state,
            "from": tag.from,
            "gaps": tag.gaps,
        })
    });
    let jobs = status.jobs.iter().map(|(metric, job)| (metric.clone(), job_json(job)));
    json!({
        "version": status.version,
        "adapters": status.adapters,
        "tags": tags.collect::<Vec<_>>(),
        "jobs": jobs.collect::<serde_json::Map<_, _>>(),
    })
}

fn job_json(job: &Job) -> Value {
    json!({
        "kind": job.kind,
        "state": job.state,
        "error": job.error,
        "windows": job.windows,
        "windows_done": job.windows_done,
        "rows": job.rows,
        "deleted": job.deleted,
        "left": job.left,
        "rows_per_second": job.rows_per_second,
    })
}
