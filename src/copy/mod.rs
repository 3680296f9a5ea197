//! Copies the content of one store into another, and compares the two afterwards.
//!
//! A copy goes day by day (UTC), selector by selector, in pieces: runs of series, sorted by labels,
//! with their points of the day. The [`Progress`] names the last piece that the target has
//! acknowledged, as all pieces before it; a copy that resumes there writes at most the pieces in
//! flight again, which is harmless. The progress includes the plan of the days and the comparison.
//! Memory holds a few pieces, and exemplars of a part of a day if a day has too many.
//!
//! Not here: opening and locking of stores, and what a server accepts or deletes while a copy runs.

pub mod answers;
mod batch;
mod compare;
mod compared;
mod days;
mod digest;
mod endpoint;
mod exemplars;
pub mod left_out;
mod outside;
mod plan;
mod progress;
mod remote;
mod runs;
pub mod state;
mod transfer;

use crate::chunk::ChunkError;
use crate::model::{Labels, Matcher, TimeRange};
use crate::storage::StoreError;

pub use compared::{Compared, Difference, What};
pub use endpoint::{Endpoint, Starts, StoreEndpoint};
pub use left_out::LeftOut;
pub use progress::{Progress, Stage, Totals};
pub use remote::{Remote, distrusted, is_distrust, read_answer};
pub use state::{JobText, StateFile};
pub use transfer::Copier;

/// What to copy.
#[derive(Debug, Clone)]
pub struct Job {
    /// Series that one of these selects; at least one.
    pub selectors: Vec<Selector>,
    /// Points and exemplars of these times.
    pub range: TimeRange,
}

/// A selector of series.
#[derive(Debug, Clone)]
pub struct Selector {
    /// The selector in PromQL, for a source that evaluates it.
    pub text: String,
    /// The parsed selector.
    pub matchers: Vec<Matcher>,
}

impl Job {
    /// Whether this is the first selector that selects a series.
    fn is_first(&self, selector: usize, labels: &Labels) -> bool {
        let mut earlier = self.selectors[..selector].iter();
        !earlier.any(|earlier| Matcher::all_match(&earlier.matchers, labels))
    }
}

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
    /// A side that does not sort its series: a copy could not resume from one of them.
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
    /// Whether it may pass by itself, so that a retry makes sense.
    fn may_pass(&self) -> bool {
        matches!(self, Self::Store { source: StoreError::Unavailable { .. }, .. })
    }
}
