//! What the guards of new series and families are told after a start: the series that the store has of the last
//! hour, and all its metadata where that is in memory.
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
use crate::storage::{Level, ListSize, SelectHints, SeriesQuery, SharedStore, StoreError};

/// Of how long ago series are asked for, and how far senders' clocks may be ahead, in milliseconds.
const LAST: i64 = 3_600_000;
const AHEAD: i64 = 600_000;
/// How long the store is asked at most.
const PATIENCE: Duration = Duration::from_secs(900);
/// Between two attempts, at first and at last.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Bytes of the label sets of one metric that are asked for.
const MOST_BYTES: usize = 256 << 20;
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
        let asked = loop {
            match timeout(PATIENCE, ask_until_told(&state, &store)).await {
                // What was written meanwhile was not counted: only the store can tell.
                Err(_) if state.pressure.level() >= Level::Full => {}
                asked => break asked,
            }
        };
        state.writes.guard.set_learning(false);
        state.publish_active_series();
        drop(told);
        match asked {
            Ok(series) => tracing::info!("loaded {series} active series from the store"),
            Err(_) => tracing::warn!(
                "the store did not tell all its series: those written since the start count"
            ),
        }
    });
    if limits.active_series.is_some() || limits.active_series_per_metric.is_some() {
        // An error is its end.
        let _ = timeout(WAIT, learned).await;
    }
}

/// Tells the guard of metadata which families a store has that keeps them in memory.
pub async fn learn_metadata(state: &AppState, store: &SharedStore) {
    match store.metadata(None, usize::MAX).await {
        Ok(known) => {
            state.writes.families.learn(&known);
            state.publish_active_series();
        }
        Err(error) => tracing::warn!(
            "the store does not tell its metadata, and what it has does not count: {error}"
        ),
    }
}

/// How many series the guard was told of.
async fn ask_until_told(state: &AppState, store: &SharedStore) -> usize {
    let mut pause = PAUSE;
    loop {
        match ask(state, store).await {
            Ok(Told::All { series }) => return series,
            // Who goes on writing will have come before patience ends.
            Ok(Told::InPart) => return std::future::pending().await,
            Err(error) => tracing::debug!("the store does not tell its series yet: {error}"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// What the guard was told.
enum Told {
    All {
        series: usize,
    },
    /// Of some metric there are more series than are asked for.
    InPart,
}

async fn ask(state: &AppState, store: &SharedStore) -> Result<Told, StoreError> {
    let now = state.clock.now_ms();
    let range = TimeRange::new(now - LAST, now + AHEAD);
    let all = SeriesQuery { matchers: Vec::new(), range, limit: ListSize::UNLIMITED };
    let hints =
        SelectHints { sorted: false, max_label_bytes: MOST_BYTES, ..SelectHints::default() };
    let (mut series, mut is_all) = (0, true);
    for metric in store.label_values(METRIC_NAME, &all).await?.items {
        while state.pressure.level() >= Level::Full {
            sleep(PAUSE).await;
        }
        match store.select(&[Matcher::equal(METRIC_NAME, &metric)], range, &hints).await {
            Ok(found) => {
                state.writes.guard.learn(&found.series, Instant::now());
                series += found.series.len();
            }
            Err(StoreError::Limit(_)) => is_all = false,
            Err(error) => return Err(error),
        }
    }
    Ok(if is_all { Told::All { series } } else { Told::InPart })
}
