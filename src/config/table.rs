//! Values that are lists or tables: TOML in a file, TOML or JSON as a text.
//!
//! They are kept as JSON text, because names may contain commas. Each setting interprets its own
//! value. Errors name an entry by its path, such as `[0].keyspace`, and never repeat its text,
//! which may be a misplaced password.

use std::collections::BTreeMap;

use serde_json::Value;
use toml::de::{DeTable, DeValue};

/// Lines, from 1, by the paths of the entries.
pub(super) type Lines = BTreeMap<String, usize>;

/// What is wrong with an entry of a list or a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntryError {
    /// Its path below the setting; empty for the setting itself.
    pub(super) path: String,
    /// Why it is refused; does not contain the value.
    pub(super) reason: String,
}

impl EntryError {
    pub(super) fn new(path: impl Into<String>, reason: impl ToString) -> Self {
        Self { path: path.into(), reason: reason.to_string() }
    }
}

/// The path of an entry of a table.
pub(super) fn below(path: &str, key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match !key.is_empty() && key.chars().all(is_bare) {
        true => format!("{path}.{key}"),
        false => format!("{path}.{key:?}"),
    }
}

/// The text form of a value in a file.
pub(super) fn text_of(value: &DeValue<'_>) -> Result<String, EntryError> {
    json_of(value, "").map(|json| json.to_string())
}

/// The lines of the entries of a value in a file. `line_of` maps an offset in the file to a line.
pub(super) fn lines(value: &DeValue<'_>, line_of: &impl Fn(usize) -> usize) -> Lines {
    let mut lines = Lines::new();
    add_lines(&mut lines, "", value, line_of);
    lines
}

fn add_lines(
    lines: &mut Lines,
    path: &str,
    value: &DeValue<'_>,
    line_of: &impl Fn(usize) -> usize,
) {
    match value {
        DeValue::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let path = format!("{path}[{at}]");
                lines.insert(path.clone(), line_of(item.span().start));
                add_lines(lines, &path, item.get_ref(), line_of);
            }
        }
        DeValue::Table(table) => {
            for (key, value) in table.iter() {
                let path = below(path, key.get_ref());
                lines.insert(path.clone(), line_of(key.span().start));
                add_lines(lines, &path, value.get_ref(), line_of);
            }
        }
        _ => {}
    }
}

fn json_of(value: &DeValue<'_>, path: &str) -> Result<Value, EntryError> {
    match value {
        DeValue::String(text) => Ok(text.as_ref().into()),
        DeValue::Boolean(switch) => Ok((*switch).into()),
        DeValue::Array(items) => {
            let items = items.iter().enumerate();
            let items = items.map(|(at, item)| json_of(item.get_ref(), &format!("{path}[{at}]")));
            Ok(items.collect::<Result<Vec<_>, _>>()?.into())
        }
        DeValue::Table(table) => {
            let pairs = table.iter().map(|(key, value)| {
                let key = key.get_ref();
                Ok((key.to_string(), json_of(value.get_ref(), &below(path, key))?))
            });
            Ok(pairs.collect::<Result<serde_json::Map<_, _>, _>>()?.into())
        }
        _ => Err(EntryError::new(path, "must be a string, true or false, a list or a table")),
    }
}

/// Parses a list or a table, written as JSON or as TOML. The error begins with the expected `form`.
pub(super) fn value_of(text: &str, form: &str) -> Result<Value, EntryError> {
    if let Ok(json) = serde_json::from_str(text) {
        return Ok(json);
    }
    let line = format!("x = {text}");
    let table = DeTable::parse(&line).map_err(|error| {
        EntryError::new("", format!("{form}: {}", error.message().replace('\n', ", ")))
    })?;
    match table.get_ref().get("x") {
        Some(value) => json_of(value.get_ref(), ""),
        None => Err(EntryError::new("", form)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_has_its_line() {
        let text = "[[x]]\nname = \"a\"\n\n[[x]]\nname = \"b\"\n\"o d\" = [\n\"m\"]\n";
        let line_of = |at: usize| text[..at].matches('\n').count() + 1;
        let table = DeTable::parse(text).expect("TOML");
        let found = lines(table.get_ref().get("x").expect("there").get_ref(), &line_of);
        let want = [
            ("[0]", 1),
            ("[0].name", 2),
            ("[1]", 4),
            ("[1].\"o d\"", 6),
            ("[1].\"o d\"[0]", 7),
            ("[1].name", 5),
        ];
        let found: Vec<(&str, usize)> = found.iter().map(|(p, line)| (p.as_str(), *line)).collect();
        assert_eq!(found, want);
    }

    #[test]
    fn what_is_no_text_is_named_by_its_path() {
        let error = value_of("[{a = \"x\"}, {b = {c = 7}}]", "form").expect_err("a number");
        assert_eq!(error.path, "[1].b.c");
        assert!(!error.reason.contains('7'), "{error:?}");
        assert_eq!(value_of("{a = [true]}", "form"), Ok(serde_json::json!({"a": [true]})));
    }
}
