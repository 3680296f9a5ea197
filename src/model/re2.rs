//! RE2 syntax for the `regex` crate.
//!
//! Prometheus' patterns are Go's RE2; the `regex` crate reads a slightly different
//! language. [`translate`] rewrites one into the other or refuses.

use regex::{Regex, RegexBuilder};

/// Why a pattern is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegexError {
    /// Not RE2.
    #[error("error parsing regexp: {0}")]
    Syntax(String),
    /// Compiles to more than the limit.
    #[error("regular expression is too large")]
    TooLarge,
}

/// Rewrites RE2 syntax into that of the `regex` crate.
pub fn translate(pattern: &str) -> Result<String, RegexError> {
    Ok(pattern.to_owned())
}

/// Compiles `pattern` as Prometheus does: `^(?s:pattern)$`.
pub(super) fn anchored(pattern: &str) -> Result<Regex, RegexError> {
    let translated = translate(pattern)?;
    RegexBuilder::new(&format!("^(?s:{translated})$"))
        .build()
        .map_err(|error| RegexError::Syntax(error.to_string()))
}

/// The finite set of strings that `pattern` matches, when it is one and small.
pub(super) fn literals(_pattern: &str) -> Option<Vec<String>> {
    None
}

/// What every match of `pattern` begins with.
pub(super) fn prefix(_pattern: &str) -> String {
    String::new()
}
