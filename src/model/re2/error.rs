//! Why a pattern is refused, in Go's words.
//!
//! Knows nothing of how patterns are read.

/// Why a pattern is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegexError {
    /// Not RE2.
    #[error("error parsing regexp: {0}")]
    Syntax(String),
    /// Nested too deeply, or compiles to more than the limit.
    #[error("regular expression is too large")]
    TooLarge,
}

impl RegexError {
    /// What is wrong, and the piece of the pattern where it is.
    pub(super) fn syntax(what: &str, at: &str) -> Self {
        Self::Syntax(format!("{what}: `{at}`"))
    }
}
