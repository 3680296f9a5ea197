//! Reads words from a line: names, quoted strings, numbers.

use super::duration;

/// The rest of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        Self { rest: line }
    }

    /// The rest of the line.
    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Consumes `text` if it comes next.
    pub(super) fn take(&mut self, text: &str) -> bool {
        let after = self.rest.strip_prefix(text);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// Consumes `text`, which must come next.
    pub(super) fn expect(&mut self, text: &str) -> Result<(), String> {
        if self.take(text) { Ok(()) } else { Err(format!("{text:?} expected at {:?}", self.rest)) }
    }

    /// Consumes characters as long as they fit.
    pub(super) fn while_fits(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let (taken, rest) =
            self.rest.split_at(self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// A name of a metric or label.
    pub(super) fn name(&mut self) -> &'a str {
        if self.rest.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return "";
        }
        self.while_fits(|c| c.is_alphabetic() || c.is_ascii_digit() || "_:.".contains(c))
    }

    /// A string in quotes of any kind, if one comes next.
    pub(super) fn quoted(&mut self) -> Result<Option<String>, String> {
        let Some(quote) = self.rest.chars().next().filter(|c| matches!(c, '"' | '\'' | '`')) else {
            return Ok(None);
        };
        let mut text = String::new();
        let mut chars = self.rest[1..].char_indices();
        while let Some((at, c)) = chars.next() {
            if c == quote {
                self.rest = &self.rest[1 + at + 1..];
                return Ok(Some(text));
            }
            if c != '\\' || quote == '`' {
                text.push(c);
                continue;
            }
            text.push(match chars.next().map(|(_, c)| c) {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some(c @ ('\\' | '"' | '\'')) => c,
                other => return Err(format!("unknown escape {other:?} in {:?}", self.rest)),
            });
        }
        Err(format!("no end of the string {:?}", self.rest))
    }

    /// A number with or without a sign, if one comes next. A duration is read as seconds.
    pub(super) fn number(&mut self) -> Result<Option<f64>, String> {
        let mut ahead = *self;
        let sign = if ahead.take("-") {
            -1.0
        } else {
            ahead.take("+");
            1.0
        };
        for (word, value) in [("inf", f64::INFINITY), ("nan", f64::NAN)] {
            let next = ahead.rest.get(..word.len());
            if next.is_some_and(|next| next.eq_ignore_ascii_case(word)) {
                self.rest = &ahead.rest[word.len()..];
                return Ok(Some(sign * value));
            }
        }
        let digits = ahead.digits();
        if digits.is_empty() {
            return Ok(None);
        }
        let unit = ahead.rest.chars().next().is_some_and(|c| "smhdwy".contains(c));
        let value = if unit {
            let start = self.rest.trim_start_matches(['-', '+']);
            ahead = Self::new(start);
            let text = ahead.while_fits(|c| c.is_ascii_alphanumeric() && c != 'x');
            duration(text)? as f64 / 1000.0
        } else {
            digits.parse::<f64>().map_err(|error| format!("{digits:?}: {error}"))?
        };
        self.rest = ahead.rest;
        Ok(Some(sign * value))
    }

    /// Digits with a point and an exponent.
    fn digits(&mut self) -> &'a str {
        let start = self.rest;
        self.while_fits(|c| c.is_ascii_digit() || c == '.');
        let mut exponent = *self;
        if exponent.take("e") || exponent.take("E") {
            if !exponent.take("-") {
                exponent.take("+");
            }
            if !exponent.while_fits(|c| c.is_ascii_digit()).is_empty() {
                *self = exponent;
            }
        }
        &start[..start.len() - self.rest.len()]
    }

    /// `x` and a number of repetitions, if they come next.
    pub(super) fn times(&mut self) -> Result<Option<usize>, String> {
        if !self.take("x") {
            return Ok(None);
        }
        let digits = self.while_fits(|c| c.is_ascii_digit());
        digits.parse().map(Some).map_err(|_| format!("a count expected after x at {:?}", self.rest))
    }
}

#[test]
fn numbers() {
    let check = |text: &str, want: Option<f64>, rest: &str| {
        let mut scanner = Scanner::new(text);
        let got = scanner.number().expect("valid").map(f64::to_bits);
        assert_eq!((got, scanner.rest), (want.map(f64::to_bits), rest), "{text}");
    };
    check("1x3", Some(1.0), "x3");
    check("-1.5e-3+2", Some(-0.0015), "+2");
    check("+Inf x", Some(f64::INFINITY), " x");
    check("-infx2", Some(f64::NEG_INFINITY), "x2");
    check("5m30s ", Some(330.0), " ");
    check("-2mx3", Some(-120.0), "x3");
    check("stale", None, "stale");
    check("1e", Some(1.0), "e");
}

#[test]
fn strings() {
    let check = |text: &str, want: &str| {
        assert_eq!(Scanner::new(text).quoted(), Ok(Some(want.to_owned())), "{text}");
    };
    check(r#""a\"\\n\n" b"#, "a\"\\n\n");
    check("'a\"'", "a\"");
    check(r"`a\n`", r"a\n");
    assert!(Scanner::new("\"a").quoted().is_err());
    assert_eq!(Scanner::new("a").quoted(), Ok(None));
}
