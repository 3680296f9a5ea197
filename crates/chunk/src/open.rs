//! An open chunk of any kind, and a builder that divides points into chunks.
//!
//! An [`OpenChunk`] holds at least one point and at most [`MAX_CHUNK_POINTS`]. A point that does
//! not fit because of its kind, time, side column or histogram layout is never added; [`Appended`]
//! says that a new chunk is needed.

use super::chunk::{Chunk, SideKind};
use super::column::Column;
use super::histogram::{Appended, HistogramAppender};
use super::long;
use super::points::StampedPoint;
use super::xor::XorAppender;
use promkairos_model::limits::MAX_CHUNK_POINTS;
use promkairos_model::{Point, TimeRange, Value};

/// A chunk that is still growing.
#[derive(Debug, Clone)]
pub struct OpenChunk {
    body: Body,
    /// The columns beside the points, if any value is not 0.
    sides: Option<Box<Sides>>,
}

#[derive(Debug, Clone)]
enum Body {
    Floats(XorAppender),
    Histograms(Box<HistogramAppender>),
}

#[derive(Debug, Clone)]
struct Sides {
    side: Column,
    kind: SideKind,
    stamps: Column,
}

/// The entry of a point in the side column. 0 is the same in both kinds.
type SideEntry = (SideKind, i64);

impl OpenChunk {
    /// A chunk with one point. `stamp` is the acceptance time in milliseconds; 0 = not kept.
    pub fn new(point: &Point, stamp: i64) -> Self {
        match &point.value {
            Value::Float(value) => {
                Self::with_float(point.timestamp, point.start_timestamp, *value, stamp)
            }
            Value::Histogram(histogram) => {
                let appender = HistogramAppender::new(point.timestamp, histogram);
                let mut chunk = Self { body: Body::Histograms(Box::new(appender)), sides: None };
                chunk.push_sides((SideKind::Starts, point.start_timestamp), stamp);
                chunk
            }
        }
    }

    /// A chunk with one float: timestamp, start timestamp and acceptance time in milliseconds.
    #[inline]
    pub fn with_float(timestamp: i64, start: i64, value: f64, stamp: i64) -> Self {
        Self::with_number(timestamp, value, (SideKind::Starts, start), stamp)
    }

    /// A chunk with one integer: timestamp and acceptance time in milliseconds.
    pub fn with_long(timestamp: i64, long: i64, stamp: i64) -> Self {
        Self::with_number(timestamp, long as f64, (SideKind::Longs, long::entry_of(long)), stamp)
    }

    /// A chunk with one point.
    pub fn with_stamped(entry: &StampedPoint) -> Self {
        match entry.long {
            Some(long) => Self::with_long(entry.point.timestamp, long, entry.stamp),
            None => Self::new(&entry.point, entry.stamp),
        }
    }

    #[inline]
    fn with_number(timestamp: i64, value: f64, side: SideEntry, stamp: i64) -> Self {
        let body = Body::Floats(XorAppender::new(timestamp, value));
        let mut chunk = Self { body, sides: None };
        chunk.push_sides(side, stamp);
        chunk
    }

    /// Adds a point, or returns why it does not fit.
    pub fn append(&mut self, point: &Point, stamp: i64) -> Appended {
        let histogram = match &point.value {
            Value::Float(value) => {
                return self.append_float(point.timestamp, point.start_timestamp, *value, stamp);
            }
            Value::Histogram(histogram) => histogram,
        };
        let Body::Histograms(appender) = &mut self.body else { return Appended::Cut };
        let side = (SideKind::Starts, point.start_timestamp);
        if appender.count() >= MAX_CHUNK_POINTS
            || point.timestamp <= appender.max_time()
            || !fits(self.sides.as_deref(), side)
        {
            return Appended::Cut;
        }
        let appended = appender.append(point.timestamp, histogram);
        if appended == Appended::Yes {
            self.push_sides(side, stamp);
        }
        appended
    }

    /// Adds a float, or returns why it does not fit.
    #[inline]
    pub fn append_float(&mut self, timestamp: i64, start: i64, value: f64, stamp: i64) -> Appended {
        self.append_number(timestamp, value, (SideKind::Starts, start), stamp)
    }

    /// Adds an integer, or returns why it does not fit.
    pub fn append_long(&mut self, timestamp: i64, long: i64, stamp: i64) -> Appended {
        let side = (SideKind::Longs, long::entry_of(long));
        self.append_number(timestamp, long as f64, side, stamp)
    }

    #[inline]
    fn append_number(
        &mut self,
        timestamp: i64,
        value: f64,
        side: SideEntry,
        stamp: i64,
    ) -> Appended {
        let Body::Floats(appender) = &mut self.body else { return Appended::Cut };
        if appender.count() >= MAX_CHUNK_POINTS
            || timestamp <= appender.max_time()
            || !fits(self.sides.as_deref(), side)
        {
            return Appended::Cut;
        }
        appender.append(timestamp, value);
        self.push_sides(side, stamp);
        Appended::Yes
    }

