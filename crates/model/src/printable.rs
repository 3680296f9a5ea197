//! Makes text from outside safe for a terminal or a log: characters that move the cursor, change
//! colours, end the line or change the direction of writing are escaped.
//!
//! The escapes `\n`, `\r`, `\t` and `\uhhhh` mean the same in PromQL's double-quoted strings and in
//! JSON. The text is not quoted: a backslash or a quote in it stays as it is.

use std::fmt::{self, Display, Formatter};

/// Displays a text with its unprintable characters escaped.
#[derive(Debug, Clone, Copy)]
pub struct Printable<'a>(pub &'a str);

/// Whether a terminal may interpret or hide this character: control characters, line and paragraph separators, and
/// characters that change the direction of writing (Unicode Bidirectional Algorithm, UAX #9).
pub fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
        )
}

impl Display for Printable<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        let unprintable = |&(_, character): &(usize, char)| is_unprintable(character);
        while let Some((at, character)) = rest.char_indices().find(unprintable) {
            f.write_str(&rest[..at])?;
            match character {
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                // All unprintable characters are in the first plane, so four digits are enough.
                other => write!(f, "\\u{:04x}", u32::from(other))?,
            }
            rest = &rest[at + character.len_utf8()..];
        }
        f.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_acts_on_is_left() {
        let all = ('\0'..=char::MAX).collect::<String>();
        let shown = Printable(&all).to_string();
        assert!(!shown.contains(is_unprintable));
        let escaped = all.chars().filter(|&character| is_unprintable(character));
        assert!(escaped.clone().all(|character| u32::from(character) <= 0xffff));
        // Three characters become two each, all others six each.
        let other = escaped.clone().count() - 3;
        let bytes = escaped.map(char::len_utf8).sum::<usize>();
        assert_eq!(shown.len(), all.len() - bytes + 3 * 2 + other * 6);
    }

    #[test]
    fn escapes_are_those_of_json_too() {
        let text = "a\nb\r\tc\0\u{1b}[31m\u{7f}\u{85}\u{202e}é\u{2069}";
        let shown = Printable(text).to_string();
        assert_eq!(shown, "a\\nb\\r\\tc\\u0000\\u001b[31m\\u007f\\u0085\\u202eé\\u2069");
        let back: String = serde_json::from_str(&format!("\"{shown}\"")).expect("JSON");
        assert_eq!(back, text);
    }
}
