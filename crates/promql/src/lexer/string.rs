//! Strings as tokens: finds the end and checks the escapes.
//!
//! [`unquote`](super::super::strings::unquote) accepts every string that passes here.

use super::{Kind, Lexer, ParseError};
use crate::strings::code_point;

impl Lexer<'_> {
    /// A string whose quote has been read.
    pub(super) fn string(&mut self, quote: char) -> Result<Kind, Box<ParseError>> {
        let raw = quote == '`';
        loop {
            match self.bump() {
                Some(c) if c == quote => return Ok(Kind::String),
                Some(char::REPLACEMENT_CHARACTER) => {
                    return Err(self.error("invalid UTF-8 rune"));
                }
                None if raw => return Err(self.error("unterminated raw string")),
                Some(_) if raw => {}
                None | Some('\n') => return Err(self.error("unterminated quoted string")),
                Some('\\') => self.escape(quote)?,
                Some(_) => {}
            }
        }
    }

    fn escape(&mut self, quote: char) -> Result<(), Box<ParseError>> {
        let Some(kind) = self.bump() else {
            return Err(self.error("escape sequence not terminated"));
        };
        let (digits, radix, most) = match kind {
            'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\' => return Ok(()),
            c if c == quote => return Ok(()),
            '0'..='7' => {
                self.at -= 1;
                (3, 8, 0xFF)
            }
            'x' => (2, 16, 0xFF),
            'u' => (4, 16, char::MAX as u32),
            'U' => (8, 16, char::MAX as u32),
            c => return Err(self.error(format!("unknown escape sequence {}", code_point(c)))),
        };
        let mut value: u32 = 0;
        for _ in 0..digits {
            let Some(c) = self.bump() else {
                return Err(self.error("escape sequence not terminated"));
            };
            let Some(digit) = c.to_digit(radix) else {
                let c = code_point(c);
                return Err(self.error(format!("illegal character {c} in escape sequence")));
            };
            value = value * radix + digit;
        }
        if value > most || (0xD800..0xE000).contains(&value) {
            return Err(self.error("escape sequence is an invalid Unicode code point"));
        }
        Ok(())
    }
}
