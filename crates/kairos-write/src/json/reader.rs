//! The tokens of a JSON text: which comes next depends on the scope it is in.
//!
//! A token is peeked before it is taken, as by gson: it can be asked for its type, and the place of an error is where
//! gson is then. For a quoted text this is behind the first quote, for a number of a long behind the number.

use super::fault::{Fault, Kind};

/// How deep arrays and objects of a body may be nested. KairosDB fails some thousand levels deep.
pub const MAX_DEPTH: usize = 64;
/// Characters from which on gson takes a number for a text: the length of its buffer.
const MAX_NUMBER: usize = 1024;

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    BeginObject,
    EndObject,
    BeginArray,
    EndArray,
    True,
    False,
    Null,
    /// A text that ends at this quote.
    Quoted(u8),
    Unquoted,
    /// A name that ends at this quote.
    QuotedName(u8),
    UnquotedName,
    /// An integer, already passed.
    Long(i64),
    /// Any other number, up to this position.
    Number(usize),
}

impl Token {
    /// The name of its type in texts of errors.
    fn kind(self) -> &'static str {
        match self {
            Self::BeginObject => "BEGIN_OBJECT",
            Self::EndObject => "END_OBJECT",
            Self::BeginArray => "BEGIN_ARRAY",
            Self::EndArray => "END_ARRAY",
            Self::True | Self::False => "BOOLEAN",
            Self::Null => "NULL",
            Self::Quoted(_) | Self::Unquoted => "STRING",
            Self::QuotedName(_) | Self::UnquotedName => "NAME",
            Self::Long(_) | Self::Number(_) => "NUMBER",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Document,
    EmptyArray,
    Array,
    EmptyObject,
    Object,
    /// In an object, behind a name.
    Name,
}

/// Whether what is no JSON is read too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leniency {
    Strict,
    Lenient,
}

/// A place in a text. A clone reads on from the same place.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    /// Behind the byte order mark.
    start: usize,
    pub(super) pos: usize,
    peeked: Option<Token>,
    /// Of all levels up to `depth`.
    scopes: [Scope; MAX_DEPTH + 1],
    depth: usize,
    leniency: Leniency,
}

