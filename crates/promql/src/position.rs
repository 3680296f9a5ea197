//! Positions in the text of a query.
//!
//! Positions are byte offsets from 0. They are printed as `line:column`, both from 1, the column
//! in bytes. Nothing here depends on the language.

use std::fmt;

/// A part of the text: from `start` up to, not including, `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// Its first byte.
    pub start: usize,
    /// The byte after its last.
    pub end: usize,
}

impl Span {
    /// From `start` up to `end`.
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// From the start of this one to the end of `last`.
    pub const fn to(self, last: Self) -> Self {
        Self { start: self.start, end: last.end }
    }

    /// Where it starts in `text`.
    pub fn line_column(self, text: &str) -> LineColumn {
        let before = &text.as_bytes()[..self.start.min(text.len())];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        LineColumn { line, column: before.len() - line_start + 1 }
    }
}

/// A position in a text; printed as `line:column`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineColumn {
    /// From 1.
    pub line: usize,
    /// In bytes, from 1.
    pub column: usize,
}

impl fmt::Display for LineColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_and_in_bytes() {
        let check = |text: &str, start: usize, want: &str| {
            assert_eq!(Span::new(start, start).line_column(text).to_string(), want, "{text:?}");
        };
        check("", 0, "1:1");
        check("abc", 2, "1:3");
        check("é+", 2, "1:3");
        check("a\nbc", 1, "1:2");
        check("a\nbc", 2, "2:1");
        check("a\nbc", 99, "2:3");
    }
}
