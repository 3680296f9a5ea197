//! Cuts long texts in reports: a label set may have 64 KiB. A text longer than a line or two is cut and its length
//! is printed. Bytes are printed in hexadecimal digits.

use std::fmt;

/// Bytes of a text that are printed.
const MOST_BYTES: usize = 300;

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A text that is printed whole if short, else as its beginning and its length.
pub struct Cut<'a>(pub &'a str);

impl fmt::Display for Cut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        match text.floor_char_boundary(MOST_BYTES) {
            end if end == text.len() => f.write_str(text),
            end => write!(f, "{}… ({} bytes)", &text[..end], text.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_cut_between_characters_and_says_how_long_it_is() {
        let shown = |text: &str| Cut(text).to_string();
        assert_eq!(shown(&"x".repeat(MOST_BYTES)), "x".repeat(MOST_BYTES));
        assert_eq!(shown(&"ä".repeat(151)), format!("{}… (302 bytes)", "ä".repeat(150)));
        assert_eq!(
            shown(&format!("x{}", "ä".repeat(150))),
            format!("x{}… (301 bytes)", "ä".repeat(149))
        );
    }
}
