//! Splits the text of a query into tokens, one at a time.
//!
//! There are three modes, as the valid tokens depend on the place. In braces, words are only names.
//! In a window, `[…]`, up to its first number, only parts of a duration are valid. The third mode is
//! for all other places. Brackets of all kinds are counted here, so the error about an unclosed
//! bracket comes from here and precedes errors of the parser.
//! Positions are in bytes. A comment ends at the end of its line.

mod number;
mod string;

use super::names::{NameRule, Names};
use super::operator::BinaryOp;
use super::parse_error::ParseError;
use super::position::Span;
use super::strings::quoted_char;
use super::token::{Keyword, Kind, Token};

/// Reads tokens from a text.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    query: &'a str,
    /// Start of the current token.
    start: usize,
    /// End of the text that was read.
    at: usize,
    mode: Mode,
    open_parens: usize,
    window: Bracket,
    /// Whether the window has a number or a query-time word. Only then a colon may follow.
    seen_duration: bool,
    names: NameRule,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Plain,
    Braces,
    Duration,
}

/// Whether a `[` is open, and whether its colon was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bracket {
    Closed,
    BeforeColon,
    AfterColon,
}

type Step = Result<Option<Kind>, Box<ParseError>>;

impl<'a> Lexer<'a> {
    pub(super) fn new(query: &'a str, names: Names) -> Self {
        Self {
            query,
            start: 0,
            at: 0,
            mode: Mode::Plain,
            open_parens: 0,
            window: Bracket::Closed,
            seen_duration: false,
            names: NameRule::new(names),
        }
    }

    /// The next token. At the end of the text, every call returns the end token.
    pub(super) fn token(&mut self) -> Result<Token, Box<ParseError>> {
        loop {
            self.start = self.at;
            let kind = match self.mode {
                Mode::Plain => self.plain()?,
                Mode::Braces => self.in_braces()?,
                Mode::Duration => self.in_duration()?,
            };
            if let Some(kind) = kind {
                return Ok(Token { kind, span: Span::new(self.start, self.at) });
            }
        }
    }

    fn plain(&mut self) -> Step {
        let Some(c) = self.bump() else {
            return match self.window {
                _ if self.open_parens > 0 => Err(self.error("unclosed left parenthesis")),
                Bracket::Closed => Ok(Some(Kind::End)),
                _ => Err(self.error("unclosed left bracket")),
            };
        };
        Ok(Some(match c {
            '#' => return Ok(self.comment()),
            ' ' | '\t' | '\n' | '\r' => return Ok(None),
            ',' => Kind::Comma,
            '@' => Kind::At,
            '=' if self.take('=') => Kind::Operator(BinaryOp::Equal),
            '=' if self.peek() == Some('~') => return Err(self.unexpected(" after '='", Some('~'))),
            '=' => Kind::Assign,
            '!' if self.take('=') => Kind::Operator(BinaryOp::NotEqual),
            '!' => {
                let other = self.bump();
                return Err(self.unexpected(" after '!'", other));
            }
            '<' if self.take('=') => Kind::Operator(BinaryOp::LessOrEqual),
            '<' if self.take('/') => Kind::Operator(BinaryOp::TrimUpper),
            '<' => Kind::Operator(BinaryOp::Less),
            '>' if self.take('=') => Kind::Operator(BinaryOp::GreaterOrEqual),
            '>' if self.take('/') => Kind::Operator(BinaryOp::TrimLower),
            '>' => Kind::Operator(BinaryOp::Greater),
            '"' | '\'' | '`' => return self.string(c).map(Some),
            '(' | ')' => return self.paren(c).map(Some),
            '{' => {
                self.mode = Mode::Braces;
                Kind::LeftBrace
            }
            '[' => return self.open_window().map(Some),
            ']' if self.window == Bracket::Closed => {
                return Err(self.error("unexpected right bracket ']'"));
            }
            ']' => self.close_window(),
            c if self.starts_number(c) => return self.number_or_duration().map(Some),
            c if self.names.starts(c) || c == ':' => return self.word(c).map(Some),
            c => match arithmetic(c) {
                Some(op) => Kind::Operator(op),
                None => return Err(self.unexpected("", Some(c))),
            },
        }))
    }

    fn in_braces(&mut self) -> Step {
        let Some(c) = self.bump() else {
            return Err(self.error("unexpected end of input inside braces"));
        };
        Ok(Some(match c {
            '#' => return Ok(self.comment()),
            ' ' | '\t' | '\n' | '\r' => return Ok(None),
            ',' => Kind::Comma,
            '=' if self.take('~') => Kind::RegexMatch,
            '=' => Kind::Assign,
            '!' if self.take('~') => Kind::RegexMismatch,
            '!' if self.take('=') => Kind::Operator(BinaryOp::NotEqual),
            '!' => {
                let other = self.bump();
                return Err(self.unexpected(" after '!' inside braces", other));
            }
            '"' | '\'' | '`' => return self.string(c).map(Some),
            '{' => return Err(self.error("unexpected left brace '{'")),
            '}' => {
                self.mode = Mode::Plain;
                Kind::RightBrace
            }
            c if self.names.starts(c) => {
                self.take_name(|_| false);
                Kind::Identifier
            }
            c => return Err(self.unexpected(" inside braces", Some(c))),
        }))
    }

