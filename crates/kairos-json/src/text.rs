//! Texts, and what is between tokens: spaces and comments.
//!
//! Bytes that are not UTF-8 become replacement characters, as in Java. Half of a surrogate pair becomes `?`: that is
//! what Java writes for it in UTF-8.

use std::borrow::Cow;

use crate::fault::{Fault, Kind};
use crate::reader::Reader;

impl<'a> Reader<'a> {
    /// Passes spaces and comments, and the byte behind them, which it returns.
    pub(crate) fn visible(&mut self) -> Result<u8, Fault> {
        loop {
            let Some(&byte) = self.bytes.get(self.pos) else { return Err(self.end_of_input()) };
            self.pos += 1;
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => {}
                b'/' => {
                    let Some(&second) = self.bytes.get(self.pos) else { return Ok(byte) };
                    self.check_lenient()?;
                    match second {
                        b'*' => self.skip_comment()?,
                        b'/' => self.skip_line(),
                        _ => return Ok(byte),
                    }
                }
                b'#' => {
                    self.check_lenient()?;
                    self.skip_line();
                }
                _ => return Ok(byte),
            }
        }
    }

    fn skip_line(&mut self) {
        let rest = &self.bytes[self.pos..];
        let line = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        self.pos += line.map_or(rest.len(), |line| line + 1);
    }

    fn skip_comment(&mut self) -> Result<(), Fault> {
        self.pos += 1;
        let rest = &self.bytes[self.pos..];
        match rest.windows(2).position(|pair| pair == b"*/") {
            Some(length) => {
                self.pos += length + 2;
                Ok(())
            }
            None => {
                self.pos += rest.len().saturating_sub(1);
                Err(self.malformed("Unterminated comment"))
            }
        }
    }

    /// The text up to a quote, which is passed too.
    pub(crate) fn quoted(&mut self, quote: u8) -> Result<Cow<'a, str>, Fault> {
        let start = self.pos;
        if self.pass_run(quote)? == quote {
            return Ok(String::from_utf8_lossy(&self.bytes[start..self.pos - 1]));
        }
        let mut text = Unescaped::default();
        text.push_bytes(&self.bytes[start..self.pos - 1]);
        loop {
            if let Some(unit) = self.escaped()? {
                text.push_unit(unit);
            }
            let start = self.pos;
            let end = self.pass_run(quote)?;
            text.push_bytes(&self.bytes[start..self.pos - 1]);
            if end == quote {
                return Ok(Cow::Owned(text.finish()));
            }
        }
    }

    /// Passes the bytes up to a quote or backslash, and this, which it returns.
    fn pass_run(&mut self, quote: u8) -> Result<u8, Fault> {
        let rest = &self.bytes[self.pos..];
        let Some(length) = rest.iter().position(|byte| *byte == quote || *byte == b'\\') else {
            self.pos = self.bytes.len();
            return Err(self.malformed("Unterminated string"));
        };
        self.pos += length + 1;
        Ok(rest[length])
    }

    /// The unit of UTF-16 behind a backslash. None if it is just the next character, which is not passed then.
    fn escaped(&mut self) -> Result<Option<u16>, Fault> {
        let Some(&byte) = self.bytes.get(self.pos) else {
            return Err(self.malformed("Unterminated escape sequence"));
        };
        if !byte.is_ascii() {
            return Ok(None);
        }
        self.pos += 1;
        let unit = match byte {
            b'u' => return self.hex().map(Some),
            b't' => b'\t',
            b'b' => b'\x08',
            b'n' => b'\n',
            b'r' => b'\r',
            b'f' => b'\x0c',
            other => other,
        };
        Ok(Some(unit.into()))
    }

    fn hex(&mut self) -> Result<u16, Fault> {
        let Some(hex) = self.bytes.get(self.pos..self.pos + 4) else {
            return Err(self.malformed("Unterminated escape sequence"));
        };
        let mut unit = 0;
        for byte in hex {
            let Some(digit) = char::from(*byte).to_digit(16) else {
                let text = format!("\\u{}", String::from_utf8_lossy(hex));
                return Err(Fault::new(Kind::Number, text));
            };
            unit = unit << 4 | digit as u16;
        }
        self.pos += 4;
        Ok(unit)
    }

    /// A text without quotes.
    pub(crate) fn unquoted(&mut self) -> Result<Cow<'a, str>, Fault> {
        let start = self.pos;
        while let Some(&byte) = self.bytes.get(self.pos)
            && self.is_literal(byte)?
        {
            self.pos += 1;
        }
        Ok(String::from_utf8_lossy(&self.bytes[start..self.pos]))
    }
}

/// A text put together from runs of bytes and from escapes.
#[derive(Default)]
struct Unescaped {
    text: String,
    /// The first half of a surrogate pair.
    high: Option<u16>,
}

impl Unescaped {
    fn push_bytes(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.end_pair();
            self.text.push_str(&String::from_utf8_lossy(bytes));
        }
    }

    fn push_unit(&mut self, unit: u16) {
        if let Some(high) = self.high
            && let Some(Ok(c)) = char::decode_utf16([high, unit]).next()
        {
            self.high = None;
            return self.text.push(c);
        }
        self.end_pair();
        match char::from_u32(unit.into()) {
            Some(c) => self.text.push(c),
            None if unit < 0xdc00 => self.high = Some(unit),
            None => self.text.push('?'),
        }
    }

    fn end_pair(&mut self) {
        if self.high.take().is_some() {
            self.text.push('?');
        }
    }

    fn finish(mut self) -> String {
        self.end_pair();
        self.text
    }
}
