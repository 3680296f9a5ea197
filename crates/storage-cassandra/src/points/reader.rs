//! Reads points: the rows of one series, all types merged by time, as chunks.
//!
//! Windows are read one after the other. One series costs the memory of its chunks and of the points of one window, or
//! of one page where the window has one row. The bytes of the chunks of a series are limited. Where two types have a
//! point at the same time, the later write wins; write times are read only then.

use futures::FutureExt;

use crate::cql::concurrent::all;
use crate::cql::failure::{Failure, if_read};
use crate::cql::prepared::Prepared;
use crate::cql::rows::Rows;
use crate::cut::hex;
use crate::index::found::{FoundRow, READS_AT_ONCE, windows_of};
use crate::points::dead_cells::Slices;
use crate::points::point_store::PointStore;
use promkairos_chunk::{Chunk, ChunkBuilder, StampedPoint, encode_stamped};
use promkairos_kairos::{Cell, DataType, LegacyKind, Offset};
use promkairos_model::{Point, TimeRange};
use promkairos_storage::{Result, StoreError, bytes_of_chunk, check_series_bytes};

/// Series read at the same time by one worker.
pub(crate) const SERIES_AT_ONCE: usize = 32;

/// The parts of a cell that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cells {
    /// Column and value.
    Bare,
    /// Column, value and TTL.
    WithTtl,
}

/// The points of a series in a window.
pub(crate) struct WindowPoints {
    /// In order of time.
    pub(crate) points: Vec<StampedPoint>,
    /// Seconds until the first of their cells expires; None = none expires, or the TTL was not read.
    pub(crate) expires: Option<i32>,
}

/// The most rows of a page for which memory is reserved before they arrive.
const MOST_RESERVED: usize = 1_000;

/// A point and where it was read.
struct FoundPoint<'a> {
    point: Point,
    /// The integer, if the cell has one.
    long: Option<i64>,
    row: &'a FoundRow,
    column: [u8; 4],
    rank: Rank,
}

impl FoundPoint<'_> {
    fn into_stamped(self) -> StampedPoint {
        StampedPoint { point: self.point, long: self.long, stamp: 0 }
    }
}

/// Decides between two points at one time with equal write times: the greater rank wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Histogram,
    Special,
    Long,
    Double,
}

impl Rank {
    fn of(data_type: &DataType, offset: Offset) -> Self {
        match data_type {
            DataType::PromHistogram => Self::Histogram,
            DataType::PromDouble => Self::Special,
            DataType::Long => Self::Long,
            DataType::Legacy if offset.legacy_kind() == LegacyKind::Long => Self::Long,
            _ => Self::Double,
        }
    }
}

impl PointStore {
    /// The points of one series as chunks in order of time.
    pub(crate) async fn read_series(
        &self,
        rows: &[FoundRow],
        range: TimeRange,
        most_bytes: usize,
    ) -> Result<Vec<Chunk>> {
        let (mut chunks, mut bytes) = (Vec::new(), 0);
        for rows in windows_of(rows) {
            let of_window = match rows {
                [row] => self.read_row_chunks(row, range).await?,
                _ => None,
            };
            let of_window = match of_window {
                Some(chunks) => chunks,
                None => {
                    let read = self.read_window_points(rows, range, Cells::Bare).await?;
                    encode_stamped(&read.points)
                }
            };
            bytes += of_window.iter().map(bytes_of_chunk).sum::<usize>();
            check_series_bytes(&rows[0].row.labels, bytes, most_bytes)?;
            chunks.extend(of_window);
        }
        Ok(chunks)
    }

    /// The points of a row, encoded page by page; `None` where they are not in order of time.
    async fn read_row_chunks(
        &self,
        row: &FoundRow,
        range: TimeRange,
    ) -> Result<Option<Vec<Chunk>>> {
        let mut chunks = ChunkBuilder::default();
        let (mut last, mut rises) = (None, true);
        self.read_cells(row, range, |column, value| {
            if let Some(found) = self.point(row, column, value)? {
                rises &= last.is_none_or(|last| last < found.point.timestamp);
                last = Some(found.point.timestamp);
                if rises {
                    chunks.push_stamped(&found.into_stamped());
                }
            }
            Ok(())
        })
        .await?;
        Ok(rises.then(|| chunks.finish()))
    }

