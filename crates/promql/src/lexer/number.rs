//! Numbers and durations as tokens.
//!
//! Finds the end of the token, and whether it is a number or a duration. Its value is computed
//! later. An error quotes the text up to where reading stopped, so the characters that are read
//! before a token is refused are part of the behaviour.

use super::{Kind, Lexer, ParseError, is_letter_or_digit};
use crate::strings::quoted;

impl Lexer<'_> {
    /// A number or a duration; its first character has been read.
    pub(super) fn number_or_duration(&mut self) -> Result<Kind, Box<ParseError>> {
        self.at = self.start;
        if self.number() {
            Ok(Kind::Number)
        } else if self.units() {
            Ok(Kind::Duration)
        } else {
            let text = quoted(&self.query[self.start..self.at]);
            Err(self.error(format!("bad number or duration syntax: {text}")))
        }
    }

    /// Reads a number as far as possible: decimal with a fraction and an exponent, or hexadecimal.
    /// Digits may be separated by `_`.
    fn number(&mut self) -> bool {
        let hex = self.take('0') && self.take_if(|c| matches!(c, 'x' | 'X'));
        let digit = move |c: char| if hex { c.is_ascii_hexdigit() } else { c.is_ascii_digit() };
        if hex {
            self.take('_');
        }
        self.take('.');
        self.take_if(digit);
        let (mut dot, mut exponent) = (false, false);
        loop {
            match self.peek() {
                Some('.') => {
                    self.bump();
                    if dot || self.take_if(|c| matches!(c, '_' | '.')) || hex {
                        return false;
                    }
                    dot = true;
                }
                Some('e' | 'E') => {
                    self.bump();
                    if exponent {
                        return false;
                    }
                    exponent = true;
                    self.take_if(|c| matches!(c, '+' | '-'));
                    if !self.digit_follows() {
                        return false;
                    }
                }
                Some('_') => {
                    self.bump();
                    if !self.digit_follows() {
                        return false;
                    }
                }
                Some(c) if digit(c) => self.take_while(digit),
                next => return !next.is_some_and(is_letter_or_digit),
            }
        }
    }

    /// Whether a character other than `.`, `_`, `e` and `E` follows. Reads one of these four.
    fn digit_follows(&mut self) -> bool {
        !self.take_if(|c| matches!(c, '.' | '_' | 'e' | 'E')) && self.peek().is_some()
    }

    /// Reads the rest of a duration after its first digits: `h30m`.
    fn units(&mut self) -> bool {
        if !self.take_if(|c| "smhdwy".contains(c)) {
            return false;
        }
        self.take('s');
        while self.take_if(|c| c.is_ascii_digit()) {
            self.take_while(|c| c.is_ascii_digit());
            if !self.take_if(|c| "smhdw".contains(c)) {
                return false;
            }
            self.take('s');
        }
        !self.take_if(is_letter_or_digit)
    }
}
