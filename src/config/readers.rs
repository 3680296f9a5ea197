//! Parses the texts of settings as durations, sizes, numbers and words. Each error names the setting and the origin of
//! its text.

use std::fmt::Display;
use std::num::{IntErrorKind, ParseIntError};
use std::str::FromStr;
use std::time::Duration;

use serde_json::Value;

use super::error::ConfigError;
use super::raw::Raw;
use super::settings;
use super::table::{EntryError, value_of};
use super::units::{parse_duration, parse_size};

impl Raw {
    /// What `parse` makes of the text.
    pub(super) fn parsed<T, E: Display>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, ConfigError> {
        parse(self.required(name)).map_err(|why| self.refuse(name, why))
    }

    /// What `parse` makes of a list or a table, whose expected form is `form`; `None` = not given.
    pub(super) fn structured<T>(
        &self,
        name: &'static str,
        form: &str,
        parse: impl FnOnce(Value) -> Result<T, EntryError>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let parsed = value_of(text.trim(), form).and_then(parse);
        parsed.map(Some).map_err(|error| self.refuse_entry(name, &error))
    }

    pub(super) fn duration(&self, name: &'static str) -> Result<Duration, ConfigError> {
        self.parsed(name, parse_duration)
    }

    /// A duration that is not zero.
    pub(super) fn positive(&self, name: &'static str) -> Result<Duration, ConfigError> {
        match self.duration(name)? {
            Duration::ZERO => Err(self.refuse(name, "must be more than 0")),
            length => Ok(length),
        }
    }

    /// A duration; `None` = zero.
    pub(super) fn unless_zero(&self, name: &'static str) -> Result<Option<Duration>, ConfigError> {
        self.duration(name).map(|length| (!length.is_zero()).then_some(length))
    }

    /// A size in bytes, within the bounds of its row.
    pub(super) fn size(&self, name: &'static str) -> Result<u64, ConfigError> {
        self.within_bounds(name, self.parsed(name, parse_size)?)
    }

    /// A whole number of at least `least`, within the bounds of its row, that fits into 32 bits.
    pub(super) fn count(&self, name: &'static str, least: u64) -> Result<usize, ConfigError> {
        self.number::<u32>(name, least).map(|count| count as usize)
    }

    /// A whole number of at least `least`, within the bounds of its row, that fits into a `T`.
    pub(super) fn number<T>(&self, name: &'static str, least: u64) -> Result<u64, ConfigError>
    where
        T: FromStr<Err = ParseIntError> + Into<u64>,
    {
        match self.required(name).parse::<T>().map(Into::into) {
            Ok(number) if number >= least => self.within_bounds(name, number),
            Err(error) if *error.kind() == IntErrorKind::PosOverflow => {
                Err(self.refuse(name, "is too large"))
            }
            _ => Err(self.refuse(name, format!("must be a whole number of at least {least}"))),
        }
    }

    fn within_bounds(&self, name: &'static str, value: u64) -> Result<u64, ConfigError> {
        let bounds = settings::find(name).and_then(|setting| setting.bounds);
        match bounds.map(|bounds| bounds.check(value)) {
            Some(Err(reason)) => Err(self.refuse(name, reason)),
            _ => Ok(value),
        }
    }

    pub(super) fn switch(&self, name: &'static str) -> Result<bool, ConfigError> {
        Ok(self.word(name)? == "true")
    }

    /// The word of its row that the text is; letter case is ignored.
    pub(super) fn word(&self, name: &'static str) -> Result<&'static str, ConfigError> {
        self.word_of(name, settings::words(name))
    }

    /// The same with these words instead of those of its row.
    pub(super) fn word_of(
        &self,
        name: &'static str,
        words: &'static [&'static str],
    ) -> Result<&'static str, ConfigError> {
        self.parsed(name, |text| {
            let known = words.iter().copied().find(|word| word.eq_ignore_ascii_case(text));
            known.ok_or_else(|| format!("must be one of {}", words.join(", ")))
        })
    }
}
