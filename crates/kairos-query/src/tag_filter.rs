//! Which series of a metric a query means: those whose tags have one of the values it lists.
//!
//! Values after `regex:` are regular expressions over the whole value. They have the syntax of the crate `regex`: no
//! look-around and no back-references, and matching takes linear time.

use regex::{Regex, RegexBuilder};

use crate::error::QueryError;
use crate::point::Tags;

/// The prefix of a value that is a regular expression.
const PREFIX: &str = "regex:";
/// Largest compiled expression, in bytes.
const REGEX_BYTES: usize = 256 << 10;
/// Largest cache of an expression that is being matched, in bytes.
const CACHE_BYTES: usize = 256 << 10;

/// Values that a tag may have.
#[derive(Debug, Clone, PartialEq)]
pub struct TagFilter {
    /// The tag.
    pub name: String,
    /// One of these is enough.
    pub patterns: Vec<TagPattern>,
}

/// A value of a tag in a query.
#[derive(Debug, Clone, PartialEq)]
pub enum TagPattern {
    /// This value.
    Exact(String),
    /// All values that this expression matches as a whole.
    Regex(String),
}

impl TagPattern {
    pub(crate) fn new(text: String) -> Self {
        match text.strip_prefix(PREFIX) {
            Some(regex) => Self::Regex(regex.to_owned()),
            None => Self::Exact(text),
        }
    }
}

/// Filters that are compiled.
#[derive(Debug)]
pub struct TagMatcher<'a> {
    filters: Vec<(&'a TagFilter, Vec<Regex>)>,
}

impl<'a> TagMatcher<'a> {
    /// Compiles the filters of a metric.
    pub fn new(filters: &'a [TagFilter]) -> Result<Self, QueryError> {
        let compile = |filter: &'a TagFilter| {
            let regexes = filter.patterns.iter().filter_map(|pattern| match pattern {
                TagPattern::Exact(_) => None,
                TagPattern::Regex(text) => Some(text),
            });
            Ok((filter, regexes.map(|text| compile(text)).collect::<Result<_, QueryError>>()?))
        };
        Ok(Self { filters: filters.iter().map(compile).collect::<Result<_, QueryError>>()? })
    }

    /// Most bytes that the compiled filters take.
    pub fn max_bytes(filters: &[TagFilter]) -> usize {
        let patterns = filters.iter().flat_map(|filter| &filter.patterns);
        let regexes = patterns.filter(|pattern| matches!(pattern, TagPattern::Regex(_)));
        regexes.count().saturating_mul(REGEX_BYTES + CACHE_BYTES)
    }

    /// Whether a series is meant. A series without one of the tags is not.
    pub fn matches(&self, tags: &Tags) -> bool {
        self.filters.iter().all(|(filter, regexes)| {
            tags.get(&filter.name).is_some_and(|value| {
                let is_it = |pattern: &TagPattern| matches!(pattern, TagPattern::Exact(text) if text == value);
                filter.patterns.iter().any(is_it) || regexes.iter().any(|regex| regex.is_match(value))
            })
        })
    }
}

fn compile(text: &str) -> Result<Regex, QueryError> {
    RegexBuilder::new(&format!(r"\A(?:{text})\z"))
        .size_limit(REGEX_BYTES)
        .dfa_size_limit(CACHE_BYTES)
        .build()
        .map_err(|error| QueryError::Invalid(vec![format!("regular expression {text}: {error}")]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tags_have_to_match_as_a_whole() {
        let filter = |name: &str, values: &[&str]| TagFilter {
            name: name.into(),
            patterns: values.iter().map(|value| TagPattern::new((*value).into())).collect(),
        };
        let tags = |pairs: &[(&str, &str)]| -> Tags {
            pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
        };
        let filters = [filter("host", &["a", "regex:b|c."]), filter("dc", &["x"])];
        let matcher = TagMatcher::new(&filters).expect("valid");
        let is_meant = |host| matcher.matches(&tags(&[("host", host), ("dc", "x")]));
        assert_eq!(["a", "b", "cd", "c", "bb"].map(is_meant), [true, true, true, false, false]);
        assert!(!matcher.matches(&tags(&[("host", "a")])));
        assert!(TagMatcher::new(&[filter("host", &["regex:("])]).is_err());
    }
}
