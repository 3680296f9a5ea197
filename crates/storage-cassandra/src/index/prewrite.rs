//! Writes the index rows of the next window before it begins, for the series that are live.
//!
//! Memory says which series are live: those that this process wrote lately. Labels are read from
//! the open window, and existing rows (a neighbour may have been first) from the next one. Only
//! missing rows are written: a page at a time, paced, never within a request. A process that ends
//! early leaves rows that the next pass, or another process, finds. Rows that are missing when the
//! window begins are written together with its data.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crate::cql::rate::Rate;
use crate::cql::rows::Rows;
use crate::index::index_row::{IndexRow, each_row, row_identity};
use crate::index::memory::{KnownWindow, Used};
use crate::index::prewrite_schedule::{Schedule, WindowChange};
use crate::index::series_index::SeriesIndex;
use crate::index::window::WindowKey;
use promkairos_storage::Result;

/// How often the clock is read.
const LOOK: Duration = Duration::from_millis(500);
/// How long to wait after a failure.
const REST: Duration = Duration::from_secs(10);
/// Rows checked and written at a time.
const ROWS_A_STEP: usize = 100;

impl SeriesIndex {
    /// Runs for ever.
    pub(crate) async fn write_ahead(&self) {
        let schedule = Schedule::new(self.spec, self.mtimes.node());
        let mut done: Option<(WindowChange, i64)> = None;
        loop {
            tokio::time::sleep(LOOK).await;
            let now = self.options.clock.now_ms();
            let Some(change) = schedule.change(now) else { continue };
            if done.is_some_and(|(last, again)| last == change && now < again) {
                continue;
            }
            match self.look_ahead(change, now).await {
                Ok(()) => done = Some((change, change.again(self.options.clock.now_ms()))),
                Err(error) => {
                    tracing::warn!(%error, "index rows of the next window were not written ahead");
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }

    /// Checks all live series once.
    async fn look_ahead(&self, change: WindowChange, now: i64) -> Result<()> {
        let live_within = i64::try_from(self.options.live_within.as_secs()).unwrap_or(i64::MAX);
        let live = (now / 1000).saturating_sub(live_within);
        let windows = self.memory.of_row_time(change.open).into_iter();
        let mut windows: Vec<(Arc<KnownWindow>, usize)> = windows
            .map(|window| (Arc::clone(&window), window.count_used(live)))
            .filter(|(_, rows)| *rows > 0)
            .collect();
        // Each process has its own order, so two that run at once seldom work on the same window.
        let number = self.mtimes.node().cast_signed();
        windows.sort_by_key(|(window, _)| window.key().identity().with(number));
        let rows = windows.iter().map(|(_, rows)| rows).sum();
        let rows_per_second = change.rows_per_second(rows, now);
        let rate = Rate::new(Some(Duration::from_secs_f64(1.0 / rows_per_second)));
        for (window, _) in windows {
            let next = WindowKey { row_time: change.next, ..window.key() };
            let carried = self.carry_over(&window, live, next, change, &rate).await;
            if change.is_over(self.options.clock.now_ms()) {
                // Its data arrives now, so what memory holds of it is needed.
                return Ok(());
            }
            self.memory.forget(next.identity());
            carried?;
        }
        Ok(())
    }

    /// Writes the rows of a window's live series that the next window lacks.
    async fn carry_over(
        &self,
        window: &KnownWindow,
        live: Used,
        next: WindowKey<'_>,
        change: WindowChange,
        rate: &Rate,
    ) -> Result<()> {
        let mut pages = self.index_pages(&self.statements.row_keys.select, window.key().columns());
        while let Some(page) = pages.next().await? {
            let mut rows = self.live_rows(window, live, &page)?;
            while !rows.is_empty() {
                let step: Vec<IndexRow> = rows.drain(..rows.len().min(ROWS_A_STEP)).collect();
                rate.take(step.len() as u32).await;
                let now = self.options.clock.now_ms();
                if change.is_over(now) {
                    return Ok(());
                }
                self.ensure_ahead(next, change.begins_in(now), step).await?;
            }
        }
        Ok(())
    }

    /// The rows of live series in a page of a window.
    fn live_rows(&self, window: &KnownWindow, live: Used, page: &Rows) -> Result<Vec<IndexRow>> {
        let key = window.key();
        let mut rows = Vec::new();
        let _all = each_row(page, |data_type, tags| {
            // promkairos writes no tag with an empty value.
            let is_ours = tags.iter().all(|(_, value)| !value.is_empty());
            if is_ours
                && let Some(row) = IndexRow::of_tags(key.metric, data_type, tags)
                && window.is_used(row_identity(row.series, &row.data_type), live)
            {
                rows.push(row);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(rows)
    }
}
