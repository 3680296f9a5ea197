//! Label indexes: which series have which label, and the evaluation of matchers over them.
//!
//! A series is a dense `u32` within its index. An index in memory (the head) and one in a
//! file (a part) implement [`LabelIndex`]; [`evaluate`] is the only code that
//! turns matchers into sets of series.

mod memory;

use roaring::RoaringBitmap;

use crate::model::{MatchOp, Matcher};

use super::StoreError;

pub use memory::{Among, MemoryIndex};

/// What the evaluation of matchers needs of an index.
pub trait LabelIndex {
    /// All series.
    fn all(&self) -> Result<RoaringBitmap, StoreError>;

    /// Series whose label `name` has exactly `value` (not empty).
    fn postings(&self, name: &str, value: &str) -> Result<RoaringBitmap, StoreError>;

    /// Series whose label `name` has a value that begins with `prefix` and passes.
    fn union_where(
        &self,
        name: &str,
        prefix: &str,
        passes: &dyn Fn(&str) -> bool,
    ) -> Result<RoaringBitmap, StoreError>;
}

/// The series that pass all matchers: sets of literals by look-up, prefixes by range, the
/// matchers that may shrink the result most first; the rest subtract.
pub fn evaluate<I: LabelIndex>(
    index: &I,
    matchers: &[Matcher],
) -> Result<RoaringBitmap, StoreError> {
    let mut order: Vec<&Matcher> = matchers.iter().collect();
    order.sort_by_key(|matcher| cost(matcher));
    let mut result: Option<RoaringBitmap> = None;
    for matcher in order {
        if result.as_ref().is_some_and(RoaringBitmap::is_empty) {
            break;
        }
        if matcher.matches_empty() {
            // Series without the label pass: subtract those whose value does not.
            let base = match result.take() {
                Some(base) => base,
                None => index.all()?,
            };
            result = Some(base - failing(index, matcher)?);
        } else {
            let passing = match matcher.literals() {
                Some(literals) => union_of_literals(index, matcher.name(), &literals)?,
                None => index.union_where(matcher.name(), matcher.prefix(), &|value| {
                    matcher.matches(value)
                })?,
            };
            result = Some(match result.take() {
                Some(base) => base & passing,
                None => passing,
            });
        }
    }
    match result {
        Some(result) => Ok(result),
        None => index.all(),
    }
}

/// Series that have the label of `matcher` with a value that does not pass.
fn failing<I: LabelIndex>(index: &I, matcher: &Matcher) -> Result<RoaringBitmap, StoreError> {
    match matcher.op() {
        MatchOp::NotEqual => index.postings(matcher.name(), matcher.value()),
        _ => index.union_where(matcher.name(), "", &|value| !matcher.matches(value)),
    }
}

/// Cheap and selective matchers have a low rank.
fn cost(matcher: &Matcher) -> u32 {
    match (matcher.matches_empty(), matcher.literals()) {
        (false, Some(literals)) => literals.len() as u32,
        (false, None) if !matcher.prefix().is_empty() => 1 << 16,
        (false, None) => 1 << 17,
        (true, _) => 1 << 18,
    }
}

fn union_of_literals<I: LabelIndex>(
    index: &I,
    name: &str,
    literals: &[&str],
) -> Result<RoaringBitmap, StoreError> {
    let mut union = RoaringBitmap::new();
    for literal in literals {
        union |= index.postings(name, literal)?;
    }
    Ok(union)
}
