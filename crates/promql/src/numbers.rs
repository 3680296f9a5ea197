//! The values of numbers and durations, and durations as text.
//!
//! Numbers have Go's syntax: a leading `0` means octal, `0x` hexadecimal, and `_` may be between
//! digits. Durations have Prometheus' syntax: whole numbers with units, from years down to
//! milliseconds, each unit at most once. Errors have Prometheus' texts.

use super::go_float::{go_float, separators_fit};
use super::operator::Sign;
use super::position::Span;
use super::strings::quoted;

/// A number. A duration is a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Number {
    /// The value.
    pub value: f64,
    /// How it was written.
    pub notation: Notation,
    /// The span in the text.
    pub span: Span,
}

impl Number {
    /// The number with a sign before it; `span` covers both.
    pub(crate) fn signed(self, sign: Sign, span: Span) -> Self {
        let value = if sign == Sign::Minus { -self.value } else { self.value };
        Self { value, span, ..self }
    }
}

/// How a number was written. It is printed in the same notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// `300`
    Plain,
    /// `5m`
    Duration,
}

/// The value of a number without a sign.
pub(crate) fn number(text: &str) -> Result<f64, String> {
    match integer(text) {
        Some(integer) => Ok(integer as f64),
        None => go_float(text).map_err(|why| {
            format!("error parsing number: strconv.ParseFloat: parsing {}: {why}", quoted(text))
        }),
    }
}

fn integer(text: &str) -> Option<i64> {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    separators_fit(text).then(|| i64::from_str_radix(&digits.replace('_', ""), radix).ok())?
}

/// Units with their nanoseconds, longest first.
const UNITS: [(&str, u64); 7] = [
    ("y", 365 * 86_400_000_000_000),
    ("w", 7 * 86_400_000_000_000),
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
];

/// Nanoseconds of a duration without a sign.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    match text {
        "0" => return Ok(0),
        "" => return Err("empty duration string".into()),
        _ => {}
    }
    let malformed = || format!("not a valid duration string: {}", quoted(text));
    let too_long = || "duration out of range".to_owned();
    let (mut rest, mut sum, mut units) = (text, 0_u64, &UNITS[..]);
    while !rest.is_empty() {
        let (count, after) = split_while(rest, |c| c.is_ascii_digit());
        let count: u64 = count.parse().map_err(|_| malformed())?;
        let (unit, after) = split_while(after, |c| !c.is_ascii_digit());
        if unit.is_empty() {
            return Err(malformed());
        }
        if UNITS.iter().all(|(name, _)| *name != unit) {
            return Err(format!("unknown unit {} in duration {}", quoted(unit), quoted(text)));
        }
        let at = units.iter().position(|(name, _)| *name == unit).ok_or_else(malformed)?;
        let nanoseconds = units[at].1;
        if count > (1 << 63) / nanoseconds {
            return Err(too_long());
        }
        sum += count * nanoseconds;
        if sum > i64::MAX as u64 {
            return Err(too_long());
        }
        units = &units[at + 1..];
        rest = after;
    }
    Ok(sum as i64)
}

fn split_while(text: &str, fits: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !fits(c)).unwrap_or(text.len()))
}

/// Milliseconds as a duration: `1h30m`. Years and weeks are used only if nothing is left over.
pub fn format_duration(millis: i64) -> String {
    let mut text = String::from(if millis < 0 { "-" } else { "" });
    let mut rest = millis.unsigned_abs();
    if rest == 0 {
        return "0s".into();
    }
    for (unit, nanoseconds) in UNITS {
        let length = nanoseconds / 1_000_000;
        if matches!(unit, "y" | "w") && !rest.is_multiple_of(length) {
            continue;
        }
        if rest >= length {
            text += &format!("{}{unit}", rest / length);
            rest %= length;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let check = |text: &str, want: f64| assert_eq!(number(text), Ok(want), "{text}");
        check("0", 0.0);
        check("010", 8.0);
        check("08", 8.0);
        check("0_7", 7.0);
        check("0x1F", 31.0);
        check("0X_1_f", 31.0);
        check("1_000.5e1_0", 1000.5e10);
        check(".5", 0.5);
        check("5.", 5.0);
        check("Inf", f64::INFINITY);
        check("9223372036854775808", 9223372036854775808.0);
        check("1e-400", 0.0);
        assert!(number("nan").is_ok_and(f64::is_nan));
    }

    #[test]
    fn no_numbers() {
        let check = |text: &str, why: &str| {
            let want =
                format!("error parsing number: strconv.ParseFloat: parsing \"{text}\": {why}");
            assert_eq!(number(text), Err(want));
        };
        check("0x", "invalid syntax");
        check("0x_", "invalid syntax");
        check("1_", "invalid syntax");
        check("1__0", "invalid syntax");
        check("0x8000000000000000", "invalid syntax");
        check("1e400", "value out of range");
        check("1.2.3", "invalid syntax");
    }

    #[test]
    fn durations() {
        let check = |text: &str, want: Result<i64, &str>| {
            assert_eq!(parse_duration(text), want.map_err(str::to_owned), "{text}");
        };
        check("0", Ok(0));
        check("1ms", Ok(1_000_000));
        check("1h30m", Ok(5_400_000_000_000));
        check("1y2w3d4h5m6s7ms", Ok(33_019_506_007_000_000));
        check("0s", Ok(0));
        check("", Err("empty duration string"));
        check("5", Err("not a valid duration string: \"5\""));
        check("m", Err("not a valid duration string: \"m\""));
        check("5m1h", Err("not a valid duration string: \"5m1h\""));
        check("5m5m", Err("not a valid duration string: \"5m5m\""));
        check("1.5m", Err("unknown unit \".\" in duration \"1.5m\""));
        check("5ys", Err("unknown unit \"ys\" in duration \"5ys\""));
        check("293y", Err("duration out of range"));
        check("292y9999h", Err("duration out of range"));
        check(
            "99999999999999999999s",
            Err("not a valid duration string: \"99999999999999999999s\""),
        );
    }

    #[test]
    fn durations_as_text() {
        let check = |millis: i64, want: &str| assert_eq!(format_duration(millis), want);
        check(0, "0s");
        check(1, "1ms");
        check(5_400_000, "1h30m");
        check(604_800_000, "1w");
        check(691_200_000, "8d");
        check(31_536_000_000, "1y");
        check(31_536_000_001, "365d1ms");
        check(-60_000, "-1m");
    }
}
