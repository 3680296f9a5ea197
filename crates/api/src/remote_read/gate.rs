//! Permits for remote reads.
//!
//! Reads beyond the limit wait for a permit for a bounded time. A body that is being received has none.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::ApiError;
use promkairos_ingest::Intake;
use promkairos_model::limits::{
    ANSWER_STALL, MAX_CONCURRENT_READS, READ_WAIT, READS_PER_SAMPLE_READ,
};
use promkairos_storage::{NoPermit, Permit, Permits};
use promkairos_telemetry::HttpMetrics;

/// The setting that limits concurrent remote reads.
const SETTING: &str = "remote-read-max-concurrency";

/// Limits of concurrent remote reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadLimits {
    /// Concurrent reads; one in [`READS_PER_SAMPLE_READ`] may hold its whole answer in memory.
    pub(crate) at_once: usize,
    /// Longest wait for a permit.
    pub(crate) wait: Duration,
    /// How long a client may accept no data of its answer.
    pub(crate) stall: Duration,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self { at_once: MAX_CONCURRENT_READS, wait: READ_WAIT, stall: ANSWER_STALL }
    }
}

impl ReadLimits {
    /// Answers that may be in memory whole.
    pub(super) fn sample_reads(&self) -> usize {
        (self.at_once / READS_PER_SAMPLE_READ).max(1)
    }
}

/// Permits for remote reads; further reads wait.
pub(crate) struct ReadGate {
    pub(super) all: Permits,
    /// Bodies being received: a slow client holds only the bytes that it sent, and no permit.
    pub(crate) bodies: Intake,
    /// Permits for answers that are in memory whole.
    pub(super) samples: Permits,
    pub(super) limits: ReadLimits,
}

impl ReadGate {
    pub(crate) fn new(limits: ReadLimits) -> Self {
        let [all, samples] =
            [limits.at_once, limits.sample_reads()].map(|n| Permits::new(SETTING, n));
        Self { all, bodies: Intake::default(), samples, limits }
    }

    /// Waits for a permit until the time is up.
    pub(super) async fn turn(
        &self,
        among: &Permits,
        deadline: Instant,
        metrics: &HttpMetrics,
    ) -> Result<Permit, ApiError> {
        among.take(1, deadline).await.map_err(|NoPermit { setting }| {
            let ReadLimits { at_once, wait, .. } = self.limits;
            let what = format!(
                "no permit within {wait:?}: too many remote reads, of which {at_once} run at a time, which is the \
                 setting {setting}"
            );
            ApiError::busy(&metrics.limits, setting, what)
        })
    }
}
