//! The limits of remote writes that are settings: what they are now, and whether a request is within.
//!
//! They change while the server runs; a request is judged by those that hold when it is decoded.

use std::time::Instant;

use parking_lot::{Mutex, RwLock};

use super::Refusal;
use super::guard::Guard;
use super::rate::Rate;
use crate::config::WriteLimits;
use crate::model::WriteBatch;
use crate::telemetry::{Metrics, Throttle};

/// The settings of what one request may have.
pub(super) const SERIES_PER_REQUEST: &str = "max-series-per-request";
pub(super) const SAMPLES_PER_REQUEST: &str = "max-samples-per-request";
/// That of how much may come in a second.
pub(super) const SAMPLES_PER_SECOND: &str = "max-samples-per-second";

/// What stands between a decoded request and the store.
pub(crate) struct Gate {
    limits: RwLock<WriteLimits>,
    pub(super) guard: Guard,
    rate: Rate,
    told: Mutex<Throttle>,
    told_of_requests: Mutex<Throttle>,
}

impl Default for Gate {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            limits: RwLock::default(),
            guard: Guard::new(now),
            rate: Rate::new(now),
            told: Mutex::default(),
            told_of_requests: Mutex::default(),
        }
    }
}

impl Gate {
    /// The limits that hold.
    pub(crate) fn limits(&self) -> WriteLimits {
        *self.limits.read()
    }

    /// These limits hold from now on.
    pub(crate) fn set(&self, limits: WriteLimits) {
        *self.limits.write() = limits;
    }

    /// Forgets the series that are not active any more, now and then, and tells how many are.
    pub(crate) fn publish(&self, metrics: &Metrics) {
        self.guard.sweep(Instant::now());
        metrics.ingest.active_series.set(self.guard.active() as i64);
    }

    /// Tells the log now and then that whole requests are refused.
    pub(super) fn tell(&self, why: &Refusal) {
        if let Some(refused) = self.told_of_requests.lock().count(1, Instant::now()) {
            tracing::warn!(refused, "remote writes are refused: {why}");
        }
    }

    /// Refuses a request that has too much, and takes the series that are refused out of others.
    pub(super) fn judge(
        &self,
        limits: &WriteLimits,
        store_refuses_new: bool,
        batch: &mut WriteBatch<'_>,
        metrics: &Metrics,
    ) -> Result<(), Refusal> {
        let series = batch.series.len();
        let samples = batch.samples.len() + batch.histograms.len();
        let check = |count: usize, what: &str, setting: &'static str, most: usize| {
            if count <= most {
                return Ok(());
            }
            metrics.ingest.refuse(setting, samples as u64);
            Err(Refusal::Limit { what: format!("{count} {what}"), setting, most })
        };
        check(series, "series", SERIES_PER_REQUEST, limits.series_per_request)?;
        check(samples, "samples", SAMPLES_PER_REQUEST, limits.samples_per_request)?;
        let now = Instant::now();
        if let Some(most) = limits.samples_per_second {
            let taken = self.rate.take(samples, most, now);
            taken.map_err(|retry_after| {
                metrics.ingest.refuse(SAMPLES_PER_SECOND, samples as u64);
                Refusal::TooFast { most, retry_after }
            })?;
        }
        let refused = self.guard.judge(limits, store_refuses_new, batch, now);
        metrics.ingest.active_series.set(self.guard.active() as i64);
        for &(setting, count) in refused.counts() {
            metrics.http.limits.add(setting, count);
        }
        if let Some(last) = refused.kept().last()
            && let Some(refused) = self.told.lock().count(refused.len() as u64, now)
        {
            tracing::warn!(refused, "series are refused: {last}");
        }
        batch.rejections.extend(refused);
        Ok(())
    }
}
