//! The texts of settings and their origins. A flag overrides the environment, which overrides the file.
//!
//! No value is parsed here (see `readers`); [`Raw::get`] returns the text, and [`Raw::refuse`] makes an error that
//! names the origin of the text.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use clap::parser::ValueSource;
use toml::de::{DeTable, DeValue};

use super::arguments::nearest;
use super::error::{ConfigError, Origin, Shown};
use super::kairosdb_conf::{self, KairosDbConf};
use super::setting::{Form, Setting};
use super::settings::{self, SETTINGS};
use super::table::{self, EntryError, Lines};
use super::{environment, file};

/// A setting whose value was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Its name as a flag, without the dashes.
    pub name: &'static str,
    /// The text of its value: never a secret, because secrets are in files of their own.
    pub value: String,
    /// Where it was given.
    pub origin: Origin,
}

/// All settings that have a value.
#[derive(Debug, Clone, Default)]
pub(super) struct Raw {
    values: HashMap<&'static str, (String, Origin)>,
    /// Lines of the entries of lists and tables in the file.
    lines: HashMap<&'static str, Lines>,
    /// Values taken over from KairosDB's configuration.
    pub(super) kairosdb: KairosDbConf,
}

impl Raw {
    /// Reads the command line, the environment (through clap) and the file of `--config`.
    pub(super) fn gather(matches: &ArgMatches) -> Result<Self, ConfigError> {
        let file = matches.get_one::<String>("config").map(Path::new);
        if file.is_some_and(|file| file.as_os_str().is_empty()) {
            let shown = Shown::Value(String::new());
            let (name, reason) = ("config", "must name a file".into());
            let origin = origin(matches, name);
            return Err(ConfigError::Invalid { name, shown, origin, reason });
        }
        Self::gather_with(matches, file)
    }

    /// The same with this file instead of the file of `--config`.
    pub(super) fn gather_with(
        matches: &ArgMatches,
        file: Option<&Path>,
    ) -> Result<Self, ConfigError> {
        environment::check(environment::variables())?;
        let mut raw = Self::default();
        for setting in SETTINGS {
            if let Some(default) = setting.default {
                raw.values.insert(setting.name, (default.to_owned(), Origin::Default));
            }
        }
        if let Some(path) = file {
            raw.read_file(path)?;
        }
        for setting in SETTINGS {
            let key = setting.key();
            let Some(value) = matches.get_one::<String>(&key) else { continue };
            raw.values.insert(setting.name, (value.clone(), origin(matches, &key)));
        }
        if let Some(path) = raw.get("kairosdb-config") {
            raw.take_over(PathBuf::from(path))?;
        }
        Ok(raw)
    }

