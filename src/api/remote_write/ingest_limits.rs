//! The limits of remote writes that are settings, and the check of a request against them.
//!
//! Limits may change while the server runs; a request is judged by the limits when it is decoded.

use std::time::Instant;

use parking_lot::RwLock;

use super::families::Families;
use super::rate::Rate;
use super::refusal::{Refusal, SAMPLES_PER_SECOND};
use super::series_limiter::{self, SeriesLimiter};
use super::throttled_log::ThrottledLog;
use crate::config::WriteLimits;
use crate::model::{
    MAX_SAMPLE_AGE, MAX_SAMPLE_LEAD, RETENTION, RejectReason, Rejections, WriteBatch,
};
use crate::storage::MEMORY_LIMIT;
use crate::telemetry::Metrics;

/// The settings that limit one request.
pub(super) const SERIES_PER_REQUEST: &str = "max-series-per-request";
pub(super) const SAMPLES_PER_REQUEST: &str = "max-samples-per-request";

/// The checks between a decoded request and the store.
pub(crate) struct IngestLimits {
    limits: RwLock<WriteLimits>,
    pub(super) guard: SeriesLimiter,
    pub(super) families: Families,
    rate: Rate,
    told: ThrottledLog,
    told_of_samples: ThrottledLog,
    told_of_metadata: ThrottledLog,
    told_of_requests: ThrottledLog,
}

impl Default for IngestLimits {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            limits: RwLock::default(),
            guard: SeriesLimiter::new(now),
            families: Families::default(),
            rate: Rate::new(now),
            told: ThrottledLog::new("series"),
            told_of_samples: ThrottledLog::new("samples"),
            told_of_metadata: ThrottledLog::new("metadata entries"),
            told_of_requests: ThrottledLog::new("remote writes"),
        }
    }
}

impl IngestLimits {
    /// The limits in force.
    pub(crate) fn limits(&self) -> WriteLimits {
        *self.limits.read()
    }

    /// Replaces the limits.
    pub(crate) fn set(&self, limits: WriteLimits) {
        *self.limits.write() = limits;
    }

    /// Forgets inactive series from time to time, sets the metrics of active series and metadata, and logs
    /// refusals that are due.
    pub(crate) fn publish(&self, metrics: &Metrics) {
        let now = Instant::now();
        self.guard.sweep(now);
        self.told.catch_up(now);
        self.told_of_samples.catch_up(now);
        self.told_of_metadata.catch_up(now);
        self.told_of_requests.catch_up(now);
        let ingest = &metrics.ingest;
        ingest.metadata_bytes.set(self.families.bytes() as i64);
        ingest.active_series.set(self.guard.active() as i64);
        ingest.active_series_of_a_metric.set(self.guard.most_of_a_metric() as i64);
        let limits = self.limits();
        let shown = |limit: Option<u64>| limit.unwrap_or(0) as i64;
        ingest.active_series_limit.set(shown(limits.active_series));
        ingest.active_series_per_metric_limit.set(shown(limits.active_series_per_metric));
    }

    /// Logs, throttled, that a whole request is refused.
    pub(super) fn tell(&self, kind: &'static str, why: &Refusal) {
        self.told_of_requests.count(kind, 1, why.to_string(), Instant::now());
    }

    /// Logs, throttled, the series that the store refuses because memory is short.
    pub(super) fn tell_of_memory(&self, refused: &Rejections) {
        let short = refused.counts().iter().find(|(word, _)| *word == MEMORY_LIMIT);
        if let Some(&(setting, count)) = short {
            Self::tell_of_part(&self.told, refused, setting, count);
        }
    }

    /// Counts and logs, throttled, the parts of a request that are refused for a setting.
    fn tell_of_parts(&self, told: &ThrottledLog, refused: &Rejections, metrics: &Metrics) {
        let is_setting = |word: &str| !RejectReason::WORDS.contains(&word);
        for &(setting, count) in refused.counts().iter().filter(|(word, _)| is_setting(word)) {
            metrics.http.limits.add(setting, count);
            let told = match setting {
                MAX_SAMPLE_AGE | MAX_SAMPLE_LEAD | RETENTION => &self.told_of_samples,
                _ => told,
            };
            Self::tell_of_part(told, refused, setting, count);
        }
    }

    fn tell_of_part(told: &ThrottledLog, refused: &Rejections, setting: &'static str, count: u64) {
        let last = refused.kept().iter().rfind(|reject| reject.reason.as_str() == setting);
        let last =
            last.map_or_else(|| format!("beyond the setting {setting}"), ToString::to_string);
        told.count(setting, count, last, Instant::now());
    }

    /// Refuses a request that is too large, and removes refused series and metadata from other requests.
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
            Err(Refusal::Limit { what: format!("{count} {what}"), setting, most: most.to_string() })
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
        // The decoder does not know the names of settings.
        batch.rejections.reword(|why| series_limiter::beyond_setting(why, &limits.labels));
        batch.rejections.extend(refused);
        self.tell_of_parts(&self.told, &batch.rejections, metrics);
        let refused = self.families.judge(limits.metadata_bytes, batch);
        metrics.ingest.metadata_bytes.set(self.families.bytes() as i64);
        self.tell_of_parts(&self.told_of_metadata, &refused, metrics);
        batch.rejections.extend(refused);
        Ok(())
    }
}
