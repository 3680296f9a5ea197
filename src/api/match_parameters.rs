//! The parameters `match[]` of a request: selectors, taken apart as they come, compiled together.
//!
//! All of a request have the budget that a remote read has. Compiling is work for the workers.

use super::ApiError;
use super::patterns::Patterns;
use super::selector::{self, Written};
use super::workers::Caller;
use crate::limits::{MAX_READ_MATCHERS, MAX_READ_QUERIES};
use crate::model::{MatchOp, Matcher};

/// The selectors so far.
#[derive(Debug, Default)]
pub(super) struct MatchParameters(Vec<Vec<Written>>);

impl MatchParameters {
    /// Takes the next one.
    pub(super) fn push(&mut self, text: &str) -> Result<(), ApiError> {
        self.0.push(selector::parse(text).map_err(invalid)?);
        if self.0.len() > MAX_READ_QUERIES {
            return Err(invalid(format!("more than {MAX_READ_QUERIES} of them")));
        }
        if self.0.iter().flatten().count() > MAX_READ_MATCHERS {
            return Err(invalid(format!("more than {MAX_READ_MATCHERS} matchers in a request")));
        }
        Ok(())
    }

    /// The matchers of each selector; an error without any.
    pub(super) fn compile(self, caller: &Caller<'_>) -> Result<Vec<Vec<Matcher>>, ApiError> {
        if self.0.is_empty() {
            return Err(ApiError::BadRequest("no match[] parameter provided".into()));
        }
        let is_pattern = |one: &&Written| matches!(one.op, MatchOp::Regex | MatchOp::NotRegex);
        let count = self.0.iter().flatten().filter(is_pattern).count();
        let mut patterns = Patterns::new(count, caller);
        self.0.iter().map(|written| compile(written, &mut patterns)).collect()
    }
}

fn compile(written: &[Written], patterns: &mut Patterns<'_>) -> Result<Vec<Matcher>, ApiError> {
    let matchers: Result<Vec<Matcher>, ApiError> = written
        .iter()
        .map(|Written { op, name, value }| {
            patterns.matcher(*op, name, value).map_err(|error| match error {
                ApiError::BadRequest(why) => invalid(why),
                error => error,
            })
        })
        .collect();
    let matchers = matchers?;
    if matchers.iter().all(Matcher::matches_empty) {
        return Err(invalid("match[] must contain at least one non-empty matcher"));
    }
    Ok(matchers)
}

fn invalid(why: impl std::fmt::Display) -> ApiError {
    ApiError::BadRequest(format!("invalid parameter \"match[]\": {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A caller that waits.
    const HERE: Caller<'_> = Caller(&|| false);

    fn compiled(selectors: &[&str]) -> Result<usize, String> {
        let mut parameters = MatchParameters::default();
        let taken = selectors.iter().try_for_each(|text| parameters.push(text));
        let matchers = taken.and_then(|()| parameters.compile(&HERE));
        matchers.map(|all| all.len()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_refused() {
        let check = |selectors: &[&str], want: &str| {
            let error = compiled(selectors).expect_err("refused");
            assert!(error.contains(want), "{error}");
        };
        check(&[], "no match[] parameter provided");
        let empty = "invalid parameter \"match[]\": match[] must contain at least one non-empty";
        for selector in ["", "{a=\"\"}", "{a=~\".*\"}"] {
            check(&["up", selector], empty);
        }
        check(&["{a=~\"[\"}"], "invalid parameter \"match[]\": error parsing regexp");
        check(&["{"], "invalid parameter \"match[]\": the selector ends");
        check(&["up"; MAX_READ_MATCHERS + 1], "more than 128 matchers in a request");
        assert_eq!(compiled(&["up"; MAX_READ_MATCHERS]), Ok(MAX_READ_MATCHERS));
    }

    #[test]
    fn all_regular_expressions_of_a_request_have_one_budget() {
        let large = r#"{a=~"(\\pL{10}x*){20}"}"#;
        assert_eq!(compiled(&[large; 2]), Ok(2), "two fit");
        let error = compiled(&[large; MAX_READ_MATCHERS]).expect_err("over the budget");
        assert!(error.contains("takes more than 524288 bytes compiled"), "{error}");
    }

    #[test]
    fn nothing_is_compiled_for_a_client_that_went_away() {
        let mut parameters = MatchParameters::default();
        parameters.push("{a=~\"b\"}").expect("well formed");
        let error = parameters.compile(&Caller(&|| true)).expect_err("nobody waits");
        assert!(matches!(error, ApiError::Aborted(_)), "{error}");
    }
}
