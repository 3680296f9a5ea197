//! The definition of a setting: a row of a table in `settings`.
//!
//! Flag, variable, key of the file, help, reference page, completions, bounds and reload come from the row. The text of
//! a value is parsed where the value is used.

use super::bounds::Bounds;

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Its name as a flag, without the dashes.
    pub name: &'static str,
    /// The form of its value.
    pub form: Form,
    /// The default value; `None` = not set, or derived from other settings.
    pub default: Option<&'static str>,
    /// One sentence.
    pub help: &'static str,
    /// Whether a change applies on a reload, without a restart.
    pub is_reloadable: bool,
    /// Fixed bounds of the value.
    pub(super) bounds: Option<Bounds>,
    words: &'static [&'static str],
}

/// Settings of one topic.
pub struct Group {
    /// The heading on the reference page.
    pub title: &'static str,
    /// The settings, in the order of the help.
    pub settings: &'static [Setting],
}

/// The form of a value. A text is always accepted in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `true` or `false`; the flag alone means `true`.
    Switch,
    /// A text that begins with a digit, or a number.
    Quantity(&'static str),
    /// A number that is one of a few words.
    Code,
    /// A number of replicas, or a list of numbers by data centre.
    Replicas,
    /// A text, never a number, `true` or `false`.
    Text(&'static str),
    /// A list of such texts. The text form separates them with commas.
    List(&'static str),
    /// A table.
    Table,
    /// A list whose items may contain commas, or a table.
    ListOrTable,
}

pub(super) const DURATION: Form = Form::Quantity("DURATION");
pub(super) const FILE: Form = Form::Text("FILE");
pub(super) const N: Form = Form::Quantity("N");
pub(super) const NAME: Form = Form::Text("NAME");
pub(super) const SIZE: Form = Form::Quantity("SIZE");

impl Form {
    /// The placeholder of the value in the help.
    pub fn label(self) -> &'static str {
        match self {
            Self::Switch => "true|false",
            Self::Code => "CODE",
            Self::Replicas => "N|DC=N,...",
            Self::Quantity(label) | Self::Text(label) | Self::List(label) => label,
            Self::Table => "TABLE",
            Self::ListOrTable => "LIST|TABLE",
        }
    }

    /// Whether a list in the file is accepted as its items with commas between them.
    pub(super) fn is_list(self) -> bool {
        matches!(self, Self::List(_) | Self::Replicas)
    }

    /// Why the file may have no number, `true` or `false` here; `None` = it may.
    pub(super) fn refusal_of_scalars(self) -> Option<&'static str> {
        match self {
            Self::Switch | Self::Quantity(_) | Self::Code | Self::Replicas => None,
            Self::Text(_) => Some("must be a string"),
            Self::List(_) => Some("must be a string, or a list of strings"),
            Self::Table => Some("must be a table, or a string with one"),
            Self::ListOrTable => Some("must be a string, a list or a table"),
        }
    }
}

/// A row of the table of settings, for a setting whose change needs a restart. [`Setting::help()`] completes it.
pub(super) const fn setting(
    name: &'static str,
    form: Form,
    default: Option<&'static str>,
) -> Setting {
    Setting { name, form, default, help: "", is_reloadable: false, bounds: None, words: &[] }
}

/// A row of the table of settings, for a setting whose change applies on a reload.
pub(super) const fn live(name: &'static str, form: Form, default: Option<&'static str>) -> Setting {
    Setting { is_reloadable: true, ..setting(name, form, default) }
}

impl Setting {
    /// The row of a setting with this sentence about it.
    pub(super) const fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    /// The row of a setting with fixed bounds.
    pub(super) const fn within(self, bounds: Bounds) -> Self {
        Self { bounds: Some(bounds), ..self }
    }

    /// The row of a setting that accepts these words.
    pub(super) const fn one_of(self, words: &'static [&'static str]) -> Self {
        Self { words, ..self }
    }

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
        match self.bounds {
            Some(bounds) => format!("{}; {}", self.help, bounds.told()),
            None => self.help.to_owned(),
        }
    }

    /// The words that it accepts; empty if its values are not a fixed list.
    pub fn words(&self) -> &'static [&'static str] {
        match self.form {
            Form::Switch => &["true", "false"],
            _ => self.words,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::SETTINGS;
    use crate::telemetry::{HEAD_SIZE, Metrics, RATE};

    #[test]
    fn limits_that_are_counted_are_settings() {
        let text = Metrics::new().encode();
        let counted: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("promkairos_limits_reached_total{limit=\""))
            .filter_map(|line| line.split('"').next())
            .filter(|name| ![HEAD_SIZE, RATE].contains(name))
            .collect();
        assert!(counted.len() > 30, "{counted:?}");
        for name in counted {
            assert!(SETTINGS.iter().any(|setting| setting.name == name), "{name}");
        }
    }
}
