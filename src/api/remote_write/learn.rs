//! What the guard of new series is told after a start: the series that the store has of the last hour.
//!
//! A metric after the other, so that not all label sets are in memory at a time. Over Cassandra the
//! answer is coarse: the series of a whole window of the index count, those of other writers too. A
//! store that does not answer is asked again for as long as it may tell something new: who goes on
//! writing is known by then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::AppState;
use crate::model::{METRIC_NAME, Matcher, TimeRange};
use crate::storage::{Level, SeriesQuery, SharedStore, StoreError};

/// Of how long ago series are asked for, and how far senders' clocks may be ahead, in milliseconds.
const LAST: i64 = 3_600_000;
const AHEAD: i64 = 600_000;
/// How long the store is asked at most.
const PATIENCE: Duration = Duration::from_secs(900);
/// Between two attempts.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the first requests wait for it where there is a limit.
const WAIT: Duration = Duration::from_secs(10);

/// Tells the guard which series a store has that is about to be opened; it goes on behind this where
/// there is no limit, or where it takes long.
pub async fn learn_series(state: &Arc<AppState>, store: &SharedStore) {
    state.writes.guard.set_learning(true);
    let limits = state.writes.limits();
    let (told, learned) = oneshot::channel::<()>();
    let (state, store) = (state.clone(), store.clone());
    tokio::spawn(async move {
        let asked = timeout(PATIENCE, ask_until_told(&state, &store)).await;
        state.writes.guard.set_learning(false);
        drop(told);
        match asked {
            Ok(()) => tracing::info!("the series that the store has count as active"),
            Err(_) => tracing::warn!(
                "the store did not tell its series: those written since the start count"
            ),
        }
    });
    if limits.active_series.is_some() || limits.active_series_per_metric.is_some() {
        // An error is its end.
        let _ = timeout(WAIT, learned).await;
    }
}

async fn ask_until_told(state: &AppState, store: &SharedStore) {
    while let Err(error) = ask(state, store).await {
        tracing::debug!("the store does not tell its series yet: {error}");
        sleep(PAUSE).await;
    }
}

async fn ask(state: &AppState, store: &SharedStore) -> Result<(), StoreError> {
    let now = state.clock.now_ms();
    let range = TimeRange::new(now - LAST, now + AHEAD);
    let all = SeriesQuery { matchers: Vec::new(), range, limit: 0 };
    let guard = &state.writes.guard;
    for metric in store.label_values(METRIC_NAME, &all).await?.items {
        if state.pressure.level() >= Level::Full {
            let what = "memory is short".to_owned();
            return Err(StoreError::Unavailable { what, retry_after: PAUSE });
        }
        let matchers = vec![Matcher::equal(METRIC_NAME, &metric)];
        let series = store.series(&SeriesQuery { matchers, range, limit: 0 }).await?;
        guard.learn(&series.items, Instant::now());
    }
    state.metrics.ingest.active_series.set(guard.active() as i64);
    Ok(())
}
