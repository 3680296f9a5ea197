//! Numbers, durations, strings and names of labels.
//!
//! The lexer has checked their text; here they get their values.

use super::super::ast::{Notation, Number, StringLiteral};
use super::super::names::Names;
use super::super::numbers::{number, parse_duration};
use super::super::parse_error::ParseError;
use super::super::strings::{quoted_bytes, unquote};
use super::super::token::{Kind, Token};
use super::{Parsed, Parser};

impl Parser<'_> {
    /// A number or a duration.
    pub(super) fn number(&mut self) -> Parsed<Number> {
        let token = self.peek()?;
        let text = self.text(token);
        let (value, notation) = match token.kind {
            Kind::Number => (number(text), Notation::Plain),
            Kind::Duration => (parse_duration(text).map(seconds), Notation::Duration),
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        let value = value.map_err(|message| self.error(token.span, message))?;
        Ok(Number { value, notation, span: token.span })
    }

    pub(super) fn string(&mut self) -> Parsed<StringLiteral> {
        let token = self.expect(Kind::String)?;
        let span = token.span;
        Ok(match String::from_utf8(unquote(self.text(token))) {
            Ok(value) => StringLiteral { value, not_utf8: None, span },
            Err(error) => {
                let value = String::from_utf8_lossy(error.as_bytes()).into_owned();
                StringLiteral { value, not_utf8: Some(error.into_bytes()), span }
            }
        })
    }

    /// The name of a label in a list of labels.
    pub(super) fn grouping_label(&mut self) -> Parsed<String> {
        let token = self.peek()?;
        let text = self.text(token);
        let bytes = match token.kind {
            Kind::String => unquote(text),
            kind if kind.can_name_label() => {
                // With names of all scripts, the name of a label may not have a colon.
                if self.syntax.names == Names::Unicode && text.contains(':') {
                    return Err(self.no_label(token, text.as_bytes()));
                }
                text.as_bytes().to_vec()
            }
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        match String::from_utf8(bytes) {
            Ok(name) if !name.is_empty() => Ok(name),
            invalid => {
                let bytes = invalid.map_or_else(|error| error.into_bytes(), String::into_bytes);
                Err(self.no_label(token, &bytes))
            }
        }
    }

    fn no_label(&self, token: Token, name: &[u8]) -> Box<ParseError> {
        let name = quoted_bytes(name);
        self.error(token.span, format!("invalid label name for grouping: {name}"))
    }
}

/// Nanoseconds as seconds, rounded as Prometheus rounds them.
fn seconds(nanoseconds: i64) -> f64 {
    let part = nanoseconds % 1_000_000_000;
    (nanoseconds / 1_000_000_000) as f64 + part as f64 / 1e9
}
