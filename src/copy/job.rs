//! What a copy copies.

use crate::model::{Labels, Matcher, TimeRange};

/// What to copy.
#[derive(Debug, Clone)]
pub struct Job {
    /// Series that one of these selects; at least one.
    pub selectors: Vec<Selector>,
    /// Points and exemplars of these times.
    pub range: TimeRange,
}

/// A selector of series.
#[derive(Debug, Clone)]
pub struct Selector {
    /// The selector in PromQL, for a source that evaluates it.
    pub text: String,
    /// The parsed selector.
    pub matchers: Vec<Matcher>,
}

impl Job {
    /// Whether this is the first selector that selects a series.
    pub(super) fn is_first(&self, selector: usize, labels: &Labels) -> bool {
        let mut earlier = self.selectors[..selector].iter();
        !earlier.any(|earlier| Matcher::all_match(&earlier.matchers, labels))
    }
}
