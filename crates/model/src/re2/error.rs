//! Errors for refused patterns, in the words of Go.

use crate::ShownSize;
use crate::limits::{MAX_REGEX_DEPTH, MAX_REQUEST_REGEX_BYTES, NO_SETTING};

/// Why a pattern is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegexError {
    /// Not RE2.
    #[error("error parsing regexp: {0}")]
    Syntax(String),
    /// Nested too deeply.
    #[error("regular expression is nested deeper than {MAX_REGEX_DEPTH}; {NO_SETTING}")]
    TooDeep,
    /// The compiled pattern exceeds its limit.
    #[error(
        "regular expression takes more than {} compiled, its share of the {} that all patterns of a request may take: \
         a sixteenth of the setting memory-limit, at most {}",
        ShownSize::of(*most),
        ShownSize::of(*whole),
        ShownSize::of(MAX_REQUEST_REGEX_BYTES)
    )]
    TooLarge {
        /// The limit of this pattern in bytes.
        most: usize,
        /// The limit of all patterns of the request, in bytes.
        whole: usize,
    },
}

impl RegexError {
    /// The same error for a pattern of a request whose patterns may take `whole` bytes.
    pub fn among(self, whole: usize) -> Self {
        match self {
            Self::TooLarge { most, .. } => Self::TooLarge { most, whole },
            error => error,
        }
    }

    /// A syntax error, and the part of the pattern where it is.
    pub(super) fn syntax(what: &str, at: &str) -> Self {
        Self::Syntax(format!("{what}: `{at}`"))
    }
}
