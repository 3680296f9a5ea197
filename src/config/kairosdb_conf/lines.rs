//! Where the keys of a HOCON text stand, for errors: the parser that understands the text tells no lines.
//!
//! Read is only what keys need: tables, lists, texts between quotes, comments. Of a key that is there
//! several times the last one counts, as HOCON has it. What is wrong in the text is no trouble here, and
//! what an `include` or a substitution brings has no line.

use super::super::table::Lines;

/// The lines of all keys, and of the items of lists, by their paths from the top: `a.b[0].c`. Quotes do
/// not stand in a path. And the line of a brace or bracket that has no other half, if there is one.
pub(super) fn lines(text: &str) -> (Lines, Option<usize>) {
    let mut scan = Scan { rest: text, line: 1 };
    let (mut lines, mut alone) = (Lines::new(), None);
    // The text as a whole is a table that nothing closes.
    let mut top = Open { path: String::new(), items: 0, end: '}', line: 0 };
    let mut open = Vec::<Open>::new();
    while let Some(next) = scan.next_of_interest() {
        let (path, items) = match next {
            '}' | ']' => {
                scan.skip(1);
                let Some(closed) = open.pop() else {
                    alone = alone.or(Some(scan.line));
                    continue;
                };
                // Of another kind: the one that it would close was forgotten, or its own.
                if closed.end != next {
                    alone = alone.or(Some(closed.line));
                }
                // What stands behind it on its line goes on with the value.
                (closed.path, closed.items)
            }
            _ => (open.last_mut().unwrap_or(&mut top).place(next, &mut scan, &mut lines), 0),
        };
        // A table or a list may follow a substitution, which it adds to.
        scan.text(&['\n', ',', '{', '}', '[', ']', '#']);
        let end = match scan.rest.chars().next() {
            Some('{') => '}',
            Some('[') => ']',
            _ => continue,
        };
        open.push(Open { path, items, end, line: scan.line });
        scan.skip(1);
    }
    (lines, alone.or(open.pop().map(|open| open.line)))
}

/// A table or a list that is open at a place of the text.
struct Open {
    path: String,
    /// How many items a list has had.
    items: usize,
    /// What closes it, which says the kind too.
    end: char,
    /// The line of its beginning.
    line: usize,
}

impl Open {
    /// The path of what begins with `next`, up to its value. Keys and items get their line.
    fn place(&mut self, next: char, scan: &mut Scan<'_>, lines: &mut Lines) -> String {
        let line = scan.line;
        let path = match (self.end, next) {
            (']', _) => {
                self.items += 1;
                format!("{}[{}]", self.path, self.items - 1)
            }
            // Braces around the whole text.
            (_, '{' | '[') => return self.path.clone(),
            _ => {
                let dot = if self.path.is_empty() { "" } else { "." };
                let path = [self.path.as_str(), &scan.key()].join(dot);
                scan.skip_separator();
                path
            }
        };
        lines.insert(path.clone(), line);
        path
    }
}

/// A text that is read from its beginning.
struct Scan<'a> {
    rest: &'a str,
    /// Line, from 1.
    line: usize,
}

impl Scan<'_> {
    /// Goes on by so many bytes, which end between characters.
    fn skip(&mut self, bytes: usize) {
        let (gone, rest) = self.rest.split_at(bytes);
        self.line += gone.matches('\n').count();
        self.rest = rest;
    }

    /// Skips white space and comments.
    fn skip_blank(&mut self) {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.skip(blank);
            match self.comment() {
                Some(length) => self.skip(length),
                None => return,
            }
        }
    }

    /// Bytes of the comment that begins here, if one does: up to the end of its line.
    fn comment(&self) -> Option<usize> {
        let begins = self.rest.starts_with('#') || self.rest.starts_with("//");
        begins.then(|| self.rest.find('\n').unwrap_or(self.rest.len()))
    }

    /// The first character that is more than a separator; `None` at the end.
    fn next_of_interest(&mut self) -> Option<char> {
        self.skip_blank();
        while self.rest.starts_with(',') {
            self.skip(1);
            self.skip_blank();
        }
        self.rest.chars().next()
    }

    /// A key as it is meant: without its quotes. It has at least one character, whatever it is.
    fn key(&mut self) -> String {
        let key = self.text(&[':', '=', '{', '+', '\n', ',', '}']);
        if key.is_empty() {
            self.skip(self.rest.chars().next().map_or(0, char::len_utf8));
        }
        key.split('"').map(str::trim).collect()
    }

    /// Skips what stands between a key and its value.
    fn skip_separator(&mut self) {
        self.skip_blank();
        let separators = self.rest.len() - self.rest.trim_start_matches(['+', ':', '=']).len();
        self.skip(separators);
        self.skip_blank();
    }

    /// Text up to one of these characters, as it is written; what is between quotes does not end it, nor does
    /// the name of a substitution.
    fn text(&mut self, ends: &[char]) -> String {
        let begun = self.rest;
        while let Some(next) = self.rest.chars().next() {
            let length = if next == '"' {
                quoted(self.rest)
            } else if self.rest.starts_with("${") {
                self.rest.find('}').map_or(self.rest.len(), |at| at + 1)
            } else if ends.contains(&next) || self.rest.starts_with("//") {
                break;
            } else {
                next.len_utf8()
            };
            self.skip(length);
        }
        begun[..begun.len() - self.rest.len()].to_owned()
    }
}

