//! Where a block lies in a part file.

/// Where a block, or the chunks of a row, lie in their file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockRef {
    pub(super) offset: u64,
    pub(super) len: u32,
}

impl BlockRef {
    /// Offset of the first byte behind the block.
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.len.into())
    }
}
