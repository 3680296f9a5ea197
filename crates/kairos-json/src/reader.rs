//! The tokens of a JSON text: which comes next depends on the scope it is in.
//!
//! A token is peeked before it is taken, as by gson: it can be asked for its type, and the place of an error is where
//! gson is then. For a quoted text this is behind the first quote, for a number of a long behind the number.

use crate::fault::{Fault, Kind};

/// Characters from which on gson takes a number for a text: the length of its buffer.
const MAX_NUMBER: usize = 1024;
/// What a lenient text may begin with.
const PREFIX: &[u8] = b")]}'\n";

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    /// `{`
    BeginObject,
    /// `}`
    EndObject,
    /// `[`
    BeginArray,
    /// `]`
    EndArray,
    /// `true`
    True,
    /// `false`
    False,
    /// `null`, or nothing between two commas.
    Null,
    /// A text that ends at this quote.
    Quoted(u8),
    /// A text without quotes.
    Unquoted,
    /// A name that ends at this quote.
    QuotedName(u8),
    /// A name without quotes.
    UnquotedName,
    /// An integer and its text, already passed.
    Long(i64, &'a str),
    /// The text of any other number.
    Number(&'a str),
}

impl Token<'_> {
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
            Self::Long(..) | Self::Number(_) => "NUMBER",
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
pub enum Leniency {
    /// It is a fault.
    Strict,
    /// It is read: names without quotes, single quotes, comments, `=` and `;`.
    Lenient,
}

/// A place in a text. A clone reads on from the same place.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    pub(crate) bytes: &'a [u8],
    /// Behind the byte order mark.
    start: usize,
    pub(crate) pos: usize,
    peeked: Option<Token<'a>>,
    scope: Scope,
    /// The scopes around it.
    outer: Vec<Scope>,
    max_depth: usize,
    leniency: Leniency,
}

