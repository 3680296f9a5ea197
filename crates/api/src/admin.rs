//! `/api/v1/admin/tsdb/delete_series`: deletes points of the series that match.
//!
//! Disabled unless `--enable-admin-api` is set. Answers like Prometheus: 204, or its JSON error.

use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::parameters::{BACKWARDS, Parameters, invalid};
use super::settings::AdminApi;
use super::state::SharedState;
use super::{ApiError, AppState, delete_preview, json, matches};
use promkairos_model::{Matcher, TimeRange};

/// `POST` or `PUT`; parameters `match[]` (one or more), `start`, `end` in the URL or a form. Two parameters
/// are not in Prometheus: `dry_run=true` deletes nothing and returns what would be deleted;
/// `count_series=true` also returns the number of matching series.
pub(super) async fn delete_series(State(state): State<SharedState>, request: Request) -> Response {
    if let Some(refused) = refused_unless_enabled(&state) {
        return refused;
    }
    match Parameters::from_request(request, &state).await {
        Ok(parameters) => json::respond(delete_or_preview(&state, &parameters).await),
        Err(refused) => refused,
    }
}

/// `POST` or `PUT`. Does nothing: files are cleaned without a request.
pub(super) async fn clean_tombstones(State(state): State<SharedState>) -> Response {
    refused_unless_enabled(&state).unwrap_or_else(|| StatusCode::NO_CONTENT.into_response())
}

/// `POST` or `PUT`. Snapshots are not supported.
pub(super) async fn snapshot(State(state): State<SharedState>) -> Response {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    let none = || {
        json::error(
            status,
            "unavailable",
            "no snapshots: end the process and copy its data folder, or take a snapshot of the file system",
        )
    };
    refused_unless_enabled(&state).unwrap_or_else(none)
}

async fn delete_or_preview(
    state: &AppState,
    parameters: &Parameters,
) -> Result<Response, ApiError> {
    let range = parameters.strict_range()?;
    if range.end < range.start {
        return Err(invalid("end", BACKWARDS));
    }
    let mode = Mode::parse(parameters)?;
    let (selectors, _room) = matches::required(state, parameters).await?;
    match mode {
        Mode::Delete => {
            delete(state, &selectors, range).await?;
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        Mode::CountedDelete => {
            let matched = delete_preview::matched(state, &selectors, range).await?;
            delete(state, &selectors, range).await?;
            Ok(json::answer(Ok(matched)))
        }
        Mode::DryRun => {
            let data = delete_preview::preview(state, &selectors, range).await?;
            Ok(json::answer(Ok(data)))
        }
    }
}

/// What a delete request does.
#[derive(Debug, Clone, Copy)]
enum Mode {
    Delete,
    /// Deletes, and returns the number of matching series.
    CountedDelete,
    DryRun,
}

impl Mode {
    /// The values of `dry_run` and `count_series`. Other texts are refused, because a misread one would delete.
    fn parse(parameters: &Parameters) -> Result<Self, ApiError> {
        let is_set = |name: &'static str| match parameters.all(name).next() {
            Some("true" | "1") => Ok(true),
            None | Some("false" | "0") => Ok(false),
            Some(text) => Err(invalid(name, format!("{text:?} is not true or false"))),
        };
        Ok(match (is_set("dry_run")?, is_set("count_series")?) {
            (true, _) => Self::DryRun,
            (false, true) => Self::CountedDelete,
            (false, false) => Self::Delete,
        })
    }
}

async fn delete(
    state: &AppState,
    selectors: &[Vec<Matcher>],
    range: TimeRange,
) -> Result<(), ApiError> {
    for matchers in selectors {
        state.store()?.delete(matchers, range).await?;
    }
    Ok(())
}

/// The answer if the admin API is disabled.
pub(super) fn refused_unless_enabled(state: &AppState) -> Option<Response> {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    let why = "admin APIs disabled: --enable-admin-api of the server allows them";
    (state.admin_api == AdminApi::Disabled).then(|| json::error(status, "unavailable", why))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use axum::body::Body;
    use axum::http::header;
    use bytes::Bytes;

    use super::*;
    use promkairos_ingest::Intake;

    #[tokio::test]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let state = AppState::new(Arc::default()).with_admin_api(AdminApi::Enabled);
        let forms = Intake::with_body_timeout(Duration::from_millis(1));
        let state = State(Arc::new(AppState { forms, ..state }));
        let never = futures::stream::pending::<Result<Bytes, std::io::Error>>();
        let form = (header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        let request = Request::post("/").header(form.0, form.1).body(Body::from_stream(never));
        let answer = delete_series(state, request.expect("a request")).await;
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
