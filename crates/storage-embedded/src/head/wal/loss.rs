//! A stretch of the log that cannot be read.
//!
//! A loss says which records are gone, as far as the records around them determine it. It removes nothing.

use std::ops::Range;
use std::path::PathBuf;

use super::contents::Contents;

/// A stretch of the log that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The segment, or the checkpoint.
    pub path: PathBuf,
    /// The bytes of the file that are bad.
    pub bytes: Range<u64>,
    /// What is wrong there.
    pub what: String,
    /// Sequence numbers that may be lost, both ends included.
    pub first: u64,
    /// The last of them, if a later record or segment determines it.
    pub last: Option<u64>,
    /// Acceptance times (milliseconds since 1970) of the valid records before and behind; what
    /// is lost was accepted between them.
    pub accepted: (Option<i64>, Option<i64>),
    /// What can be decoded of the lost records; incomplete if [`Contents::records`] is less than
    /// [`Loss::records`]. It comes from damaged bytes, so it is only a hint.
    pub contents: Contents,
}

impl Loss {
    pub(super) fn of(path: PathBuf, bytes: Range<u64>, what: &str, first: u64) -> Self {
        let (what, contents) = (what.into(), Contents::default());
        Self { path, bytes, what, first, last: None, accepted: (None, None), contents }
    }

    /// Most records that are lost; `None` = nothing behind determines it.
    pub fn records(&self) -> Option<u64> {
        Some((self.last? + 1).saturating_sub(self.first))
    }
}

/// Records lost before a valid record were accepted before it, at `accepted` at the latest.
pub(super) fn bound(losses: &mut [Loss], accepted: i64) {
    let open = |loss: &&mut Loss| loss.accepted.1.is_none() && loss.records() != Some(0);
    losses.iter_mut().filter(open).for_each(|loss| loss.accepted.1 = Some(accepted));
}
