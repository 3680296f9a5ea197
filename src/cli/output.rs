//! What commands write for people: to stdout, and times in a form that can be read.

use std::io::Write;

use super::CliError;
use crate::model::ShownTime;

/// Writes text to stdout.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(|source| CliError::System { what: "stdout".into(), source })
}

/// A row time as people read it.
pub(super) fn time(millis: i64) -> String {
    match millis {
        i64::MIN => "the beginning".into(),
        millis => ShownTime(millis).to_string(),
    }
}
