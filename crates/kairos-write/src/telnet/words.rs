//! The words of a line: runs between spaces, where a quote at the begin of a word and one at its end hold spaces
//! together.
//!
//! Every character up to the space is a space. A quote elsewhere is a part of its word, and there are no escapes. A
//! quoted word may be empty. Where no quote ends a word, the rest of the line is the word.

/// Iterates over the words of a line.
#[derive(Debug, Clone)]
pub(super) struct Words<'a> {
    line: &'a str,
    /// Where to look for the next word.
    at: usize,
}

impl<'a> Words<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        Self { line, at: 0 }
    }

    /// The rest of a word from `start` on, behind its quote. An inner `None` is no word: KairosDB takes a quote before
    /// a space for both quotes, and drops it.
    fn quoted(&mut self, start: usize) -> Option<Option<&'a str>> {
        let bytes = &self.line.as_bytes()[start..];
        if *bytes.first()? <= b' ' {
            self.at = start + 1;
            return Some(None);
        }
        let length = match bytes.windows(2).position(|pair| pair[0] == b'"' && pair[1] <= b' ') {
            Some(length) => {
                self.at = start + length + 2;
                length
            }
            None => {
                self.at = self.line.len();
                bytes.len() - usize::from(bytes.ends_with(b"\""))
            }
        };
        Some(Some(&self.line[start..start + length]))
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let bytes = self.line.as_bytes();
        loop {
            let start =
                self.at + bytes.get(self.at..)?.iter().take_while(|byte| is_space(byte)).count();
            if *bytes.get(start)? != b'"' {
                let length = bytes[start..].iter().position(is_space);
                self.at = length.map_or(bytes.len(), |length| start + length);
                return Some(&self.line[start..self.at]);
            }
            if let Some(word) = self.quoted(start + 1)? {
                return Some(word);
            }
        }
    }
}

fn is_space(byte: &u8) -> bool {
    *byte <= b' '
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together() {
        let cases: [(&str, &[&str]); 17] = [
            ("", &[]),
            (" \t ", &[]),
            ("put", &["put"]),
            (" put  a\tb\r", &["put", "a", "b"]),
            ("\"t 6\" 1", &["t 6", "1"]),
            ("1 \"a=b c\"", &["1", "a=b c"]),
            ("\"\" x", &["", "x"]),
            ("x \"\"", &["x", ""]),
            ("x \"", &["x"]),
            ("a\"b c\"", &["a\"b", "c\""]),
            ("\"a\"b\" c", &["a\"b", "c"]),
            ("\"open end ", &["open end "]),
            ("\" a\" b", &["a\"", "b"]),
            ("\"a \" b\" c", &["a ", "b\"", "c"]),
            ("\"a\"\"", &["a\""]),
            ("\"\"a\" b", &["\"a", "b"]),
            ("\" \" \" x", &["x"]),
        ];
        for (line, words) in cases {
            assert_eq!(Words::new(line).collect::<Vec<_>>(), words, "{line:?}");
        }
    }
}
