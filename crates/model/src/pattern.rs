//! A regular expression of a matcher, compiled; many share one.
//!
//! What it can only match, a set of words or a prefix, is found once, here. Who may compile how much is for
//! [`PatternSet`](super::PatternSet).

use regex::Regex;

use super::re2::{self, RegexError};

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    /// `None` where `literals` say all.
    regex: Option<Regex>,
    /// It matches exactly these values; sorted.
    literals: Option<Vec<String>>,
    /// All matches begin with this; may be empty.
    prefix: String,
    /// About how many bytes it takes.
    bytes: usize,
}

impl Pattern {
    /// Compiles `pattern`, which may take `most_bytes`.
    pub(super) fn compile(pattern: &str, most_bytes: usize) -> Result<Self, RegexError> {
        if let Some(words) = Self::of_words(pattern) {
            return Ok(words);
        }
        let bytes = re2::compiled_bytes(pattern)?;
        let regex = re2::anchored(pattern, most_bytes)?;
        let literals = re2::literals(pattern, &regex);
        let prefix = re2::prefix(pattern);
        let regex = Some(regex).filter(|_| literals.is_none());
        Ok(Self { regex, literals, prefix, bytes: bytes + 2 * pattern.len() })
    }

    /// The same where it is only words: then nothing has to be compiled.
    pub(super) fn of_words(pattern: &str) -> Option<Self> {
        let words = re2::words(pattern)?;
        let bytes = pattern.len() + words.len() * 2 * size_of::<String>();
        Some(Self { regex: None, literals: Some(words), prefix: String::new(), bytes })
    }

    /// Matches nothing.
    pub(super) fn nothing() -> Self {
        Self { regex: None, literals: Some(Vec::new()), prefix: String::new(), bytes: 0 }
    }

    /// Matches the empty text and this one.
    pub(super) fn empty_or(text: &str) -> Self {
        let mut literals = vec![String::new(), text.to_owned()];
        literals.dedup();
        let bytes = text.len() + 2 * size_of::<String>();
        Self { regex: None, literals: Some(literals), prefix: String::new(), bytes }
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it matches the whole value.
    pub(super) fn is_match(&self, value: &str) -> bool {
        match (&self.literals, &self.regex) {
            (Some(literals), _) => literals.binary_search_by(|l| l.as_str().cmp(value)).is_ok(),
            (None, regex) => regex.as_ref().is_some_and(|regex| regex.is_match(value)),
        }
    }

    /// The only values that it matches, when they are few and known.
    pub(super) fn literals(&self) -> Option<&[String]> {
        self.literals.as_deref()
    }

    /// What every value that it matches begins with.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }
}