impl<'a> Reader<'a> {
    /// A strict reader.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let start = if bytes.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 };
        Self {
            bytes,
            start,
            pos: start,
            peeked: None,
            scopes: [Scope::Document; MAX_DEPTH + 1],
            depth: 0,
            leniency: Leniency::Strict,
        }
    }

    /// From the next byte on that is looked at.
    pub(crate) fn set_leniency(&mut self, leniency: Leniency) {
        self.leniency = leniency;
    }

    /// The next token, which stays.
    pub(crate) fn peek(&mut self) -> Result<Token, Fault> {
        if let Some(token) = self.peeked {
            return Ok(token);
        }
        let token = self.find()?;
        self.peeked = Some(token);
        Ok(token)
    }

    /// Takes the token that was peeked.
    pub(super) fn take(&mut self) {
        self.peeked = None;
    }

    /// Whether the array or object has a further element.
    pub(crate) fn has_next(&mut self) -> Result<bool, Fault> {
        Ok(!matches!(self.peek()?, Token::EndObject | Token::EndArray))
    }

    pub(crate) fn begin_array(&mut self) -> Result<(), Fault> {
        self.expect(Token::BeginArray)?;
        self.enter(Scope::EmptyArray)
    }

    pub(crate) fn end_array(&mut self) -> Result<(), Fault> {
        self.expect(Token::EndArray)?;
        self.leave();
        Ok(())
    }

    pub(crate) fn begin_object(&mut self) -> Result<(), Fault> {
        self.expect(Token::BeginObject)?;
        self.enter(Scope::EmptyObject)
    }

    pub(crate) fn end_object(&mut self) -> Result<(), Fault> {
        self.expect(Token::EndObject)?;
        self.leave();
        Ok(())
    }

    /// Passes the next value, or the name and the value. It is not decoded, but its escapes are checked.
    pub(crate) fn skip_value(&mut self) -> Result<(), Fault> {
        let outside = self.depth;
        loop {
            match self.peek()? {
                Token::BeginArray => self.enter(Scope::EmptyArray)?,
                Token::BeginObject => self.enter(Scope::EmptyObject)?,
                Token::EndArray | Token::EndObject => self.leave(),
                Token::Quoted(quote) | Token::QuotedName(quote) => drop(self.quoted(quote)?),
                Token::Unquoted | Token::UnquotedName => drop(self.unquoted()?),
                Token::Number(end) => self.pos = end,
                Token::True | Token::False | Token::Null | Token::Long(_) => {}
            }
            self.take();
            if self.depth <= outside {
                return Ok(());
            }
        }
    }

    /// The fault of a token of another type than the one that is wanted.
    pub(super) fn unexpected(&self, wanted: &str, token: Token) -> Fault {
        let text = format!("Expected {wanted} but was {}{}", token.kind(), self.place());
        Fault::new(Kind::State, text)
    }

    pub(super) fn malformed(&self, what: &str) -> Fault {
        Fault::new(Kind::Malformed, format!("{what}{}", self.place()))
    }

    pub(super) fn end_of_input(&self) -> Fault {
        Fault::new(Kind::End, format!("End of input{}", self.place()))
    }

    /// The line, and the column in units of UTF-16.
    pub(super) fn place(&self) -> String {
        let before = &self.bytes[self.start..self.pos];
        let lines = before.iter().filter(|byte| **byte == b'\n').count();
        let line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let column = String::from_utf8_lossy(line).encode_utf16().count();
        format!(" at line {} column {}", lines + 1, column + 1)
    }

    pub(super) fn check_lenient(&self) -> Result<(), Fault> {
        match self.leniency {
            Leniency::Lenient => Ok(()),
            Leniency::Strict => {
                Err(self.malformed("Use JsonReader.setLenient(true) to accept malformed JSON"))
            }
        }
    }

    /// Whether a byte is a part of a text without quotes.
    pub(super) fn is_literal(&self, byte: u8) -> Result<bool, Fault> {
        match byte {
            b'/' | b'\\' | b';' | b'#' | b'=' => self.check_lenient().map(|()| false),
            b'{' | b'}' | b'[' | b']' | b':' | b',' => Ok(false),
            b' ' | b'\t' | b'\x0c' | b'\r' | b'\n' => Ok(false),
            _ => Ok(true),
        }
    }

    fn expect(&mut self, wanted: Token) -> Result<(), Fault> {
        let token = self.peek()?;
        if token != wanted {
            return Err(self.unexpected(wanted.kind(), token));
        }
        self.take();
        Ok(())
    }

    fn enter(&mut self, scope: Scope) -> Result<(), Fault> {
        if self.depth == MAX_DEPTH {
            let text = format!("More than {MAX_DEPTH} levels of nesting{}", self.place());
            return Err(Fault::new(Kind::Syntax, text));
        }
        self.depth += 1;
        self.scopes[self.depth] = scope;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn find(&mut self) -> Result<Token, Fault> {
        let scope = self.scopes[self.depth];
        match scope {
            Scope::Document => {}
            Scope::EmptyArray => self.scopes[self.depth] = Scope::Array,
            Scope::Array => match self.visible()? {
                b']' => return Ok(Token::EndArray),
                b',' => {}
                b';' => self.check_lenient()?,
                _ => return Err(self.malformed("Unterminated array")),
            },
            Scope::EmptyObject | Scope::Object => return self.find_name(scope),
            Scope::Name => {
                self.scopes[self.depth] = Scope::Object;
                match self.visible()? {
                    b':' => {}
                    b'=' => {
                        self.check_lenient()?;
                        self.pos += usize::from(self.bytes.get(self.pos) == Some(&b'>'));
                    }
                    _ => return Err(self.malformed("Expected ':'")),
                }
            }
        }
        self.find_value(scope)
    }

    fn find_name(&mut self, scope: Scope) -> Result<Token, Fault> {
        self.scopes[self.depth] = Scope::Name;
        if scope == Scope::Object {
            match self.visible()? {
                b'}' => return Ok(Token::EndObject),
                b',' => {}
                b';' => self.check_lenient()?,
                _ => return Err(self.malformed("Unterminated object")),
            }
        }
        match self.visible()? {
            b'"' => Ok(Token::QuotedName(b'"')),
            b'\'' => self.check_lenient().map(|()| Token::QuotedName(b'\'')),
            b'}' if scope == Scope::EmptyObject => Ok(Token::EndObject),
            b'}' => Err(self.malformed("Expected name")),
            first => {
                self.check_lenient()?;
                self.pos -= 1;
                match self.is_literal(first)? {
                    true => Ok(Token::UnquotedName),
                    false => Err(self.malformed("Expected name")),
                }
            }
        }
    }

    fn find_value(&mut self, scope: Scope) -> Result<Token, Fault> {
        let is_in_array = matches!(scope, Scope::EmptyArray | Scope::Array);
        match self.visible()? {
            b']' if scope == Scope::EmptyArray => Ok(Token::EndArray),
            // Nothing between two commas is a null.
            b']' | b';' | b',' if is_in_array => {
                self.check_lenient()?;
                self.pos -= 1;
                Ok(Token::Null)
            }
            b']' | b';' | b',' => Err(self.malformed("Unexpected value")),
            b'\'' => self.check_lenient().map(|()| Token::Quoted(b'\'')),
            b'"' => {
                if self.depth == 0 {
                    self.check_lenient()?;
                }
                Ok(Token::Quoted(b'"'))
            }
            b'[' => Ok(Token::BeginArray),
            b'{' => Ok(Token::BeginObject),
            first => {
                self.pos -= 1;
                self.find_literal(first)
            }
        }
    }

    fn find_literal(&mut self, first: u8) -> Result<Token, Fault> {
        if self.depth == 0 {
            self.check_lenient()?;
        }
        if let Some(token) = self.find_keyword()? {
            return Ok(token);
        }
        if let Some(token) = self.find_number()? {
            return Ok(token);
        }
        if !self.is_literal(first)? {
            return Err(self.malformed("Expected value"));
        }
        self.check_lenient()?;
        Ok(Token::Unquoted)
    }

    fn find_keyword(&mut self) -> Result<Option<Token>, Fault> {
        let rest = &self.bytes[self.pos..];
        let (keyword, token) = match rest.first() {
            Some(b't' | b'T') => ("true", Token::True),
            Some(b'f' | b'F') => ("false", Token::False),
            Some(b'n' | b'N') => ("null", Token::Null),
            _ => return Ok(None),
        };
        let Some(word) = rest.get(..keyword.len()) else { return Ok(None) };
        if !word.eq_ignore_ascii_case(keyword.as_bytes()) {
            return Ok(None);
        }
        if let Some(next) = rest.get(keyword.len())
            && self.is_literal(*next)?
        {
            return Ok(None);
        }
        self.pos += keyword.len();
        Ok(Some(token))
    }

    /// A number of JSON's grammar: any other is a text without quotes.
    fn find_number(&mut self) -> Result<Option<Token>, Fault> {
        let rest = &self.bytes[self.pos..];
        let sign = usize::from(rest.first() == Some(&b'-'));
        let mut at = sign + digits(&rest[sign..]);
        let integral = &rest[sign..at];
        let is_integral = !integral.is_empty() && (integral[0] != b'0' || integral.len() == 1);
        let mut is_number = is_integral;
        if is_number && rest.get(at) == Some(&b'.') {
            let fraction = digits(&rest[at + 1..]);
            at += 1 + fraction;
            is_number = fraction > 0;
        }
        let has_fraction = at > sign + integral.len();
        let mut has_exponent = false;
        if is_number && matches!(rest.get(at), Some(b'e' | b'E')) {
            let signed = usize::from(matches!(rest.get(at + 1), Some(b'+' | b'-')));
            let exponent = digits(rest.get(at + 1 + signed..).unwrap_or_default());
            at += 1 + signed + exponent;
            (is_number, has_exponent) = (exponent > 0, true);
        }
        let next = rest.get(at).copied();
        // gson looks at the byte behind what it took for a number so far, also where it is none.
        if let Some(next) = next
            && self.is_literal(next)?
        {
            return Ok(None);
        }
        if !is_number || at >= MAX_NUMBER {
            return Ok(None);
        }
        if !has_fraction
            && !has_exponent
            && let Some(long) = long(&rest[..at])
        {
            self.pos += at;
            return Ok(Some(Token::Long(long)));
        }
        Ok(Some(Token::Number(self.pos + at)))
    }
}

fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// The value of a sign and digits, if an `i64` can have it.
fn long(number: &[u8]) -> Option<i64> {
    std::str::from_utf8(number).ok()?.parse().ok()
}
