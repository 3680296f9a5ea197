//! The patterns of one request: cheap ones are compiled immediately, others are listed first.
//!
//! Compilation cannot be stopped, and a pattern of a few hundred bytes may take seconds of CPU. So
//! a request is parsed with a set: cached and cheap patterns are found at once, and the rest is
//! [missing](PatternSet::take_missing). The caller compiles the missing patterns where and when it
//! may, and parses the request again. This module does not know where they are compiled.

use std::collections::HashMap;
use std::sync::Arc;

use super::matcher::{MatchOp, Matcher};
use super::pattern::Pattern;
use super::pattern_cache::PatternCache;
use super::re2::{self, RegexError};
use crate::limits::{MAX_REGEX_BYTES, MAX_REQUEST_REGEX_BYTES};

/// Maximum bytes of all patterns of a request that are compiled immediately: a few milliseconds of work.
pub const CHEAP_BYTES: usize = 128 << 10;
/// Maximum bytes of the text of such a pattern: it is parsed to estimate its compiled size.
pub const CHEAP_TEXT: usize = 1 << 10;

impl Matcher {
    /// A matcher of `name`. Fails if a regular expression is not RE2, or takes more than
    /// [`MAX_REGEX_BYTES`] compiled. Patterns from outside go through a [`PatternSet`].
    pub fn new(op: MatchOp, name: &str, value: &str) -> Result<Self, RegexError> {
        PatternSet::immediate().matcher(MAX_REGEX_BYTES, op, name, value)
    }
}

/// The patterns of a request.
#[derive(Debug)]
pub struct PatternSet {
    cache: Option<Arc<PatternCache>>,
    /// Maximum bytes of all compiled patterns of the request.
    most_bytes: usize,
    /// Bytes that may still be compiled immediately; `None` = no limit.
    cheap: Option<usize>,
    /// The result for each pattern; `None` while it is missing.
    found: HashMap<String, Option<Result<Arc<Pattern>, RegexError>>>,
    missing: Vec<Missing>,
}

/// A pattern that has to be compiled.
#[derive(Debug, Clone)]
pub struct Missing {
    text: String,
    most_bytes: usize,
}

impl Missing {
    /// Approximate compiled size in bytes, at most its limit. The estimate takes time in proportion
    /// to the text. An invalid pattern has size 0.
    pub fn bytes(&self) -> usize {
        re2::compiled_bytes(&self.text).map_or(0, |bytes| bytes.min(self.most_bytes))
    }

    /// Bytes of its text.
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }
}

impl PatternSet {
    /// A set for a request whose compiled patterns may take `most_bytes`.
    pub fn new(cache: &Arc<PatternCache>, most_bytes: usize) -> Self {
        Self {
            cache: Some(Arc::clone(cache)),
            cheap: Some(CHEAP_BYTES),
            most_bytes,
            ..Self::immediate()
        }
    }

    /// A set that compiles every pattern immediately: for callers that may block.
    pub fn immediate() -> Self {
        let most_bytes = MAX_REQUEST_REGEX_BYTES;
        Self { cache: None, most_bytes, cheap: None, found: HashMap::new(), missing: Vec::new() }
    }

    /// Maximum bytes that each of `patterns` patterns may take compiled.
    pub fn share(&self, patterns: usize) -> usize {
        (self.most_bytes / patterns.max(1)).min(MAX_REGEX_BYTES)
    }

    /// A matcher whose pattern may take `most_bytes`. A pattern that is missing matches nothing until it is compiled.
    pub fn matcher(
        &mut self,
        most_bytes: usize,
        op: MatchOp,
        name: &str,
        value: &str,
    ) -> Result<Matcher, RegexError> {
        let pattern = match op {
            MatchOp::Equal | MatchOp::NotEqual => None,
            MatchOp::Regex | MatchOp::NotRegex => Some(self.pattern(value, most_bytes)?),
        };
        Ok(Matcher::of(op, name, value, pattern))
    }

