//! Which tags of which metrics are indexed: KairosDB's setting
//! `tag_indexed_row_key_lookup_metrics`, in both of its forms.
//!
//! ```text
//! ["m", "n"]  or  m,n                  all tags of these metrics
//! ["*"]       or  *                    all tags of all metrics
//! {m = ["host"], n = [], "*" = []}     these tags; none or "*" = all of them
//! ```
//!
//! As text, a table may be written as TOML or as JSON. A metric's own entry adds to the entry `*`.

use std::collections::{BTreeMap, BTreeSet};

use super::error::ConfigError;
use super::keys::{Key, KeyTable};
use super::raw::Raw;
use super::table::{EntryError, below, value_of};
use crate::storage::cassandra::{TagIndexOptions, TagIndexTrust};

/// The setting's name.
const NAME: &str = "tag-indexed-row-key-lookup-metrics";

/// The key for every metric, and the name for all of its tags.
const ALL: &str = "*";

/// Tags by metric; an empty set = all tags, the metric `*` = all metrics.
type IndexedTags = BTreeMap<String, BTreeSet<String>>;

/// What the tag index has to hold, and how far it is trusted.
pub(super) fn from_raw(raw: &Raw) -> Result<TagIndexOptions, ConfigError> {
    let text = raw.get(NAME).unwrap_or_default();
    Ok(TagIndexOptions {
        metrics: parse(text).map_err(|error| raw.refuse_entry(NAME, &error))?,
        trust: match raw.word("tag-index-trust")? {
            "verify" => TagIndexTrust::Verify,
            _ => TagIndexTrust::Configured,
        },
        audit_interval: raw.duration("tag-index-audit-interval")?,
        ..TagIndexOptions::default()
    })
}

/// The keys of the setting as a table: any name.
pub(super) fn table() -> KeyTable {
    KeyTable {
        setting: NAME,
        place: "[tag_indexed_row_key_lookup_metrics]",
        help: "Where it is a table and no list: metrics, and of each the tags that are indexed",
        keys: vec![
            Key::new("METRIC", "A list of its tags; [] or [\"*\"] = all", "it is not indexed"),
            Key::new(
                ALL,
                "The same for every metric; entries of a metric add to it",
                "those named alone",
            ),
        ],
    }
}

fn parse(text: &str) -> Result<IndexedTags, EntryError> {
    const FORM: &str = "must be a list of metrics, or a table of metrics with lists of tags";
    let text = text.trim();
    let value = match text.starts_with(['[', '{']) {
        true => value_of(text, FORM)?,
        false => text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect(),
    };
    let names = |list: &serde_json::Value, path: &str, form: &str| {
        let list = list.as_array().ok_or_else(|| EntryError::new(path, form))?;
        let name = |(at, name): (usize, &serde_json::Value)| match name.as_str() {
            Some("") => Err(EntryError::new(format!("{path}[{at}]"), "must not be empty")),
            Some(name) => Ok(name.to_owned()),
            None => Err(EntryError::new(format!("{path}[{at}]"), "must be a string")),
        };
        list.iter().enumerate().map(name).collect::<Result<BTreeSet<String>, _>>()
    };
    let Some(table) = value.as_object() else {
        let names = names(&value, "", FORM)?;
        return Ok(names.into_iter().map(|name| (name, BTreeSet::new())).collect());
    };
    let mut metrics = IndexedTags::new();
    for (metric, list) in table {
        let path = below("", metric);
        if metric.is_empty() {
            return Err(EntryError::new(path, "a metric has a name"));
        }
        let tags = names(list, &path, "must be a list of tags")?;
        let tags = if tags.contains(ALL) { BTreeSet::new() } else { tags };
        metrics.insert(metric.clone(), tags);
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
        for (bad, path) in [
            ("[1]", "[0]"),
            ("{m = \"host\"}", ".m"),
            ("{m = [1]}", ".m[0]"),
            ("{", ""),
            ("[\"\"]", "[0]"),
            ("{m = [\"\"]}", ".m[0]"),
            ("{\"\" = []}", ".\"\""),
        ] {
            assert_eq!(parse(bad).expect_err(bad).path, path, "{bad}");
        }
    }
}
