//! Exemplars: rows of their own beside those of the series, each cell one exemplar.

use futures::FutureExt;

use super::executor::all;
use super::finder::FoundSeries;
use super::reader::damaged;
use super::shared::Shared;
use crate::kairos::{Cell, DataType, cell};
use crate::model::{Exemplar, Labels, Matcher, TimeRange};
use crate::storage::StoreError;

/// Series read at the same time by one query.
const SERIES_AT_ONCE: usize = 32;

impl Shared {
    /// [`Store::exemplars`](crate::storage::Store::exemplars)
    pub(super) async fn exemplars(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<Vec<(Labels, Vec<Exemplar>)>, StoreError> {
        let wanted = |data_type: &DataType| *data_type == DataType::PromExemplar;
        let found = self.find(matchers, range, wanted, usize::MAX).await?;
        let reads = found.into_iter().map(move |series| self.exemplars_of(series, range).boxed());
        let mut found = all(SERIES_AT_ONCE, Box::new(reads)).await?;
        found.retain(|(_, exemplars)| !exemplars.is_empty());
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }

    async fn exemplars_of(
        &self,
        series: FoundSeries,
        range: TimeRange,
    ) -> Result<(Labels, Vec<Exemplar>), StoreError> {
        let mut exemplars = Vec::new();
        for row in &series.rows {
            self.read_cells(row, range, |column, value| {
                let (offset, _) = cell::decode_exemplar_column(column, self.spec.unit())
                    .map_err(|error| damaged(row, error))?;
                let timestamp = self.spec.timestamp(row.row_time, offset);
                match Cell::decode(row.data_type(), offset, value) {
                    Ok(Cell::Exemplar { labels, value }) => {
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
