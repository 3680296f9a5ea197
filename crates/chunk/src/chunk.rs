//! A chunk: the bytes of a run of points of one series, with their number and time range.
//!
//! Nothing is decoded here; the bytes may be invalid until they are read.

use bytes::Bytes;

use super::column::ColumnBytes;
use super::error::ChunkError;
use promkairos_model::TimeRange;

/// The kind of data in a chunk; the numbers up to 3 are the same as in remote read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChunkKind {
    /// Floats.
    Xor = 1,
    /// Integer histograms.
    Histogram = 2,
    /// Float histograms.
    FloatHistogram = 3,
    /// Floats in columns; only in files.
    Packed = 4,
}

impl ChunkKind {
    /// Whether it holds floats.
    pub fn is_floats(self) -> bool {
        matches!(self, Self::Xor | Self::Packed)
    }
}

impl TryFrom<u8> for ChunkKind {
    type Error = ChunkError;

    fn try_from(number: u8) -> Result<Self, ChunkError> {
        match number {
            1 => Ok(Self::Xor),
            2 => Ok(Self::Histogram),
            3 => Ok(Self::FloatHistogram),
            4 => Ok(Self::Packed),
            _ => Err(ChunkError::Kind(number)),
        }
    }
}

/// What the side column of a chunk has for each point. No point has both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum SideKind {
    /// The start timestamp; 0 = unknown.
    #[default]
    Starts,
    /// Whether the point is an integer, and which: see [`super::long`].
    Longs,
}

/// A run of points of one series, strictly rising in time.
#[derive(Debug, Clone, PartialEq)]
pub struct Chunk {
    /// The kind of its data.
    pub kind: ChunkKind,
    /// The number of points; at least 1.
    pub count: u16,
    /// Timestamp of the first point, in milliseconds.
    pub min_time: i64,
    /// Timestamp of the last point, in milliseconds.
    pub max_time: i64,
    /// The encoded points.
    pub data: Bytes,
    /// A separate column of what [`Chunk::side_kind`] says; empty = all 0.
    pub side: ColumnBytes,
    /// The kind of the side column.
    pub side_kind: SideKind,
    /// Acceptance times of the points in milliseconds, a separate column; empty = not kept.
    pub stamps: ColumnBytes,
}

impl Chunk {
    /// Whether a point may have a start timestamp.
    pub fn has_starts(&self) -> bool {
        self.side_kind == SideKind::Starts && !self.side.is_empty()
    }

    /// Whether a point may be an integer.
    pub fn has_longs(&self) -> bool {
        self.side_kind == SideKind::Longs && !self.side.is_empty()
    }

    /// From its first to its last point.
    pub fn range(&self) -> TimeRange {
        TimeRange::new(self.min_time, self.max_time)
    }
}
