//! Label matchers: `=`, `!=`, `=~`, `!~` over the value of one label.
//!
//! A missing label has the empty value. Regular expressions are RE2 syntax,
//! anchored at both ends, and the dot matches newlines, as in Prometheus.

use std::sync::Arc;

use super::labels::Labels;
use super::pattern::Pattern;

/// The operator of a matcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MatchOp {
    /// `=`
    Equal = 0,
    /// `!=`
    NotEqual = 1,
    /// `=~`
    Regex = 2,
    /// `!~`
    NotRegex = 3,
}

impl MatchOp {
    /// Its number in files on disk. Numbers never change.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Its text in PromQL.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Regex => "=~",
            Self::NotRegex => "!~",
        }
    }

    /// The operator with this number, if there is one.
    pub fn from_number(number: u8) -> Option<Self> {
        let all = [Self::Equal, Self::NotEqual, Self::Regex, Self::NotRegex];
        all.into_iter().find(|op| op.number() == number)
    }
}

/// One condition on one label.
#[derive(Debug, Clone)]
pub struct Matcher {
    name: String,
    op: MatchOp,
    value: String,
    pattern: Option<Arc<Pattern>>,
}

impl Matcher {
    /// A matcher with its compiled pattern, if it has one.
    pub(super) fn of(op: MatchOp, name: &str, value: &str, pattern: Option<Arc<Pattern>>) -> Self {
        Self { name: name.into(), op, value: value.into(), pattern }
    }

    /// `name = value`
    pub fn equal(name: &str, value: &str) -> Self {
        Self::of(MatchOp::Equal, name, value, None)
    }

    /// `name =~ "|value"` with the value as literal text: a series passes if it lacks the label or has this value.
    pub fn absent_or_equal(name: &str, value: &str) -> Self {
        let pattern = format!("|{}", regex_syntax::escape(value));
        Self::of(MatchOp::Regex, name, &pattern, Some(Arc::new(Pattern::empty_or(value))))
    }

    /// `name =~ "VALUE|VALUE"` with the values as literal text.
    pub fn one_of(name: &str, values: &[&str]) -> Self {
        let escaped: Vec<String> = values.iter().map(|value| regex_syntax::escape(value)).collect();
        let pattern = Arc::new(Pattern::one_of(values));
        Self::of(MatchOp::Regex, name, &escaped.join("|"), Some(pattern))
    }

    /// The name of the label.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The operator.
    pub fn op(&self) -> MatchOp {
        self.op
    }

    /// The value or the pattern, as given.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Whether a label with this value passes; a missing label has the empty value.
    pub fn matches(&self, value: &str) -> bool {
        match (&self.pattern, self.op) {
            (Some(pattern), MatchOp::Regex) => pattern.is_match(value),
            (Some(pattern), _) => !pattern.is_match(value),
            (None, MatchOp::NotEqual) => self.value != value,
            (None, _) => self.value == value,
        }
    }

    /// Whether a series with these labels passes all matchers; without any, every series does.
    pub fn all_match(matchers: &[Self], labels: &Labels) -> bool {
        matchers.iter().all(|matcher| matcher.matches(labels.get(&matcher.name)))
    }

    /// Whether a series without this label passes.
    pub fn matches_empty(&self) -> bool {
        self.matches("")
    }

    /// The only values that can pass, if they are few and known; `None` for negative matchers.
    pub fn literals(&self) -> Option<Vec<&str>> {
        match self.op {
            MatchOp::Equal => Some(vec![&self.value]),
            MatchOp::Regex => {
                let literals = self.pattern.as_ref()?.literals()?;
                Some(literals.iter().map(String::as_str).collect())
            }
            MatchOp::NotEqual | MatchOp::NotRegex => None,
        }
    }

    /// The common prefix of all values that pass; empty if unknown.
    pub fn prefix(&self) -> &str {
        match (&self.pattern, self.op) {
            (Some(pattern), MatchOp::Regex) => pattern.prefix(),
            (None, MatchOp::Equal) => &self.value,
            _ => "",
        }
    }
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.op, &self.value) == (&other.name, other.op, &other.value)
    }
}

impl std::fmt::Display for Matcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}{:?}", self.name, self.op.text(), self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_keep_their_numbers() {
        use MatchOp::{Equal, NotEqual, NotRegex, Regex};
        let all = (0..=u8::MAX).filter_map(MatchOp::from_number);
        assert_eq!(all.collect::<Vec<_>>(), [Equal, NotEqual, Regex, NotRegex]);
        assert_eq!([Equal, NotEqual, Regex, NotRegex].map(MatchOp::number), [0, 1, 2, 3]);
    }

    #[test]
    fn one_of_several_values_passes() {
        let values = ["b", "a|b", ".*", "eu-1 #&~", "\\d\n", "é", "b"];
        let matcher = Matcher::one_of("a", &values);
        // The text of the matcher means the same.
        let read = Matcher::new(MatchOp::Regex, "a", matcher.value()).expect("valid");
        assert_eq!(matcher, read);
        for matcher in [matcher, read] {
            assert!(values.iter().all(|value| matcher.matches(value)), "{matcher}");
            for other in ["", "a", "bb", "x", "7", "b|a"] {
                assert!(!matcher.matches(other), "{matcher} {other}");
            }
            assert_eq!(matcher.literals().map(|all| all.len()), Some(6), "{matcher}");
        }
    }

    #[test]
    fn an_absent_label_passes_beside_one_value() {
        for value in ["a", "eu-1 #&~", "a|b", ".*", "\\d\n", "é", ""] {
            let matcher = Matcher::absent_or_equal("a", value);
            // The text of the matcher means the same.
            let read = Matcher::new(MatchOp::Regex, "a", matcher.value()).expect(value);
            assert_eq!(matcher, read);
            for matcher in [matcher, read] {
                assert!(matcher.matches_empty() && matcher.matches(value), "{matcher}");
                assert!(
                    !matcher.matches("b") && !matcher.matches(&format!("{value}a")),
                    "{matcher}"
                );
                let want: &[&str] = if value.is_empty() { &[""] } else { &["", value] };
                assert_eq!(matcher.literals().as_deref(), Some(want), "{matcher}");
            }
        }
    }

    #[test]
    fn all_must_match_and_a_missing_label_is_empty() {
        let labels = Labels::from_pairs([("a", "1")]).expect("valid");
        let check = |pairs: &[(&str, &str)], want: bool| {
            let matchers: Vec<_> = pairs.iter().map(|(n, v)| Matcher::equal(n, v)).collect();
            assert_eq!(Matcher::all_match(&matchers, &labels), want, "{pairs:?}");
        };
        check(&[], true);
        check(&[("a", "1"), ("b", "")], true);
        check(&[("a", "1"), ("b", "2")], false);
        check(&[("a", ""), ("b", "")], false);
    }
}
