//! Compressed samples: pure bytes, no I/O.
//!
//! Chunks of kinds 1 to 3 have the same bytes as in Prometheus' remote read, so that they are
//! returned as stored; kind 4 exists only in files. Two columns that Prometheus does not have are
//! stored beside a chunk: start timestamps and acceptance times.
//!
//! A chunk keeps every bit of a float. As in Prometheus, histograms lose two things: hints about
//! resets that were not detected here, except gauge hints (see [`HistogramAppender`]), and all
//! parts of a stale marker except its time and sum.
//!
//! ```
//! use promkairos_chunk::{Appended, OpenChunk};
//!
//! // Time, start timestamp (0 = unknown), value, and the time of acceptance.
//! let mut open = OpenChunk::with_float(1_000, 0, 1.5, 5_000);
//! assert_eq!(open.append_float(2_000, 0, 2.5, 5_000), Appended::Yes);
//! let mut floats = Vec::new();
//! open.to_chunk().floats(&mut floats)?;
//! assert_eq!(floats, [(1_000, 1.5), (2_000, 2.5)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bits;
mod column;
mod frame;
mod histogram;
mod integers;
mod layout;
mod open;
mod packed;
mod points;
mod varbit;
mod xor;

use bytes::Bytes;

pub use column::{ColumnBytes, ColumnValues};
pub use frame::{decode_chunk, encode_chunk};
pub use histogram::HistogramAppender;
pub use open::{Appended, ChunkBuilder, OpenChunk, encode_points};
pub use packed::{Floats, pack};
pub use points::Points;
pub use xor::XorAppender;

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

/// Why the bytes of a chunk are invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// An unknown kind.
    #[error("unknown chunk kind {0}")]
    Kind(u8),
    /// The bytes end too early.
    #[error("chunk ends before its last point")]
    Truncated,
    /// The number of points in the data differs from the chunk's count.
    #[error("chunk of {expected} points has data of {found} points")]
    Count {
        /// The count of the chunk.
        expected: u16,
        /// The number of points in the data.
        found: u16,
    },
    /// A timestamp is not after the one before.
    #[error("timestamps in the chunk do not rise")]
    Order,
    /// The first or last timestamp differs from the chunk's time range.
    #[error("chunk says another time range than its points have")]
    TimeRange,
    /// A number that is impossible in this field.
    #[error("chunk has an impossible {0}")]
    Field(&'static str),
    /// Bytes after the last point.
    #[error("chunk has bytes after its last point")]
    Trailing,
}