    fn pattern(&mut self, text: &str, most_bytes: usize) -> Result<Arc<Pattern>, RegexError> {
        if let Some(found) = self.found.get(text) {
            return found.clone().unwrap_or_else(|| Ok(Arc::new(Pattern::nothing())));
        }
        let cached = self.cache.as_ref().and_then(|cache| cache.get(text));
        if let Some(pattern) = cached.filter(|pattern| pattern.bytes() <= most_bytes) {
            return Ok(pattern);
        }
        if let Some(words) = Pattern::of_words(text) {
            return Ok(Arc::new(words));
        }
        if let Some(cheap) = self.cheap {
            let bytes = match text.len() <= CHEAP_TEXT {
                true => re2::compiled_bytes(text)?,
                false => usize::MAX,
            };
            let Some(left) = cheap.checked_sub(bytes) else {
                self.found.insert(text.to_owned(), None);
                self.missing.push(Missing { text: text.to_owned(), most_bytes });
                return Ok(Arc::new(Pattern::nothing()));
            };
            self.cheap = Some(left);
        }
        self.made(text, most_bytes)
    }

    /// The patterns to compile before the request is parsed again; empty if it is parsed completely.
    pub fn take_missing(&mut self) -> Vec<Missing> {
        std::mem::take(&mut self.missing)
    }

    /// Compiles a missing pattern.
    pub fn compile(&mut self, missing: &Missing) {
        // An error is kept, and returned when the request is parsed again.
        let _ = self.made(&missing.text, missing.most_bytes);
    }

    fn made(&mut self, text: &str, most_bytes: usize) -> Result<Arc<Pattern>, RegexError> {
        let whole = self.most_bytes;
        let made = Pattern::compile(text, most_bytes).map(Arc::new);
        let made = made.map_err(|error| error.among(whole));
        if let (Ok(pattern), Some(cache)) = (&made, &self.cache) {
            cache.keep(text, pattern);
        }
        self.found.insert(text.to_owned(), Some(made.clone()));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costly(number: usize) -> String {
        format!("{}{number}", "(a{1,9}b.*){1,9}".repeat(9))
    }

    #[test]
    fn what_is_costly_is_missing_until_it_is_compiled() {
        let cache = Arc::new(PatternCache::new(16 << 20));
        let mut set = PatternSet::new(&cache, 16 << 20);
        let matcher = |set: &mut PatternSet, text: &str| {
            set.matcher(8 << 20, MatchOp::Regex, "l", text).expect("valid")
        };
        assert!(matcher(&mut set, "a.*").matches("ab"));
        let words: Vec<String> = (0..15_000).map(|i| format!("host-{i}")).collect();
        assert!(matcher(&mut set, &words.join("|")).matches("host-14999"));
        assert!(set.take_missing().is_empty(), "cheap");
        assert!(!matcher(&mut set, &costly(1)).matches("ab1"));
        let long = "ab*|".repeat(CHEAP_TEXT);
        matcher(&mut set, &long);
        let missing = set.take_missing();
        assert_eq!(missing.len(), 2);
        assert!(missing.iter().all(|one| (1..8 << 20).contains(&one.bytes())));
        missing.iter().for_each(|one| set.compile(one));
        assert!(matcher(&mut set, &costly(1)).matches(&format!("{}1", "ab".repeat(9))));
        assert!(matcher(&mut set, &long).matches("abb"));
        assert!(set.take_missing().is_empty());
        // The next request finds the pattern in the cache.
        let mut next = PatternSet::new(&cache, 16 << 20);
        matcher(&mut next, &costly(1));
        assert!(next.take_missing().is_empty());
    }

    #[test]
    fn many_that_are_cheap_alone_are_not_together() {
        let cache = Arc::new(PatternCache::new(0));
        let mut set = PatternSet::new(&cache, 16 << 20);
        for i in 0..100 {
            set.matcher(1 << 20, MatchOp::Regex, "l", &format!("a.*{i}")).expect("valid");
        }
        assert!((50..100).contains(&set.take_missing().len()));
    }

    #[test]
    fn what_is_wrong_is_told_where_it_is_met() {
        let cache = Arc::new(PatternCache::new(0));
        let mut set = PatternSet::new(&cache, 1 << 20);
        let wrong = "(a|".repeat(CHEAP_TEXT);
        for (text, most, want) in [
            (wrong.as_str(), 1 << 20, "nested deeper than"),
            (&costly(1), 1 << 10, "takes more than 1KiB compiled"),
        ] {
            let read = |set: &mut PatternSet| set.matcher(most, MatchOp::Regex, "l", text);
            assert!(read(&mut set).is_ok());
            set.take_missing().iter().for_each(|one| set.compile(one));
            let error = read(&mut set).expect_err("refused").to_string();
            assert!(error.contains(want), "{error}");
            assert!(set.take_missing().is_empty());
        }
        let error = set.matcher(1 << 20, MatchOp::Regex, "l", "(a").expect_err("at once");
        assert!(matches!(error, RegexError::Syntax(_)));
    }
}
