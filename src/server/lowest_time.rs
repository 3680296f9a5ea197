//! Keeps the metric of the least time of all samples in the embedded store, by which clients know how far back they
//! may ask.
//!
//! It is looked up in the background: to find it all series in memory are visited, which no scrape is to wait for.
//! The store in Cassandra does not know it without reading all of its index.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::storage::SharedStore;
use crate::telemetry::LowestTime;

/// How many times as long as a look takes nothing is done after it.
const REST: u32 = 200;
/// The shortest pause between two looks.
const LEAST_PAUSE: Duration = Duration::from_secs(2);
/// The longest one.
const MOST_PAUSE: Duration = Duration::from_secs(300);

/// Looks until it is dropped.
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
