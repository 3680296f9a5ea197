//! The small pages: index, health and readiness.

use std::time::Duration;

use axum::extract::State;

use super::state::SharedState;
use super::{ApiError, AppState};
use promkairos_storage::Store;

/// How long `/-/ready` waits for Cassandra.
const PATIENCE: Duration = Duration::from_millis(500);

/// `GET /`: a list of the main paths.
pub(super) async fn index() -> &'static str {
    "promkairos\n\
     remote write: POST /api/v1/write\n\
     remote read:  POST /api/v1/read\n\
     PromQL:       /api/v1/query /api/v1/query_range\n\
     health:       /-/healthy /-/ready\n\
     metrics:      /metrics\n"
}

/// `GET /-/healthy`: the process runs. Clients compare the text, which is from Prometheus.
pub(super) async fn healthy() -> &'static str {
    "Prometheus Server is Healthy.\n"
}

/// `GET /-/ready`: the log is replayed, and new writes can be acknowledged. Another line says if
/// reads are refused. The first line is from Prometheus.
pub(super) async fn ready(State(state): State<SharedState>) -> Result<String, ApiError> {
    state.ready().await?;
    let away = state.away.lock().clone();
    let away = match away {
        Some(why) => Some(why),
        None => cassandra_away(&state).await,
    };
    let away = away.map(|why| format!("Writes only, reads are refused: {why}\n"));
    Ok(format!("Prometheus Server is Ready.\n{}", away.unwrap_or_default()))
}

/// Why Cassandra behind a log does not answer now, if it was open before.
async fn cassandra_away(state: &AppState) -> Option<String> {
    let asked = tokio::time::timeout(PATIENCE, state.cassandra.get()?.ready()).await;
    match asked {
        Ok(answer) => answer.err().map(|error| error.to_string()),
        Err(_) => Some(format!("Cassandra has not answered for {PATIENCE:?}")),
    }
}
