//! Retention by metric: regular expressions of metric names, with durations.
//!
//! ```text
//! {"node_.*" = "90d", "node_debug_.*" = "1d", "billing_.*" = "0"}
//! ```
//!
//! As text, the table may be written as TOML or as JSON. The expressions are compiled here once, so
//! that an error can name the entry; the store compiles them again.

use std::fmt::Display;
use std::time::Duration;

use serde_json::Value;

use super::error::ConfigError;
use super::keys::{Key, KeyTable};
use super::raw::Raw;
use super::table::{EntryError, below};
use super::units::parse_duration;
use crate::limits::MAX_TTL_SECONDS;
use crate::model::{METRIC_NAME, MatchOp, Matcher};

/// The setting's name.
const NAME: &str = "cassandra-ttl-by-metric";

/// The keys of the setting: any expression.
pub(super) fn table() -> KeyTable {
    const HELP: &str = "How long the samples of the metrics are kept whose whole name this regular \
                        expression matches, as \"90d\"; \"0\" = for ever. The longest expression holds";
    KeyTable {
        setting: NAME,
        place: "[cassandra_ttl_by_metric]",
        help: "Regular expressions of metrics, between quotes, and durations",
        keys: vec![Key::new("REGEX", HELP, "--retention")],
    }
}

pub(super) fn from_raw(raw: &Raw) -> Result<Vec<(String, Duration)>, ConfigError> {
    Ok(raw.structured(NAME, FORM, parse)?.unwrap_or_default())
}

const FORM: &str = "must be a table of regular expressions with durations";

fn parse(value: Value) -> Result<Vec<(String, Duration)>, EntryError> {
    let table = value.as_object().ok_or_else(|| EntryError::new("", FORM))?;
    let mut kept = Vec::new();
    for (pattern, duration) in table {
        let refused = |reason: &dyn Display| EntryError::new(below("", pattern), reason);
        let text =
            duration.as_str().ok_or_else(|| refused(&"must be a duration such as \"90d\""))?;
        let duration = parse_duration(text).map_err(|error| refused(&error))?;
        if !duration.is_zero() {
            check_ttl(duration).map_err(|why| refused(&why))?;
        }
        Matcher::new(MatchOp::Regex, METRIC_NAME, pattern).map_err(|error| refused(&error))?;
        kept.push((pattern.clone(), duration));
    }
    Ok(kept)
}

/// Refuses a `retention` that cannot be a TTL of Cassandra.
pub(super) fn check_retention(raw: &Raw) -> Result<(), ConfigError> {
    match raw.duration("retention")? {
        Duration::ZERO => Ok(()),
        kept => check_ttl(kept).map_err(|why| raw.refuse("retention", why)),
    }
}

/// Refuses what no Cassandra accepts. Only the servers know their own limit on expiration dates.
fn check_ttl(kept: Duration) -> Result<(), &'static str> {
    match kept {
        short if short < Duration::from_secs(1) => Err("a TTL has at least one second"),
        long if long.as_secs() > MAX_TTL_SECONDS.unsigned_abs() => {
            Err("Cassandra takes at most 20 years")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::value_of;
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, Duration)>, EntryError> {
        value_of(text, FORM).and_then(parse)
    }

    #[test]
    fn both_notations() {
        let day = Duration::from_secs(86_400);
        let want = Ok(vec![("a.*".to_owned(), Duration::ZERO), ("b".to_owned(), day)]);
        assert_eq!(read("{\"a.*\" = \"0\", b = \"1d\"}"), want);
        assert_eq!(read("{\"a.*\": \"0\", \"b\": \"24h\"}"), want);
        assert_eq!(read("{}"), Ok(vec![]));
    }

    #[test]
    fn what_is_refused() {
        for (text, path, want) in [
            ("1d", "", "must be a table"),
            ("[\"a\"]", "", "must be a table"),
            ("{a = 7}", ".a", "must be a string"),
            ("{\"a\": 7}", ".a", "must be a duration such as \"90d\""),
            ("{\"a.*\" = \"7\"}", ".\"a.*\"", "not a duration"),
            ("{", "", "must be a table"),
            ("{a = \"1ms\"}", ".a", "a TTL has at least one second"),
            ("{a = \"21y\"}", ".a", "Cassandra takes at most 20 years"),
            ("{\"a(\" = \"1d\"}", ".\"a(\"", "error parsing regexp: missing closing )"),
        ] {
            let error = read(text).expect_err(text);
            assert_eq!(error.path, path, "{text}");
            assert!(error.reason.starts_with(want), "{error:?}");
        }
    }
}