    fn in_duration(&mut self) -> Step {
        let Some(c) = self.bump() else {
            return Err(self.error("unexpected end of input in duration expression"));
        };
        Ok(Some(match c {
            ' ' | '\t' | '\n' | '\r' => return Ok(None),
            ']' => self.close_window(),
            ':' if !self.seen_duration => {
                return Err(
                    self.error_here("unexpected colon before duration in duration expression")
                );
            }
            ':' if self.window == Bracket::AfterColon => {
                return Err(self.error_here("unexpected repeated colon in duration expression"));
            }
            ':' => {
                self.window = Bracket::AfterColon;
                Kind::Colon
            }
            '(' | ')' => return self.paren(c).map(Some),
            ',' => Kind::Comma,
            c if self.starts_number(c) => {
                self.seen_duration = true;
                self.mode = Mode::Plain;
                return self.number_or_duration().map(Some);
            }
            c => {
                if let Some(op) = arithmetic(c) {
                    return Ok(Some(Kind::Operator(op)));
                }
                let Some(word) = self.duration_word(c) else {
                    return Err(self.unexpected(" in duration expression", Some(c)));
                };
                self.seen_duration = true;
                word
            }
        }))
    }

    fn paren(&mut self, c: char) -> Result<Kind, Box<ParseError>> {
        if c == '(' {
            self.open_parens += 1;
            return Ok(Kind::LeftParen);
        }
        self.open_parens = match self.open_parens.checked_sub(1) {
            Some(open) => open,
            None => return Err(self.error_here("unexpected right parenthesis ')'")),
        };
        Ok(Kind::RightParen)
    }

    fn open_window(&mut self) -> Result<Kind, Box<ParseError>> {
        if self.window != Bracket::Closed {
            return Err(self.error("unexpected left bracket '['"));
        }
        self.window = Bracket::BeforeColon;
        self.seen_duration = false;
        self.mode = Mode::Duration;
        Ok(Kind::LeftBracket)
    }

    fn close_window(&mut self) -> Kind {
        self.window = Bracket::Closed;
        self.mode = Mode::Plain;
        Kind::RightBracket
    }

    /// A word that begins with a letter or a colon. In a window only the words of durations are
    /// valid, and a colon is a token of its own.
    fn word(&mut self, first: char) -> Result<Kind, Box<ParseError>> {
        if self.window != Bracket::Closed {
            return match first {
                ':' if self.window == Bracket::AfterColon => {
                    Err(self.error("unexpected colon ':'"))
                }
                ':' => {
                    self.window = Bracket::AfterColon;
                    Ok(Kind::Colon)
                }
                _ => self.duration_word(first).ok_or_else(|| {
                    let c = quoted_char(Some(first));
                    self.error(format!("unexpected character: {c}, expected ':'"))
                }),
            };
        }
        self.take_name(|c| c == ':');
        let word = &self.query[self.start..self.at];
        Ok(match Kind::of_word(&word.to_ascii_lowercase()) {
            // A metric may have such a name, so this is a keyword only before a parenthesis.
            Some(Kind::Keyword(Keyword::Fill | Keyword::FillLeft | Keyword::FillRight))
                if !self.rest().trim_start_matches(is_space).starts_with('(') =>
            {
                Kind::Identifier
            }
            Some(kind) => kind,
            None if word.contains(':') => Kind::MetricIdentifier,
            None => Kind::Identifier,
        })
    }

    fn duration_word(&mut self, first: char) -> Option<Kind> {
        if !matches!(first.to_ascii_lowercase(), 's' | 'r' | 'm') {
            return None;
        }
        self.take_while(is_letter);
        Kind::of_duration_word(&self.query[self.start..self.at].to_ascii_lowercase())
    }

    fn comment(&mut self) -> Option<Kind> {
        self.take_while(|c| c != '\n' && c != '\r');
        None
    }

    fn starts_number(&self, c: char) -> bool {
        c.is_ascii_digit() || (c == '.' && self.peek().is_some_and(|c| c.is_ascii_digit()))
    }

    fn rest(&self) -> &'a str {
        &self.query[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn take(&mut self, wanted: char) -> bool {
        self.take_if(|c| c == wanted)
    }

    fn take_if(&mut self, fits: impl Fn(char) -> bool) -> bool {
        let taken = self.peek().filter(|&c| fits(c));
        self.at += taken.map_or(0, char::len_utf8);
        taken.is_some()
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) {
        while self.take_if(&fits) {}
    }

    /// Reads the rest of a name; characters that `also` accepts are allowed too.
    fn take_name(&mut self, also: impl Fn(char) -> bool) {
        while let Some(c) = self.peek().filter(|&c| self.names.continues(c) || also(c)) {
            self.at += c.len_utf8();
        }
    }

    /// An error about a character that is not valid at this place.
    fn unexpected(&self, place: &str, c: Option<char>) -> Box<ParseError> {
        self.error(format!("unexpected character{place}: {}", quoted_char(c)))
    }

    /// An error about the current token.
    fn error(&self, message: impl Into<String>) -> Box<ParseError> {
        ParseError::at(self.query, Span::new(self.start, self.query.len()), message)
    }

    /// An error after the last character that was read.
    fn error_here(&self, message: &str) -> Box<ParseError> {
        ParseError::at(self.query, Span::new(self.at, self.query.len()), message)
    }
}

fn arithmetic(c: char) -> Option<BinaryOp> {
    Some(match c {
        '+' => BinaryOp::Add,
        '-' => BinaryOp::Sub,
        '*' => BinaryOp::Mul,
        '/' => BinaryOp::Div,
        '%' => BinaryOp::Mod,
        '^' => BinaryOp::Pow,
        _ => return None,
    })
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn is_letter_or_digit(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
