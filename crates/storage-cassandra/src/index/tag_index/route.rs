//! Which matchers of a selection can use the tag index. Pure.
//!
//! A matcher can, if it passes few known values, none of them empty: a series without the tag has
//! no row there.

use promkairos_model::Matcher;

/// The most values of one matcher; more are found faster in `row_keys`.
const MOST_VALUES: usize = 64;

/// A tag whose values can be looked up in the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate<'a> {
    pub(super) tag: &'a str,
    pub(super) values: Vec<&'a str>,
}

/// The matchers that can use the index; `covers` says which tags can be relied on.
pub(super) fn candidates(
    matchers: &[Matcher],
    covers: impl Fn(&str) -> bool,
) -> Vec<Candidate<'_>> {
    let mut found: Vec<Candidate<'_>> = matchers
        .iter()
        .filter_map(|matcher| {
            let values = matcher.literals()?;
            let few = values.len() <= MOST_VALUES && !values.contains(&"");
            (few && covers(matcher.name())).then(|| Candidate { tag: matcher.name(), values })
        })
        .collect();
    found.sort_by_key(|candidate| candidate.values.len());
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_model::MatchOp::{self, Equal, NotEqual, NotRegex, Regex};

    #[test]
    fn only_sets_of_values_on_covered_tags() {
        let check = |all: &[(&str, MatchOp, &str)], want: &[(&str, &[&str])]| {
            let new = |(name, op, value): &(&str, MatchOp, &str)| Matcher::new(*op, name, value);
            let matchers: Vec<_> = all.iter().map(|m| new(m).expect("a valid pattern")).collect();
            let found = candidates(&matchers, |tag| ["host", "dc"].contains(&tag));
            let found: Vec<_> = found.iter().map(|c| (c.tag, &c.values[..])).collect();
            assert_eq!(found, want, "{all:?}");
        };
        check(&[("host", Equal, "a")], &[("host", &["a"])]);
        check(&[("job", Equal, "a")], &[]);
        check(
            &[("host", Regex, "b|a"), ("dc", Equal, "x")],
            &[("dc", &["x"]), ("host", &["a", "b"])],
        );
        check(&[("host", Equal, "")], &[]);
        check(&[("host", Regex, "a|")], &[]);
        check(&[("host", Regex, "a.*")], &[]);
        check(&[("host", NotEqual, "a"), ("dc", NotRegex, "b|c")], &[]);
        let many: Vec<String> = (0..65).map(|n| n.to_string()).collect();
        check(&[("host", Regex, &many.join("|"))], &[]);
    }
}
