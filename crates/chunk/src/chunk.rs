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
    /// Start timestamps of the points, a separate column; empty = all unknown (0).
    pub starts: ColumnBytes,
    /// Acceptance times of the points in milliseconds, a separate column; empty = not kept.
    pub stamps: ColumnBytes,
}

impl Chunk {
    /// From its first to its last point.
    pub fn range(&self) -> TimeRange {
        TimeRange::new(self.min_time, self.max_time)
    }
}