    /// The text of a setting.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        debug_assert!(settings::find(name).is_some(), "{name}");
        self.values.get(name).map(|(value, _)| value.as_str())
    }

    /// The text of a setting that has a default.
    pub(super) fn required(&self, name: &str) -> &str {
        self.get(name).expect("the table of settings gives it a default")
    }

    /// The text of every setting that has one.
    pub(super) fn texts(&self) -> HashMap<&'static str, String> {
        self.values.iter().map(|(name, (value, _))| (*name, value.clone())).collect()
    }

    /// The first of these settings that was given. Values taken over from a KairosDB count as given
    /// by the setting that names its file.
    pub(super) fn first_said(&self, settings: &'static [Setting]) -> Option<&'static str> {
        let is_said = |name: &&str| {
            let origin = self.values.get(name).map(|(_, origin)| origin);
            origin.is_some_and(|o| !matches!(o, Origin::Default | Origin::KairosDb { .. }))
        };
        settings.iter().map(|setting| setting.name).find(is_said)
    }

    /// All settings that were given, in the order of the help.
    pub(super) fn all_said(&self) -> Vec<Said> {
        let said = |setting: &Setting| {
            let (value, origin) = self.values.get(setting.name)?;
            let (value, origin) = (value.clone(), origin.clone());
            (origin != Origin::Default).then_some(Said { name: setting.name, value, origin })
        };
        SETTINGS.iter().filter_map(said).collect()
    }

    /// Sets a value. `None` = the default.
    pub(super) fn set(&mut self, name: &'static str, value: Option<String>) {
        let default = || settings::find(name)?.default;
        match value.or_else(|| default().map(str::to_owned)) {
            Some(value) => drop(self.values.insert(name, (value, Origin::Default))),
            None => drop(self.values.remove(name)),
        }
    }

    /// An error about the value of a setting. A list or a table is not repeated.
    pub(super) fn refuse(&self, name: &'static str, reason: impl fmt::Display) -> ConfigError {
        let form = settings::find(name).map(|setting| setting.form);
        if matches!(form, Some(Form::Table | Form::ListOrTable)) {
            return self.refuse_entry(name, &EntryError::new("", reason));
        }
        let (value, origin) = match self.values.get(name) {
            Some((value, origin)) => (value.clone(), origin.clone()),
            None => (String::new(), Origin::Default),
        };
        let shown = Shown::Value(value);
        ConfigError::Invalid { name, shown, origin, reason: reason.to_string() }
    }

    /// The same for a value that may be a secret, which is not repeated.
    pub(super) fn refuse_secret(
        &self,
        name: &'static str,
        reason: impl fmt::Display,
    ) -> ConfigError {
        let mut error = self.refuse(name, reason);
        if let ConfigError::Invalid { shown, .. } = &mut error {
            *shown = Shown::Value("...".to_owned());
        }
        error
    }

    /// An error about an entry of a setting that is a list or a table.
    pub(super) fn refuse_entry(&self, name: &'static str, error: &EntryError) -> ConfigError {
        let EntryError { path: entry, reason } = error;
        let origin = self.values.get(name).map_or(Origin::Default, |(_, origin)| origin.clone());
        let origin = match origin {
            Origin::File { path, line: first } => {
                Origin::File { path, line: self.line_of(name, entry).unwrap_or(first) }
            }
            Origin::KairosDb { path, entry: of, line: first } => {
                let line = self.line_of(name, entry).and_then(|line| u32::try_from(line).ok());
                Origin::KairosDb { path, entry: of, line: line.or(first) }
            }
            origin => origin,
        };
        let (shown, reason) = (Shown::Entry(entry.clone()), reason.clone());
        ConfigError::Invalid { name, shown, origin, reason }
    }

    /// The line of an entry of a setting in a file, if it is known.
    fn line_of(&self, name: &str, entry: &str) -> Option<usize> {
        line_of(self.lines.get(name)?, entry)
    }

    /// Takes over the configuration of a KairosDB for settings that were given nowhere else.
    fn take_over(&mut self, path: PathBuf) -> Result<(), ConfigError> {
        let mut read = kairosdb_conf::read(&path).map_err(|error| match error {
            ConfigError::File { source, .. } => self.refuse("kairosdb-config", source),
            error => error,
        })?;
        let mut taken = Vec::new();
        for (name, value, entry) in std::mem::take(&mut read.entries) {
            let said = self.values.get(name).map(|(_, origin)| origin);
            if said.is_none_or(|origin| *origin == Origin::Default) {
                taken.push(format!("{} = {value}", name.replace('-', "_")));
                let lines = read.lines_of(&entry);
                let line = lines.get("").and_then(|line| u32::try_from(*line).ok());
                self.lines.insert(name, lines);
                let origin = Origin::KairosDb { path: path.clone(), entry: entry.into(), line };
                self.values.insert(name, (value, origin));
            }
        }
        self.kairosdb =
            KairosDbConf { path: Some(path), taken, ignored: read.ignored, tls: read.tls };
        Ok(())
    }

    fn read_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let bytes =
            file::read(path).map_err(|source| ConfigError::File { path: path.into(), source })?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            ConfigError::Content { path: path.into(), line, reason: "not UTF-8".into() }
        })?;
        self.read_toml(path, &text)
    }

    fn read_toml(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let line_of = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
        let table = DeTable::parse(text).map_err(|error| {
            let mut reason = error.message().replace('\n', ", ");
            // Only here is the text in question a key; elsewhere it may be a value.
            let is_double = reason == "duplicate key";
            let line = line_of(error.span().map_or(0, |span| span.start));
            if let Some(key) = error.span().filter(|_| is_double) {
                reason = format!("{reason} {}", &text[key]);
            } else if let Some(key) = text.lines().nth(line - 1).and_then(key_of) {
                reason = format!("{reason}, at the value of {key}");
            }
            ConfigError::Content { path: path.into(), line, reason }
        })?;
        for (key, value) in table.into_inner() {
            let line = line_of(key.span().start);
            let name: &str = key.get_ref();
            let Some(setting) = SETTINGS.iter().find(|setting| setting.key() == name) else {
                return Err(ConfigError::UnknownKey {
                    path: path.into(),
                    line,
                    key: name.to_owned(),
                    similar: similar(name, value.get_ref()),
                });
            };
            let origin = Origin::File { path: path.into(), line };
            let value = match (setting.form, value.get_ref()) {
                (Form::ListOrTable, value @ (DeValue::Array(_) | DeValue::Table(_)))
                | (Form::Table, value @ DeValue::Table(_)) => {
                    self.lines.insert(setting.name, table::lines(value, &line_of));
                    // Kept only for its origin, in case it is refused.
                    self.values.insert(setting.name, (String::new(), origin.clone()));
                    let text = table::text_of(value);
                    Ok(text.map_err(|error| self.refuse_entry(setting.name, &error))?)
                }
                (form, DeValue::Array(items)) if form.is_list() => {
                    let items = items.iter().map(|item| scalar(form, item.get_ref()));
                    items.collect::<Result<Vec<_>, _>>().map(|items| items.join(","))
                }
                (form, value) => scalar(form, value),
            };
            let value = value.map_err(|why| ConfigError::Content {
                path: path.into(),
                line,
                reason: format!("{name} {why}"),
            })?;
            self.values.insert(setting.name, (value, origin));
        }
        Ok(())
    }
}

