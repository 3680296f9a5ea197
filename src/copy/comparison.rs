//! The progress of a comparison, and its results so far.
//!
//! The form is stored in files, as a part of the [progress](super::Progress): a field never gets another meaning.

use serde::{Deserialize, Serialize};

use super::compared::Compared;
use super::digest::Digest;
use super::left_out::LeftOut;
use super::outside::Outside;
use super::plan::Plan;
use super::position::Position;

/// The position of a comparison, and its results so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Comparison {
    /// `None` = not begun.
    pub(super) plan: Option<Plan>,
    pub(super) outside: Outside,
    pub(super) position: Position,
    /// Digests of source and target.
    pub(super) digests: [Digest; 2],
    pub(super) compared: Compared,
    /// Data of the source that promkairos cannot represent.
    pub(super) met: LeftOut,
    /// Everything else that is left out.
    pub(super) left_out: LeftOut,
}
