//! Writes what a head flushes: long runs of one series, each point with the stamp of its acceptance.
//!
//! Index rows first, then data; a bounded number of points at a time, at the pace of the flush. Epochs
//! for read caches are raised once per metric and flush (see `late_write_tracker`). A row that Cassandra refuses
//! for good goes to the quarantine file, so that it never blocks the log. A table that is dropped, altered
//! or forbidden fails the flush instead: the rows are not at fault.

use crate::cql::stamp::{now_ms, pause};
use crate::plan::planner::Planner;
use crate::plan::{Plan, PlannedRow, RefusedSeries, UnplacedValue};
use crate::points::late_write_tracker::LateWrites;
use crate::points::writer::RefusedRow;
use crate::quarantine::{CellText, RefusedPoint};
use crate::store::CassandraStore;
use promkairos_kairos::RowSpec;
use promkairos_kairos::index::MetadataRow;
use promkairos_model::{Exemplar, Labels, Rejections, WriteOutcome};
use promkairos_storage::{Flush, FlushOutcome, Result, SeriesRun, StoreError};

/// Points, or exemplars, planned at a time; a run is never cut. Each plan has its own deadline, so a flush of
/// any size ends.
const POINTS_AT_ONCE: usize = 20_000;
/// Bytes of label sets that are planned at a time.
const LABEL_BYTES_AT_ONCE: usize = 8 << 20;
/// Families of metadata that are written within the time of one request.
const FAMILIES_IN_TIME: usize = 1_000;

impl CassandraStore {
    /// [`Store::ingest_flush`](promkairos_storage::Store::ingest_flush)
    pub(crate) async fn flush(&self, flush: Flush<'_>) -> Result<FlushOutcome> {
        let mut late = LateWrites::default();
        let absorbed = self.flush_all(flush, &mut late).await;
        let raised = self.epochs.end_late_writes(late).await;
        let absorbed = absorbed?;
        raised?;
        Ok(absorbed)
    }

    async fn flush_all(&self, flush: Flush<'_>, late: &mut LateWrites) -> Result<FlushOutcome> {
        let Flush { runs, exemplars, metadata, pace, .. } = flush;
        let mut absorbed = FlushOutcome::default();
        let (mut runs, mut done) = (runs.peekable(), 0);
        // No pause follows the last run.
        while runs.peek().is_some() {
            pace.wait(done).await;
            let mut planner = Planner::new(self.index.spec);
            let mut label_bytes = 0;
            while planner.len() < POINTS_AT_ONCE
                && label_bytes < LABEL_BYTES_AT_ONCE
                && let Some(run) = runs.next()
            {
                done += 1;
                label_bytes += run.labels.as_bytes().len();
                add_run(&mut planner, run)?;
            }
            self.flush_plan(planner.finish_in_order(), late, &mut absorbed).await?;
        }
        for mut plan in plans_of_exemplars(self.index.spec, exemplars) {
            let (stamp, wait) = self.cql.stamps.for_write(now_ms(), &plan.identities);
            pause(wait).await;
            plan.stamp(stamp);
            self.flush_plan(plan, late, &mut absorbed).await?;
        }
        let metadata = metadata.into_iter();
        let rows =
            metadata.map(|(family, metadata)| MetadataRow { family: family.into(), metadata });
        for rows in in_pieces(FAMILIES_IN_TIME, rows) {
            self.metadata.write(rows, self.cql.executor.deadline()).await?;
        }
        Ok(absorbed)
    }

    async fn flush_plan(
        &self,
        plan: Plan,
        late: &mut LateWrites,
        absorbed: &mut FlushOutcome,
    ) -> Result<()> {
        // Checked for each plan: a flush may take long.
        self.cql.skew.check()?;
        let _gate = self.index.begin_write().await?;
        let deadline = self.cql.executor.deadline_of_many(self.index.longest_write());
        let ttls = self.index.lifetimes().of_series(&plan);
        let mut refused = self.index.ensure(&plan, &ttls, deadline).await?;
        self.epochs.begin_late_writes(late, &plan, deadline).await?;
        let rows = self.points.put(&plan, &ttls, &refused, deadline).await?;
        absorbed.refused += self.quarantine_points(&plan, &refused, &rows).await?;
        for row in rows {
            refused.insert(row.planned.series, row.why);
        }
        let mut outcome = WriteOutcome::default();
        plan.account(&refused, &mut outcome);
        absorbed.points += outcome.samples + outcome.histograms;
        let reasons = outcome.rejections.kept().iter().map(ToString::to_string);
        let room = Rejections::KEPT.saturating_sub(absorbed.reasons.len());
        absorbed.reasons.extend(reasons.take(room));
        Ok(())
    }

