//! Compressed samples: pure bytes, no I/O.
//!
//! Chunks of kinds 1 to 3 are byte for byte those of Prometheus' remote read, so that they
//! can be answered as they are stored.

use bytes::Bytes;

/// What a chunk holds; the numbers are those of remote read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChunkKind {
    /// Floats.
    Xor = 1,
    /// Integer histograms.
    Histogram = 2,
    /// Float histograms.
    FloatHistogram = 3,
}

/// A run of points of one series, strictly rising in time.
#[derive(Debug, Clone, PartialEq)]
pub struct Chunk {
    /// What it holds.
    pub kind: ChunkKind,
    /// How many points; at least 1.
    pub count: u16,
    /// Timestamp of the first point, in milliseconds.
    pub min_time: i64,
    /// Timestamp of the last point, in milliseconds.
    pub max_time: i64,
    /// The encoded points.
    pub data: Bytes,
    /// Start timestamps of the points, a column of its own; empty = all unknown (0).
    pub starts: Bytes,
    /// Acceptance times of the points in milliseconds, a column of its own; empty = not kept.
    pub stamps: Bytes,
}
