//! Derives flags, environment variables, the help and the keys of the file from the table of
//! settings. Checks nothing but the form of the command line.

use clap::{Arg, ArgAction};

use super::bounds::Bounds;
use super::setting::Setting;
use super::settings::SETTINGS;

/// The form that the value of a setting may have in the file. A text is always allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A text, a number, true or false.
    Scalar,
    /// A scalar, or a list of scalars. The text form separates them with commas.
    List,
    /// A table.
    Table,
    /// A list whose items may contain commas, or a table.
    ListOrTable,
}

impl Setting {
    /// Its key in the file, and its clap argument id.
    pub fn key(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Its environment variable.
    pub fn variable(&self) -> String {
        format!("PROMKAIROS_{}", self.key().to_ascii_uppercase())
    }

    /// The sentence of the help, with the bounds of the value.
    pub fn meaning(&self) -> String {
        match Bounds::of(self.name) {
            Some(bounds) => format!("{}; {}", self.help, bounds.told()),
            None => self.help.to_owned(),
        }
    }

    /// The form that its value may have in the file.
    pub(super) fn shape(&self) -> Shape {
        match self.value {
            "TABLE" => Shape::Table,
            "LIST|TABLE" => Shape::ListOrTable,
            list if list.ends_with(",...") => Shape::List,
            _ => Shape::Scalar,
        }
    }

    /// Whether its value, or each item of a list, is a text and never a number, `true` or `false`.
    pub(super) fn is_text(&self) -> bool {
        !self.is_switch() && !self.is_quantity() && !["CODE", "N|DC=N,..."].contains(&self.value)
    }

    /// Whether its value is a list or a table, which is never repeated in an error.
    pub(super) fn is_structured(&self) -> bool {
        matches!(self.shape(), Shape::Table | Shape::ListOrTable)
    }

    /// Whether the flag may stand without a value, meaning `true`.
    fn is_switch(&self) -> bool {
        self.value == "true|false"
    }

    /// Whether the value begins with a digit.
    fn is_quantity(&self) -> bool {
        ["DURATION", "SIZE", "SIZE|PERCENT", "N", "SHARE"].contains(&self.value)
    }

    fn argument(&self) -> Arg {
        let meaning = self.meaning();
        let help = match self.default {
            Some(default) => format!("{meaning} [default: {default}]"),
            None => meaning,
        };
        let argument = Arg::new(self.key())
            .long(self.name)
            .env(self.variable())
            .value_name(self.value)
            .help(help)
            .help_heading("Settings")
            .hide_env_values(true)
            .action(ArgAction::Set)
            .global(true);
        if self.is_switch() {
            argument.num_args(0..=1).require_equals(true).default_missing_value("true")
        } else {
            // A negative number is refused as a value, not as an unknown flag.
            argument.allow_hyphen_values(self.is_quantity())
        }
    }
}

/// The flags of all settings, and `--config`.
pub fn arguments() -> Vec<Arg> {
    let file = Arg::new("config")
        .long("config")
        .env("PROMKAIROS_CONFIG")
        .value_name("FILE")
        .help("TOML file with settings; flags and the environment win over it")
        .global(true);
    std::iter::once(file).chain(SETTINGS.iter().map(Setting::argument)).collect()
}

/// The known key that is closest to `key`, a probable misspelling.
pub(super) fn nearest(key: &str, known: impl Iterator<Item = String>) -> Option<String> {
    let key = key.replace('-', "_").to_ascii_lowercase();
    known
        .map(|known| (strsim::jaro_winkler(&key, &known), known))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}
