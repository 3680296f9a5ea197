//! Parses the texts of settings as durations, sizes, numbers and words. Each error names the setting and the origin of
//! its text.

use std::num::{IntErrorKind, ParseIntError};
use std::str::FromStr;
use std::time::Duration;

use super::error::ConfigError;
use super::raw::Raw;
use super::settings;
use super::units::{parse_duration, parse_size};

impl Raw {
    pub(super) fn duration(&self, name: &'static str) -> Result<Duration, ConfigError> {
        parse_duration(self.required(name)).map_err(|error| self.refuse(name, error))
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
        let bytes = parse_size(self.required(name)).map_err(|error| self.refuse(name, error))?;
        self.within_bounds(name, bytes)
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
        self.choice(name, &[("true", true), ("false", false)])
    }

    /// One of a few words; letter case is ignored.
    pub(super) fn choice<T: Copy>(
        &self,
        name: &'static str,
        words: &[(&str, T)],
    ) -> Result<T, ConfigError> {
        let text = self.required(name);
        match words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)) {
            Some((_, value)) => Ok(*value),
            None => {
                let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                Err(self.refuse(name, format!("must be one of {}", words.join(", "))))
            }
        }
    }
}
