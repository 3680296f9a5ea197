//! Patterns: translation never panics, and facts derived from a pattern agree with its matches.

use promkairos::model::{MatchOp, Matcher};

/// A pattern, and after a zero byte a value.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let (pattern, value) = text.split_once('\0').unwrap_or((text, ""));
    let Ok(matcher) = Matcher::new(MatchOp::Regex, "l", pattern) else { return };
    if let Some(literals) = matcher.literals() {
        assert!(literals.iter().all(|literal| matcher.matches(literal)));
    }
    if matcher.matches(value) {
        assert!(value.starts_with(matcher.prefix()));
    }
}
