//! The JSON of queries, as lenient as Gson 2.2.4 is for KairosDB: names without quotes, single quotes, comments, `=`
//! and `;` are read, and numbers keep their text.
//!
//! Errors are Gson's, with line and column. Depth is limited, and memory is at most a small multiple of the text.
//! Lone surrogates in escapes become U+FFFD.

use std::collections::HashMap;
use std::fmt::Write;

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
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader { text, at: 0, left: max_nesting, max_nesting };
    let Some(first) = reader.skip_to_token()? else { return Ok(Json::Null) };
    reader.at -= first.len_utf8();
    if reader.rest().starts_with(")]}'\n") {
        reader.at += 5;
    }
    let value = reader.value(Within::Document)?;
    if value != Json::Null && reader.skip_to_token()?.is_some() {
        return Err(reader.malformed("Use JsonReader.setLenient(true) to accept malformed JSON"));
    }
    Ok(value)
}

/// Where a value stands.
#[derive(Clone, Copy, PartialEq)]
enum Within {
    Document,
    List,
    Object,
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// How many levels may still be opened.
    left: usize,
    max_nesting: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn skip_while(&mut self, skips: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !skips(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// The first character after spaces and comments, which is passed.
    fn skip_to_token(&mut self) -> Result<Option<char>, QueryError> {
        loop {
            self.skip_while(|c| matches!(c, ' ' | '\t' | '\r' | '\n'));
            let rest = self.rest();
            if rest.starts_with('#') || rest.starts_with("//") {
                self.skip_while(|c| c != '\n' && c != '\r');
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let Some(end) = comment.find("*/") else {
                    self.at = self.text.len();
                    return Err(self.malformed("Unterminated comment"));
                };
                self.at += end + 4;
            } else {
                return Ok(self.next());
            }
        }
    }

    fn token(&mut self) -> Result<char, QueryError> {
        self.skip_to_token()?.ok_or_else(|| self.error("java.io.EOFException", "End of input"))
    }

    fn value(&mut self, within: Within) -> Result<Json, QueryError> {
        match self.token()? {
            ']' | ';' | ',' if within == Within::List => {
                self.at -= 1;
                Ok(Json::Null)
            }
            ']' | ';' | ',' => Err(self.malformed("Unexpected value")),
            c @ ('"' | '\'') => Ok(Json::Text(self.quoted(c)?)),
            '[' => self.deeper(Self::list),
            '{' => self.deeper(Self::object),
            c => {
                self.at -= c.len_utf8();
                match self.skip_while(is_literal) {
                    "" => Err(self.malformed("Expected value")),
                    word if word.eq_ignore_ascii_case("true") => Ok(Json::Bool(true)),
                    word if word.eq_ignore_ascii_case("false") => Ok(Json::Bool(false)),
                    word if word.eq_ignore_ascii_case("null") => Ok(Json::Null),
                    word if is_number(word) => Ok(Json::Number(word.to_owned())),
                    word => Ok(Json::Text(word.to_owned())),
                }
            }
        }
    }

    fn deeper(
        &mut self,
        read: impl Fn(&mut Self) -> Result<Json, QueryError>,
    ) -> Result<Json, QueryError> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            exceeded("objects and lists in each other", self.max_nesting as u64, "max_nesting")
        })?;
        let value = read(self);
        self.left += 1;
        value
    }

    fn list(&mut self) -> Result<Json, QueryError> {
        let mut list = Vec::new();
        match self.token()? {
            ']' => return Ok(Json::List(list)),
            c => self.at -= c.len_utf8(),
        }
        loop {
            list.push(self.value(Within::List)?);
            match self.token()? {
                ']' => return Ok(Json::List(list)),
                ',' | ';' => {}
                _ => return Err(self.malformed("Unterminated array")),
            }
        }
    }

    fn object(&mut self) -> Result<Json, QueryError> {
        let mut members = Vec::new();
        loop {
            let name = match self.token()? {
                '}' if members.is_empty() => return Ok(Json::Object(members)),
                '}' => return Err(self.malformed("Expected name")),
                c @ ('"' | '\'') => self.quoted(c)?,
                c => {
                    self.at -= c.len_utf8();
                    match self.skip_while(is_literal) {
                        "" => return Err(self.malformed("Expected name")),
                        word => word.to_owned(),
                    }
                }
            };
            match self.token()? {
                ':' => {}
                '=' if self.rest().starts_with('>') => self.at += 1,
                '=' => {}
                _ => return Err(self.malformed("Expected ':'")),
            }
            members.push((name, self.value(Within::Object)?));
            match self.token()? {
                '}' => return Ok(Json::Object(unique(members))),
                ',' | ';' => {}
                _ => return Err(self.malformed("Unterminated object")),
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, QueryError> {
        let mut text = String::new();
        loop {
            text.push_str(self.skip_while(|c| c != quote && c != '\\'));
            match self.next() {
                None => return Err(self.malformed("Unterminated string")),
                Some('\\') => text.push(self.escaped()?),
                Some(_) => return Ok(text),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, QueryError> {
        Ok(match self.next() {
            None => return Err(self.malformed("Unterminated escape sequence")),
            Some('u') => {
                let high = self.unit()?;
                match (0xd800..0xdc00).contains(&high) && self.rest().starts_with("\\u") {
                    false => char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER),
                    true => {
                        let before = self.at;
                        self.at += 2;
                        let low = self.unit()?;
                        if !(0xdc00..0xe000).contains(&low) {
                            self.at = before;
                            return Ok(char::REPLACEMENT_CHARACTER);
                        }
                        let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                        char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
                    }
                }
            }
            Some('t') => '\t',
            Some('b') => '\u{8}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('f') => '\u{c}',
            Some(other) => other,
        })
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Result<u32, QueryError> {
        let Some(digits) = self.rest().get(..4) else {
            return Err(self.malformed("Unterminated escape sequence"));
        };
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(QueryError::Json(format!("java.lang.NumberFormatException: \\u{digits}")));
        }
        self.at += 4;
        Ok(u32::from_str_radix(digits, 16).unwrap_or_default())
    }

    fn malformed(&self, message: &str) -> QueryError {
        self.error("com.google.gson.stream.MalformedJsonException", message)
    }

    fn error(&self, class: &str, message: &str) -> QueryError {
        let before = &self.text[..self.at];
        let line = 1 + before.matches('\n').count();
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let column = 1 + before[start..].encode_utf16().count();
        QueryError::Json(format!("{class}: {message} at line {line} column {column}"))
    }
}

fn is_literal(c: char) -> bool {
    !"/\\;#={}[]:, \t\u{c}\r\n".contains(c)
}

/// Whether a word is a number of JSON.
fn is_number(word: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let word = word.strip_prefix('-').unwrap_or(word);
    let (mantissa, exponent) = match word.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (word, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|text| digits(text.strip_prefix(['+', '-']).unwrap_or(text)))
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
