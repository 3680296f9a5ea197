//! Translates RE2 syntax into the syntax of the `regex` crate.
//!
//! Flags are resolved here: each part of the output has its own flags (`(?i:a)`, `(?s:.)`), so it
//! means the same in any place. The rules are the same as in Go's `regexp/syntax` with its Perl
//! flags, and with `.` matching newlines at the start.

use super::class::{self, Source};
use super::error::RegexError;
use crate::limits::MAX_REGEX_DEPTH;

/// Maximum number of copies of the innermost item that nested counted repetitions may make.
const MAX_REPEAT: u64 = 1000;

/// Translates RE2 syntax into the syntax of the `regex` crate. The result means
/// `(?s:pattern)`: a dot matches newlines.
pub fn translate(pattern: &str) -> Result<String, RegexError> {
    let flags = Flags { fold: false, multi_line: false, dot_newline: true, swap_greed: false };
    let mut translator = Translator {
        whole: pattern,
        source: Source { rest: pattern },
        out: String::with_capacity(pattern.len() + pattern.len() / 4),
        flags,
        groups: Vec::new(),
        scope: Scope::default(),
        repeated: None,
        names: Vec::new(),
    };
    while !translator.source.rest.is_empty() {
        translator.token()?;
    }
    if translator.groups.is_empty() {
        Ok(translator.out)
    } else {
        Err(RegexError::syntax("missing closing )", pattern))
    }
}

#[derive(Debug, Clone, Copy)]
struct Flags {
    fold: bool,
    multi_line: bool,
    dot_newline: bool,
    swap_greed: bool,
}

/// The item that a repetition would apply to.
#[derive(Debug, Clone, Copy)]
struct Item {
    /// Start of its text in the output.
    start: usize,
    /// The number of copies that must be allowed, at least, for the item to be valid.
    copies: u64,
    depth: u32,
}

/// The state of an open group.
#[derive(Debug, Clone, Copy, Default)]
struct Scope {
    last: Option<Item>,
    /// The largest `copies` of the items before `last`.
    copies: u64,
    depth: u32,
}

impl Scope {
    /// Adds `last` to the totals: no repetition can apply to it any more.
    fn settle(&mut self) {
        if let Some(item) = self.last.take() {
            self.copies = self.copies.max(item.copies);
            self.depth = self.depth.max(item.depth);
        }
    }
}

struct Group {
    start: usize,
    flags: Flags,
    scope: Scope,
}

struct Translator<'a> {
    whole: &'a str,
    source: Source<'a>,
    out: String,
    flags: Flags,
    groups: Vec<Group>,
    scope: Scope,
    /// The rest of the pattern at the start of the previous token, if that was a repetition.
    repeated: Option<&'a str>,
    names: Vec<&'a str>,
}

impl<'a> Translator<'a> {
    fn token(&mut self) -> Result<(), RegexError> {
        let before = self.source.rest;
        let repeated = self.repeated.take();
        let Some(c) = self.source.next() else { return Ok(()) };
        match c {
            '(' if self.source.take("?") => self.perl_group(before)?,
            '(' => self.open("(")?,
            ')' => self.close()?,
            '|' => {
                self.scope.settle();
                self.out.push('|');
            }
            '^' if self.flags.multi_line => self.item("(?m:^)"),
            '^' => self.item("\\A"),
            '$' if self.flags.multi_line => self.item("(?m:$)"),
            '$' => self.item("\\z"),
            '.' if self.flags.dot_newline => self.item("(?s:.)"),
            '.' => self.item("(?-s:.)"),
            '[' => {
                let class = class::bracketed(&mut self.source, before)?;
                self.folded(&class);
            }
            '*' => self.repeat(before, repeated, (0, None))?,
            '+' => self.repeat(before, repeated, (1, None))?,
            '?' => self.repeat(before, repeated, (0, Some(1)))?,
            '{' => match counts(self.source.rest) {
                Some((range, rest)) => {
                    self.source.rest = rest;
                    self.repeat(before, repeated, range)?;
                }
                None => self.literal('{'),
            },
            '\\' => self.escape(before)?,
            c => self.literal(c),
        }
        Ok(())
    }