impl<'a> Reader<'a> {
    /// A strict reader, for arrays and objects that are nested at most `max_depth` levels deep.
    pub fn new(bytes: &'a [u8], max_depth: usize) -> Self {
        let start = if bytes.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 };
        Self {
            bytes,
            start,
            pos: start,
            peeked: None,
            scope: Scope::Document,
            outer: Vec::new(),
            max_depth,
            leniency: Leniency::Strict,
        }
    }

    /// From the next byte on that is looked at.
    pub fn set_leniency(&mut self, leniency: Leniency) {
        self.leniency = leniency;
    }

    /// The next token, which stays.
    pub fn peek(&mut self) -> Result<Token<'a>, Fault> {
        if let Some(token) = self.peeked {
            return Ok(token);
        }
        let token = self.find()?;
        self.peeked = Some(token);
        Ok(token)
    }

    /// Takes the token that was peeked.
    pub(crate) fn take(&mut self) {
        self.peeked = None;
    }

    /// Whether the array or object has a further element.
    pub fn has_next(&mut self) -> Result<bool, Fault> {
        Ok(!matches!(self.peek()?, Token::EndObject | Token::EndArray))
    }

    /// Takes `[`.
    pub fn begin_array(&mut self) -> Result<(), Fault> {
        self.expect(Token::BeginArray)?;
        self.enter(Scope::EmptyArray)
    }

    /// Takes `]`.
    pub fn end_array(&mut self) -> Result<(), Fault> {
        self.expect(Token::EndArray)?;
        self.leave();
        Ok(())
    }

    /// Takes `{`.
    pub fn begin_object(&mut self) -> Result<(), Fault> {
        self.expect(Token::BeginObject)?;
        self.enter(Scope::EmptyObject)
    }

    /// Takes `}`.
    pub fn end_object(&mut self) -> Result<(), Fault> {
        self.expect(Token::EndObject)?;
        self.leave();
        Ok(())
    }

    /// Passes the next value, or the name and the value. It is not decoded, but its escapes are checked.
    pub fn skip_value(&mut self) -> Result<(), Fault> {
        let outside = self.outer.len();
        loop {
            match self.peek()? {
                Token::BeginArray => self.enter(Scope::EmptyArray)?,
                Token::BeginObject => self.enter(Scope::EmptyObject)?,
                Token::EndArray | Token::EndObject => self.leave(),
                Token::Quoted(quote) | Token::QuotedName(quote) => drop(self.quoted(quote)?),
                Token::Unquoted | Token::UnquotedName => drop(self.unquoted()?),
                Token::Number(text) => self.pos += text.len(),
                Token::True | Token::False | Token::Null | Token::Long(..) => {}
            }
            self.take();
            if self.outer.len() <= outside {
                return Ok(());
            }
        }
    }

    /// Takes what follows the document: nothing but spaces and comments.
    pub fn end(&mut self) -> Result<(), Fault> {
        match self.visible() {
            Err(Fault { kind: Kind::End, .. }) => Ok(()),
            Err(fault) => Err(fault),
            Ok(_) => Err(self.not_strict()),
        }
    }

    /// The fault of a token of another type than the one that is wanted.
    pub(crate) fn unexpected(&self, wanted: &str, token: Token<'_>) -> Fault {
        let text = format!("Expected {wanted} but was {}{}", token.kind(), self.place());
        Fault::new(Kind::State, text)
    }

    pub(crate) fn malformed(&self, what: &str) -> Fault {
        Fault::new(Kind::Malformed, format!("{what}{}", self.place()))
    }

    pub(crate) fn end_of_input(&self) -> Fault {
        Fault::new(Kind::End, format!("End of input{}", self.place()))
    }

    /// The line, and the column in units of UTF-16.
    pub(crate) fn place(&self) -> String {
        let before = &self.bytes[self.start..self.pos];
        let lines = before.iter().filter(|byte| **byte == b'\n').count();
        let line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let column = String::from_utf8_lossy(line).encode_utf16().count();
        format!(" at line {} column {}", lines + 1, column + 1)
    }

    pub(crate) fn check_lenient(&self) -> Result<(), Fault> {
        match self.leniency {
            Leniency::Lenient => Ok(()),
            Leniency::Strict => Err(self.not_strict()),
        }
    }

    fn not_strict(&self) -> Fault {
        self.malformed("Use JsonReader.setLenient(true) to accept malformed JSON")
    }

    /// Whether a byte is a part of a text without quotes.
    pub(crate) fn is_literal(&self, byte: u8) -> Result<bool, Fault> {
        match byte {
            b'/' | b'\\' | b';' | b'#' | b'=' => self.check_lenient().map(|()| false),
            b'{' | b'}' | b'[' | b']' | b':' | b',' => Ok(false),
            b' ' | b'\t' | b'\x0c' | b'\r' | b'\n' => Ok(false),
            _ => Ok(true),
        }
    }

    fn expect(&mut self, wanted: Token<'a>) -> Result<(), Fault> {
        let token = self.peek()?;
        if token != wanted {
            return Err(self.unexpected(wanted.kind(), token));
        }
        self.take();
        Ok(())
    }

    fn enter(&mut self, scope: Scope) -> Result<(), Fault> {
        let most = self.max_depth;
        if self.outer.len() >= most {
            let text = format!("More than {most} levels of nesting{}", self.place());
            return Err(Fault::new(Kind::Depth, text));
        }
        self.outer.push(std::mem::replace(&mut self.scope, scope));
        Ok(())
    }

    fn leave(&mut self) {
        self.scope = self.outer.pop().unwrap_or(Scope::Document);
    }

    fn find(&mut self) -> Result<Token<'a>, Fault> {
        let scope = self.scope;
        match scope {
            Scope::Document => self.skip_prefix()?,
            Scope::EmptyArray => self.scope = Scope::Array,
            Scope::Array => match self.visible()? {
                b']' => return Ok(Token::EndArray),
                b',' => {}
                b';' => self.check_lenient()?,
                _ => return Err(self.malformed("Unterminated array")),
            },
            Scope::EmptyObject | Scope::Object => return self.find_name(scope),
            Scope::Name => {
                self.scope = Scope::Object;
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

    /// Passes the prefix that keeps browsers from running the text as a script.
    fn skip_prefix(&mut self) -> Result<(), Fault> {
        if self.leniency == Leniency::Lenient {
            self.visible()?;
            self.pos -= 1;
            if self.bytes[self.pos..].starts_with(PREFIX) {
                self.pos += PREFIX.len();
            }
        }
        Ok(())
    }

    fn find_name(&mut self, scope: Scope) -> Result<Token<'a>, Fault> {
        self.scope = Scope::Name;
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

    fn find_value(&mut self, scope: Scope) -> Result<Token<'a>, Fault> {
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
                if self.outer.is_empty() {
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

    fn find_literal(&mut self, first: u8) -> Result<Token<'a>, Fault> {
        if self.outer.is_empty() {
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

    fn find_keyword(&mut self) -> Result<Option<Token<'a>>, Fault> {
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
    fn find_number(&mut self) -> Result<Option<Token<'a>>, Fault> {
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
        // It has digits, signs, points and the letter e.
        let text = std::str::from_utf8(&rest[..at]).unwrap_or_default();
        if !has_fraction
            && !has_exponent
            && let Ok(long) = text.parse()
        {
            self.pos += at;
            return Ok(Some(Token::Long(long, text)));
        }
        Ok(Some(Token::Number(text)))
    }
}

fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

#[cfg(test)]
mod tests {
    //! The texts and places of faults are tested with whole bodies and queries, in the crates that read them.

    use super::*;

    /// Reads an array of anything, and the end of the text.
    fn read(text: &str, leniency: Leniency) -> Result<(), String> {
        let mut reader = Reader::new(text.as_bytes(), 2);
        reader.set_leniency(leniency);
        let read = reader.begin_array().and_then(|()| {
            while reader.has_next()? {
                reader.skip_value()?;
            }
            reader.end_array()?;
            reader.end()
        });
        read.map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_lenient_text_may_begin_with_a_prefix() {
        assert_eq!(read(" // c\n )]}'\n[1] /* c */ # c", Leniency::Lenient), Ok(()));
        let malformed = "com.google.gson.stream.MalformedJsonException: ";
        let text = read(")]}'\n[1]", Leniency::Strict).expect_err("a fault");
        let lenient = "Use JsonReader.setLenient(true) to accept malformed JSON";
        assert_eq!(text, format!("{malformed}{lenient} at line 1 column 1"));
        // Only once, and only all of it: any other is a text without quotes.
        let state = "java.lang.IllegalStateException: Expected BEGIN_ARRAY but was STRING";
        for (text, place) in
            [(")]}'\n)]}'\n[1]", "line 2 column 1"), (")]}' [1]", "line 1 column 1")]
        {
            let fault = read(text, Leniency::Lenient).expect_err("a fault");
            assert_eq!(fault, format!("{state} at {place}"));
        }
    }

    #[test]
    fn nothing_follows_the_end() {
        assert_eq!(read("[] \n\t", Leniency::Strict), Ok(()));
        for leniency in [Leniency::Strict, Leniency::Lenient] {
            let fault = read("[] ü", leniency).expect_err("a fault");
            assert!(fault.ends_with("accept malformed JSON at line 1 column 5"), "{fault}");
        }
        let fault = read("[] # c", Leniency::Strict).expect_err("a fault");
        assert!(fault.ends_with("accept malformed JSON at line 1 column 5"), "{fault}");
    }

    #[test]
    fn the_caller_limits_the_nesting() {
        assert_eq!(read("[[],{\"a\":1},[2]]", Leniency::Strict), Ok(()));
        for text in ["[[[", "[{\"a\":["] {
            let fault = read(text, Leniency::Strict).expect_err("a fault");
            let place = text.len() + 1;
            assert_eq!(fault, format!("More than 2 levels of nesting at line 1 column {place}"));
        }
    }
}
