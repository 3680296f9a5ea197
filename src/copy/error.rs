//! Why a copy or a comparison ends early.

use crate::chunk::ChunkError;
use crate::model::Labels;
use crate::storage::StoreError;

/// Why a copy or a comparison ended early.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// A side failed.
    #[error("{side}: {source}")]
    Store {
        /// Its name.
        side: String,
        /// Why.
        source: StoreError,
    },
    /// A chunk that cannot be read.
    #[error("{side}: a chunk of {series}: {source}")]
    Chunk {
        /// The side that was read.
        side: String,
        /// Its series.
        series: Labels,
        /// What is wrong.
        source: ChunkError,
    },
    /// A side that does not sort its series: a copy could not resume after a series.
    #[error("{0}: the series do not come sorted by their labels")]
    Unsorted(String),
    /// The file with the progress cannot be read or written.
    #[error("{0}")]
    State(String),
    /// The file for the progress belongs to another copy, or is something else.
    #[error("{0}")]
    OtherState(String),
}

impl CopyError {
    /// The error about a chunk of a series of a side.
    pub(super) fn chunk(side: &str, series: &Labels, source: ChunkError) -> Self {
        Self::Chunk { side: side.to_owned(), series: series.clone(), source }
    }

    /// Whether it may pass by itself, so that a retry makes sense.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, Self::Store { source: StoreError::Unavailable { .. }, .. })
    }
}
