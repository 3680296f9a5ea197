//! The limits of writes that are settings, and the check of a request against them.
//!
//! Limits may change while the server runs; a request is judged by the limits when it is decoded.

use std::time::Instant;

use parking_lot::RwLock;
use promkairos_model::{
    MAX_SAMPLE_AGE, MAX_SAMPLE_LEAD, RETENTION, RejectReason, Rejections, WriteBatch,
};
use promkairos_storage::MEMORY_LIMIT;
use promkairos_telemetry::Metrics;

use super::families::Families;
use super::rate::Rate;
use super::refusal::{Refusal, SAMPLES_PER_REQUEST, SAMPLES_PER_SECOND, SERIES_PER_REQUEST};
use super::series_limiter::{SeriesLimiter, beyond_setting};
use super::settings::WriteLimits;
use super::throttled_log::ThrottledLog;

/// The kinds of refused parts, as the log names them.
const SERIES: &str = "series";
const SAMPLES: &str = "samples";
const METADATA: &str = "metadata entries";

/// The checks between a decoded request and the store.
pub(super) struct IngestLimits {
    /// The limits in force.
    pub(super) current: RwLock<WriteLimits>,
    pub(super) series: SeriesLimiter,
    pub(super) families: Families,
    rate: Rate,
    pub(super) log: ThrottledLog,
}

impl Default for IngestLimits {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            current: RwLock::default(),
            series: SeriesLimiter::new(now),
            families: Families::default(),
            rate: Rate::new(now),
            log: ThrottledLog::default(),
        }
    }
}

impl IngestLimits {
    /// Forgets inactive series from time to time, sets the metrics of active series and metadata, and logs
    /// refusals that are due.
    pub(super) fn publish(&self, metrics: &Metrics) {
        let now = Instant::now();
        self.series.sweep(now);
        self.log.catch_up(now);
        let ingest = &metrics.ingest;
        ingest.metadata_bytes.set(self.families.bytes() as i64);
        ingest.active_series.set(self.series.active() as i64);
        ingest.active_series_of_a_metric.set(self.series.most_of_a_metric() as i64);
        let limits = *self.current.read();
        let shown = |limit: Option<u64>| limit.unwrap_or(0) as i64;
        ingest.active_series_limit.set(shown(limits.active_series));
        ingest.active_series_per_metric_limit.set(shown(limits.active_series_per_metric));
    }

    /// Logs, throttled, the series that the store refuses because memory is short.
    pub(super) fn log_short_memory(&self, refused: &Rejections) {
        let short = refused.counts().iter().find(|(word, _)| *word == MEMORY_LIMIT);
        if let Some(&(setting, count)) = short {
            self.log_part(SERIES, refused, setting, count);
        }
    }

    /// Counts and logs, throttled, the parts of a request that are refused for a setting.
    fn note_parts(&self, what: &'static str, refused: &Rejections, metrics: &Metrics) {
        let is_setting = |word: &str| !RejectReason::WORDS.contains(&word);
        for &(setting, count) in refused.counts().iter().filter(|(word, _)| is_setting(word)) {
            metrics.http.limits.add(setting, count);
            let what = match setting {
                MAX_SAMPLE_AGE | MAX_SAMPLE_LEAD | RETENTION => SAMPLES,
                _ => what,
            };
            self.log_part(what, refused, setting, count);
        }
    }

    fn log_part(
        &self,
        what: &'static str,
        refused: &Rejections,
        setting: &'static str,
        count: u64,
    ) {
        let last = refused.kept().iter().rfind(|reject| reject.reason.as_str() == setting);
        let last =
            last.map_or_else(|| format!("beyond the setting {setting}"), ToString::to_string);
        self.log.count(what, setting, count, last, Instant::now());
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
        let refused = self.series.judge(limits, store_refuses_new, batch, now);
        metrics.ingest.active_series.set(self.series.active() as i64);
        // The parser does not know the names of settings.
        batch.rejections.reword(|why| beyond_setting(why, &limits.labels));
        batch.rejections.extend(refused);
        self.note_parts(SERIES, &batch.rejections, metrics);
        let refused = self.families.judge(limits.metadata_bytes, batch);
        metrics.ingest.metadata_bytes.set(self.families.bytes() as i64);
        self.note_parts(METADATA, &refused, metrics);
        batch.rejections.extend(refused);
        Ok(())
    }
}