    fn item(&mut self, text: &str) {
        self.scope.settle();
        self.scope.last = Some(Item { start: self.out.len(), copies: 0, depth: 1 });
        self.out.push_str(text);
    }

    /// Writes an item that depends on letter case.
    fn folded(&mut self, text: &str) {
        if self.flags.fold {
            self.item(&format!("(?i:{text})"));
        } else {
            self.item(text);
        }
    }

    fn literal(&mut self, c: char) {
        let mut buffer = [0; 4];
        let text = regex_syntax::escape(c.encode_utf8(&mut buffer));
        if c.is_ascii() && !c.is_ascii_alphabetic() {
            self.item(&text);
        } else {
            self.folded(&text);
        }
    }

    fn escape(&mut self, before: &'a str) -> Result<(), RegexError> {
        for (escape, text) in [("A", "\\A"), ("z", "\\z"), ("b", "(?-u:\\b)"), ("B", "(?-u:\\B)")] {
            if self.source.take(escape) {
                self.item(text);
                return Ok(());
            }
        }
        if self.source.take("C") {
            return Err(RegexError::syntax("invalid escape sequence", &before[..2]));
        }
        if self.source.take("Q") {
            let rest = self.source.rest;
            let (text, rest) = rest.split_once("\\E").unwrap_or((rest, ""));
            text.chars().for_each(|c| self.literal(c));
            self.source.rest = rest;
            return Ok(());
        }
        self.source.rest = before;
        if let Some(class) = class::escaped(&mut self.source)? {
            self.folded(&format!("[{class}]"));
            return Ok(());
        }
        match char::from_u32(class::character(&mut self.source)?) {
            Some(c) => self.literal(c),
            // A surrogate is in no string.
            None => self.item(class::NOTHING),
        }
        Ok(())
    }

    fn open(&mut self, text: &str) -> Result<(), RegexError> {
        if self.groups.len() >= MAX_REGEX_DEPTH as usize {
            return Err(RegexError::TooDeep);
        }
        let scope = std::mem::take(&mut self.scope);
        self.groups.push(Group { start: self.out.len(), flags: self.flags, scope });
        self.out.push_str(text);
        Ok(())
    }

    fn close(&mut self) -> Result<(), RegexError> {
        let group =
            self.groups.pop().ok_or_else(|| RegexError::syntax("unexpected )", self.whole))?;
        self.out.push(')');
        let mut inner = std::mem::replace(&mut self.scope, group.scope);
        inner.settle();
        self.flags = group.flags;
        self.scope.settle();
        let depth = self.deeper(inner.depth)?;
        self.scope.last = Some(Item { start: group.start, copies: inner.copies, depth });
        Ok(())
    }

    fn deeper(&self, depth: u32) -> Result<u32, RegexError> {
        if depth + 1 > MAX_REGEX_DEPTH { Err(RegexError::TooDeep) } else { Ok(depth + 1) }
    }

    /// Reads what follows `(?`: a named group, flags, or flags with a group.
    fn perl_group(&mut self, before: &'a str) -> Result<(), RegexError> {
        let rest = self.source.rest;
        if let Some(named) = rest.strip_prefix("P<").or_else(|| rest.strip_prefix('<')) {
            return self.named_group(before, named);
        }
        let mut flags = self.flags;
        let (mut on, mut seen) = (true, false);
        while let Some(c) = self.source.next() {
            match c {
                'i' => flags.fold = on,
                'm' => flags.multi_line = on,
                's' => flags.dot_newline = on,
                'U' => flags.swap_greed = on,
                '-' if on => {
                    (on, seen) = (false, false);
                    continue;
                }
                ':' if on || seen => {
                    self.open("(?:")?;
                    self.flags = flags;
                    return Ok(());
                }
                ')' if on || seen => {
                    self.flags = flags;
                    return Ok(());
                }
                _ => break,
            }
            seen = true;
        }
        let at = &before[..before.len() - self.source.rest.len()];
        // Go uses the same error for a pattern that ends within the flags.
        Err(RegexError::syntax("invalid or unsupported Perl syntax", at))
    }

