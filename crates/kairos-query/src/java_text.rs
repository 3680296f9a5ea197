//! Texts as Java writes and orders them, and as org.json quotes them.
//!
//! Doubles are the shortest text that reads back as the same bits, as in Java since 19.

use std::cmp::Ordering;

/// A text in Java's order, which is by UTF-16 units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JavaText(pub(crate) String);

impl Ord for JavaText {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0)
    }
}

impl PartialOrd for JavaText {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// `String.compareTo`.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}

/// `Double.compareTo`: all NaNs are equal, and greater than all else.
pub(crate) fn compare_doubles(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => a.total_cmp(&b),
        (a, b) => a.cmp(&b),
    }
}

/// `Math.max`.
pub(crate) fn max(a: f64, b: f64) -> f64 {
    if compare_doubles(a, b) == Ordering::Less { b } else { a }
}

/// `Math.min`, which is NaN if one is.
pub(crate) fn min(a: f64, b: f64) -> f64 {
    match a.is_nan() || (!b.is_nan() && compare_doubles(a, b) != Ordering::Greater) {
        true => a,
        false => b,
    }
}

/// `Double.toString`.
pub(crate) fn double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_infinite() {
        return format!("{sign}Infinity");
    }
    let (digits, exponent) = shortest(value.abs());
    let point = exponent + 1;
    match value.abs() {
        0.0 => format!("{sign}0.0"),
        size if (1e-3..1.0).contains(&size) => {
            format!("{sign}0.{}{digits}", "0".repeat((-point).unsigned_abs() as usize))
        }
        size if (1.0..1e7).contains(&size) => {
            let whole = point.unsigned_abs() as usize;
            let padded = format!("{digits:0<width$}", width = whole + 1);
            let (whole, fraction) = padded.split_at(whole);
            format!("{sign}{whole}.{fraction}")
        }
        _ => {
            let (first, rest) = digits.split_at(1);
            let rest = if rest.is_empty() { "0" } else { rest };
            format!("{sign}{first}.{rest}E{exponent}")
        }
    }
}

/// Significant digits and the exponent of the first. Of texts of one digit Java takes the nearest of two digits.
fn shortest(value: f64) -> (String, i32) {
    let mut text = format!("{value:e}");
    if text.find('e') == Some(1) {
        let longer = format!("{value:.1e}");
        if longer.parse() == Ok(value) {
            text = longer;
        }
    }
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mut digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    digits.truncate(digits.trim_end_matches('0').len().max(1));
    (digits, exponent.parse().unwrap_or_default())
}

/// A finite double as an answer has it: integers without `.0` unless they have an exponent.
pub(crate) fn write_double(out: &mut Vec<u8>, value: f64) {
    // Most points, and far faster.
    if value.abs() < 1e7 && value.fract() == 0.0 && (value != 0.0 || value.is_sign_positive()) {
        return write_long(out, value as i64);
    }
    let text = double(value);
    let text = if text.contains('E') { &text } else { text.strip_suffix(".0").unwrap_or(&text) };
    out.extend_from_slice(text.as_bytes());
}

/// A long.
pub(crate) fn write_long(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// A string in quotes, as `org.json` writes it: in answers.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut before = '\0';
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend([b'\\', c as u8]),
            '/' if before == '<' => out.extend(b"\\/"),
            '\u{8}' => out.extend(b"\\b"),
            '\t' => out.extend(b"\\t"),
            '\n' => out.extend(b"\\n"),
            '\u{c}' => out.extend(b"\\f"),
            '\r' => out.extend(b"\\r"),
            '\0'..='\x1f' | '\u{80}'..='\u{9f}' | '\u{2000}'..='\u{20ff}' => {
                out.extend(format!("\\u{:04x}", c as u32).into_bytes());
            }
            _ => out.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        before = c;
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_in_java() {
        let cases = [
            (1.234_567_890_133_459_2E16, "1.2345678901334592E16"),
            (1e7, "1.0E7"),
            (9_999_999.5, "9999999.5"),
            (100.0, "100.0"),
            (0.001, "0.001"),
            (0.012_3, "0.0123"),
            (9.99e-4, "9.99E-4"),
            (-0.0, "-0.0"),
            (0.0, "0.0"),
            (2e23, "2.0E23"),
            (f64::from_bits(1), "4.9E-324"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
            (-1.5, "-1.5"),
        ];
        for (value, text) in cases {
            assert_eq!(double(value), text);
        }
    }

    #[test]
    fn answers_have_no_zeros_after_the_point() {
        let text = |value| {
            let mut out = Vec::new();
            write_double(&mut out, value);
            String::from_utf8(out).expect("valid")
        };
        assert_eq!(
            [2.0, -0.0, 1e7, 9_999_999.0, -3.0, 2.25, 1e-5].map(text),
            ["2", "-0", "1.0E7", "9999999", "-3", "2.25", "1.0E-5"]
        );
    }

    #[test]
    fn texts_are_ordered_by_utf16() {
        assert_eq!(compare("\u{ffff}", "\u{10000}"), Ordering::Greater);
        assert_eq!(compare("a", "ab"), Ordering::Less);
    }

    #[test]
    fn texts_are_quoted_as_by_org_json() {
        let mut out = Vec::new();
        write_text(&mut out, "a\"\\</b>\u{1}\u{85}\u{2028}ü/");
        assert_eq!(String::from_utf8(out).expect("valid"), r#""a\"\\<\/b>\u0001\u0085\u2028ü/""#);
    }
}
