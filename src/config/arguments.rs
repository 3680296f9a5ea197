//! Makes the flags of the command line, with their variables and help, from the table of settings. Checks nothing but
//! the form of the command line.

use clap::{Arg, ArgAction};

use super::setting::{Form, Setting};
use super::settings::SETTINGS;

impl Setting {
    fn argument(&self) -> Arg {
        let meaning = self.meaning();
        let help = match self.default {
            Some(default) => format!("{meaning} [default: {default}]"),
            None => meaning,
        };
        let argument = Arg::new(self.key())
            .long(self.name)
            .env(self.variable())
            .value_name(self.form.label())
            .help(help)
            .help_heading("Settings")
            .hide_env_values(true)
            .action(ArgAction::Set)
            .global(true);
        match self.form {
            Form::Switch => {
                argument.num_args(0..=1).require_equals(true).default_missing_value("true")
            }
            // A negative number is refused as a value, not as an unknown flag.
            form => argument.allow_hyphen_values(matches!(form, Form::Quantity(_))),
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
