//! Exemplars: rows of their own beside those of the series, each cell one exemplar. Their bytes are counted
//! against the limit as they arrive, over all series that are read at the same time.

use futures::FutureExt;
use parking_lot::Mutex;

use crate::cql::concurrent::all;
use crate::index::found::FoundSeries;
use crate::points::point_store::PointStore;
use crate::points::reader::damaged;
use promkairos_kairos::{Cell, cell};
use promkairos_model::{Exemplar, Labels, TimeRange};
use promkairos_storage::exemplars::Budget;
use promkairos_storage::{ExemplarList, Result};

/// Series read at the same time by one query.
const SERIES_AT_ONCE: usize = 32;

impl PointStore {
    /// The exemplars of these series.
    pub(crate) async fn exemplars(
        &self,
        found: Vec<FoundSeries>,
        range: TimeRange,
        max_bytes: usize,
    ) -> Result<ExemplarList> {
        // One budget for all series that are read at the same time.
        let budget = &Mutex::new(Budget::new(max_bytes));
        let reads = found.into_iter();
        let reads = reads.map(move |series| self.exemplars_of(series, range, budget).boxed());
        let mut found = all(SERIES_AT_ONCE, Box::new(reads)).await?;
        found.retain(|(_, exemplars)| !exemplars.is_empty());
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }

    async fn exemplars_of(
        &self,
        series: FoundSeries,
        range: TimeRange,
        budget: &Mutex<Budget>,
    ) -> Result<(Labels, Vec<Exemplar>)> {
        let mut exemplars = Vec::new();
        for row in &series.rows {
            self.read_cells(row, range, |column, value| {
                let (offset, _) = cell::decode_exemplar_column(column, self.spec.unit())
                    .map_err(|error| damaged(row, error))?;
                let timestamp = self.spec.timestamp(row.row_time, offset);
                match Cell::decode(row.data_type(), offset, value) {
                    Ok(Cell::Exemplar { labels, value }) => {
                        let mut budget = budget.lock();
                        // A series without exemplars in the range takes nothing from the budget.
                        if exemplars.is_empty() {
                            budget.series(&series.labels)?;
                        }
                        budget.exemplar(&labels)?;
                        drop(budget);
                        exemplars.push(Exemplar { labels, value: value.0, timestamp });
                        Ok(())
                    }
                    Ok(_) => Ok(()),
                    Err(error) => Err(damaged(row, error)),
                }
            })
            .await?;
        }
        exemplars.sort_by(|a, b| (a.timestamp, &a.labels).cmp(&(b.timestamp, &b.labels)));
        Ok((series.labels, exemplars))
    }
}
