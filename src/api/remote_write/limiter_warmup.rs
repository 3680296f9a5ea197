//! Fills the guards of series and families after a start: with the series that the store has of the last hour,
//! and with all its metadata if the store keeps it in memory.
//!
//! Metrics are read one after another, so that not all label sets are in memory at once. Over Cassandra the
//! answer is coarse: it contains all series of a window of the index, also those of other writers. If the store
//! fails, the read is retried while it can still tell something new; after that, active senders have written
//! and are known.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::api::state::AppState;
use crate::model::{METRIC_NAME, Matcher, TimeRange};
use crate::storage::{Level, ListSize, SelectHints, SeriesQuery, SharedStore, StoreError};

/// The age of the oldest samples, and how far ahead senders' clocks may be, in milliseconds.
const LAST: i64 = 3_600_000;
const AHEAD: i64 = 600_000;
/// Longest time for the whole read.
const PATIENCE: Duration = Duration::from_secs(900);
/// First and longest pause between attempts.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Most bytes of the label sets of one metric.
const MOST_BYTES: usize = 256 << 20;
/// How long the start waits for the result if a limit is set.
const WAIT: Duration = Duration::from_secs(10);

/// Passes the series of a store that is about to be opened to the guard. Returns early, while the
/// read goes on in the background, if no limit is set or the read takes long.
pub async fn learn_series(state: &Arc<AppState>, store: &SharedStore) {
    state.writes.guard.set_learning(true);
    let limits = state.writes.limits();
    let (done, learned) = oneshot::channel::<()>();
    let (state, store) = (state.clone(), store.clone());
    tokio::spawn(async move {
        let asked = loop {
            match timeout(PATIENCE, ask_until_known(&state, &store)).await {
                // The store refused new series meanwhile, so they were not counted; only the store can list them.
                Err(_) if state.pressure.level() >= Level::Full => {}
                asked => break asked,
            }
        };
        state.writes.guard.set_learning(false);
        state.publish_active_series();
        drop(done);
        match asked {
            Ok(series) => tracing::info!("loaded {series} active series from the store"),
            Err(_) => tracing::warn!(
                "the store did not list all series: only those written since the start count"
            ),
        }
    });
    if limits.active_series.is_some() || limits.active_series_per_metric.is_some() {
        // An error means that the sender was dropped: the read has ended.
        let _ = timeout(WAIT, learned).await;
    }
}

/// Passes the metric families of a store that keeps them in memory to the metadata guard.
pub async fn learn_metadata(state: &AppState, store: &SharedStore) {
    match store.metadata(None, usize::MAX).await {
        Ok(known) => {
            state.writes.families.learn(&known);
            state.publish_active_series();
        }
        Err(error) => tracing::warn!(
            "cannot read the metadata of the store, which then does not count: {error}"
        ),
    }
}

/// Reads until the guard has all series; returns their number.
async fn ask_until_known(state: &AppState, store: &SharedStore) -> usize {
    let mut pause = PAUSE;
    loop {
        match ask(state, store).await {
            Ok(Learned::All { series }) => return series,
            // Active senders will have written before the time is up.
            Ok(Learned::InPart) => return std::future::pending().await,
            Err(error) => tracing::debug!("the store cannot list its series yet: {error}"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The result of one read.
enum Learned {
    All {
        series: usize,
    },
    /// Some metric has more series than one read returns.
    InPart,
}

async fn ask(state: &AppState, store: &SharedStore) -> Result<Learned, StoreError> {
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
    Ok(if is_all { Learned::All { series } } else { Learned::InPart })
}
