//! `GET /api/v1/status/config`: the section `global` of a Prometheus configuration, as YAML.
//!
//! Clients read the labels that identify a server and its scrape and evaluation intervals there. The values come
//! from the settings that describe the senders: nothing is scraped or evaluated here.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use super::json as envelope;
use super::pages::shown;
use super::settings::GlobalConfig;
use super::state::SharedState;

/// The default scrape timeout of a Prometheus; a shorter interval lowers it.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(10);

/// Words that YAML 1.1 or 1.2 does not read as text, in any case.
const WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];

/// Most characters of a key that is written without a question mark. YAML allows more.
const MOST_KEY: usize = 128;

/// `GET /api/v1/status/config`
pub(super) async fn config(State(state): State<SharedState>) -> Response {
    envelope::answer(Ok(json!({ "yaml": yaml(&state.global()) })))
}

fn yaml(global: &GlobalConfig) -> String {
    let mut text = format!(
        "global:\n  scrape_interval: {}\n  scrape_timeout: {}\n  evaluation_interval: {}\n",
        shown(global.scrape_interval),
        shown(global.scrape_interval.min(SCRAPE_TIMEOUT)),
        shown(global.evaluation_interval),
    );
    for (at, (name, value)) in global.external_labels.iter().enumerate() {
        if at == 0 {
            text.push_str("  external_labels:\n");
        }
        let (name, value) = (scalar(name), scalar(value));
        let _ = match name.chars().count() {
            ..=MOST_KEY => writeln!(text, "    {name}: {value}"),
            _ => writeln!(text, "    ? {name}\n    : {value}"),
        };
    }
    text
}

/// A text as YAML: in double quotes, unless it begins with a letter or `_`, has no special characters, and is not
/// one of [`WORDS`].
fn scalar(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_word = WORDS.iter().any(|word| word.eq_ignore_ascii_case(text));
    if begins && !is_word && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut quoted = String::from('"');
    for c in text.chars() {
        let _ = match (c, u32::from(c)) {
            ('"' | '\\', _) => write!(quoted, "\\{c}"),
            (' '..='~', _) => write!(quoted, "{c}"),
            (c, _) if c.is_alphanumeric() => write!(quoted, "{c}"),
            (_, number @ ..=0xff) => write!(quoted, "\\x{number:02x}"),
            (_, number @ ..=0xffff) => write!(quoted, "\\u{number:04x}"),
            (_, number) => write!(quoted, "\\U{number:08x}"),
        };
    }
    quoted.push('"');
    Cow::Owned(quoted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use saphyr::{LoadableYamlNode, Scalar, Yaml};

    use super::*;
    use promkairos_model::Labels;

    fn with_labels(pairs: &[(&str, &str)]) -> GlobalConfig {
        let external_labels = Labels::from_pairs(pairs.iter().copied()).expect("valid");
        GlobalConfig { external_labels, ..GlobalConfig::default() }
    }

    /// The labels that another YAML parser reads; all have to be texts.
    fn read_back(text: &str) -> Vec<(String, String)> {
        let documents = Yaml::load_from_str(text).expect(text);
        let labels = documents[0]["global"]["external_labels"].as_mapping().expect(text);
        let string = |node: &Yaml<'_>| match node {
            Yaml::Value(Scalar::String(text)) => text.to_string(),
            other => panic!("{other:?} in {text}"),
        };
        labels.iter().map(|(name, value)| (string(name), string(value))).collect()
    }

    #[test]
    fn as_prometheus_writes_it() {
        let head = |interval, timeout, evaluation| {
            format!(
                "global:\n  scrape_interval: {interval}\n  scrape_timeout: {timeout}\n  \
                 evaluation_interval: {evaluation}\n"
            )
        };
        let quarter = Duration::from_secs(15);
        let config = GlobalConfig {
            scrape_interval: quarter,
            evaluation_interval: quarter,
            ..with_labels(&[("cluster", "eu-1"), ("a", "b")])
        };
        let labels = "  external_labels:\n    a: b\n    cluster: eu-1\n";
        assert_eq!(yaml(&config), head("15s", "10s", "15s") + labels);
        assert_eq!(yaml(&GlobalConfig::default()), head("1m", "10s", "1m"));
        let [short, odd] = [5_000, 90_500].map(Duration::from_millis);
        let config = GlobalConfig { scrape_interval: short, evaluation_interval: odd, ..config };
        assert_eq!(yaml(&config), head("5s", "5s", "1m30s500ms") + labels);
    }

    #[test]
    fn what_yaml_would_take_for_something_else_is_quoted() {
        for (text, want) in [
            ("eu-1", "eu-1"),
            ("a.b/c_d", "a.b/c_d"),
            ("_x", "_x"),
            ("1", "\"1\""),
            ("0x1f", "\"0x1f\""),
            ("1e3", "\"1e3\""),
            ("2026-11-28", "\"2026-11-28\""),
            (".inf", "\".inf\""),
            ("-", "\"-\""),
            ("~", "\"~\""),
            ("Yes", "\"Yes\""),
            ("NULL", "\"NULL\""),
            ("off", "\"off\""),
            ("y", "\"y\""),
            ("a b", "\"a b\""),
            ("a: b", "\"a: b\""),
            ("a #b", "\"a #b\""),
            ("{a}", "\"{a}\""),
            ("é", "\"é\""),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("a\nb\t\u{7f}", r#""a\x0ab\x09\x7f""#),
            ("\u{2028}\u{feff}", r#""\u2028\ufeff""#),
            ("\u{1f600}", r#""\U0001f600""#),
        ] {
            assert_eq!(scalar(text), want, "{text:?}");
        }
    }

    #[test]
    fn names_of_any_length_are_read_back() {
        let long = "n".repeat(MOST_KEY + 1);
        let odd = "\u{1f600}".repeat(256);
        let pairs = [(long.as_str(), "a"), (odd.as_str(), "b")];
        let want = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read_back(&yaml(&with_labels(&pairs))), want);
    }

    proptest! {
        #[test]
        fn another_reader_finds_the_same_texts(
            pairs in prop::collection::btree_map("\\PC{1,9}|[a-zA-Z0-9.~]{1,4}", ".{1,9}", 1..4),
        ) {
            let pairs: Vec<(String, String)> = pairs.into_iter().collect();
            let texts: Vec<(&str, &str)> = pairs.iter().map(|(a, b)| (&**a, &**b)).collect();
            prop_assert_eq!(read_back(&yaml(&with_labels(&texts))), pairs);
        }
    }
}
