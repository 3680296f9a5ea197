//! Keeps the gauge of readiness: the result that `/-/ready` would return.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::api::AppState;

/// Between two checks.
const LOOK: Duration = Duration::from_secs(2);
/// Longest time for one check.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs until it is dropped.
pub(super) async fn watch(state: Arc<AppState>) {
    loop {
        let is_ready = matches!(timeout(PATIENCE, state.ready()).await, Ok(Ok(())));
        state.metrics.http.ready.set(i64::from(is_ready));
        sleep(LOOK).await;
    }
}
