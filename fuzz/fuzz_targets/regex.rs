//! Patterns: translation never panics, and what is known of a pattern agrees with its matches.
#![no_main]

use libfuzzer_sys::fuzz_target;
use promkairos::model::{MatchOp, Matcher};

fuzz_target!(|data: (&str, &str)| {
    let (pattern, value) = data;
    let Ok(matcher) = Matcher::new(MatchOp::Regex, "l", pattern) else { return };
    if let Some(literals) = matcher.literals() {
        assert!(literals.iter().all(|literal| matcher.matches(literal)));
    }
    if matcher.matches(value) {
        assert!(value.starts_with(matcher.prefix()));
    }
});