    fn named_group(&mut self, before: &'a str, named: &'a str) -> Result<(), RegexError> {
        let (name, rest) = named
            .split_once('>')
            .ok_or_else(|| RegexError::syntax("invalid named capture", before))?;
        let word = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
        if name.is_empty() || !name.bytes().all(word) {
            let at = &before[..before.len() - rest.len()];
            return Err(RegexError::syntax("invalid named capture", at));
        }
        self.source.rest = rest;
        // The crate accepts no duplicate names and no names that begin with a digit.
        if name.as_bytes()[0].is_ascii_digit() || self.names.contains(&name) {
            return self.open("(");
        }
        self.names.push(name);
        self.open(&format!("(?P<{name}>"))
    }

    fn repeat(
        &mut self,
        before: &'a str,
        repeated: Option<&'a str>,
        (min, max): (u64, Option<u64>),
    ) -> Result<(), RegexError> {
        let lazy = self.source.take("?");
        let rest = self.source.rest;
        let at = |from: &'a str| &from[..from.len() - rest.len()];
        let counted = before.starts_with('{');
        if counted && (min > MAX_REPEAT || max.is_some_and(|max| max > MAX_REPEAT || max < min)) {
            return Err(RegexError::syntax("invalid repeat count", at(before)));
        }
        if let Some(repeated) = repeated {
            return Err(RegexError::syntax("invalid nested repetition operator", at(repeated)));
        }
        let Some(mut item) = self.scope.last else {
            return Err(RegexError::syntax("missing argument to repetition operator", at(before)));
        };
        if counted {
            let factor = max.unwrap_or(min);
            item.copies = if max == Some(0) { 0 } else { factor * item.copies.max(1) };
            if (min >= 2 || factor >= 2) && item.copies > MAX_REPEAT {
                return Err(RegexError::syntax("invalid repeat count", at(before)));
            }
        }
        item.depth = self.deeper(item.depth)?;
        self.out.insert_str(item.start, "(?:");
        self.out.push(')');
        match (min, max) {
            (0, None) => self.out.push('*'),
            (1, None) => self.out.push('+'),
            (0, Some(1)) => self.out.push('?'),
            (min, None) => self.out.push_str(&format!("{{{min},}}")),
            (min, Some(max)) => self.out.push_str(&format!("{{{min},{max}}}")),
        }
        if lazy != self.flags.swap_greed {
            self.out.push('?');
        }
        self.scope.last = Some(item);
        self.repeated = Some(before);
        Ok(())
    }
}

/// Smallest and largest number of copies; `None` = no upper bound.
type Range = (u64, Option<u64>);

/// Reads `n}`, `n,}` or `n,m}`, and returns the rest. Anything else is not a repetition.
fn counts(rest: &str) -> Option<(Range, &str)> {
    let (min, rest) = number(rest)?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some(((min, Some(min)), rest));
    }
    let rest = rest.strip_prefix(',')?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some(((min, None), rest));
    }
    let (max, rest) = number(rest)?;
    Some(((min, Some(max)), rest.strip_prefix('}')?))
}

/// A decimal number without leading zeros; a number too large saturates.
fn number(rest: &str) -> Option<(u64, &str)> {
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, rest) = rest.split_at(end);
    if digits.is_empty() || digits.len() > 1 && digits.starts_with('0') {
        return None;
    }
    Some((digits.parse().unwrap_or(u64::MAX), rest))
}
