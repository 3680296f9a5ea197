//! Quotes and unquotes strings and characters.
//!
//! The escapes are Go's. A string of the language may hold bytes that are not UTF-8.

use std::fmt::Write as _;

/// The bytes of a string, given its text with the quotes. They need not be UTF-8.
pub(crate) fn unquote(text: &str) -> Vec<u8> {
    let inside = &text[1..text.len() - 1];
    let mut bytes = Vec::with_capacity(inside.len());
    let mut rest = inside;
    while let Some(at) = rest.find('\\').filter(|_| !text.starts_with('`')) {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        rest = unescape(&rest[at + 1..], &mut bytes);
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// Appends the value of the escape at the start of `text`, and returns the text after it.
fn unescape<'a>(text: &'a str, bytes: &mut Vec<u8>) -> &'a str {
    let kind = text.as_bytes().first().copied().unwrap_or_default();
    let (skip, digits, radix) = match kind {
        b'0'..=b'7' => (0, 3, 8),
        b'x' => (1, 2, 16),
        b'u' => (1, 4, 16),
        b'U' => (1, 8, 16),
        _ => {
            bytes.push(match kind {
                b'a' => 0x07,
                b'b' => 0x08,
                b'f' => 0x0C,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'v' => 0x0B,
                quote_or_backslash => quote_or_backslash,
            });
            return &text[1..];
        }
    };
    let (number, rest) = text[skip..].split_at(digits);
    let value = u32::from_str_radix(number, radix).unwrap_or_default();
    if matches!(kind, b'u' | b'U') {
        let c = char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER);
        bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        bytes.push(value as u8);
    }
    rest
}

/// The text in double quotes, with Go's escapes.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if c < ' ' || c == '\u{7f}' => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c if c.is_ascii() || is_printable(c) => out.push(c),
            c if (c as u32) < 0x1_0000 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => {
                let _ = write!(out, "\\U{:08x}", c as u32);
            }
        }
    }
    out.push('"');
    out
}

/// Bytes in double quotes, with Go's escapes.
pub fn quoted_bytes(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        let valid = quoted(chunk.valid());
        text += &valid[1..valid.len() - 1];
        for byte in chunk.invalid() {
            text += &format!("\\x{byte:02x}");
        }
    }
    text + "\""
}

/// A character in single quotes, with Go's escapes; U+FFFD for the end of the text.
pub(crate) fn quoted_char(c: Option<char>) -> String {
    match c {
        Some('\'') => r"'\''".into(),
        Some('"') => "'\"'".into(),
        Some(c) => {
            let text = quoted(c.encode_utf8(&mut [0; 4]));
            format!("'{}'", &text[1..text.len() - 1])
        }
        None => format!("'{}'", char::REPLACEMENT_CHARACTER),
    }
}

/// A character as Go's `%#U` prints it.
pub(crate) fn code_point(c: char) -> String {
    let code = format!("U+{:04X}", c as u32);
    if is_printable(c) { format!("{code} '{c}'") } else { code }
}

/// Whether Go prints a character unchanged: a letter, mark, number, punctuation, symbol or blank.
pub(crate) fn is_printable(c: char) -> bool {
    // The debug form of Rust escapes the same characters, and also marks that follow no character.
    let after_letter: String = ['x', c].iter().collect();
    let escaped = after_letter.escape_debug().count() > 2;
    !escaped || matches!(c, '"' | '\'' | '\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strings_stand_for() {
        let check = |text: &str, want: &[u8]| assert_eq!(unquote(text), want, "{text}");
        check(r#""""#, b"");
        check(r#""a\"b'\\n""#, br#"a"b'\n"#);
        check(r"'\x41\101\u00e9\U0001F600\''", "AA\u{e9}\u{1F600}'".as_bytes());
        check(r#""\a\b\f\n\r\t\v""#, b"\x07\x08\x0c\n\r\t\x0b");
        check(r"`\x41`", br"\x41");
        check(r#""\xff\377\0001é""#, b"\xff\xff\x001\xc3\xa9");
    }

    #[test]
    fn quotes_as_go_does() {
        assert_eq!(quoted("a\"\\\n\u{1}ü\u{200b}"), "\"a\\\"\\\\\\n\\x01ü\\u200b\"");
    }

    #[test]
    fn bytes_are_quoted_as_go_does() {
        assert_eq!(quoted_bytes(b"a\xff\"\n\xc3\xa9"), "\"a\\xff\\\"\\né\"");
    }

    #[test]
    fn characters() {
        let check = |c: char, quoted: &str, code: &str| {
            assert_eq!(quoted_char(Some(c)), quoted);
            assert_eq!(code_point(c), code);
        };
        check('q', "'q'", "U+0071 'q'");
        check('\'', r"'\''", "U+0027 '''");
        check('"', "'\"'", "U+0022 '\"'");
        check('\n', r"'\n'", "U+000A");
        check('\0', r"'\x00'", "U+0000");
        check('\u{301}', "'\u{301}'", "U+0301 '\u{301}'");
        check('\u{200b}', r"'\u200b'", "U+200B");
        check('\u{1F600}', "'\u{1F600}'", "U+1F600 '\u{1F600}'");
        assert_eq!(quoted_char(None), "'\u{fffd}'");
    }
}
