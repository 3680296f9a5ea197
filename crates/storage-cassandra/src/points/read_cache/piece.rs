//! The entry of a kept range in the index of a file.

use crate::points::epochs::Epoch;
use promkairos_model::TimeRange;

/// Milliseconds of the clock.
pub(crate) type Millis = u64;

/// The entry of a kept range.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) range: TimeRange,
    pub(super) epoch: Epoch,
    pub(super) until: Millis,
    pub(super) offset: u64,
    /// 0 = no points.
    pub(super) len: u32,
    /// How often its age was doubled.
    pub(super) doublings: u8,
}

impl Piece {
    pub(super) fn is_good(&self, epoch: Epoch, now: Millis) -> bool {
        self.epoch == epoch && now < self.until
    }
}