/// The line of the first character outside ASCII that is neither between quotes nor in a comment, if there
/// is one.
pub(super) fn bare_beyond_ascii(text: &str) -> Option<usize> {
    let mut scan = Scan { rest: text, line: 1 };
    while let Some(next) = scan.rest.chars().next() {
        let length = match (next, scan.comment()) {
            ('"', _) => quoted(scan.rest),
            (_, Some(comment)) => comment,
            (next, None) if next.is_ascii() => 1,
            _ => return Some(scan.line),
        };
        scan.skip(length);
    }
    None
}

/// Bytes of the text between quotes at the beginning of this, quotes included: all of it where they do not
/// end.
fn quoted(text: &str) -> usize {
    if let Some(long) = text.strip_prefix("\"\"\"") {
        return long.find("\"\"\"").map_or(text.len(), |at| at + 6);
    }
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|&(_, c)| {
        let is_end = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        is_end
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_lines_however_they_are_written() {
        let text = "# a: 1\na {\n  \"b c\": {d = x, \"e\": \"{ # \\\" no key: 1\" } // f: 2\n}\n\
                    a.g += [1, [2],\n  {h: ${?i.j}}\n]\nk: \"\"\"\nl: 1\n\"\"\"\na.g: 3\n\
                    m: ${a} {\n n: 1 }";
        let want = [
            ("a", 2),
            ("a.b c", 3),
            ("a.b c.d", 3),
            ("a.b c.e", 3),
            ("a.g", 11),
            ("a.g[0]", 5),
            ("a.g[1]", 5),
            ("a.g[1][0]", 5),
            ("a.g[2]", 6),
            ("a.g[2].h", 6),
            ("k", 8),
            ("m", 12),
            ("m.n", 13),
        ];
        let (found, alone) = lines(text);
        assert_eq!(alone, None);
        let found: Vec<(&str, usize)> = found.iter().map(|(p, line)| (p.as_str(), *line)).collect();
        assert_eq!(found, want);
        assert_eq!(lines("{\n\"a\":\n{\"b\":1}}").0.get("a.b"), Some(&3));
    }

    #[test]
    fn values_of_several_parts_are_one() {
        let text =
            "a {\nb: [1] ${?x}\nc: [2\n] [3, 4\n] # d: 0\ne { f: 1 } {\ng: 2 } ${?y}\nh: 3\n}";
        let (found, alone) = lines(text);
        assert_eq!(alone, None);
        let found: Vec<(&str, usize)> = found.iter().map(|(p, line)| (p.as_str(), *line)).collect();
        let want = [
            ("a", 1),
            ("a.b", 2),
            ("a.b[0]", 2),
            ("a.c", 3),
            ("a.c[0]", 3),
            ("a.c[1]", 4),
            ("a.c[2]", 4),
            ("a.e", 6),
            ("a.e.f", 6),
            ("a.e.g", 7),
            ("a.h", 8),
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn characters_outside_ascii_are_found_where_nothing_is_around_them() {
        for (text, line) in [
            ("# ä\n// ö\na: \"ü\" # ä\n\"ß\": \"\\\"é\"", None),
            ("a: \"\"\"\nä\"\n\"\"\"", None),
            ("a: 1\nb: \"ä\"\nc.д: 2", Some(3)),
            ("a: 1\n\u{a0}b: 2", Some(2)),
            ("a: ${ä}", Some(1)),
            ("a: \"\\\\\"ä", Some(1)),
            ("a / b: ä", Some(1)),
            ("\"ä", None),
            ("", None),
        ] {
            assert_eq!(bare_beyond_ascii(text), line, "{text}");
        }
    }

    #[test]
    fn what_is_no_hocon_has_an_end() {
        for (text, alone) in [
            ("}", Some(1)),
            ("a: 1\n]\n}", Some(2)),
            ("a {\nb: [\n1", Some(2)),
            ("a {\nb: [\n1\n}\nc: 2\n}", Some(2)),
            ("a {\nb: [1}\n}", Some(2)),
            ("a {\nb: [\n1]\n", Some(1)),
            ("a", None),
            (":", None),
            ("=\n:", None),
            ("\"", None),
            ("a: \"b }", None),
            ("a: \"\"\" }", None),
            ("${", None),
            ("ä=\"ä", None),
            ("//", None),
        ] {
            assert_eq!(lines(text).1, alone, "{text}");
        }
        assert_eq!(lines("} a: 1\n] b: 2").0.get("b"), Some(&2));
    }
}
