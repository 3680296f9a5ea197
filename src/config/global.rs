//! The section `global` of a Prometheus: external labels, scrape interval and evaluation interval.
//!
//! ```text
//! {cluster = "eu-1", replica = "a"}
//! ```
//!
//! As text, the table of labels may be written as TOML or as JSON. Nothing is scraped or evaluated
//! here: clients can ask for the intervals at which the senders do.

use serde_json::Value;

use super::error::ConfigError;
use super::keys::{Key, KeyTable};
use super::raw::Raw;
use super::table::{EntryError, below};
use crate::api::GlobalConfig;
use crate::limits::LABEL_LIMITS;
use crate::model::{Labels, METRIC_NAME};

/// The setting of the labels.
const LABELS: &str = "external-labels";

pub(super) fn from_raw(raw: &Raw) -> Result<GlobalConfig, ConfigError> {
    Ok(GlobalConfig {
        external_labels: raw.structured(LABELS, FORM, parse)?.unwrap_or_default(),
        scrape_interval: raw.positive("scrape-interval")?,
        evaluation_interval: raw.positive("evaluation-interval")?,
    })
}

/// The keys of the setting: any name.
pub(super) fn table() -> KeyTable {
    const HELP: &str = "The value of the label, as \"eu-1\". The name may have any characters, but is not __name__";
    KeyTable {
        setting: LABELS,
        place: "[external_labels]",
        help: "Names of labels, and their values",
        keys: vec![Key::new("NAME", HELP, "no such label is added")],
    }
}

const FORM: &str = "must be a table of names of labels with values";

fn parse(value: Value) -> Result<Labels, EntryError> {
    let table = value.as_object().ok_or_else(|| EntryError::new("", FORM))?;
    let (mut pairs, mut bytes) = (Vec::new(), 0);
    for (name, value) in table {
        let refused = |reason: String| EntryError::new(below("", name), reason);
        let value = value.as_str().ok_or_else(|| refused("must be a string".into()))?;
        check(name, value).map_err(refused)?;
        bytes += name.len() + value.len();
        pairs.push((name, value));
    }
    let (most, most_bytes) = (LABEL_LIMITS.labels, LABEL_LIMITS.total_bytes);
    if pairs.len() > most {
        return Err(EntryError::new("", format!("must have at most {most} labels")));
    }
    if bytes > most_bytes {
        return Err(EntryError::new("", format!("must have at most {most_bytes} bytes in all")));
    }
    Labels::from_pairs(pairs).map_err(|error| EntryError::new("", error))
}

/// Refuses a label that no series can have.
fn check(name: &str, value: &str) -> Result<(), String> {
    let (most_name, most_value) = (LABEL_LIMITS.name_bytes, LABEL_LIMITS.value_bytes);
    match (name, value) {
        ("", _) => Err("the name of a label must not be empty".into()),
        (METRIC_NAME, _) => Err("is the name of a metric, which each series has of its own".into()),
        (_, "") => Err("must not be empty".into()),
        (name, _) if name.len() > most_name => {
            Err(format!("has a name of more than {most_name} bytes"))
        }
        (_, value) if value.len() > most_value => {
            Err(format!("must have at most {most_value} bytes"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing;
    use super::*;

    fn load(settings: &[&str]) -> Result<GlobalConfig, String> {
        testing::load(settings).map(|config| config.global)
    }

    #[test]
    fn the_defaults_are_those_of_prometheus() {
        assert_eq!(load(&[]), Ok(GlobalConfig::default()));
    }

    #[test]
    fn labels_in_both_notations_and_intervals() {
        let labels = Labels::from_pairs([("cluster", "eu-1"), ("a.b", "c\"d")]).expect("valid");
        for text in ["{cluster = \"eu-1\", \"a.b\" = 'c\"d'}", r#"{"cluster":"eu-1","a.b":"c\"d"}"#]
        {
            let flag = format!("--external-labels={text}");
            let config = load(&[&flag, "--scrape-interval=15s", "--evaluation-interval=30s"]);
            let [scrape_interval, evaluation_interval] = [15, 30].map(Duration::from_secs);
            let external_labels = labels.clone();
            assert_eq!(
                config,
                Ok(GlobalConfig { external_labels, scrape_interval, evaluation_interval })
            );
        }
    }

    #[test]
    fn what_is_refused_names_the_setting_and_the_label() {
        let check = |argument: &str, want: &str| {
            let error = load(&[argument]).expect_err(argument);
            assert!(error.starts_with(want), "{argument}: {error}");
        };
        check("--scrape-interval=15", "--scrape-interval \"15\": not a duration");
        check("--scrape-interval=0", "--scrape-interval \"0\": must be more than 0");
        check("--evaluation-interval=0", "--evaluation-interval \"0\": must be more than 0");
        let form = "--external-labels: must be a table of names of labels with values";
        for text in ["a", "a=b", "[\"a\"]", "\"a\"", "{"] {
            check(&format!("--external-labels={text}"), form);
        }
        check("--external-labels={a = 7}", "--external-labels.a: must be a string");
        check("--external-labels={\"a\": 7}", "--external-labels.a: must be a string");
        check("--external-labels={a = \"\"}", "--external-labels.a: must not be empty");
        check(
            "--external-labels={\"\" = \"b\"}",
            "--external-labels.\"\": the name of a label must not be empty",
        );
        check(
            "--external-labels={__name__ = \"up\"}",
            "--external-labels.__name__: is the name of a metric",
        );
        let long = "n".repeat(LABEL_LIMITS.name_bytes + 1);
        check(
            &format!("--external-labels={{{long} = \"b\"}}"),
            &format!("--external-labels.{long}: has a name of more than 1024 bytes"),
        );
        let long = "v".repeat(LABEL_LIMITS.value_bytes + 1);
        check(
            &format!("--external-labels={{a = \"{long}\"}}"),
            "--external-labels.a: must have at most 16384 bytes",
        );
        let fits = "v".repeat(LABEL_LIMITS.value_bytes);
        check(
            &format!("--external-labels={{a = \"{fits}\", b = \"{fits}\"}}"),
            "--external-labels: must have at most 32768 bytes in all",
        );
        let many: Vec<String> = (0..129).map(|n| format!("l{n} = \"v\"")).collect();
        check(
            &format!("--external-labels={{{}}}", many.join(", ")),
            "--external-labels: must have at most 128 labels",
        );
    }
}
