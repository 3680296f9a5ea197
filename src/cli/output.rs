//! What commands write for people: to stdout, and times in a form that can be read.

use std::io::Write;

use super::CliError;

/// Writes text to stdout.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(|source| CliError::System { what: "stdout".into(), source })
}

/// A row time as people read it.
pub(super) fn time(millis: i64) -> String {
    if millis == i64::MIN {
        return "the beginning".into();
    }
    jiff::Timestamp::from_millisecond(millis)
        .map_or_else(|_| format!("{millis} ms"), |time| time.to_string())
}
