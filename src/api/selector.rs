//! A series selector, `name{label="value", other=~"re.*"}`, taken apart.
//!
//! Only what the deletion of series needs of PromQL: no functions, no time. Names may be quoted, as
//! in `{"a name", "a label"="v"}`; strings are in double, single or back quotes with Go's escapes.
//! Regular expressions are not looked at: `match_parameters` compiles all of a request together.

use crate::model::{METRIC_NAME, MatchOp};

/// A matcher as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) op: MatchOp,
    pub(super) name: String,
    pub(super) value: String,
}

/// Parses one selector. The error says what is wrong and where, in bytes from 0.
pub(super) fn parse(text: &str) -> Result<Vec<Written>, String> {
    let mut parser = Parser { text, at: 0 };
    let mut matchers = Vec::new();
    parser.blank();
    if let Some(name) = parser.name(":") {
        matchers.push(metric(name));
        parser.blank();
    }
    if parser.take('{') {
        parser.braces(&mut matchers)?;
    }
    parser.blank();
    if parser.at < text.len() {
        return Err(parser.unexpected("the end of the selector"));
    }
    Ok(matchers)
}

fn metric(name: &str) -> Written {
    Written { op: MatchOp::Equal, name: METRIC_NAME.into(), value: name.into() }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn braces(&mut self, matchers: &mut Vec<Written>) -> Result<(), String> {
        loop {
            self.blank();
            if self.take('}') {
                return Ok(());
            }
            matchers.push(self.matcher()?);
            self.blank();
            if !self.take(',') && !self.rest().starts_with('}') {
                return Err(self.unexpected("\",\" or \"}\""));
            }
        }
    }

    fn matcher(&mut self) -> Result<Written, String> {
        let quoted = self.rest().starts_with(['"', '\'', '`']);
        let name = match (quoted, self.name("")) {
            (true, _) => self.string()?,
            (false, Some(name)) => name.to_owned(),
            (false, None) => return Err(self.unexpected("a label name")),
        };
        self.blank();
        let op = match self.rest() {
            rest if rest.starts_with("=~") => MatchOp::Regex,
            rest if rest.starts_with("!~") => MatchOp::NotRegex,
            rest if rest.starts_with("!=") => MatchOp::NotEqual,
            rest if rest.starts_with('=') => MatchOp::Equal,
            _ if quoted => return Ok(metric(&name)),
            _ => return Err(self.unexpected("one of = != =~ !~")),
        };
        self.at += if op == MatchOp::Equal { 1 } else { 2 };
        self.blank();
        Ok(Written { op, name, value: self.string()? })
    }

    /// A plain name, if there is one; `extra` are characters allowed besides letters, digits and `_`.
    fn name(&mut self, extra: &str) -> Option<&'a str> {
        let rest = self.rest();
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || extra.contains(c);
        let end = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        if end == 0 || rest.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        self.at += end;
        Some(&rest[..end])
    }

    fn string(&mut self) -> Result<String, String> {
        let Some(quote) = self.rest().chars().next().filter(|c| "\"'`".contains(*c)) else {
            return Err(self.unexpected("a quoted string"));
        };
        let start = self.at;
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            let Some(next) = self.rest().chars().next() else {
                return Err(format!("the string at byte {start} does not end"));
            };
            self.at += next.len_utf8();
            if next == quote {
                break;
            } else if next == '\\' && quote != '`' {
                self.escape(quote, &mut bytes)?;
            } else {
                bytes.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        String::from_utf8(bytes).map_err(|_| format!("the string at byte {start} is not UTF-8"))
    }

    fn escape(&mut self, quote: char, out: &mut Vec<u8>) -> Result<(), String> {
        let at = self.at;
        let bad = || format!("bad escape at byte {at}");
        let kind = self.rest().chars().next().ok_or_else(bad)?;
        self.at += kind.len_utf8();
        let simple = match kind {
            'a' => 0x07,
            'b' => 0x08,
            'f' => 0x0C,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 0x0B,
            '\\' => b'\\',
            '\'' | '"' if kind == quote => kind as u8,
            'x' => u8::try_from(self.number(16, 2).ok_or_else(bad)?).map_err(|_| bad())?,
            '0'..='7' => {
                self.at -= 1;
                u8::try_from(self.number(8, 3).ok_or_else(bad)?).map_err(|_| bad())?
            }
            'u' | 'U' => {
                let digits = if kind == 'u' { 4 } else { 8 };
                let code = self.number(16, digits).ok_or_else(bad)?;
                let c = char::from_u32(code).ok_or_else(bad)?;
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(bad()),
        };
        out.push(simple);
        Ok(())
    }

    fn number(&mut self, radix: u32, digits: usize) -> Option<u32> {
        let text = self.rest().get(..digits)?;
        if !text.chars().all(|c| c.is_digit(radix)) {
            return None;
        }
        self.at += digits;
        u32::from_str_radix(text, radix).ok()
    }

    fn take(&mut self, c: char) -> bool {
        let there = self.rest().starts_with(c);
        self.at += if there { c.len_utf8() } else { 0 };
        there
    }

    fn blank(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn unexpected(&self, wanted: &str) -> String {
        match self.rest().chars().next() {
            Some(c) => format!("unexpected {c:?} at byte {}, expected {wanted}", self.at),
            None => format!("the selector ends, expected {wanted}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Matcher;

    #[test]
    fn selectors() {
        let check = |text: &str, want: &str| {
            let got = match parse(text) {
                Ok(written) => {
                    let matchers = written.iter().map(|Written { op, name, value }| {
                        Matcher::new(*op, name, value).expect("compiles").to_string()
                    });
                    matchers.collect::<Vec<_>>().join(" ")
                }
                Err(error) => error,
            };
            assert_eq!(got, want, "{text}");
        };
        check("up", r#"__name__="up""#);
        check(" a:b { } ", r#"__name__="a:b""#);
        check(r#"up{job="a",i!='b',}"#, r#"__name__="up" job="a" i!="b""#);
        check(r#"{job=~"a.+", x!~`\d`}"#, r#"job=~"a.+" x!~"\\d""#);
        check(r#"{"a name", "a label"="v"}"#, r#"__name__="a name" a label="v""#);
        check(r#"{a="\x41\101\u00e9\n\""}"#, r#"a="AAé\n\"""#);
        check("up[5m]", "unexpected '[' at byte 2, expected the end of the selector");
        check("{a}", "unexpected '}' at byte 2, expected one of = != =~ !~");
        check("{a=b}", "unexpected 'b' at byte 3, expected a quoted string");
        check("{a=\"b\" c=\"d\"}", "unexpected 'c' at byte 7, expected \",\" or \"}\"");
        check("{1a=\"b\"}", "unexpected '1' at byte 1, expected a label name");
        check("{a=\"b", "the string at byte 3 does not end");
        check("{a=\"b\"", "the selector ends, expected \",\" or \"}\"");
        check(r#"{a="\q"}"#, "bad escape at byte 5");
        check(r#"{a="\xff"}"#, "the string at byte 3 is not UTF-8");
    }

    #[test]
    fn no_text_panics() {
        for text in ["{", "{\"", "{é", "é", "{a=\"\\", "{a=\"\\u12", "{a=\"\\x€", "a{,}", "{}}"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
