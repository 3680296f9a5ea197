//! The parameters `match[]` of a request: PromQL selectors.
//!
//! All selectors of a request share one budget for regular expressions.

use super::parameters::{Parameters, invalid};
use super::patterns::{self, Read};
use super::workers::Caller;
use super::{ApiError, AppState};
use promkairos_model::limits::{MAX_QUERY_BYTES, MAX_READ_QUERIES, NO_SETTING};
use promkairos_model::{Matcher, PatternSet, ShownSize};
use promkairos_promql::parse_selector_with;

/// The matchers of each selector, or the parse error.
pub(super) type Matches = Result<Selectors, String>;

/// The matchers of each selector.
pub(super) type Selectors = Read<Vec<Vec<Matcher>>>;

/// Parses selectors; each needs a matcher that does not match the empty string.
pub(super) async fn parse(state: &AppState, selectors: Vec<String>) -> Result<Matches, ApiError> {
    let matches = parse_any(state, selectors).await?;
    let is_empty = |one: &Vec<Matcher>| one.iter().all(Matcher::matches_empty);
    Ok(matches.and_then(|selectors| match selectors.0.iter().any(is_empty) {
        true => Err("match[] must contain at least one non-empty matcher".into()),
        false => Ok(selectors),
    }))
}

/// Parses the parameters `match[]`; an error if there are none.
pub(super) async fn required(
    state: &AppState,
    parameters: &Parameters,
) -> Result<Selectors, ApiError> {
    let selectors = parameters.list("match[]");
    if selectors.is_empty() {
        return Err(ApiError::BadRequest("no match[] parameter provided".into()));
    }
    parse(state, selectors).await?.map_err(|why| invalid("match[]", why))
}

/// Parses selectors; a selector may match everything.
pub(super) async fn parse_any(
    state: &AppState,
    selectors: Vec<String>,
) -> Result<Matches, ApiError> {
    if selectors.len() > MAX_READ_QUERIES {
        return Ok(Err(format!("more than {MAX_READ_QUERIES} of them; {NO_SETTING}")));
    }
    let bytes = selectors.iter().map(String::len).sum::<usize>();
    if bytes > MAX_QUERY_BYTES {
        let most = ShownSize::of(MAX_QUERY_BYTES);
        return Ok(Err(format!("more than {most} of them; {NO_SETTING}")));
    }
    let syntax = state.evaluator().syntax;
    let parse = move |set: &mut PatternSet, caller: &Caller<'_>| {
        let sharers = selectors.len();
        let parsed = selectors.iter().map(|selector| {
            caller.check()?;
            Ok(parse_selector_with(selector, sharers, syntax, set)
                .map_err(|error| error.to_string()))
        });
        parsed.collect::<Result<Result<Vec<_>, String>, ApiError>>()
    };
    let deadline = patterns::compile_deadline(state);
    let (matchers, room) = patterns::read(state, &deadline, bytes, parse).await?;
    Ok(matchers.map(|matchers| (matchers, room)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    async fn parsed(selectors: &[&str]) -> Result<usize, String> {
        let state = AppState::new(Arc::default());
        let selectors = selectors.iter().map(|&selector| selector.to_owned()).collect();
        let matches = parse(&state, selectors).await.expect("somebody waits");
        matches.map(|(all, _)| all.len())
    }

    #[tokio::test]
    async fn what_is_refused() {
        let empty = "match[] must contain at least one non-empty matcher";
        for selector in ["{a=\"\"}", "{a=~\".*\"}", "{}"] {
            assert_eq!(parsed(&["up", selector]).await.expect_err("refused"), empty, "{selector}");
        }
        let error = parsed(&["up", "{"]).await.expect_err("refused");
        assert_eq!(error, "1:2: parse error: unexpected end of input inside braces");
        assert_eq!(parsed(&["up"; MAX_READ_QUERIES]).await, Ok(MAX_READ_QUERIES));
        let error = parsed(&["up"; MAX_READ_QUERIES + 1]).await.expect_err("refused");
        assert_eq!(error, "more than 256 of them; no setting changes that");
        let long = format!("{{a=\"{}\"}}", "x".repeat(MAX_QUERY_BYTES / 2));
        let error = parsed(&[&long, &long]).await.expect_err("refused");
        assert_eq!(error, "more than 1MiB of them; no setting changes that");
    }

    #[tokio::test]
    async fn all_regular_expressions_of_a_request_have_one_budget() {
        let large = r#"{a=~"(\\pL{10}x*){20}"}"#;
        assert_eq!(parsed(&[large; 2]).await, Ok(2), "two fit");
        let error = parsed(&[large; MAX_READ_QUERIES]).await.expect_err("refused");
        assert!(error.contains("parse error: "), "{error}");
    }

    #[tokio::test]
    async fn selectors_have_to_be_given() {
        let state = AppState::new(Arc::default());
        let error = required(&state, &Parameters::default()).await.expect_err("refused");
        assert_eq!(error.to_string(), "no match[] parameter provided");
    }
}
