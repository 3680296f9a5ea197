//! Why bytes are no chunk.

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