/// Where a flag that has a value was given.
fn origin(matches: &ArgMatches, id: &str) -> Origin {
    match matches.value_source(id) {
        Some(ValueSource::EnvVariable) => Origin::Environment,
        _ => Origin::Flag,
    }
}

/// The line of an entry, or of the innermost entry around it that is in the file.
fn line_of(lines: &Lines, entry: &str) -> Option<usize> {
    let around = lines.iter().filter(|(path, _)| entry.starts_with(path.as_str()));
    around.max_by_key(|(path, _)| path.len()).map(|(_, line)| *line)
}

/// The text of a scalar, or why it is not one. Whole numbers in any radix become decimal.
fn scalar(form: Form, value: &DeValue<'_>) -> Result<String, &'static str> {
    match (value, form.refusal_of_scalars()) {
        (DeValue::String(text), _) => Ok(text.to_string()),
        (DeValue::Array(_), _) if !form.is_list() => Err("must not be a list"),
        (_, Some(refusal)) => Err(refusal),
        (DeValue::Integer(number), None) if number.radix() == 10 => Ok(number.as_str().to_owned()),
        (DeValue::Integer(number), None) => u64::from_str_radix(number.as_str(), number.radix())
            .map(|number| number.to_string())
            .map_err(|_| "is a number beyond 64 bits"),
        (DeValue::Float(number), None) => Ok(number.as_str().to_owned()),
        (DeValue::Boolean(switch), None) => Ok(switch.to_string()),
        (DeValue::Array(_), None) => Err("must not be a list"),
        (_, None) => Err("must be a string, a number or true/false"),
    }
}

/// The setting that was probably meant by an unknown key of a file. The file has no sections: the
/// first key of a table is tried alone and with the name of the table before it.
fn similar(name: &str, value: &DeValue<'_>) -> Option<String> {
    let known = || SETTINGS.iter().map(Setting::key);
    let DeValue::Table(table) = value else { return nearest(name, known()) };
    let (key, _) = table.iter().next()?;
    let joined = format!("{name}_{}", key.get_ref());
    let exact = known().find(|setting| *setting == joined || setting == key.get_ref());
    exact.or_else(|| nearest(&joined, known()))
}

/// The key before the `=` of a line of TOML, if it is a plain one.
fn key_of(line: &str) -> Option<&str> {
    let key = line.split_once('=')?.0.trim();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (!key.is_empty() && key.chars().all(is_plain)).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Raw, String> {
        let mut raw = Raw::default();
        raw.read_toml(Path::new("x.toml"), text).map_err(|error| error.to_string())?;
        Ok(raw)
    }

    #[test]
    fn a_text_is_no_number_and_no_switch() {
        for (line, want) in [
            ("data_dir = true", "data_dir must be a string"),
            ("log_level = 1", "log_level must be a string"),
            (
                "cassandra_contact_points = 9042",
                "cassandra_contact_points must be a string, or a list of strings",
            ),
            (
                "cassandra_contact_points = [1, true]",
                "cassandra_contact_points must be a string, or a list of strings",
            ),
            (
                "tag_indexed_row_key_lookup_metrics = true",
                "tag_indexed_row_key_lookup_metrics must be a string, a list or a table",
            ),
            (
                "cassandra_ttl_by_metric = 7",
                "cassandra_ttl_by_metric must be a table, or a string with one",
            ),
            ("retention = []", "retention must not be a list"),
            ("data_dir = [\"a\"]", "data_dir must not be a list"),
        ] {
            let file = format!("\n{line}\n");
            assert_eq!(read(&file).err(), Some(format!("x.toml:2: {want}")), "{line}");
        }
        for line in [
            "cassandra_replication = 3",
            "series_limit_answer = 429",
            "retention = 0",
            "trace_sampling = 0.5",
            "cassandra_tls = true",
        ] {
            read(line).expect(line);
        }
    }

    #[test]
    fn a_file_holds_keys_with_underscores() {
        let raw = read(
            "listen = \"[::1]:80\"\nenable_admin_api = true\ncassandra_max_in_flight = 12\n\
             cassandra_contact_points = [\"a:1\", \"b:2\"]\n",
        )
        .expect("valid");
        assert_eq!(raw.get("listen"), Some("[::1]:80"));
        assert_eq!(raw.get("enable-admin-api"), Some("true"));
        assert_eq!(raw.get("cassandra-max-in-flight"), Some("12"));
        assert_eq!(raw.get("cassandra-contact-points"), Some("a:1,b:2"));
        let error = raw.refuse("listen", "no").to_string();
        assert_eq!(error, "listen = \"[::1]:80\" in x.toml:1: no");
    }

    #[test]
    fn numbers_have_their_values_however_they_are_written() {
        for (number, want) in [
            ("512", "512"),
            ("1_000", "1000"),
            ("0x200", "512"),
            ("0xFF_FF", "65535"),
            ("0o17", "15"),
            ("0b11", "3"),
            ("+7", "7"),
            ("-7", "-7"),
            ("0.5", "0.5"),
        ] {
            let raw = read(&format!("max_connections = {number}\n")).expect(number);
            let got = raw.get("max-connections").map(|text| text.trim_start_matches('+'));
            assert_eq!(got, Some(want), "{number}");
        }
        let raw = read("max_connections = 1.5\n").expect("a number");
        let error = raw.count("max-connections", 1).expect_err("half a connection");
        assert_eq!(
            error.to_string(),
            "max_connections = \"1.5\" in x.toml:1: must be a whole number of at least 1"
        );
    }

    #[test]
    fn a_file_that_is_no_text_is_refused_with_its_line() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), b"listen = \"a:1\"\nstore = \"\xff\"\n").expect("written");
        let error = Raw::default().read_file(file.path()).expect_err("no text").to_string();
        assert_eq!(error, format!("{}:2: not UTF-8", file.path().display()));
    }

    #[test]
    fn what_is_refused_names_file_and_line() {
        let check = |text: &str, want: &str| {
            assert_eq!(read(text).err().as_deref(), Some(want), "{text}");
        };
        check(
            "listen = \"a:1\"\nflush_intervall = \"1h\"\n",
            "x.toml:2: unknown setting flush_intervall, did you mean flush_interval?",
        );
        check("\nwal-limit = 1\n", "x.toml:2: unknown setting wal-limit, did you mean wal_limit?");
        check("zzz = 1\n", "x.toml:1: unknown setting zzz");
        check(
            "[cassandra]\nkeyspace = \"x\"\n",
            "x.toml:1: unknown setting cassandra, did you mean cassandra_keyspace?",
        );
        check(
            "[server]\nlisten = \"x\"\n",
            "x.toml:1: unknown setting server, did you mean listen?",
        );
        check("listen = { a = 1 }\n", "x.toml:1: listen must be a string");
        check("listen = [\"a:1\", \"b:2\"]\n", "x.toml:1: listen must not be a list");
        check(
            "cassandra_ttl_by_metric = [\"a\"]\n",
            "x.toml:1: cassandra_ttl_by_metric must not be a list",
        );
        check(
            "max_connections = 0xffffffffffffffffff\n",
            "x.toml:1: max_connections is a number beyond 64 bits",
        );
        check("listen = \"a:1\"\n\nlisten = \"b:2\"\n", "x.toml:3: duplicate key listen");
        check(
            "\nretention = 1d\n",
            "x.toml:2: string values must be quoted, expected literal string, at the value of retention",
        );
        assert!(read("a = = 1").err().is_some_and(|error| error.starts_with("x.toml:1: ")));
    }
}
