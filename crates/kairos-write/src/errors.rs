//! The errors of a body.
//!
//! At most [`MAX_ERRORS`] texts of [`MAX_ERROR_BYTES`] together are kept, and all are counted: a body of bad points
//! must not become a larger answer. KairosDB keeps all of them.

use std::fmt::{self, Write};

use promkairos_kairos_json::error_answer;

/// Error texts that are kept for one body.
pub const MAX_ERRORS: usize = 1000;
/// Bytes of the error texts that are kept for one body.
pub const MAX_ERROR_BYTES: usize = 64 << 10;

/// The errors of a body, in the order of their finding.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Errors {
    texts: Vec<String>,
    bytes: usize,
    count: u64,
}

impl Errors {
    /// The texts that are kept.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// The number of errors, including those whose texts are not kept.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Counts errors without keeping their texts.
    pub fn leave_out(&mut self, count: u64) {
        self.count += count;
    }

    /// The answer for these errors. Errors without a text are counted in a last one.
    pub fn answer(&self) -> String {
        let left_out = self.count - self.texts.len() as u64;
        let rest = (left_out > 0).then(|| format!("and {left_out} more errors"));
        error_answer(self.texts.iter().map(String::as_str).chain(rest.as_deref()))
    }

    /// Adds an error.
    pub fn add(&mut self, text: fmt::Arguments<'_>) {
        self.count += 1;
        let left = MAX_ERROR_BYTES - self.bytes;
        if self.texts.len() == MAX_ERRORS || left == 0 {
            return;
        }
        let mut kept = Kept { text: String::new(), left };
        // It fails once no bytes are left; what fits is kept.
        let _ = kept.write_fmt(text);
        self.bytes += kept.text.len();
        self.texts.push(kept.text);
    }

    /// Replaces all errors: KairosDB answers what ends the parsing alone.
    pub(crate) fn replace(&mut self, text: &str) {
        *self = Self::default();
        self.add(format_args!("{text}"));
    }
}

/// The beginning of a text.
struct Kept {
    text: String,
    left: usize,
}

impl Write for Kept {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fitting = &text[..text.floor_char_boundary(self.left)];
        self.text.push_str(fitting);
        self.left = if fitting.len() < text.len() { 0 } else { self.left - text.len() };
        if fitting.len() < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_beyond_the_limit_are_counted() {
        let mut errors = Errors::default();
        for at in 0..MAX_ERRORS + 7 {
            errors.add(format_args!("{at}"));
        }
        assert_eq!(errors.texts().len(), MAX_ERRORS);
        assert_eq!(errors.count(), MAX_ERRORS as u64 + 7);
        assert!(errors.answer().ends_with(r#","999","and 7 more errors"]}"#));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let mut errors = Errors::default();
        let long = "ü".repeat(MAX_ERROR_BYTES);
        errors.add(format_args!("a{long}{}", "tail"));
        assert_eq!(errors.texts()[0].len(), MAX_ERROR_BYTES - 1);
        assert!(errors.texts()[0].ends_with('ü'));
        errors.add(format_args!("b"));
        errors.add(format_args!("c"));
        assert_eq!(errors.texts()[1..], ["b"]);
        assert_eq!(errors.count(), 3);
        errors.replace("other");
        assert_eq!(errors.answer(), r#"{"errors":["other"]}"#);
    }
}
