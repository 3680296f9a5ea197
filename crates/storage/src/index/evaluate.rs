//! What an index provides, and the evaluation of matchers over it.

use roaring::RoaringBitmap;

use crate::error::StoreError;
use promkairos_model::{MatchOp, Matcher};

/// What the evaluation of matchers needs from an index.
///
/// `within` are the remaining series: the result contains only series of this set. The work is
/// proportional to the smaller side, as far as the index can achieve that. `None` means all series.
pub trait LabelIndex {
    /// All series.
    fn all(&self) -> Result<RoaringBitmap, StoreError>;

    /// The number of values of the label `name`. Reads at most one block of names.
    fn value_count(&self, name: &str) -> u64;

    /// The approximate number of series with `value` (not empty) as their label `name`. Reads no series.
    fn series_count(&self, name: &str, value: &str) -> u64;

    /// Series whose label `name` has exactly `value` (not empty).
    fn postings(
        &self,
        name: &str,
        value: &str,
        within: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap, StoreError>;

    /// Series whose label `name` has a value that begins with `prefix` and passes: found by
    /// scanning the values, or the series `within` if they are fewer.
    fn union_where(
        &self,
        name: &str,
        prefix: &str,
        passes: &dyn Fn(&str) -> bool,
        within: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap, StoreError>;
}

/// The series that pass all matchers. Sets of literals are looked up, prefixes are scanned as
/// ranges. The most selective matchers come first; matchers that accept the empty value subtract.
/// Each matcher is evaluated only for the series that passed those before it.
pub fn evaluate<I: LabelIndex>(
    index: &I,
    matchers: &[Matcher],
) -> Result<RoaringBitmap, StoreError> {
    let mut order: Vec<&Matcher> = matchers.iter().collect();
    order.sort_by_cached_key(|matcher| rank(index, matcher));
    let mut result: Option<RoaringBitmap> = None;
    for matcher in order {
        if result.as_ref().is_some_and(RoaringBitmap::is_empty) {
            break;
        }
        if matcher.matches_empty() {
            // Series without the label pass: subtract the series whose value does not pass.
            let failing = failing(index, matcher, result.as_ref())?;
            result = Some(result.map_or_else(|| index.all(), Ok)? - failing);
        } else {
            result = Some(passing(index, matcher, result.as_ref())?);
        }
    }
    result.map_or_else(|| index.all(), Ok)
}

/// Series that have the label of `matcher` with a value that passes.
fn passing<I: LabelIndex>(
    index: &I,
    matcher: &Matcher,
    within: Option<&RoaringBitmap>,
) -> Result<RoaringBitmap, StoreError> {
    let (name, passes) = (matcher.name(), |value: &str| matcher.matches(value));
    let Some(literals) = matcher.literals() else {
        return index.union_where(name, matcher.prefix(), &passes, within);
    };
    let mut union = RoaringBitmap::new();
    for literal in literals {
        union |= index.postings(name, literal, within)?;
    }
    Ok(union)
}

/// Series that have the label of `matcher` with a value that does not pass.
fn failing<I: LabelIndex>(
    index: &I,
    matcher: &Matcher,
    within: Option<&RoaringBitmap>,
) -> Result<RoaringBitmap, StoreError> {
    let (name, fails) = (matcher.name(), |value: &str| !matcher.matches(value));
    match matcher.op() {
        MatchOp::NotEqual => index.postings(name, matcher.value(), within),
        _ => index.union_where(name, "", &fails, within),
    }
}

/// Cheap and selective matchers have a low rank: first by their kind, then by the number of series
/// or values to examine.
fn rank<I: LabelIndex>(index: &I, matcher: &Matcher) -> (u8, u64) {
    let name = matcher.name();
    match (matcher.matches_empty(), matcher.literals()) {
        (false, Some(literals)) => {
            let count = |literal: &&str| index.series_count(name, literal);
            (0, literals.iter().map(count).fold(0, u64::saturating_add))
        }
        (false, None) if !matcher.prefix().is_empty() => (1, index.value_count(name)),
        (false, None) => (2, index.value_count(name)),
        (true, _) if matcher.op() == MatchOp::NotEqual => (3, 0),
        (true, _) => (4, index.value_count(name)),
    }
}

/// Judges the values of series, one series after another. Neighbours often have the same value, so
/// the last result is remembered.
pub struct ValueJudge<'p> {
    prefix: &'p str,
    passes: &'p dyn Fn(&str) -> bool,
    last: String,
    passed: bool,
}

impl<'p> ValueJudge<'p> {
    /// Values that begin with `prefix` are passed to `passes`; all others are rejected.
    pub fn new(prefix: &'p str, passes: &'p dyn Fn(&str) -> bool) -> Self {
        // The empty value means a series without the label, which is rejected.
        Self { prefix, passes, last: String::new(), passed: false }
    }

    /// Whether the value passes.
    pub fn passes(&mut self, value: &str) -> bool {
        if self.last != value {
            value.clone_into(&mut self.last);
            self.passed =
                !value.is_empty() && value.starts_with(self.prefix) && (self.passes)(value);
        }
        self.passed
    }
}
