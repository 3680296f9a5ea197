//! Which tags of which metrics are indexed: KairosDB's setting `tag_indexed_row_key_lookup_metrics`,
//! in its own two forms.
//!
//! ```text
//! ["m", "n"]  or  m,n                  all tags of these metrics
//! ["*"]       or  *                    all tags of all metrics
//! {m = ["host"], n = [], "*" = []}     these tags; none or "*" = all of them
//! ```
//!
//! As text, a table may be written as TOML or as JSON. A metric's own entry adds to that of `*`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::raw::Raw;
use super::table::value_of;
use super::{ConfigError, choice, duration};

/// The setting's name.
const NAME: &str = "tag-indexed-row-key-lookup-metrics";

/// Tags by metric; an empty set = all tags, the metric `*` = all metrics.
pub type IndexedTags = BTreeMap<String, BTreeSet<String>>;

/// What the tag index is to hold, and how far it is believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagIndexConfig {
    /// What it is to hold.
    pub metrics: IndexedTags,
    /// How far it is believed.
    pub trust: TagIndexTrust,
    /// How often it is compared with `row_keys`; zero = never.
    pub audit_interval: Duration,
}

/// What the operator vouches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagIndexTrust {
    /// Every writer of the keyspace indexes the same tags.
    Configured,
    /// Nothing: `row_keys` is asked as well.
    Verify,
}

impl TagIndexConfig {
    pub(super) fn from_raw(raw: &Raw) -> Result<Self, ConfigError> {
        let text = raw.get(NAME).unwrap_or_default();
        Ok(Self {
            metrics: parse(text).map_err(|reason| raw.refuse(NAME, reason))?,
            trust: choice(
                raw,
                "tag-index-trust",
                &[("configured", TagIndexTrust::Configured), ("verify", TagIndexTrust::Verify)],
            )?,
            audit_interval: duration(raw, "tag-index-audit-interval")?,
        })
    }
}

fn parse(text: &str) -> Result<IndexedTags, String> {
    const FORM: &str = "must be a list of metrics, or a table of metrics with lists of tags";
    let text = text.trim();
    let value = if !text.starts_with(['[', '{']) {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.collect::<Vec<_>>().into()
    } else {
        value_of(text, FORM)?
    };
    let names = |list: &serde_json::Value| -> Option<BTreeSet<String>> {
        list.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let tags = |value: &serde_json::Value| {
        let tags = names(value)?;
        Some(if tags.contains("*") { BTreeSet::new() } else { tags })
    };
    let metrics: Option<BTreeMap<_, _>> = match &value {
        serde_json::Value::Object(table) => {
            table.iter().map(|(metric, list)| Some((metric.clone(), tags(list)?))).collect()
        }
        list => {
            names(list).map(|names| names.into_iter().map(|name| (name, BTreeSet::new())).collect())
        }
    };
    let metrics = metrics.ok_or(FORM)?;
    let empty = |(metric, tags): (&String, &BTreeSet<String>)| {
        metric.is_empty() || tags.iter().any(String::is_empty)
    };
    if metrics.iter().any(empty) {
        return Err("a metric or a tag has an empty name".into());
    }
    Ok(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_kairosdb_in_every_notation() {
        let check = |text: &str, want: &[(&str, &[&str])]| {
            let want = want.iter().map(|(metric, tags)| {
                ((*metric).to_owned(), tags.iter().map(|tag| (*tag).to_owned()).collect())
            });
            assert_eq!(parse(text), Ok(want.collect()), "{text}");
        };
        check("", &[]);
        check("[]", &[]);
        check("m, n", &[("m", &[]), ("n", &[])]);
        check("*", &[("*", &[])]);
        check("[\"m\", \"a,b\"]", &[("a,b", &[]), ("m", &[])]);
        check("{m = [\"host\", \"dc\"], n = []}", &[("m", &["dc", "host"]), ("n", &[])]);
        check("{\"a.b\": [\"*\", \"x\"]}", &[("a.b", &[])]);
        check("{\"*\" = [\"host\"]}", &[("*", &["host"])]);
        for bad in ["[1]", "{m = \"host\"}", "{m = [1]}", "{", "[\"\"]", "{m = [\"\"]}"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
