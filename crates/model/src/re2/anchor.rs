//! Anchors a translated pattern at both ends, as Prometheus does, and compiles it.

use regex::{Regex, RegexBuilder};

use super::error::RegexError;
use super::translate::translate;
use crate::limits::MAX_REGEX_DEPTH;

/// Levels of the crate's syntax tree for [`MAX_REGEX_DEPTH`] levels in RE2 syntax.
pub(super) const NEST_LIMIT: u32 = 4 * MAX_REGEX_DEPTH + 16;

/// Compiles `pattern` as Prometheus does: `^(?s:pattern)$`. It may take `most_bytes` bytes.
pub fn anchored(pattern: &str, most_bytes: usize) -> Result<Regex, RegexError> {
    RegexBuilder::new(&anchored_text(pattern)?)
        .size_limit(most_bytes)
        .nest_limit(NEST_LIMIT)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                RegexError::TooLarge { most: most_bytes, whole: most_bytes }
            }
            error => RegexError::Syntax(error.to_string()),
        })
}

/// The translated and anchored pattern.
pub(super) fn anchored_text(pattern: &str) -> Result<String, RegexError> {
    Ok(format!("^(?s:{})$", translate(pattern)?))
}
