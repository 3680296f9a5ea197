//! The matchers of one request, within what all its regular expressions may take together.
//!
//! Patterns are limited before they are read, and what they compile to by an equal share each.
//! This keeps a processor busy: it is work for the workers.

use super::ApiError;
use super::workers::Caller;
use crate::limits::{MAX_READ_PATTERN_BYTES, MAX_READ_REGEX_BYTES, MAX_REGEX_BYTES};
use crate::model::{MatchOp, Matcher, RegexError};

/// The budget of a request.
pub(super) struct Patterns<'a> {
    /// Bytes of patterns so far.
    bytes: usize,
    /// Bytes that each may compile to.
    share: usize,
    caller: &'a Caller<'a>,
}

impl<'a> Patterns<'a> {
    /// For a request with `count` regular expressions.
    pub(super) fn new(count: usize, caller: &'a Caller<'a>) -> Self {
        let share = (MAX_READ_REGEX_BYTES / count.max(1)).min(MAX_REGEX_BYTES);
        Self { bytes: 0, share, caller }
    }

    /// The next matcher.
    pub(super) fn matcher(
        &mut self,
        op: MatchOp,
        name: &str,
        value: &str,
    ) -> Result<Matcher, ApiError> {
        if matches!(op, MatchOp::Regex | MatchOp::NotRegex) {
            self.caller.check()?;
            self.bytes += value.len();
            if self.bytes > MAX_READ_PATTERN_BYTES {
                return Err(ApiError::BadRequest(format!(
                    "more than {MAX_READ_PATTERN_BYTES} bytes of regular expressions in a request"
                )));
            }
        }
        Matcher::within(self.share, op, name, value).map_err(|error| {
            ApiError::BadRequest(match error {
                RegexError::TooLarge => format!(
                    "a regular expression takes more than {} bytes compiled, its share of the \
                     {MAX_READ_REGEX_BYTES} bytes of all in a request",
                    self.share
                ),
                error => error.to_string(),
            })
        })
    }
}
