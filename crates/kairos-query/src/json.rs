//! The JSON of a query as a tree, in which numbers keep their text.
//!
//! It is read as Gson does, and errors are Gson's, with line and column. Depth is limited, and memory is at most a
//! small multiple of the text.

use std::collections::HashMap;
use std::fmt::Write;

use promkairos_kairos_json::{Fault, Kind, Leniency, Reader, Scalar, Token};

use crate::error::QueryError;
use crate::limits::exceeded;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// The text of a number.
    Number(String),
    Text(String),
    List(Vec<Json>),
    /// In the order of the text. Of equal names the last value counts, at the place of the first.
    Object(Vec<(String, Json)>),
}

impl Json {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(match reader.peek()? {
            Token::BeginArray => {
                reader.begin_array()?;
                let mut list = Vec::new();
                while reader.has_next()? {
                    list.push(Self::read(reader)?);
                }
                reader.end_array()?;
                Self::List(list)
            }
            Token::BeginObject => {
                reader.begin_object()?;
                let mut members = Vec::new();
                while reader.has_next()? {
                    let name = reader.name()?.into_owned();
                    members.push((name, Self::read(reader)?));
                }
                reader.end_object()?;
                Self::Object(unique(members))
            }
            _ => match reader.scalar()? {
                Scalar::Null => Self::Null,
                Scalar::Bool(value) => Self::Bool(value),
                Scalar::Number { text, .. } => Self::Number(text.to_owned()),
                Scalar::Text(text) => Self::Text(text.into_owned()),
            },
        })
    }

    /// A member, if this is an object.
    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Self::Object(members) => members.iter().find(|(key, _)| key == name).map(|(_, v)| v),
            _ => None,
        }
    }

    /// `JsonElement.getAsString`: of numbers and booleans too, and of a list of one.
    pub(crate) fn as_text(&self) -> Option<String> {
        match self {
            Self::Text(text) | Self::Number(text) => Some(text.clone()),
            Self::Bool(value) => Some(value.to_string()),
            Self::List(list) if list.len() == 1 => list[0].as_text(),
            Self::List(_) | Self::Object(_) | Self::Null => None,
        }
    }

    /// As Gson writes it in errors.
    pub(crate) fn to_text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(text) => out.push_str(text),
            Self::Text(text) => quote(out, text),
            Self::List(list) => {
                out.push('[');
                for (at, value) in list.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    value.write(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    quote(out, name);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\x1f' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

/// Reads a whole text. An empty text is null.
pub(crate) fn read(text: &str, max_nesting: usize) -> Result<Json, QueryError> {
    document(text, max_nesting).map_err(|fault| match fault.kind {
        Kind::Depth => {
            exceeded("objects and lists in each other", max_nesting as u64, "max_nesting")
        }
        _ => QueryError::Json(fault.to_string()),
    })
}

fn document(text: &str, max_nesting: usize) -> Result<Json, Fault> {
    let mut reader = Reader::new(text.as_bytes(), max_nesting);
    reader.set_leniency(Leniency::Lenient);
    let value = match reader.peek() {
        Ok(_) => Json::read(&mut reader)?,
        Err(Fault { kind: Kind::End, .. }) => return Ok(Json::Null),
        Err(fault) => return Err(fault),
    };
    if value != Json::Null {
        reader.end()?;
    }
    Ok(value)
}

fn unique(members: Vec<(String, Json)>) -> Vec<(String, Json)> {
    let mut places: HashMap<String, usize> = HashMap::with_capacity(members.len());
    let mut unique: Vec<(String, Json)> = Vec::with_capacity(members.len());
    for (name, value) in members {
        match places.get(&name) {
            Some(place) => unique[*place].1 = value,
            None => {
                places.insert(name.clone(), unique.len());
                unique.push((name, value));
            }
        }
    }
    unique
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> String {
        read(json, 8).map_or_else(|error| error.to_string(), |value| value.to_text())
    }

    #[test]
    fn is_as_lenient_as_gson() {
        let cases = [
            ("", "null"),
            (" // nothing", "null"),
            ("{a:1,'b'=2;\"c\"=>[1,,2;]}", r#"{"a":1,"b":2,"c":[1,null,2,null]}"#),
            (
                "[TRUE, nUll, 01, -0, 1e5, x y]",
                "com.google.gson.stream.MalformedJsonException: \
              Unterminated array at line 1 column 30",
            ),
            ("[TRUE,nUll,01,-0,1e5,NaN]", r#"[true,null,"01",-0,1e5,"NaN"]"#),
            ("/* c */ {\"a\": 1, \"b\": 2, \"a\": 3} # end", r#"{"a":3,"b":2}"#),
            (r#"["\u00e9\ud83d\ude00\n\q"]"#, "[\"é😀\\nq\"]"),
            (")]}'\n[1]", "[1]"),
        ];
        for (json, expected) in cases {
            assert_eq!(text(json), expected, "{json}");
        }
    }

    #[test]
    fn errors_have_gson_s_texts_and_places() {
        let malformed = "com.google.gson.stream.MalformedJsonException: ";
        let cases = [
            ("{nope", "java.io.EOFException: End of input at line 1 column 6".to_owned()),
            ("{a 1}", format!("{malformed}Expected ':' at line 1 column 5")),
            ("{\n\"a\":1]", format!("{malformed}Unterminated object at line 2 column 7")),
            ("{a:1,}", format!("{malformed}Expected name at line 1 column 7")),
            ("\"a", format!("{malformed}Unterminated string at line 1 column 3")),
            (
                "[1] x",
                format!(
                    "{malformed}Use JsonReader.setLenient(true) to accept malformed JSON \
                               at line 1 column 6"
                ),
            ),
            (
                "[[[[[[[[[1]]]]]]]]]",
                "objects and lists in each other: more than 8, which is the limit \
                                     max_nesting"
                    .to_owned(),
            ),
        ];
        for (json, expected) in cases {
            assert_eq!(text(json), expected, "{json}");
        }
    }
}
