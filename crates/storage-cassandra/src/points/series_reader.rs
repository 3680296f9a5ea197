//! Reads the series of a selection, through the read cache or without it, and forecasts what that costs.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;

use crate::cql::concurrent::all;
use crate::index::found::{FoundRow, bytes_of_rows};
use crate::points::cached_reader::Cached;
use crate::points::point_store::PointStore;
use crate::points::reader::SERIES_AT_ONCE;
use promkairos_chunk::Chunk;
use promkairos_model::TimeRange;
use promkairos_storage::{Forecast, Result, SeriesReader};

/// Reads the series of a selection.
pub(crate) struct CassandraReader {
    pub(crate) points: Arc<PointStore>,
    pub(crate) range: TimeRange,
    /// The rows of each series.
    pub(crate) rows: Vec<Vec<FoundRow>>,
    /// None: everything is read from Cassandra.
    pub(crate) cached: Option<Cached>,
    /// The most bytes of points of a series.
    pub(crate) most_bytes: usize,
}

#[async_trait]
impl SeriesReader for CassandraReader {
    async fn read(&self, series: Range<usize>) -> Result<Vec<Vec<Chunk>>> {
        let (rows, most) = (&self.rows[series.clone()], self.most_bytes);
        let read = match &self.cached {
            Some(cached) => cached.read(self.range, (&self.rows, most), series).await?,
            None => {
                let reads = rows.iter();
                let reads =
                    reads.map(|rows| self.points.read_series(rows, self.range, most).boxed());
                all(SERIES_AT_ONCE, Box::new(reads)).await?
            }
        };
        for (rows, chunks) in rows.iter().zip(&read) {
            self.points.spacings.read(rows[0].metric(), chunks);
        }
        Ok(read)
    }

    async fn forecast(&self, range: TimeRange) -> Result<Forecast> {
        Ok(self.points.spacings.forecast(&self.rows, range, self.points.spec.width()))
    }

    fn held_bytes(&self) -> usize {
        self.rows.iter().map(|rows| bytes_of_rows(rows)).sum()
    }
}
