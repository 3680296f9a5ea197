//! Estimates the compiled size of a pattern from its syntax tree, in the time of parsing it. Limits
//! are not known here.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

use super::anchor::{NEST_LIMIT, anchored_text};
use super::error::RegexError;

/// Bytes of a state, in the forward and the backward program together.
const STATE_BYTES: usize = 48;
/// Bytes of a pattern without its states.
const LEAST_BYTES: usize = 8 << 10;
/// States of a range of non-ASCII characters; many share their ends.
const RANGE_STATES: usize = 4;
/// States of a range whose characters have encodings of several lengths.
const WIDE_RANGE_STATES: usize = 12;
/// Maximum number of levels of the syntax tree that are examined; a deeper part counts as one state.
const MAX_LEVELS: u32 = 1200;

/// Approximate bytes of the compiled `pattern`.
pub fn compiled_bytes(pattern: &str) -> Result<usize, RegexError> {
    let mut parser = ParserBuilder::new().nest_limit(NEST_LIMIT).build();
    let hir = parser.parse(&anchored_text(pattern)?);
    let hir = hir.map_err(|error| RegexError::Syntax(error.to_string()))?;
    Ok(states(&hir, MAX_LEVELS).saturating_mul(STATE_BYTES).saturating_add(LEAST_BYTES))
}

fn states(hir: &Hir, levels: u32) -> usize {
    let Some(levels) = levels.checked_sub(1) else { return 1 };
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Class(Class::Bytes(_)) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(Class::Unicode(class)) => {
            let of_range = |range: &regex_syntax::hir::ClassUnicodeRange| match (
                range.start().len_utf8(),
                range.end().len_utf8(),
            ) {
                (1, 1) => 1,
                (start, end) if start == end => RANGE_STATES,
                _ => WIDE_RANGE_STATES,
            };
            class.iter().map(of_range).sum::<usize>().max(1)
        }
        HirKind::Capture(capture) => states(&capture.sub, levels).saturating_add(2),
        HirKind::Repetition(repetition) => {
            let copies = repetition.max.unwrap_or(repetition.min.saturating_add(1)).max(1);
            let copies = usize::try_from(copies).unwrap_or(usize::MAX);
            states(&repetition.sub, levels).saturating_add(1).saturating_mul(copies)
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            let all = parts.iter().map(|part| states(part, levels));
            all.fold(parts.len(), usize::saturating_add)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::anchored;
    use super::*;

    /// The estimate for patterns of all kinds is right within a factor.
    #[test]
    fn sizes_are_about_right() {
        let many =
            |one: &str, n: usize| (0..n).map(|i| format!("{one}{i}")).collect::<Vec<_>>().join("|");
        let patterns = [
            many("host-.*x", 500),
            many("[a-z0-9]+_", 500),
            "(a{1,9}7.*b?){1,9}".to_owned(),
            "(\\pL{10}x*){20}".to_owned(),
            "[0-9]{300}".to_owned(),
            "(?i)abcdefgh".repeat(200),
        ];
        for pattern in patterns {
            let size = compiled_bytes(&pattern).expect("valid");
            let shown = &pattern[..20.min(pattern.len())];
            assert!(anchored(&pattern, size).is_ok(), "{shown}: more than {size}");
            assert!(anchored(&pattern, size / 40).is_err(), "{shown}: far less than {size}");
        }
    }
}
