//! From matchers to index reads: which metrics to read, and what is left to filter. Pure.
//!
//! The schema finds series only by metric and time, so the matchers of `__name__` decide what is
//! read: known names, or the lists of all names beginning at a prefix. All other matchers are
//! applied to the tags of each index row.

use promkairos_model::{METRIC_NAME, Matcher};

/// What to read for a selection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Route {
    pub(crate) metrics: Metrics,
    /// Applied to the tags of each row.
    pub(crate) tags: Vec<Matcher>,
}

/// Which metrics to read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Metrics {
    /// These names; no list of names is needed.
    Named(Vec<String>),
    /// The listed names that begin with the prefix and pass.
    Listed {
        /// May be empty.
        prefix: String,
        /// All must pass.
        matchers: Vec<Matcher>,
    },
}

/// Decides what to read.
pub(crate) fn route(matchers: &[Matcher]) -> Route {
    let (names, tags): (Vec<Matcher>, Vec<Matcher>) =
        matchers.iter().cloned().partition(|matcher| matcher.name() == METRIC_NAME);
    let passes = |name: &str| !name.is_empty() && names.iter().all(|m| m.matches(name));
    let sets = names.iter().filter_map(Matcher::literals);
    let metrics = match sets.min_by_key(Vec::len) {
        Some(set) => {
            let mut named: Vec<String> =
                set.into_iter().filter(|name| passes(name)).map(str::to_owned).collect();
            named.sort_unstable();
            named.dedup();
            Metrics::Named(named)
        }
        None => {
            let prefix = names.iter().map(Matcher::prefix).max_by_key(|prefix| prefix.len());
            let prefix = prefix.unwrap_or_default().to_owned();
            Metrics::Listed { prefix, matchers: names }
        }
    };
    Route { metrics, tags }
}

impl Route {
    /// Whether a row with these tags is selected; a missing tag has the empty value.
    pub(crate) fn passes(&self, tags: &[(&str, &str)]) -> bool {
        self.tags.iter().all(|matcher| {
            let tag = tags.iter().find(|(name, _)| *name == matcher.name());
            matcher.matches(tag.map_or("", |(_, value)| value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_model::MatchOp;

    fn matchers(all: &[(&str, MatchOp, &str)]) -> Vec<Matcher> {
        let new = |(name, op, value): &(&str, MatchOp, &str)| Matcher::new(*op, name, value);
        all.iter().map(|m| new(m).expect("a valid pattern")).collect()
    }

    #[test]
    fn names_decide_what_is_read() {
        use MatchOp::{Equal, NotEqual, NotRegex, Regex};
        let named = |names: &[&str]| Metrics::Named(names.iter().map(|n| (*n).into()).collect());
        let check = |all: &[(&str, MatchOp, &str)], want: Metrics| {
            assert_eq!(route(&matchers(all)).metrics, want, "{all:?}");
        };
        let name = METRIC_NAME;
        check(&[(name, Equal, "up"), ("job", NotEqual, "a")], named(&["up"]));
        check(&[(name, Equal, "up"), (name, NotEqual, "up")], named(&[]));
        check(&[(name, Equal, "up"), (name, Regex, "u.*")], named(&["up"]));
        check(&[(name, Equal, "")], named(&[]));
        for all in [&[("job", Equal, "a")][..], &[(name, NotRegex, "x.*"), (name, NotEqual, "y")]] {
            let got = route(&matchers(all)).metrics;
            assert!(matches!(got, Metrics::Listed { prefix, .. } if prefix.is_empty()), "{all:?}");
        }
        let listed = route(&matchers(&[(name, Regex, "node_.+"), (name, NotEqual, "node_x")]));
        let Metrics::Listed { prefix, matchers } = listed.metrics else {
            panic!("a pattern has no list of names")
        };
        assert!("node_".starts_with(&prefix) && matchers.len() == 2);
    }

    #[test]
    fn other_matchers_filter_tags() {
        use MatchOp::{Equal, NotRegex, Regex};
        let route = route(&matchers(&[
            (METRIC_NAME, Equal, "up"),
            ("job", Regex, "a|b"),
            ("gone", Equal, ""),
            ("host", NotRegex, "x.*"),
        ]));
        assert!(route.passes(&[("job", "a"), ("other", "1")]));
        assert!(!route.passes(&[("job", "c")]));
        assert!(!route.passes(&[("job", "a"), ("gone", "1")]));
        assert!(!route.passes(&[("host", "x1"), ("job", "a")]));
        assert!(route.passes(&[("gone", ""), ("job", "b")]));
    }
}
