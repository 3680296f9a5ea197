//! Compressed samples: pure bytes, no I/O.
//!
//! Chunks of kinds 1 to 3 are byte for byte those of Prometheus' remote read, so that they
//! can be answered as they are stored; kind 4 is for files alone. Beside them lie two columns
//! that Prometheus does not know: start timestamps and acceptance times.
//!
//! A chunk keeps every bit of a float. Of a histogram it keeps all but these, as Prometheus
//! does: no hint of a reset that it did not find itself, but that of a gauge (see [`HistogramAppender`]), and of a
//! stale marker only the time and the sum.
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

/// What a chunk holds; the numbers up to 3 are those of remote read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChunkKind {
    /// Floats.
    Xor = 1,
    /// Integer histograms.
    Histogram = 2,
    /// Float histograms.
    FloatHistogram = 3,
    /// Floats in columns, as only files have them.
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
    pub starts: ColumnBytes,
    /// Acceptance times of the points in milliseconds, a column of its own; empty = not kept.
    pub stamps: ColumnBytes,
}

/// What is wrong with the bytes of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// No such kind.
    #[error("unknown chunk kind {0}")]
    Kind(u8),
    /// The bytes end too early.
    #[error("chunk ends before its last point")]
    Truncated,
    /// The data have another number of points than the chunk says.
    #[error("chunk of {expected} points has data of {found} points")]
    Count {
        /// What the chunk says.
        expected: u16,
        /// What the data say.
        found: u16,
    },
    /// A timestamp is not after the one before.
    #[error("timestamps in the chunk do not rise")]
    Order,
    /// First and last timestamp are not what the chunk says.
    #[error("chunk says another time range than its points have")]
    TimeRange,
    /// A number that makes no sense in its place.
    #[error("chunk has an impossible {0}")]
    Field(&'static str),
    /// Bytes after the last point.
    #[error("chunk has bytes after its last point")]
    Trailing,
}
