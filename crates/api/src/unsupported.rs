//! Features of Prometheus that this program lacks: targets, rules, alerts, notifications.
//!
//! They answer with empty lists. Parameters are checked as Prometheus does.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::parameters::{Parameters, integer, invalid, truth};
use super::state::SharedState;
use super::{ApiError, AppState, json as envelope, matches};
use promkairos_promql::quoted;

/// `GET /api/v1/targets`, parameter `state`.
pub(super) async fn targets(parameters: Parameters) -> Response {
    let dropped = ["", "dropped"].contains(&parameters.first("state").to_lowercase().as_str());
    let counts = dropped.then(BTreeMap::<String, u64>::new);
    envelope::answer(Ok(Targets { active: [], dropped: [], counts }))
}

#[derive(serde::Serialize)]
struct Targets {
    #[serde(rename = "activeTargets")]
    active: [(); 0],
    #[serde(rename = "droppedTargets")]
    dropped: [(); 0],
    #[serde(rename = "droppedTargetCounts")]
    counts: Option<BTreeMap<String, u64>>,
}

/// `GET /api/v1/targets/metadata`
pub(super) async fn targets_metadata(
    State(state): State<SharedState>,
    parameters: Parameters,
) -> Response {
    envelope::answer(no_metadata(&state, &parameters).await)
}

async fn no_metadata(state: &AppState, parameters: &Parameters) -> Result<[(); 0], ApiError> {
    let limit = parameters.first("limit");
    if !limit.is_empty() && integer(limit).is_err() {
        return Err(ApiError::BadRequest("limit must be a number".into()));
    }
    let target = parameters.all("match_target").take(1).filter(|target| !target.is_empty());
    let parsed = matches::parse_any(state, target.map(str::to_owned).collect()).await?;
    parsed.map_err(|why| invalid("match_target", why))?;
    Ok([])
}

/// `GET /api/v1/targets/relabel_steps` and `GET /api/v1/scrape_pools/config`
pub(super) async fn scrape_pool(parameters: Parameters) -> Response {
    envelope::answer(match parameters.first("scrapePool") {
        "" => Err(ApiError::BadRequest("no scrapePool parameter provided".into())),
        _ => Err::<(), _>(ApiError::NotFound("scrape pool not found".into())),
    })
}

/// `GET` and `POST /api/v1/search/…`: experimental in Prometheus 3.16, and disabled by default there too.
pub(super) async fn search() -> Response {
    envelope::error(StatusCode::INTERNAL_SERVER_ERROR, "unavailable", "search API disabled")
}

/// `GET /api/v1/scrape_pools`
pub(super) async fn scrape_pools() -> Response {
    envelope::answer(Ok(json!({ "scrapePools": [] })))
}

/// `GET /api/v1/alertmanagers`
pub(super) async fn alertmanagers() -> Response {
    envelope::answer(Ok(json!({ "activeAlertmanagers": [], "droppedAlertmanagers": [] })))
}

/// `GET /api/v1/alerts`
pub(super) async fn alerts() -> Response {
    envelope::answer(Ok(json!({ "alerts": [] })))
}

/// `GET /api/v1/notifications`
pub(super) async fn notifications() -> Response {
    envelope::answer(Ok(json!([])))
}

/// `GET /api/v1/rules`
pub(super) async fn rules(parameters: Parameters) -> Response {
    let none = check_rules(&parameters).map(|()| json!({ "groups": [] }));
    envelope::answer(none)
}

fn check_rules(parameters: &Parameters) -> Result<(), ApiError> {
    let kind = parameters.first("type");
    if !["", "alert", "record"].contains(&kind.to_lowercase().as_str()) {
        return Err(invalid("type", format!("not supported value {}", quoted(kind))));
    }
    let exclude = parameters.first("exclude_alerts");
    if !exclude.is_empty()
        && let Err(why) = truth(exclude)
    {
        let why = format!("error converting exclude_alerts: {why}");
        return Err(invalid("exclude_alerts", why));
    }
    let limit = parameters.first("group_limit");
    if limit.is_empty() && !parameters.first("group_next_token").is_empty() {
        let why = "group_limit needs to be present in order to paginate over the groups";
        return Err(invalid("group_next_token", why));
    }
    if limit.is_empty() {
        return Ok(());
    }
    match integer(limit) {
        Ok(1..) => Ok(()),
        Ok(_) => Err(invalid("group_limit", "group_limit needs to be greater than 0")),
        Err(why) => {
            let why = format!("strconv.ParseInt: parsing {}: {why}", quoted(limit));
            let why = format!("group_limit needs to be a valid number: {why}");
            Err(invalid("group_limit", why))
        }
    }
}
