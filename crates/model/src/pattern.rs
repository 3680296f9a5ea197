//! A compiled regular expression that several matchers share.
//!
//! The set of words or the prefix that it can match is determined once, here.
//! [`PatternSet`](super::PatternSet) limits what may be compiled.

use regex::Regex;

use super::re2::{self, RegexError};

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    /// `None` if `literals` are sufficient.
    regex: Option<Regex>,
    /// The pattern matches exactly these values; sorted.
    literals: Option<Vec<String>>,
    /// All matches begin with this text; may be empty.
    prefix: String,
    /// Approximate bytes of memory.
    bytes: usize,
}

impl Pattern {
    /// Compiles `pattern`, which may take `most_bytes` bytes.
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

    /// The pattern, if it consists only of words: then nothing has to be compiled.
    pub(super) fn of_words(pattern: &str) -> Option<Self> {
        let words = re2::words(pattern)?;
        let bytes = pattern.len() + words.len() * 2 * size_of::<String>();
        Some(Self { regex: None, literals: Some(words), prefix: String::new(), bytes })
    }

    /// A pattern that matches nothing.
    pub(super) fn nothing() -> Self {
        Self { regex: None, literals: Some(Vec::new()), prefix: String::new(), bytes: 0 }
    }

    /// A pattern that matches the empty text and `text`.
    pub(super) fn empty_or(text: &str) -> Self {
        let mut literals = vec![String::new(), text.to_owned()];
        literals.dedup();
        let bytes = text.len() + 2 * size_of::<String>();
        Self { regex: None, literals: Some(literals), prefix: String::new(), bytes }
    }

    /// A pattern that matches these texts.
    pub(super) fn one_of(texts: &[&str]) -> Self {
        let mut literals: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        literals.sort_unstable();
        literals.dedup();
        let text: usize = literals.iter().map(String::len).sum();
        let bytes = text + literals.len() * size_of::<String>();
        Self { regex: None, literals: Some(literals), prefix: String::new(), bytes }
    }

    /// Approximate bytes of memory.
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

    /// The only values that it matches, if they are few and known.
    pub(super) fn literals(&self) -> Option<&[String]> {
        self.literals.as_deref()
    }

    /// The common prefix of all values that it matches.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }
}
