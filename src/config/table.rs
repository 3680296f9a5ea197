//! Values that are lists or tables: in a file as TOML has them, as text written as TOML or as JSON.
//!
//! They are carried as the text of JSON, because names may have commas. What they mean is for the
//! settings that have them.

use serde_json::Value;
use toml::de::{DeTable, DeValue};

/// The text form of a value in a file; `None` where something in it is no text and no switch.
pub(super) fn text_of(value: &DeValue<'_>) -> Option<String> {
    json_of(value).map(|json| json.to_string())
}

fn json_of(value: &DeValue<'_>) -> Option<Value> {
    match value {
        DeValue::String(text) => Some(text.as_ref().into()),
        DeValue::Boolean(switch) => Some((*switch).into()),
        DeValue::Array(items) => {
            let items: Option<Vec<_>> = items.iter().map(|item| json_of(item.get_ref())).collect();
            Some(items?.into())
        }
        DeValue::Table(table) => {
            let pairs = table
                .iter()
                .map(|(key, value)| Some((key.get_ref().to_string(), json_of(value.get_ref())?)));
            let pairs: Option<serde_json::Map<_, _>> = pairs.collect();
            Some(pairs?.into())
        }
        _ => None,
    }
}

/// A list or a table, written as JSON or as TOML. The error begins with the `form` that it should
/// have.
pub(super) fn value_of(text: &str, form: &str) -> Result<Value, String> {
    if let Ok(json) = serde_json::from_str(text) {
        return Ok(json);
    }
    let line = format!("x = {text}");
    let table = DeTable::parse(&line)
        .map_err(|error| format!("{form}: {}", error.message().replace('\n', ", ")))?;
    let value = table.get_ref().get("x").and_then(|value| json_of(value.get_ref()));
    value.ok_or_else(|| form.to_owned())
}
