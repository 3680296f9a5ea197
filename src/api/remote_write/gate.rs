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
use crate::storage::Pressure;
use crate::telemetry::{IngestMetrics, Throttle};

/// What stands between a decoded request and the store.
pub(crate) struct Gate {
    limits: RwLock<WriteLimits>,
    pub(super) guard: Guard,
    rate: Rate,
    told: Mutex<Throttle>,
}

impl Default for Gate {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            limits: RwLock::default(),
            guard: Guard::new(now),
            rate: Rate::new(now),
            told: Mutex::default(),
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

    /// Refuses a request that has too much, and takes the series that are refused out of others.
    pub(super) fn judge(
        &self,
        limits: &WriteLimits,
        pressure: &Pressure,
        batch: &mut WriteBatch<'_>,
        metrics: &IngestMetrics,
    ) -> Result<(), Refusal> {
        let series = batch.series.len();
        let samples = batch.samples.len() + batch.histograms.len();
        let check = |count, what, setting, most| match count > most {
            true => Err(Refusal::Limit { what: format!("{count} {what}"), setting, most }),
            false => Ok(()),
        };
        check(series, "series", "max-series-per-request", limits.series_per_request)?;
        check(samples, "samples", "max-samples-per-request", limits.samples_per_request)?;
        let now = Instant::now();
        if let Some(most) = limits.samples_per_second {
            let taken = self.rate.take(samples, most, now);
            taken.map_err(|retry_after| Refusal::TooFast { most, retry_after })?;
        }
        let before = batch.rejections.len();
        self.guard.judge(limits, pressure, batch, now);
        metrics.active_series.set(self.guard.active() as i64);
        let refused = batch.rejections.len() - before;
        if refused > 0 {
            let why = batch.rejections.kept().last().map(ToString::to_string).unwrap_or_default();
            if let Some(refused) = self.told.lock().count(refused as u64, now) {
                tracing::warn!(refused, "series are refused: {why}");
            }
        }
        Ok(())
    }
}