    /// Writes refused points to disk before the flush is acknowledged. Returns their count.
    async fn quarantine_points(
        &self,
        plan: &Plan,
        series: &RefusedSeries,
        rows: &[RefusedRow<'_>],
    ) -> Result<u64> {
        let labels = |slot: u32| &plan.series[slot as usize].labels;
        let mut lines = Vec::new();
        for point in &plan.unplaced {
            let (value, why) = match &point.value {
                UnplacedValue::Cell(cell) => {
                    let value = CellText::of(&point.data_type, cell.bytes());
                    (value, plan.series[point.series as usize].refused())
                }
                UnplacedValue::Histogram { text, why, .. } => {
                    (CellText::Text(text), why.to_string())
                }
            };
            let (labels, value) = (labels(point.series), (&point.data_type, value));
            lines.push(RefusedPoint::new(labels, point.timestamp, value, point.stamp, &why).line());
        }
        let mut keep = |row: &PlannedRow, column: &[u8], value: &[u8], stamp: i64, why: &str| {
            let value = (&row.data_type, CellText::of(&row.data_type, value));
            let time = row.timestamp(self.index.spec, column);
            lines.push(RefusedPoint::new(labels(row.series), time, value, stamp, why).line());
        };
        for row in &plan.rows {
            let Some(why) = series.get(&row.series) else { continue };
            for cell in &plan.cells[row.cells.clone()] {
                keep(row, cell.column(), cell.value(), cell.stamp, why);
            }
        }
        for refused in rows {
            let (_, column, value, stamp, _) = refused.row;
            keep(refused.planned, column, value, stamp, &refused.why);
        }
        if lines.is_empty() {
            return Ok(0);
        }
        let refused = lines.len() as u64;
        let new = match &self.quarantine {
            Some(quarantine) => quarantine.keep(lines).await?,
            None => refused,
        };
        self.cql.executor.metrics.quarantined.inc_by(new);
        tracing::error!(points = refused, new, "Cassandra refused points of a flush for good");
        Ok(refused)
    }
}

/// Plans of all exemplars, at most [`POINTS_AT_ONCE`] each. The exemplars of one series may be in several plans.
fn plans_of_exemplars(
    spec: RowSpec,
    exemplars: Vec<(Labels, Vec<Exemplar>)>,
) -> impl Iterator<Item = Plan> + Send {
    let each = |(labels, own): (Labels, Vec<Exemplar>)| {
        own.into_iter().map(move |exemplar| (labels.clone(), exemplar))
    };
    in_pieces(POINTS_AT_ONCE, exemplars.into_iter().flat_map(each)).map(move |piece| {
        let mut planner = Planner::new(spec);
        let mut last: Option<(Labels, u32)> = None;
        for (labels, exemplar) in piece {
            let slot = match &last {
                Some((known, slot)) if *known == labels => *slot,
                _ => planner.series(labels.clone(), 0),
            };
            planner.exemplar(slot, exemplar.timestamp, &exemplar.labels, exemplar.value);
            last = Some((labels, slot));
        }
        planner.finish_in_order()
    })
}

/// Items in their order, in pieces of at most `most`. No piece is empty.
fn in_pieces<T: Send>(
    most: usize,
    items: impl Iterator<Item = T> + Send,
) -> impl Iterator<Item = Vec<T>> + Send {
    let mut items = items;
    std::iter::from_fn(move || {
        let piece: Vec<T> = items.by_ref().take(most).collect();
        (!piece.is_empty()).then_some(piece)
    })
}

fn add_run(planner: &mut Planner, run: SeriesRun) -> Result<()> {
    let slot = planner.series(run.labels, 0);
    for chunk in &run.chunks {
        for point in chunk.stamped_points() {
            let mut entry =
                point.map_err(|error| StoreError::backend("a chunk to be flushed", error))?;
            if entry.stamp == 0 {
                entry.stamp = now_ms();
            }
            planner.point(slot, &entry);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_kairos::TimeUnit;

    /// Exemplars of `series` series, `of_each` for each series.
    fn exemplars(series: usize, of_each: usize) -> Vec<(Labels, Vec<Exemplar>)> {
        let labels = |name, value| Labels::from_pairs([(name, value)]).expect("valid");
        let exemplar = |n: usize| Exemplar {
            labels: labels("trace_id", format!("{n}")),
            value: 1.0,
            timestamp: n as i64,
        };
        let of_series =
            |n| (labels("__name__", format!("m{n:06}")), (0..of_each).map(exemplar).collect());
        (0..series).map(of_series).collect()
    }

    /// The number of series and of exemplars in each plan.
    fn planned(exemplars: Vec<(Labels, Vec<Exemplar>)>) -> Vec<(usize, usize)> {
        let spec = RowSpec::new(TimeUnit::Milliseconds, 1_814_400_000).expect("valid");
        let plans = plans_of_exemplars(spec, exemplars);
        plans.map(|plan| (plan.series.len(), plan.cells.len())).collect()
    }

    #[test]
    fn exemplars_are_planned_some_at_a_time() {
        const MOST: usize = POINTS_AT_ONCE;
        assert_eq!(planned(Vec::new()), []);
        assert_eq!(planned(exemplars(3, 2)), [(3, 6)]);
        assert_eq!(planned(exemplars(MOST, 1)), [(MOST, MOST)]);
        // A series is split over plans; a plan may end one series and begin the next.
        assert_eq!(planned(exemplars(1, 2 * MOST + 1)), [(1, MOST), (1, MOST), (1, 1)]);
        assert_eq!(planned(exemplars(3, MOST - 1)), [(2, MOST), (2, MOST), (1, MOST - 3)]);
    }

    #[test]
    fn pieces_hold_everything_in_order() {
        let pieces = |count: usize| in_pieces(3, 0..count).collect::<Vec<_>>();
        assert_eq!(pieces(0), [[0_usize; 0]; 0]);
        assert_eq!(pieces(3), [[0, 1, 2]]);
        assert_eq!(pieces(7), [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
    }
}
