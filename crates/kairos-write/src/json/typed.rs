//! Values of the types that fields have: texts, integers and booleans, each as gson converts it.
//!
//! `None` is a null. A value that cannot be converted is a fault, whose text names both types.

use std::borrow::Cow;

use super::fault::{Fault, Kind};
use super::reader::{Reader, Token};
use crate::java;

impl<'a> Reader<'a> {
    /// The next name of an object.
    pub(crate) fn name(&mut self) -> Result<Cow<'a, str>, Fault> {
        let name = match self.peek()? {
            Token::QuotedName(quote) => self.quoted(quote)?,
            Token::UnquotedName => self.unquoted()?,
            other => return Err(self.unexpected("a name", other)),
        };
        self.take();
        Ok(name)
    }

    /// A text or number.
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, Fault> {
        let text = match self.peek()? {
            Token::Quoted(quote) => self.quoted(quote)?,
            Token::Unquoted => self.unquoted()?,
            Token::Long(long) => Cow::Owned(long.to_string()),
            Token::Number(end) => Cow::Borrowed(self.number(end)),
            other => return Err(self.unexpected("a string", other)),
        };
        self.take();
        Ok(text)
    }

    /// The text of a number, which is passed.
    pub(super) fn number(&mut self, end: usize) -> &'a str {
        let number = &self.bytes[self.pos..end];
        self.pos = end;
        // It has digits, signs, points and the letter e.
        std::str::from_utf8(number).unwrap_or_default()
    }

    /// A field of type `String`.
    pub(crate) fn text_field(&mut self) -> Result<Option<Cow<'a, str>>, Fault> {
        let text = match self.peek()? {
            Token::Null => None,
            Token::True => Some(Cow::Borrowed("true")),
            Token::False => Some(Cow::Borrowed("false")),
            _ => return self.string().map(Some),
        };
        self.take();
        Ok(text)
    }

    /// A field of type `Long`.
    pub(crate) fn long_field(&mut self) -> Result<Option<i64>, Fault> {
        if let Token::Long(long) = self.peek()? {
            self.take();
            return Ok(Some(long));
        }
        self.integer_field("a long", java::parse_long, |double| double as i64, |long| long as f64)
    }

    /// A field of type `int`.
    pub(crate) fn int_field(&mut self) -> Result<Option<i32>, Fault> {
        if let Token::Long(long) = self.peek()? {
            let int = i32::try_from(long);
            let int = int.map_err(|_| number_format(self.inexact("an int", &long.to_string())))?;
            self.take();
            return Ok(Some(int));
        }
        self.integer_field("an int", java::parse_int, |double| double as i32, f64::from)
    }

    /// A field whose value has not the grammar of an integer: it is read as a double, which must be integral.
    fn integer_field<T: Copy>(
        &mut self,
        wanted: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
        cast: impl FnOnce(f64) -> T,
        back: impl FnOnce(T) -> f64,
    ) -> Result<Option<T>, Fault> {
        let text = match self.peek()? {
            Token::Null => {
                self.take();
                return Ok(None);
            }
            Token::Number(end) => Cow::Borrowed(self.number(end)),
            Token::Quoted(quote) => self.quoted(quote).map_err(|fault| match fault.kind {
                Kind::Number => number_format(fault.text),
                _ => fault,
            })?,
            other => return Err(self.unexpected(wanted, other)),
        };
        self.take();
        if let Ok(integer) = parse(&text) {
            return Ok(Some(integer));
        }
        let double = java::parse_double(&text).map_err(number_format)?;
        let integer = cast(double);
        if back(integer) != double {
            return Err(number_format(self.inexact(wanted, &text)));
        }
        Ok(Some(integer))
    }

    fn inexact(&self, wanted: &str, number: &str) -> String {
        format!("Expected {wanted} but was {number}{}", self.place())
    }

    /// A field of type `boolean`. A text is true if it says so.
    pub(crate) fn bool_field(&mut self) -> Result<Option<bool>, Fault> {
        let value = match self.peek()? {
            Token::Null => None,
            Token::True => Some(true),
            Token::False => Some(false),
            Token::Quoted(_) | Token::Unquoted => {
                return Ok(Some(self.string()?.eq_ignore_ascii_case("true")));
            }
            other => return Err(self.unexpected("a boolean", other)),
        };
        self.take();
        Ok(value)
    }
}

/// A `NumberFormatException` that gson wraps.
fn number_format(text: String) -> Fault {
    Fault::new(Kind::Syntax, format!("java.lang.NumberFormatException: {text}"))
}