    /// Adds a point. If it needs a new chunk, begins one and returns the old one.
    pub fn push(&mut self, point: &Point, stamp: i64) -> Option<Chunk> {
        let appended = self.append(point, stamp);
        if appended == Appended::Yes {
            return None;
        }
        let closed = self.to_chunk();
        *self = Self::new(point, stamp);
        if let (Appended::Reset, Body::Histograms(appender)) = (appended, &mut self.body) {
            appender.mark_reset();
        }
        Some(closed)
    }

    /// As [`push`](Self::push), for a point that may be an integer.
    pub fn push_stamped(&mut self, entry: &StampedPoint) -> Option<Chunk> {
        let Some(long) = entry.long else { return self.push(&entry.point, entry.stamp) };
        match self.append_long(entry.point.timestamp, long, entry.stamp) {
            Appended::Yes => None,
            _ => {
                let closed = self.to_chunk();
                *self = Self::with_stamped(entry);
                Some(closed)
            }
        }
    }

    #[inline]
    fn push_sides(&mut self, side: SideEntry, stamp: i64) {
        if self.sides.is_some() || side.1 != 0 || stamp != 0 {
            self.push_kept_sides(side, stamp);
        }
    }

    fn push_kept_sides(&mut self, (kind, value): SideEntry, stamp: i64) {
        let before = self.count() - 1;
        let zeros = || Column::of_zeros(before);
        let sides = self
            .sides
            .get_or_insert_with(|| Box::new(Sides { side: zeros(), kind, stamps: zeros() }));
        if value != 0 {
            sides.kind = kind;
        }
        sides.side.push(value);
        sides.stamps.push(stamp);
    }

    /// The number of points; at least 1.
    pub fn count(&self) -> usize {
        match &self.body {
            Body::Floats(appender) => appender.count(),
            Body::Histograms(appender) => appender.count(),
        }
    }

    /// From its first to its last point.
    pub fn range(&self) -> TimeRange {
        match &self.body {
            Body::Floats(appender) => TimeRange::new(appender.min_time(), appender.max_time()),
            Body::Histograms(appender) => TimeRange::new(appender.min_time(), appender.max_time()),
        }
    }

    /// Timestamp of the last point, in milliseconds.
    #[inline]
    pub fn max_time(&self) -> i64 {
        match &self.body {
            Body::Floats(appender) => appender.max_time(),
            Body::Histograms(appender) => appender.max_time(),
        }
    }

    /// The last value, if the chunk holds floats.
    pub fn last_float(&self) -> Option<f64> {
        match &self.body {
            Body::Floats(appender) => Some(appender.last_value()),
            Body::Histograms(_) => None,
        }
    }

    /// The points so far. The open chunk stays usable.
    pub fn to_chunk(&self) -> Chunk {
        let mut chunk = match &self.body {
            Body::Floats(appender) => appender.to_chunk(),
            Body::Histograms(appender) => appender.to_chunk(),
        };
        if let Some(sides) = &self.sides {
            chunk.side = sides.side.to_bytes();
            chunk.side_kind = if chunk.side.is_empty() { SideKind::Starts } else { sides.kind };
            chunk.stamps = sides.stamps.to_bytes();
        }
        chunk
    }
}

/// Whether the side columns can take an entry too.
#[inline]
fn fits(sides: Option<&Sides>, (kind, value): SideEntry) -> bool {
    sides.is_none_or(|sides| value == 0 || sides.kind == kind || sides.side.is_zeros())
}

/// Divides points into chunks.
#[derive(Debug, Default)]
pub struct ChunkBuilder {
    closed: Vec<Chunk>,
    open: Option<OpenChunk>,
}

impl ChunkBuilder {
    /// Adds a point. It should be later than all before; otherwise it begins a chunk that overlaps.
    /// `stamp` is the acceptance time in milliseconds; 0 = not kept.
    pub fn push(&mut self, point: &Point, stamp: i64) {
        match &mut self.open {
            Some(open) => self.closed.extend(open.push(point, stamp)),
            None => self.open = Some(OpenChunk::new(point, stamp)),
        }
    }

    /// As [`push`](Self::push), for a point that may be an integer.
    pub fn push_stamped(&mut self, entry: &StampedPoint) {
        match &mut self.open {
            Some(open) => self.closed.extend(open.push_stamped(entry)),
            None => self.open = Some(OpenChunk::with_stamped(entry)),
        }
    }

    /// All chunks.
    pub fn finish(mut self) -> Vec<Chunk> {
        self.closed.extend(self.open.map(|open| open.to_chunk()));
        self.closed
    }
}

/// Divides points as they are kept into chunks. They should rise in time.
pub fn encode_stamped<'a>(points: impl IntoIterator<Item = &'a StampedPoint>) -> Vec<Chunk> {
    let mut builder = ChunkBuilder::default();
    for entry in points {
        builder.push_stamped(entry);
    }
    builder.finish()
}

/// Divides points into chunks without acceptance times; none is an integer. The points must rise in time.
pub fn encode_points<'a>(points: impl IntoIterator<Item = &'a Point>) -> Vec<Chunk> {
    let mut builder = ChunkBuilder::default();
    for point in points {
        builder.push(point, 0);
    }
    builder.finish()
}
