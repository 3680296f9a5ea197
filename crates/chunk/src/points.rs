//! Reads chunks as points or as floats alone, and validates them.
//!
//! Bytes are never trusted: reading any bytes yields points that rise in time or a [`ChunkError`],
//! and allocates no more than the bytes can represent.

use super::chunk::{Chunk, ChunkKind, SideKind};
use super::column::ColumnValues;
use super::error::ChunkError;
use super::histogram::HistogramReader;
use super::long;
use super::packed::Unpacked;
use super::xor::{self, XorReader};
use promkairos_model::{Point, TimeRange, Value};

/// Floats in a column that is filled point by point.
const AT_ONCE: usize = 64;

/// A point as a store keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct StampedPoint {
    /// The point; the nearest float, if it is an integer.
    pub point: Point,
    /// The integer, if it was written as one (KairosDB's type `long`).
    pub long: Option<i64>,
    /// Acceptance time in milliseconds; 0 = not kept.
    pub stamp: i64,
}

impl StampedPoint {
    /// An integer at a time.
    pub fn of_long(timestamp: i64, long: i64, stamp: i64) -> Self {
        let point = Point { timestamp, start_timestamp: 0, value: Value::Float(long as f64) };
        Self { point, long: Some(long), stamp }
    }
}

impl Chunk {
    /// Whether a point is in the range. Its first and last time are times of points, so the chunk
    /// is decoded only if it begins before the range and ends after it.
    pub fn has_point_in(&self, range: TimeRange) -> Result<bool, ChunkError> {
        if range.contains(self.min_time) || range.contains(self.max_time) {
            return Ok(true);
        }
        if self.max_time < range.start || self.min_time > range.end {
            return Ok(false);
        }
        for point in self.points() {
            let timestamp = point?.timestamp;
            if timestamp >= range.start {
                return Ok(timestamp <= range.end);
            }
        }
        Ok(false)
    }

    /// The points; an integer is the nearest float. Ends after the first error.
    pub fn points(&self) -> Points<'_> {
        let body = match self.kind {
            ChunkKind::Xor => XorReader::new(&self.data, self.count).map(Body::Floats),
            ChunkKind::Packed => Unpacked::of(self).map(|all| Body::Unpacked(Box::new(all), 0)),
            kind => HistogramReader::new(&self.data, self.count, kind)
                .map(|reader| Body::Histograms(Box::new(reader))),
        };
        let (side, side_kind) = (ColumnValues::new(&self.side, self.count), self.side_kind);
        Points { body: body.unwrap_or_else(Body::Failed), side, side_kind, left: self.count }
    }

    /// The acceptance times, one per point, in milliseconds; 0 = not kept. Ends after the first error.
    pub fn stamps(&self) -> ColumnValues<'_> {
        ColumnValues::new(&self.stamps, self.count)
    }

    /// The points as they are kept. Ends after the first error.
    pub fn stamped_points(&self) -> impl Iterator<Item = Result<StampedPoint, ChunkError>> + '_ {
        let mut points = self.points();
        let points = std::iter::from_fn(move || points.next_exact());
        points.zip(self.stamps()).map(|(point, stamp)| {
            let (point, long) = point?;
            Ok(StampedPoint { point, long, stamp: stamp? })
        })
    }

    /// Calls `visit` with every timestamp and float; a histogram chunk has none. The fast way to
    /// read floats.
    #[inline]
    pub fn visit_floats(&self, visit: impl FnMut(i64, f64)) -> Result<(), ChunkError> {
        self.visit_floats_in(TimeRange::ALL, visit)
    }

    /// As `visit_floats`, for the range; from chunks that are read point by point, it may pass others too.
    #[inline]
    pub fn visit_floats_in(
        &self,
        range: TimeRange,
        mut visit: impl FnMut(i64, f64),
    ) -> Result<(), ChunkError> {
        match self.kind {
            ChunkKind::Xor => xor::visit(&self.data, self.count, visit)?,
            ChunkKind::Packed => {
                let unpacked = Unpacked::of(self)?;
                let (times, values) = unpacked.within(range);
                times.iter().zip(values).for_each(|(&time, &value)| visit(time, value));
            }
            ChunkKind::Histogram | ChunkKind::FloatHistogram => {}
        }
        Ok(())
    }

    /// Calls `visit` with columns of the timestamps and floats in the range, in order, as many at a time as are at
    /// hand; a histogram chunk has none. Faster still where columns are wanted.
    #[inline]
    pub fn visit_float_columns_in(
        &self,
        range: TimeRange,
        mut visit: impl FnMut(&[i64], &[f64]),
    ) -> Result<(), ChunkError> {
        if self.kind == ChunkKind::Packed {
            let unpacked = Unpacked::of(self)?;
            let (times, values) = unpacked.within(range);
            visit(times, values);
            return Ok(());
        }
        let (mut times, mut values, mut len) = ([0; AT_ONCE], [0.0; AT_ONCE], 0);
        let read = self.visit_floats_in(range, |time, value| {
            if range.contains(time) {
                (times[len], values[len]) = (time, value);
                len += 1;
                if len == AT_ONCE {
                    visit(&times, &values);
                    len = 0;
                }
            }
        });
        visit(&times[..len], &values[..len]);
        read
    }

    /// Appends every timestamp and float to `floats`; a histogram chunk has none.
    pub fn floats(&self, floats: &mut Vec<(i64, f64)>) -> Result<(), ChunkError> {
        self.visit_floats(|timestamp, value| floats.push((timestamp, value)))
    }

    /// Decodes everything and compares it with the chunk's count and time range.
    pub fn validate(&self) -> Result<(), ChunkError> {
        let mut points = self.points();
        let (mut first, mut last) = (None, None);
        while let Some(point) = points.next().transpose()? {
            first.get_or_insert(point.timestamp);
            last = Some(point.timestamp);
        }
        if (first, last) != (Some(self.min_time), Some(self.max_time)) {
            return Err(ChunkError::TimeRange);
        }
        let mut stamps = self.stamps();
        stamps.by_ref().try_for_each(|stamp| stamp.map(drop))?;
        let rests = [points.remaining(), points.side.remaining(), stamps.remaining()];
        if rests.iter().any(|&bits| bits >= 8) {
            return Err(ChunkError::Trailing);
        }
        Ok(())
    }
}

