//! Keeps the metric of the earliest time of all samples in the embedded store. Clients use it to know how far back
//! they can query.
//!
//! The time is computed in the background, because it visits all series in memory and no scrape should wait for it.
//! The Cassandra store could find it only by reading its whole index.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::storage::SharedStore;
use crate::telemetry::LowestTime;

/// The pause after a computation, as a multiple of its duration.
const REST: u32 = 200;
/// The shortest pause.
const LEAST_PAUSE: Duration = Duration::from_secs(2);
/// The longest pause.
const MOST_PAUSE: Duration = Duration::from_secs(300);

/// Runs until it is dropped.
pub(super) async fn watch(store: SharedStore, metric: LowestTime) {
    loop {
        let begun = Instant::now();
        match store.stats().await {
            Ok(stats) => metric.set(stats.time_range.map(|range| range.start)),
            Err(error) => tracing::debug!("the least time of the samples is not known: {error}"),
        }
        sleep((begun.elapsed() * REST).clamp(LEAST_PAUSE, MOST_PAUSE)).await;
    }
}
