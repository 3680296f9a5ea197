//! Keeps the gauge of readiness: what `/-/ready` would answer, for who watches without asking it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::api::AppState;

/// How often is looked.
const LOOK: Duration = Duration::from_secs(2);
/// How long a store may think about it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks until it is dropped.
pub(super) async fn watch(state: Arc<AppState>) {
    loop {
        let is_ready = matches!(timeout(PATIENCE, state.ready()).await, Ok(Ok(())));
        state.metrics.http.ready.set(i64::from(is_ready));
        sleep(LOOK).await;
    }
}
