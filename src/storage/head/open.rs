//! Opening a head: reading the log back into memory.
//!
//! Replay applies no policy: it repeats what was accepted, in the order of the log. A delete is
//! applied to memory at its place; the store below gets it again before anything else, since it
//! may not have been told before the process ended.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::{info, warn};

use super::applier::Applier;
use super::flush::{Flusher, PendingDelete};
use super::memory::{Memory, Resolved};
use super::prepared::Judge;
use super::wal::{self, Entry, Record, Wal, WalOptions};
use super::{Inner, Options, Order, Stamps, blocking};
use crate::model::{Body, WriteOutcome};
use crate::storage::{SharedStore, StoreError};
use crate::telemetry::HeadMetrics;
use crate::wire::{self, Policy, Scratch};

/// What replay gave.
struct Replayed {
    wal: Wal,
    /// The last record that was in the store below already.
    after: u64,
    memory: Arc<Memory>,
    stamp: i64,
    deletes: Vec<PendingDelete>,
}

pub(super) async fn open(
    options: Options,
    below: SharedStore,
    metrics: HeadMetrics,
) -> Result<Inner, StoreError> {
    let through = match below.stats().await {
        Ok(stats) => stats.flushed_through,
        Err(error) => {
            warn!("the store below does not answer, the log goes on without it: {error}");
            0
        }
    };
    let (own_options, own_metrics) = (options.clone(), metrics.clone());
    let replayed = blocking(move || replay(&own_options, own_metrics, through)).await??;
    let Replayed { wal, after, memory, stamp, deletes } = replayed;
    Ok(Inner {
        flusher: Flusher::new(deletes, after),
        options,
        wal: Arc::new(wal),
        order: Mutex::new(Order { stamp, applier: Applier::start(memory.clone())? }),
        memory,
        wake: Arc::new(Notify::new()),
        below,
        metrics,
        obstacle: Mutex::default(),
    })
}

fn replay(
    options: &Options,
    metrics: HeadMetrics,
    flushed_through: u64,
) -> Result<Replayed, StoreError> {
    let wal_options = WalOptions {
        dir: options.dir.clone(),
        segment_bytes: options.segment_bytes.min(options.wal_limit / 8).max(1 << 16),
        disk: options.disk.clone(),
    };
    let after = wal::checkpoint(&options.dir, options.disk.as_ref())?.max(flushed_through);
    let memory = Arc::new(Memory::new(metrics.clone()));
    let mut scratch = Scratch::default();
    let (mut stamp, mut points, mut deletes) = (0, 0, Vec::new());
    let wal = wal::open(wal_options, metrics.clone(), after, &mut |entry| {
        stamp = stamp.max(entry.accepted);
        match &entry.record {
            Record::Write { .. } => {
                let outcome = repeat_write(&memory, options.stamps, &mut scratch, entry)?;
                points += outcome.samples + outcome.histograms;
            }
            Record::Delete { range, matchers } => {
                memory.delete(matchers, range)?;
                // As when it was accepted: no later write shares its time.
                stamp = stamp.max(entry.accepted + 1);
                let (matchers, range) = (matchers.clone(), *range);
                deletes.push(PendingDelete { matchers, range, accepted: entry.accepted });
            }
            Record::Seal(_) | Record::Gap => {}
        }
        Ok(())
    })?;
    // Also of records that are in the store below: stamps never fall, whatever the clock does.
    // A flush may have had the last one.
    stamp = stamp.max(wal.accepted().saturating_add(1));
    metrics.replayed_points.inc_by(points);
    if points > 0 {
        info!(points, "read back from the log");
    }
    Ok(Replayed { wal, after, memory, stamp, deletes })
}

fn repeat_write(
    memory: &Memory,
    stamps: Stamps,
    scratch: &mut Scratch,
    entry: &Entry<'_>,
) -> Result<WriteOutcome, StoreError> {
    let Record::Write { protocol, rejected, body } = &entry.record else {
        return Ok(WriteOutcome::default());
    };
    let body = Body { protocol: *protocol, compressed: body };
    let batch = wire::decode(body, scratch, Policy::Replay(rejected)).map_err(|error| {
        let what = format!("record {} of the log cannot be decoded", entry.sequence);
        StoreError::Backend { what, source: Box::new(error) }
    })?;
    let Resolved { write, judged, .. } = memory.resolve(batch, Judge::Replay);
    if let Some(reject) = judged.rejections.kept().first() {
        let what = format!("record {} of the log was accepted, but: {reject}", entry.sequence);
        return Err(StoreError::Invalid(what));
    }
    Ok(memory.apply(write, stamps.kept(entry.accepted)))
}
