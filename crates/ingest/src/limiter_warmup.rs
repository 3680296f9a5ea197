//! Fills the limiters of series and metadata after a start: with the series that the store has of the last hour,
//! and with all its metadata if the store keeps it in memory.
//!
//! Metrics are read one after another, so that not all label sets are in memory at once. Over Cassandra the
//! answer is coarse: it contains all series of a window of the index, also those of other writers. If the store
//! fails, the read is retried while it can still tell something new; after that, active senders have written
//! and are known.

use std::sync::Arc;
use std::time::{Duration, Instant};

use promkairos_model::{METRIC_NAME, Matcher, TimeRange};
use promkairos_storage::{
    Clock, Level, ListSize, Pressure, SelectHints, SeriesQuery, SharedStore, StoreError,
};
use promkairos_telemetry::Metrics;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::ingest_limits::IngestLimits;

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

/// What the warm-up reads and fills.
pub(super) struct Warmup {
    pub(super) limits: Arc<IngestLimits>,
    pub(super) store: SharedStore,
    pub(super) pressure: Arc<Pressure>,
    pub(super) clock: Clock,
    pub(super) metrics: Arc<Metrics>,
}

impl Warmup {
    /// Passes the series of a store that is about to be opened to the series limiter. Returns early, while the
    /// read goes on in the background, if no limit is set or the read takes long.
    pub(super) async fn learn_series(self) {
        self.limits.series.set_learning(true);
        let limits = *self.limits.current.read();
        let (done, learned) = oneshot::channel::<()>();
        tokio::spawn(async move {
            let asked = loop {
                match timeout(PATIENCE, self.ask_until_known()).await {
                    // The store refused new series meanwhile, so they were not counted; only the store can list
                    // them.
                    Err(_) if self.pressure.level() >= Level::Full => {}
                    asked => break asked,
                }
            };
            self.limits.series.set_learning(false);
            self.limits.publish(&self.metrics);
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

    /// Passes the metric families of a store that keeps them in memory to the limiter of metadata.
    pub(super) async fn learn_metadata(self) {
        match self.store.metadata(None, usize::MAX).await {
            Ok(known) => {
                self.limits.families.learn(&known);
                self.limits.publish(&self.metrics);
            }
            Err(error) => tracing::warn!(
                "cannot read the metadata of the store, which then does not count: {error}"
            ),
        }
    }

    /// Reads until the limiter has all series; returns their number.
    async fn ask_until_known(&self) -> usize {
        let mut pause = PAUSE;
        loop {
            match self.ask().await {
                Ok(Some(series)) => return series,
                // Active senders will have written before the time is up.
                Ok(None) => return std::future::pending().await,
                Err(error) => tracing::debug!("the store cannot list its series yet: {error}"),
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Reads the series once; returns their number. `None` = some metric has more series than one read returns.
    async fn ask(&self) -> Result<Option<usize>, StoreError> {
        let now = self.clock.now_ms();
        let range = TimeRange::new(now - LAST, now + AHEAD);
        let all = SeriesQuery { matchers: Vec::new(), range, limit: ListSize::UNLIMITED };
        let hints =
            SelectHints { sorted: false, max_label_bytes: MOST_BYTES, ..SelectHints::default() };
        let (mut series, mut is_all) = (0, true);
        for metric in self.store.label_values(METRIC_NAME, &all).await?.items {
            while self.pressure.level() >= Level::Full {
                sleep(PAUSE).await;
            }
            let matchers = [Matcher::equal(METRIC_NAME, &metric)];
            match self.store.select(&matchers, range, &hints).await {
                Ok(found) => {
                    self.limits.series.learn(&found.series, Instant::now());
                    series += found.series.len();
                }
                Err(StoreError::Limit(_)) => is_all = false,
                Err(error) => return Err(error),
            }
        }
        Ok(is_all.then_some(series))
    }
}