    /// The points of one series in one window.
    pub(crate) async fn read_window_points(
        &self,
        rows: &[FoundRow],
        range: TimeRange,
        cells: Cells,
    ) -> Result<WindowPoints> {
        // Before 1970 a window is all rows of the series; there may be one for each point.
        let reads = rows.iter().map(|row| self.read_row(row, range, cells).boxed());
        let (mut found, mut expires) = (Vec::new(), None);
        for (mut row, ttl) in all(READS_AT_ONCE, Box::new(reads)).await? {
            match found.is_empty() {
                true => found = row,
                false => found.append(&mut row),
            }
            expires = sooner(expires, ttl);
        }
        // The cells of a row are ordered, and mostly there is one row.
        let is_in_order =
            |a: &FoundPoint<'_>, b: &FoundPoint<'_>| a.point.timestamp < b.point.timestamp;
        if !found.is_sorted_by(is_in_order) {
            found = self.latest(found).await?;
        }
        let points = found.into_iter().map(FoundPoint::into_stamped).collect();
        Ok(WindowPoints { points, expires })
    }

    /// The points in order of time; of several at one time, the point written last.
    async fn latest<'a>(&self, mut found: Vec<FoundPoint<'a>>) -> Result<Vec<FoundPoint<'a>>> {
        found.sort_by_key(|found| found.point.timestamp);
        let mut latest = Vec::with_capacity(found.len());
        let mut rest = found.into_iter().peekable();
        while let Some(first) = rest.next() {
            let time = first.point.timestamp;
            let mut same = Vec::new();
            while let Some(other) = rest.next_if(|other| other.point.timestamp == time) {
                same.push(other);
            }
            latest.push(if same.is_empty() { first } else { self.later(first, same).await? });
        }
        Ok(latest)
    }

    /// Of several points at one time, the point written last.
    async fn later<'a>(
        &self,
        first: FoundPoint<'a>,
        same: Vec<FoundPoint<'a>>,
    ) -> Result<FoundPoint<'a>> {
        let mut best = (self.write_time(&first).await?, first.rank);
        let mut winner = first;
        for other in same {
            let claim = (self.write_time(&other).await?, other.rank);
            if claim >= best {
                (best, winner) = (claim, other);
            }
        }
        Ok(winner)
    }

    async fn write_time(&self, found: &FoundPoint<'_>) -> Result<Option<i64>> {
        let select = &self.statements.write_time;
        let values = (found.row.key(), &found.column[..]);
        let rows = self.cql.rows(select, values).await?;
        Ok(rows.first::<(Option<i64>,)>()?.and_then(|(time,)| time))
    }

    /// The points of a row, and when the first of its cells expires.
    async fn read_row<'a>(
        &self,
        row: &'a FoundRow,
        range: TimeRange,
        cells: Cells,
    ) -> Result<(Vec<FoundPoint<'a>>, Option<i32>)> {
        let (mut found, mut expires) = (Vec::new(), None);
        match cells {
            Cells::Bare => {
                self.read_cells(row, range, |column, value| {
                    found.extend(self.point(row, column, value)?);
                    Ok(())
                })
                .await?;
            }
            Cells::WithTtl => {
                let select = &self.statements.select_lasting;
                self.read_pages(select, row, range, |page| {
                    type Row<'f> = (&'f [u8], Option<&'f [u8]>, Option<i32>);
                    let mut last = None;
                    // The count comes from the server and is not trusted.
                    found.reserve(page.len().min(MOST_RESERVED));
                    for cell in page.iter::<Row<'_>>()? {
                        let (column, value, ttl) = cell?;
                        expires = sooner(expires, ttl);
                        found.extend(self.point(row, column, value.unwrap_or_default())?);
                        last = Some(column);
                    }
                    Ok(last.map(Box::from))
                })
                .await?;
            }
        }
        Ok((found, expires))
    }

    /// The point in a cell; None where a neighbour wrote a cell that promkairos does not use.
    fn point<'a>(
        &self,
        row: &'a FoundRow,
        column: &[u8],
        value: &[u8],
    ) -> Result<Option<FoundPoint<'a>>> {
        let shown = |column: &[u8]| format!("{row}, column 0x{}", hex(column));
        let Ok(column) = <[u8; 4]>::try_from(column) else {
            self.cql.executor.skip("column", || shown(column));
            return Ok(None);
        };
        let decoded = Offset::from_bytes(&column, self.spec.unit())
            .and_then(|offset| Ok((offset, Cell::decode(row.data_type(), offset, value)?)));
        let (offset, cell) = match decoded {
            Ok(decoded) => decoded,
            Err(error) if is_ours(row.data_type()) => return Err(damaged(row, error)),
            Err(_) => {
                self.cql.executor.skip("value", || shown(&column));
                return Ok(None);
            }
        };
        let timestamp = self.spec.timestamp(row.row_time, offset);
        let long = match &cell {
            Cell::Long(long) => Some(*long),
            _ => None,
        };
        Ok(cell.into_value().map(|(value, start_timestamp)| {
            let point = Point { timestamp, start_timestamp, value };
            FoundPoint { point, long, row, column, rank: Rank::of(row.data_type(), offset) }
        }))
    }

    /// Calls `visit` with column and value of each cell of the row in the range.
    pub(crate) async fn read_cells(
        &self,
        row: &FoundRow,
        range: TimeRange,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let select = &self.statements.select;
        self.read_pages(select, row, range, |page| {
            let mut last = None;
            for cell in page.iter::<(&[u8], Option<&[u8]>)>()? {
                let (column, value) = cell?;
                visit(column, value.unwrap_or_default())?;
                last = Some(column);
            }
            Ok(last.map(Box::from))
        })
        .await
    }

    /// Calls `visit` with each page of `select` for the row in the range; it returns the last column of the page.
    async fn read_pages(
        &self,
        select: &Prepared,
        row: &FoundRow,
        range: TimeRange,
        mut visit: impl FnMut(&Rows) -> Result<Option<Box<[u8]>>>,
    ) -> Result<()> {
        let Some(columns) = self.spec.columns(row.row_time, range) else { return Ok(()) };
        let key = row.key();
        let mut slices = Slices::of(&self.dead_cells, &key, &columns.start, &columns.end);
        while let Some((start, end)) = slices.next() {
            let (mut last, mut pages) = (None, self.cql.pages(select, (&*key, start, end)));
            let read = async {
                while let Some(page) = pages.next().await? {
                    self.cql.executor.metrics.rows_read.inc_by(page.len() as u64);
                    last = visit(&page)?.or(last.take());
                }
                Ok::<_, Failure>(())
            };
            match read.await {
                Ok(()) => slices.finish_slice(last.as_deref()),
                Err(Failure::Unread(_)) if slices.cut(last.as_deref()) => {}
                Err(Failure::Unread(why)) => {
                    self.cql.executor.metrics.reads_unread.inc();
                    return Err(Failure::Unread(format!("{why}; the row is {row}")).into());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether a row has any cell. Where a server gives up on the short query, the whole row is read.
    pub(crate) async fn has_cells(&self, row: &FoundRow) -> Result<bool> {
        let select = &self.statements.any;
        if let Some(rows) = if_read(self.cql.rows(select, (&*row.key(),)).await)? {
            return Ok(!rows.is_empty());
        }
        let mut has_cells = false;
        self.read_cells(row, TimeRange::ALL, |_, _| {
            has_cells = true;
            Ok(())
        })
        .await?;
        Ok(has_cells)
    }
}

/// The sooner of two expiries; None = never.
fn sooner(a: Option<i32>, b: Option<i32>) -> Option<i32> {
    a.into_iter().chain(b).min()
}

/// Whether only promkairos writes this type. Unreadable bytes then are damage or come from a later version.
fn is_ours(data_type: &DataType) -> bool {
    matches!(data_type, DataType::PromDouble | DataType::PromHistogram | DataType::PromExemplar)
}

/// The error for a cell of ours that cannot be read.
pub(crate) fn damaged(row: &FoundRow, error: promkairos_kairos::DecodeError) -> StoreError {
    StoreError::backend(format!("table data_points, row {}", row.key().escape_ascii()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_are_settled_by_kind() {
        let unit = promkairos_kairos::TimeUnit::Legacy;
        let offset = |low: u8| Offset::from_bytes(&[0, 0, 0, low], unit).expect("an offset");
        let rising = [
            Rank::of(&DataType::PromHistogram, offset(0)),
            Rank::of(&DataType::PromDouble, offset(0)),
            Rank::of(&DataType::Long, offset(0)),
            Rank::of(&DataType::Double, offset(0)),
        ];
        assert!(rising.is_sorted_by(|a, b| a < b));
        assert_eq!(Rank::of(&DataType::Legacy, offset(2)), Rank::Long);
        assert_eq!(Rank::of(&DataType::Legacy, offset(3)), Rank::Double);
    }
}
