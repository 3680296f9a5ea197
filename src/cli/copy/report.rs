//! The result of a copy, and whether its differences are allowed.

use serde::Serialize;

use crate::copy::left_out::REFUSED;
use crate::copy::{Compared, LeftOut, Starts, Totals};

/// The word that allows every reason for leaving something out.
pub(super) const ANY_REASON: &str = "all";

/// The result.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) from: String,
    pub(super) to: String,
    /// `None` if both sides were only compared.
    pub(super) copied: Option<Totals>,
    pub(super) compared: Compared,
    /// The start timestamps that the source transfers; if none, the number left out is unknown.
    pub(super) source_starts: Starts,
    /// Data of the source that cannot be in the target, by reason.
    pub(super) left_out: LeftOut,
    #[serde(skip)]
    pub(super) allowed: Allowed,
}

/// Differences that the user allows.
#[derive(Debug, Default)]
pub(super) struct Allowed {
    /// The target may have data that the source does not have.
    pub(super) more: bool,
    /// Data may be left out for these reasons.
    pub(super) left_out: Vec<String>,
}

impl Allowed {
    pub(super) fn allows(&self, reason: &str) -> bool {
        self.left_out.iter().any(|allowed| allowed == reason || allowed == ANY_REASON)
    }
}

impl Report {
    pub(super) fn refused(&self) -> u64 {
        self.copied.as_ref().map_or(0, |copied| copied.refused)
    }

    /// Reasons for which something is left out without the user's permission.
    pub(super) fn not_allowed(&self) -> impl Iterator<Item = &str> {
        let reasons = self.left_out.iter().map(|(reason, _)| reason);
        reasons.filter(|reason| !self.allowed.allows(reason))
    }

    /// Whether the target has everything, and nothing else but what is allowed.
    pub(super) fn is_good(&self) -> bool {
        let Compared { missing, different, too_many, .. } = self.compared;
        // Only data that was refused may be missing.
        let may_miss = if self.allowed.allows(REFUSED) { self.refused() } else { 0 };
        let is_same = missing <= may_miss && different == 0 && (too_many == 0 || self.allowed.more);
        is_same && self.not_allowed().next().is_none()
    }
}
