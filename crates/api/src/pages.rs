//! Status pages of a Prometheus: build, flags, runtime, log replay. The facts are those of this
//! program, in the format that clients expect.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::json as envelope;
use super::parameters::Parameters;
use super::settings::{AdminApi, TypeAndUnitLabels};
use super::slow::Watch;
use super::state::{AppState, SharedState};
use promkairos_promql::{Features, NameRemoval, format_duration};

/// The version of Prometheus whose API and language this program implements.
pub(super) const API_LEVEL: &str = "3.16.0";

fn build(state: &AppState) -> Value {
    json!({
        "version": API_LEVEL,
        "revision": concat!("promkairos ", env!("CARGO_PKG_VERSION")),
        "branch": "",
        "buildUser": "",
        "buildDate": state.build_date,
        "goVersion": "",
    })
}

/// `GET /api/v1/status/buildinfo`. Without `features`, which would make Grafana assume a Mimir.
pub(super) async fn buildinfo(State(state): State<SharedState>) -> Response {
    envelope::answer(Ok(build(&state)))
}

/// `GET /version`
pub(super) async fn version(State(state): State<SharedState>) -> Response {
    ([("content-type", "application/json")], build(&state).to_string()).into_response()
}

/// `GET /api/v1/status/runtimeinfo`
pub(super) async fn runtimeinfo(State(state): State<SharedState>) -> Response {
    let time = |millis| Timestamp::from_millisecond(millis).unwrap_or_default().to_string();
    let folder = std::env::current_dir().unwrap_or_default();
    let config = &state.metrics.config;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let retention = state.retention.lock().map(shown);
    envelope::answer(Ok(json!({
        "startTime": time(state.started),
        "hostname": rustix::system::uname().nodename().to_string_lossy(),
        "CWD": folder.to_string_lossy(),
        "reloadConfigSuccess": config.last_reload_successful.get() != 0,
        "lastConfigTime": time(config.last_reload_success.get() * 1000),
        "corruptionCount": 0,
        "goroutineCount": 0,
        "GOMAXPROCS": threads,
        "GOMEMLIMIT": 0,
        "GOGC": "",
        "GODEBUG": "",
        "storageRetention": retention.unwrap_or_default(),
        "serverTime": time(state.clock.now_ms()),
    })))
}

/// `GET /api/v1/status/flags`: the settings that Prometheus has too, in its names and notation.
pub(super) async fn flags(State(state): State<SharedState>) -> Response {
    let evaluator = state.evaluator();
    let (settings, syntax) = (evaluator.engine.settings(), evaluator.syntax);
    let features = [
        (syntax.features == Features::Experimental, "promql-experimental-functions"),
        (settings.name_removal == NameRemoval::Delayed, "promql-delayed-name-removal"),
        (state.type_and_unit_labels == TypeAndUnitLabels::Enabled, "type-and-unit-labels"),
    ];
    let features = features.into_iter().filter_map(|(is_on, name)| is_on.then_some(name));
    let admin = (state.admin_api == AdminApi::Enabled).to_string();
    envelope::answer(Ok(json!({
        "enable-feature": features.collect::<Vec<_>>().join(","),
        "query.lookback-delta": shown(settings.lookback),
        "query.max-concurrency": settings.max_concurrent.to_string(),
        "query.max-samples": settings.max_samples.to_string(),
        "query.timeout": shown(settings.timeout),
        "storage.tsdb.retention.time": shown(state.retention.lock().unwrap_or_default()),
        "web.enable-admin-api": admin,
        "web.enable-lifecycle": admin,
        "web.enable-remote-write-receiver": "true",
    })))
}

/// A duration in the notation of Prometheus.
pub(super) fn shown(duration: Duration) -> String {
    format_duration(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}

/// `GET /api/v1/status/walreplay`: always done, because requests are refused before.
pub(super) async fn walreplay() -> Response {
    envelope::answer(Ok(json!({ "min": 0, "max": 0, "current": 0 })))
}

/// `GET /api/v1/status/tsdb/blocks`: always empty.
pub(super) async fn blocks() -> Response {
    envelope::answer(Ok(json!({ "blocks": [] })))
}

/// `GET /api/v1/status/tsdb`, parameter `limit`.
pub(super) async fn tsdb(State(state): State<SharedState>, parameters: Parameters) -> Response {
    let _watch = Watch::new(&state, "/api/v1/status/tsdb", parameters.shown());
    match super::cardinality::cardinality(&state, &parameters).await {
        Ok((counts, warnings)) => envelope::warned(&counts, warnings),
        Err(error) => envelope::failure(error),
    }
}

/// `/-/reload`, only with the admin API: reloads the settings.
pub(super) async fn reload(State(state): State<SharedState>) -> Response {
    let (AdminApi::Enabled, Some(reloader)) = (state.admin_api, state.reloader.get()) else {
        let text = "Lifecycle API is not enabled: start the server with --enable-admin-api to allow reloads.";
        return (StatusCode::FORBIDDEN, text).into_response();
    };
    let (answer, answered) = oneshot::channel();
    let reloaded = match reloader.send(answer).await {
        Ok(()) => answered.await.ok(),
        Err(_) => None,
    };
    match reloaded {
        Some(Ok(said)) => format!("{said}\n").into_response(),
        Some(Err(why)) => {
            let text = format!("failed to reload config: {why}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
        None => (StatusCode::SERVICE_UNAVAILABLE, "the server is stopping\n").into_response(),
    }
}

/// `/-/quit`: always refused; a signal stops the process.
pub(super) async fn quit() -> Response {
    (StatusCode::FORBIDDEN, "Lifecycle API is not enabled.").into_response()
}
