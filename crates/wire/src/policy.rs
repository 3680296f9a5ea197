//! What a decoder leaves out of a batch.

use promkairos_model::{SampleTimes, Target};

/// What to leave out of a batch.
#[derive(Debug, Clone, Copy)]
pub enum Policy<'p> {
    /// A new request: parts that can never be accepted go to
    /// [`WriteBatch::rejections`](promkairos_model::WriteBatch::rejections).
    Accept,
    /// Like `Accept`. Samples, histograms and exemplars of other times are rejected too, and a batch that takes more
    /// than about `bytes` fails with [`WireError::Expands`](super::WireError::Expands).
    AcceptWithin {
        /// The times that are accepted.
        times: SampleTimes,
        /// The most bytes of the batch.
        bytes: usize,
    },
    /// A body that was accepted before: no policy and no limit is applied; exactly these targets are left out.
    Replay(&'p [Target]),
}
