//! The settings of the program's own log: its format and its filter.

use super::error::ConfigError;
use super::raw::Raw;
use super::settings;
use crate::telemetry::{LogConfig, LogFormat};

pub(super) fn from_raw(raw: &Raw) -> Result<LogConfig, ConfigError> {
    let format = match raw.word("log-format")? {
        "json" => LogFormat::Json,
        _ => LogFormat::Text,
    };
    Ok(LogConfig { format, filter: log_filter(raw)? })
}

/// A level, or comma-separated levels of targets. `tracing` takes a single unknown word for a target,
/// so a misspelt level would silently match nothing; it is refused.
fn log_filter(raw: &Raw) -> Result<String, ConfigError> {
    const NAME: &str = "log-level";
    let text = raw.required(NAME);
    let levels = settings::words(NAME);
    let is_level = |word: &str| levels.iter().any(|level| level.eq_ignore_ascii_case(word));
    let is_target =
        |word: &str| !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c == '=');
    let fits = text.split(',').all(|part| match part.split_once('=') {
        Some((target, level)) => is_target(target) && is_level(level),
        None => is_level(part),
    });
    if !fits || text.parse::<tracing_subscriber::filter::Targets>().is_err() {
        let levels = levels.join(", ");
        let reason =
            format!("must be one of {levels}, or a filter such as info,promkairos::storage=debug");
        return Err(raw.refuse(NAME, reason));
    }
    Ok(text.to_owned())
}
