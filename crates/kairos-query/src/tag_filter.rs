//! Which series of a metric a query means: those whose tags have one of the values it lists.
//!
//! Values after `regex:` are regular expressions over the whole value. They have the syntax of the crate `regex`: no
//! look-around and no back-references, and matching takes linear time.

use std::collections::HashSet;

use regex::{Regex, RegexBuilder};
use regex_syntax::hir::{Hir, Look};

use crate::error::QueryError;

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
    filters: Vec<CompiledFilter<'a>>,
}

#[derive(Debug)]
struct CompiledFilter<'a> {
    name: &'a str,
    values: HashSet<&'a str>,
    regexes: Vec<Regex>,
}

impl<'a> TagMatcher<'a> {
    /// Compiles the filters of a metric.
    pub fn new(filters: &'a [TagFilter]) -> Result<Self, QueryError> {
        let compile = |filter: &'a TagFilter| {
            let (mut values, mut regexes) = (HashSet::new(), Vec::new());
            for pattern in &filter.patterns {
                match pattern {
                    TagPattern::Exact(value) => drop(values.insert(value.as_str())),
                    TagPattern::Regex(text) => regexes.push(compile(text)?),
                }
            }
            Ok(CompiledFilter { name: &filter.name, values, regexes })
        };
        Ok(Self { filters: filters.iter().map(compile).collect::<Result<_, QueryError>>()? })
    }

    /// Most bytes that the compiled filters take.
    pub fn max_bytes(filters: &[TagFilter]) -> usize {
        let bytes = |pattern: &TagPattern| match pattern {
            TagPattern::Exact(_) => 2 * size_of::<&str>(),
            TagPattern::Regex(_) => REGEX_BYTES + CACHE_BYTES,
        };
        filters.iter().flat_map(|filter| &filter.patterns).map(bytes).sum()
    }

    /// Whether a series is meant, of which `value` returns the value of a tag. A series without one of the tags is not.
    pub fn matches<'t>(&self, value: impl Fn(&str) -> Option<&'t str>) -> bool {
        self.filters.iter().all(|filter| {
            value(filter.name).is_some_and(|value| {
                filter.values.contains(value)
                    || filter.regexes.iter().any(|regex| regex.is_match(value))
            })
        })
    }
}

fn compile(text: &str) -> Result<Regex, QueryError> {
    let invalid = |error: &dyn std::fmt::Display| {
        QueryError::Invalid(vec![format!("regular expression {text}: {error}")])
    };
    // By itself: what is put around a text can become a part of its groups and comments.
    let own = regex_syntax::parse(text).map_err(|error| invalid(&error))?;
    let whole = Hir::concat(vec![Hir::look(Look::Start), own, Hir::look(Look::End)]);
    let built = RegexBuilder::new(&whole.to_string())
        .size_limit(REGEX_BYTES)
        .dfa_size_limit(CACHE_BYTES)
        .build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(most) => QueryError::Limit {
            what: format!("regular expression {text}: more than {most} bytes compiled"),
            limit: "REGEX_BYTES",
        },
        other => invalid(&other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(name: &str, values: &[&str]) -> TagFilter {
        let patterns = values.iter().map(|value| TagPattern::new((*value).into())).collect();
        TagFilter { name: name.into(), patterns }
    }

    #[test]
    fn all_tags_have_to_match_as_a_whole() {
        let filters = [filter("host", &["a", "regex:b|c."]), filter("dc", &["x"])];
        let matcher = TagMatcher::new(&filters).expect("valid");
        let is_meant = |host| matcher.matches(|name| Some(if name == "host" { host } else { "x" }));
        assert_eq!(["a", "b", "cd", "c", "bb"].map(is_meant), [true, true, true, false, false]);
        assert!(!matcher.matches(|name| Some("a").filter(|_| name == "host")));
    }

    #[test]
    fn an_expression_stands_by_itself() {
        for invalid in ["regex:(", "regex:zzz)|(?:h1", "regex:a{9999}{9999}"] {
            assert!(TagMatcher::new(&[filter("host", &[invalid])]).is_err(), "{invalid}");
        }
        for (regex, value) in [("regex:(?x)a # c", "a"), ("regex:(?i)A|b", "a"), ("regex:", "")] {
            let filters = [filter("host", &[regex])];
            let matcher = TagMatcher::new(&filters).expect("valid");
            assert!(matcher.matches(|_| Some(value)), "{regex}");
            assert!(
                !matcher.matches(|_| Some("aa")) && !matcher.matches(|_| Some("a\n")),
                "{regex}"
            );
        }
        let large = [filter("host", &[r"regex:(?:ab|\pL{7})"])];
        let error = TagMatcher::new(&large).expect_err("too large").to_string();
        assert!(error.contains("more than 262144 bytes compiled"), "{error}");
    }
}
