//! What is different between two readings of the settings, and what of it holds at once.

use super::Config;

/// Settings that hold as soon as they are read again.
const LIVE: [&str; 12] = [
    "tag-indexed-row-key-lookup-metrics",
    "max-request-body-size",
    "max-series-per-request",
    "max-samples-per-request",
    "max-samples-per-second",
    "max-active-series",
    "max-active-series-per-metric",
    "series-limit-answer",
    "max-labels-per-series",
    "max-label-name-size",
    "max-label-value-size",
    "log-level",
];

/// Whether a setting holds as soon as it is read again, without a restart.
pub fn is_live(name: &str) -> bool {
    LIVE.contains(&name)
}

/// The names of the settings whose text differs, in the order of the help.
pub fn changed(one: &Config, other: &Config) -> Vec<&'static str> {
    let names = super::SETTINGS.iter().map(|setting| setting.name);
    names.filter(|name| one.said.get(name) != other.said.get(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Config, SETTINGS, arguments};
    use super::*;

    fn load(settings: &[&str]) -> Config {
        let arguments_of = std::iter::once("promkairos").chain(settings.iter().copied());
        let command = clap::Command::new("promkairos").args(arguments());
        Config::load(&command.try_get_matches_from(arguments_of).expect("known")).expect("valid")
    }

    #[test]
    fn what_is_live_is_a_setting() {
        for name in &LIVE {
            assert!(SETTINGS.iter().any(|setting| setting.name == *name), "{name}");
        }
        assert!(!is_live("retention") && is_live("log-level"));
    }

    #[test]
    fn changes_are_by_the_text() {
        let (one, other) = (load(&["--retention=1d"]), load(&["--max-active-series=5"]));
        assert_eq!(changed(&one, &other), ["retention", "max-active-series"]);
        assert!(changed(&one, &load(&["--retention=1d"])).is_empty());
    }
}