/// The points of a chunk.
#[derive(Debug)]
pub struct Points<'a> {
    body: Body<'a>,
    side: ColumnValues<'a>,
    side_kind: SideKind,
    left: u16,
}

#[derive(Debug)]
enum Body<'a> {
    Floats(XorReader<'a>),
    Histograms(Box<HistogramReader<'a>>),
    /// With the position of the next point.
    Unpacked(Box<Unpacked>, usize),
    Failed(ChunkError),
}

impl Points<'_> {
    /// The next point, and the integer if it is one.
    fn next_exact(&mut self) -> Option<Result<(Point, Option<i64>), ChunkError>> {
        if self.left == 0 {
            return None;
        }
        let point = self.step();
        self.left = if point.is_ok() { self.left - 1 } else { 0 };
        point.transpose()
    }

    fn step(&mut self) -> Result<Option<(Point, Option<i64>)>, ChunkError> {
        let (timestamp, value) = match &mut self.body {
            Body::Floats(reader) => match reader.next_sample()? {
                Some((timestamp, value)) => (timestamp, Value::Float(value)),
                None => return Ok(None),
            },
            Body::Histograms(reader) => match reader.next_histogram()? {
                Some((timestamp, histogram)) => (timestamp, Value::Histogram(histogram)),
                None => return Ok(None),
            },
            Body::Unpacked(all, next) => {
                let at = *next;
                *next += 1;
                match all.times.get(at) {
                    Some(timestamp) => (*timestamp, Value::Float(all.values[at])),
                    None => return Ok(None),
                }
            }
            Body::Failed(error) => return Err(*error),
        };
        let side = self.side.next().transpose()?.unwrap_or(0);
        let (start_timestamp, long) = match (self.side_kind, &value) {
            (SideKind::Starts, _) => (side, None),
            (SideKind::Longs, Value::Float(float)) => (0, long::long_of(side, *float)?),
            (SideKind::Longs, Value::Histogram(_)) => return Err(ChunkError::Field("integer")),
        };
        Ok(Some((Point { timestamp, start_timestamp, value }, long)))
    }

    fn remaining(&self) -> usize {
        match &self.body {
            Body::Floats(reader) => reader.remaining(),
            Body::Histograms(reader) => reader.remaining(),
            Body::Unpacked(all, _) => all.trailing * 8,
            Body::Failed(_) => 0,
        }
    }
}

impl Iterator for Points<'_> {
    type Item = Result<Point, ChunkError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_exact().map(|point| point.map(|(point, _)| point))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(usize::from(self.left)))
    }
}
