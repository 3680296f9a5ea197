//! Hands accepted data to the store below, and knows how far it has them.
//!
//! Deletes go first, in their order; then the whole snapshot. Memory drops the snapshot only after
//! `Ok` from the store below. A failed snapshot is handed down again before the next one is taken.
//! [`super::flush`] cuts snapshots and the log while the head runs, [`super::replay`] during a
//! replay.

use std::sync::Arc;

use tracing::{Instrument, info, warn};

use super::blocking::blocking;
use super::recent_samples::RecentSamples;
use promkairos_model::{Matcher, TimeRange};
use promkairos_storage::{Flush, RatePacer, SharedStore, StoreError};
use promkairos_telemetry::HeadMetrics;

/// A delete that a replay found in the log: the store below may not have it.
pub(super) struct PendingDelete {
    pub(super) matchers: Vec<Matcher>,
    pub(super) range: TimeRange,
    /// When it was accepted, in milliseconds since 1970.
    pub(super) accepted: i64,
}

/// What the store below has, and what it has to get.
pub(super) struct HandingDown {
    memory: Arc<RecentSamples>,
    pub(super) below: SharedStore,
    metrics: HeadMetrics,
    pub(super) deletes: Vec<PendingDelete>,
    /// The last record in a snapshot that the store below has not taken yet.
    pub(super) pending: Option<u64>,
    /// The last record in the store below, as far as this process knows.
    pub(super) through: u64,
    /// The record up to which the log could not be cut yet, perhaps because the disk is full.
    pub(super) uncut: Option<u64>,
}

impl HandingDown {
    /// Nothing is to be handed down yet.
    pub(super) fn new(
        memory: Arc<RecentSamples>,
        below: SharedStore,
        metrics: HeadMetrics,
    ) -> Self {
        let deletes = Vec::new();
        Self { memory, below, metrics, deletes, pending: None, through: 0, uncut: None }
    }

    /// Repeats deletes that the store below may not have.
    pub(super) async fn repeat_deletes(&mut self) -> Result<(), StoreError> {
        while let Some(delete) = self.deletes.first() {
            let PendingDelete { matchers, range, accepted } = delete;
            self.below.delete_accepted(matchers, *range, *accepted).await?;
            self.deletes.remove(0);
        }
        Ok(())
    }

    /// Hands the snapshot, if there is one, to the store below, and then drops it from memory. The
    /// log still has it. `pace` gets the number of runs.
    pub(super) async fn hand_down(
        &mut self,
        pace: impl FnOnce(usize) -> RatePacer,
    ) -> Result<(), StoreError> {
        let Some(through) = self.pending else { return Ok(()) };
        let memory = self.memory.clone();
        let gather = move || {
            let series = memory.flushing();
            let exemplars = memory.exemplars(&[], &TimeRange::ALL, usize::MAX)?;
            let days = memory.flushing_days(&series);
            Ok::<_, StoreError>((series, exemplars, days, memory.metadata_of(None, usize::MAX)))
        };
        let (series, exemplars, days, metadata) = blocking(gather).await??;
        let count = series.len();
        let pace = pace(count);
        // Labels are built for one run at a time.
        let runs = series.into_iter().filter_map(|id| self.memory.flushing_run(id));
        let flush = Flush {
            through,
            runs: Box::new(runs),
            exemplars: exemplars.clone(),
            days,
            metadata: metadata.clone(),
            pace,
        };
        let span = promkairos_telemetry::flush_span(count);
        let absorbed = self.below.ingest_flush(flush).instrument(span.clone()).await;
        let absorbed = absorbed.inspect_err(|error| promkairos_telemetry::fail(&span, error))?;
        span.record("points", absorbed.points as i64);
        for what in &absorbed.reasons {
            warn!("the store below refused: {what}");
        }
        self.metrics.refused.inc_by(absorbed.refused);
        info!(points = absorbed.points, through, "flushed");
        // Evicted only now that the store below returns it. A later failure costs only a
        // repetition.
        let memory = self.memory.clone();
        blocking(move || memory.end_flush(&exemplars, &metadata)).await?;
        (self.pending, self.through, self.uncut) = (None, through, Some(through));
        Ok(())
    }
}
