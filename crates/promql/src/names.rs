//! Names of metrics and labels in the text of a query: which of them need no quotes.
//!
//! A name that needs no quotes is printed without them, so the printed text parses to the same tree. Quotes allow any
//! name. Colons are handled elsewhere.

use std::cell::OnceCell;

use regex_syntax::hir::{ClassUnicode, HirKind};

/// The characters of names without quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// Letters and digits of ASCII, and `_`.
    Ascii,
    /// Also letters of all scripts, and dots after the first character.
    Unicode,
}

/// Checks the characters of names.
#[derive(Debug)]
pub(crate) struct NameRule {
    names: Names,
    /// All letters of Unicode; loaded for the first character that is not ASCII.
    letters: OnceCell<ClassUnicode>,
}

impl NameRule {
    pub(crate) fn new(names: Names) -> Self {
        Self { names, letters: OnceCell::new() }
    }

    /// Whether a name can begin with this character.
    pub(crate) fn starts(&self, c: char) -> bool {
        c.is_ascii_alphabetic() || c == '_' || self.names == Names::Unicode && self.is_letter(c)
    }

    /// Whether a name can have this character after the first one.
    pub(crate) fn continues(&self, c: char) -> bool {
        c.is_ascii_digit() || self.starts(c) || self.names == Names::Unicode && c == '.'
    }

    /// Whether a name needs no quotes.
    pub(crate) fn is_plain(&self, name: &str) -> bool {
        let mut chars = name.chars();
        chars.next().is_some_and(|c| self.starts(c)) && chars.all(|c| self.continues(c))
    }

    /// Whether it is a letter outside ASCII.
    fn is_letter(&self, c: char) -> bool {
        let letters = || match regex_syntax::parse("\\p{L}").map(|class| class.into_kind()) {
            Ok(HirKind::Class(regex_syntax::hir::Class::Unicode(letters))) => letters,
            _ => ClassUnicode::empty(),
        };
        !c.is_ascii() && {
            let ranges = self.letters.get_or_init(letters).ranges();
            let at = ranges.partition_point(|range| range.end() < c);
            ranges.get(at).is_some_and(|range| range.start() <= c)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_all_scripts_and_dots() {
        let (ascii, unicode) = (NameRule::new(Names::Ascii), NameRule::new(Names::Unicode));
        for (name, in_ascii, in_unicode) in [
            ("up_2", true, true),
            ("", false, false),
            ("2up", false, false),
            ("http.status", false, true),
            (".status", false, false),
            ("größe", false, true),
            ("温度", false, true),
            ("a-b", false, false),
            ("a b", false, false),
            // A digit, a mark and a number that are not ASCII.
            ("a\u{664}", false, false),
            ("a\u{301}", false, false),
            ("\u{2168}", false, false),
        ] {
            assert_eq!(
                (ascii.is_plain(name), unicode.is_plain(name)),
                (in_ascii, in_unicode),
                "{name}"
            );
        }
    }
}
