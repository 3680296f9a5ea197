//! Names and values: of any type but arrays and objects, or of the type that a field has, as gson converts it.
//!
//! A field is `None` if it is null. A value that cannot be converted is a fault, whose text names both types.

use std::borrow::Cow;

use crate::fault::{Fault, Kind};
use crate::java;
use crate::reader::{Reader, Token};

/// A value that is neither an array nor an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scalar<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Number {
        /// As it is written.
        text: &'a str,
        /// Its value, if it is written as an integer and an `i64` can have it.
        long: Option<i64>,
    },
    /// A text, with or without quotes.
    Text(Cow<'a, str>),
}

impl<'a> Reader<'a> {
    /// The next name of an object.
    pub fn name(&mut self) -> Result<Cow<'a, str>, Fault> {
        let name = match self.peek()? {
            Token::QuotedName(quote) => self.quoted(quote)?,
            Token::UnquotedName => self.unquoted()?,
            other => return Err(self.unexpected("a name", other)),
        };
        self.take();
        Ok(name)
    }

    /// The next value, which has to be neither an array nor an object.
    pub fn scalar(&mut self) -> Result<Scalar<'a>, Fault> {
        let scalar = match self.peek()? {
            Token::Null => Scalar::Null,
            Token::True => Scalar::Bool(true),
            Token::False => Scalar::Bool(false),
            Token::Long(long, text) => Scalar::Number { text, long: Some(long) },
            Token::Number(text) => Scalar::Number { text: self.number(text), long: None },
            _ => return self.string().map(Scalar::Text),
        };
        self.take();
        Ok(scalar)
    }

    /// A text or number.
    fn string(&mut self) -> Result<Cow<'a, str>, Fault> {
        let text = match self.peek()? {
            Token::Quoted(quote) => self.quoted(quote)?,
            Token::Unquoted => self.unquoted()?,
            Token::Long(long, _) => Cow::Owned(long.to_string()),
            Token::Number(text) => Cow::Borrowed(self.number(text)),
            other => return Err(self.unexpected("a string", other)),
        };
        self.take();
        Ok(text)
    }

    /// Passes a number.
    fn number(&mut self, text: &'a str) -> &'a str {
        self.pos += text.len();
        text
    }

    /// A field of type `String`.
    pub fn text_field(&mut self) -> Result<Option<Cow<'a, str>>, Fault> {
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
    pub fn long_field(&mut self) -> Result<Option<i64>, Fault> {
        if let Token::Long(long, _) = self.peek()? {
            self.take();
            return Ok(Some(long));
        }
        self.integer_field("a long", java::parse_long, |double| double as i64, |long| long as f64)
    }

    /// A field of type `int`.
    pub fn int_field(&mut self) -> Result<Option<i32>, Fault> {
        if let Token::Long(long, _) = self.peek()? {
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
            Token::Number(text) => Cow::Borrowed(self.number(text)),
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
    pub fn bool_field(&mut self) -> Result<Option<bool>, Fault> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Leniency;

    #[test]
    fn scalars_are_what_their_text_says() {
        let digits = "1".repeat(1024);
        let text =
            format!("[nUll,TRUE,false,-0,7,9223372036854775808,1.50,1e5,01,'a\\tb',x,{digits}]");
        let mut reader = Reader::new(text.as_bytes(), 1);
        reader.set_leniency(Leniency::Lenient);
        reader.begin_array().expect("an array");
        let number = |text, long| Scalar::Number { text, long };
        for scalar in [
            Scalar::Null,
            Scalar::Bool(true),
            Scalar::Bool(false),
            number("-0", Some(0)),
            number("7", Some(7)),
            number("9223372036854775808", None),
            number("1.50", None),
            number("1e5", None),
            // A number has no zero before its digits, and fewer digits than gson's buffer.
            Scalar::Text("01".into()),
            Scalar::Text("a\tb".into()),
            Scalar::Text("x".into()),
            Scalar::Text(digits.as_str().into()),
        ] {
            assert_eq!(reader.scalar(), Ok(scalar));
        }
        let fault = reader.scalar().expect_err("the end");
        assert!(fault.text.starts_with("Expected a string but was END_ARRAY"), "{}", fault.text);
        assert_eq!(reader.end_array(), Ok(()));
    }
}
