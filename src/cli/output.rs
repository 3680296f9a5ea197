//! Output of commands for people: text on stdout, and readable times.

use std::io::Write;

use serde::Serialize;

use super::error::CliError;
use crate::model::{Printable, ShownTime};

/// Writes text to stdout.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    std::io::stdout().write_all(printable(text).as_bytes()).map_err(CliError::system("stdout"))
}

/// Writes a report to stdout as JSON.
pub(super) fn print_json(report: &impl Serialize) -> Result<(), CliError> {
    let json = serde_json::to_string_pretty(report)
        .map_err(|error| CliError::Command(format!("the report: {error}")))?;
    print(&(json + "\n"))
}

/// The text that `write` makes.
pub(super) fn text(write: impl FnOnce(&mut String) -> std::fmt::Result) -> String {
    let mut text = String::new();
    write(&mut text).expect("writing to a String does not fail");
    text
}

/// Makes text safe for a terminal, whatever names from elsewhere contain; in JSON too, where the
/// escapes keep the meaning.
pub(crate) fn printable(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| Printable(line).to_string()).collect();
    lines.join("\n")
}

/// A row time in readable form.
pub(super) fn time(millis: i64) -> String {
    match millis {
        i64::MIN => "the beginning".into(),
        millis => ShownTime(millis).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_and_what_a_terminal_acts_on_does_not() {
        let nasty = "a\u{1b}[2J\u{202e}\r\nb\n";
        assert_eq!(printable(nasty), "a\\u001b[2J\\u202e\\r\nb\n");
        let json = serde_json::to_string_pretty(&serde_json::json!({ "a": "\u{9b}2J\u{2066}" }));
        let json = json.expect("JSON");
        let read: serde_json::Value = serde_json::from_str(&printable(&json)).expect("JSON");
        assert_eq!(read["a"], "\u{9b}2J\u{2066}");
    }
}
