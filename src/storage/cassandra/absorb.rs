//! Takes what a head flushes: long runs of one series, each point with the stamp of its acceptance.
//!
//! Index first, then data, a bounded number of points at a time. A row that Cassandra refuses for
//! good goes to the quarantine file, so that it never blocks the log.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use super::index_writer::Refused;
use super::plan::{Plan, Planner};
use super::shared::Shared;
use super::stamp::now_ms;
use super::writer::{RefusedRow, pause};
use crate::kairos::index::MetadataRow;
use crate::model::{Rejections, WriteOutcome};
use crate::storage::{Absorbed, Flush, SeriesRun, StoreError};

/// Points planned at a time; a run is never cut.
const POINTS_AT_ONCE: usize = 20_000;

impl Shared {
    /// [`Store::absorb`](crate::storage::Store::absorb)
    pub(super) async fn absorb(&self, flush: Flush<'_>) -> Result<Absorbed, StoreError> {
        self.skew.check()?;
        let Flush { mut runs, exemplars, metadata, .. } = flush;
        let mut absorbed = Absorbed::default();
        loop {
            let mut planner = Planner::new(self.spec);
            for run in runs.by_ref() {
                add_run(&mut planner, run)?;
                if planner.len() >= POINTS_AT_ONCE {
                    break;
                }
            }
            if planner.len() == 0 {
                break;
            }
            self.absorb_plan(planner.finish_in_order(), &mut absorbed).await?;
        }
        let mut planner = Planner::new(self.spec);
        for (labels, exemplars) in exemplars {
            let slot = planner.series(labels, 0);
            for exemplar in exemplars {
                planner.exemplar(slot, exemplar.timestamp, &exemplar.labels, exemplar.value);
            }
        }
        let mut plan = planner.finish_in_order();
        let (stamp, wait) = self.stamps.for_write(now_ms(), &plan.identities);
        pause(wait).await;
        plan.stamp(stamp);
        self.absorb_plan(plan, &mut absorbed).await?;
        let metadata = metadata.into_iter();
        let rows =
            metadata.map(|(family, metadata)| MetadataRow { family: family.into(), metadata });
        self.write_metadata(rows.collect(), self.executor.deadline()).await?;
        Ok(absorbed)
    }

    async fn absorb_plan(&self, plan: Plan, absorbed: &mut Absorbed) -> Result<(), StoreError> {
        let _gate = self.index_gate.read().await;
        let deadline = self.executor.deadline();
        let mut refused = self.ensure_index(&plan, deadline).await?;
        let rows = self.write_rows(&plan, &refused, deadline).await?;
        self.quarantine(&plan, &refused, &rows).await?;
        for row in rows {
            refused.insert(row.series, row.why);
        }
        let mut outcome = WriteOutcome::default();
        plan.account(&refused, &mut outcome);
        absorbed.points += outcome.samples + outcome.histograms;
        let reasons = outcome.rejections.kept().iter().map(ToString::to_string);
        let room = Rejections::KEPT.saturating_sub(absorbed.refused.len());
        absorbed.refused.extend(reasons.take(room));
        Ok(())
    }

    /// Puts refused rows on disk before the flush is acknowledged.
    async fn quarantine(
        &self,
        plan: &Plan,
        series: &Refused,
        rows: &[RefusedRow<'_>],
    ) -> Result<(), StoreError> {
        let mut lines = String::new();
        let mut count = 0;
        for cell in &plan.unplaced {
            // No row key exists: the labels and the timestamp say what it was.
            let series = &plan.series[cell.series as usize];
            let (key, time) = (series.labels.as_bytes(), cell.timestamp.to_be_bytes());
            line(&mut lines, key, &time, cell.value(), cell.stamp, &series.refused());
            count += 1;
        }
        for row in plan.rows.iter().filter(|row| series.contains_key(&row.series)) {
            for cell in &plan.cells[row.cells.clone()] {
                let why = &series[&row.series];
                line(&mut lines, plan.key(row), cell.column(), cell.value(), cell.stamp, why);
                count += 1;
            }
        }
        for refused in rows {
            let (key, column, value, stamp, _) = refused.row;
            line(&mut lines, key, column, value, stamp, &refused.why);
            count += 1;
        }
        if count == 0 {
            return Ok(());
        }
        self.executor.metrics.quarantined.inc_by(count);
        tracing::error!(rows = count, "Cassandra refused rows of a flush for good");
        let Some(path) = self.options.quarantine.clone() else { return Ok(()) };
        let written = tokio::task::spawn_blocking(move || {
            append(&path, lines.as_bytes()).map_err(|source| StoreError::Io { path, source })
        });
        written.await.map_err(|error| StoreError::Backend {
            what: "the quarantine file".into(),
            source: Box::new(error),
        })?
    }
}

fn add_run(planner: &mut Planner, run: SeriesRun) -> Result<(), StoreError> {
    let slot = planner.series(run.labels, 0);
    for chunk in &run.chunks {
        for point in chunk.stamped_points() {
            let (point, stamp) = point.map_err(|error| StoreError::Backend {
                what: "a chunk to be flushed".into(),
                source: Box::new(error),
            })?;
            planner.point(slot, &point, if stamp == 0 { now_ms() } else { stamp });
        }
    }
    Ok(())
}

/// One refused cell: key, column and value in hex, stamp, reason; tabs between.
fn line(out: &mut String, key: &[u8], column: &[u8], value: &[u8], stamp: i64, why: &str) {
    for bytes in [key, column, value] {
        for byte in bytes {
            // Writing to a String does not fail.
            let _ = write!(out, "{byte:02x}");
        }
        out.push('\t');
    }
    let _ = writeln!(out, "{stamp}\t{}", why.escape_debug());
}

fn append(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_data()
}
