//! Numbers and times as text, as Prometheus writes them.
//!
//! Every form has the fewest digits that read back as the same float. Of two such numbers that are equally close, the
//! even one is used, as in Go; the standard library uses the larger. The forms differ in when they use an exponent:
//! sample values below 1e-6 and from 1e21 on, [`general`] (Go's `%g`) below 1e-4 and from 1e6 on, [`fixed`] never.

use std::fmt::Write as _;

/// Whole numbers below this are exact floats.
const WHOLE: f64 = (1_u64 << 53) as f64;
/// Floats that are no whole numbers in this range have no exponent in any form.
const PLAIN: std::ops::Range<f64> = 1e-4..1e15;

/// Without an exponent: for scalars, and for the labels that `count_values` makes.
pub fn fixed(value: f64) -> String {
    special(value).map_or_else(|| Digits::of(value).fixed(), str::to_owned)
}

/// The form of sample values in answers.
pub fn sample_value(value: f64) -> String {
    let mut text = String::with_capacity(24);
    push_sample_value(&mut text, value);
    text
}

/// Appends the text of [`sample_value`].
pub fn push_sample_value(text: &mut String, value: f64) {
    let size = value.abs();
    if size < WHOLE && value.trunc() == value && value.to_bits() != (-0.0f64).to_bits() {
        text.push_str(itoa::Buffer::new().format(value as i64));
    } else if PLAIN.contains(&size) {
        text.push_str(zmij::Buffer::new().format_finite(value));
    } else if size != 0.0 && !(1e-6..1e21).contains(&size) {
        text.push_str(&exponential(value));
    } else {
        text.push_str(&fixed(value));
    }
}

/// The form of numbers in messages: Go's `%g`.
pub fn general(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || special(value).is_some() {
        return fixed(value);
    }
    let digits = Digits::of(value);
    if (-4..6).contains(&digits.exponent) { digits.fixed() } else { digits.exponential() }
}

/// Go's `%.{digits}g`: at most `digits` significant digits, without trailing zeros.
pub fn general_rounded(value: f64, digits: usize) -> String {
    if value == 0.0 || special(value).is_some() {
        return fixed(value);
    }
    let rounded = format!("{value:.*e}", digits.saturating_sub(1));
    let exponent: i32 = rounded.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let value: f64 = rounded.parse().unwrap_or(value);
    if exponent < -4 || exponent >= digits as i32 { exponential(value) } else { fixed(value) }
}

/// Go's `%.{places}f`: `places` digits after the point.
pub fn fixed_places(value: f64, places: usize) -> String {
    special(value).map_or_else(|| format!("{value:.places$}"), str::to_owned)
}

/// The form of a quantile label in OpenMetrics: whole numbers end in `.0`.
pub fn open_metrics(value: f64) -> String {
    let mut text = general(value);
    if value.is_finite() && !text.contains(['.', 'e']) {
        text.push_str(".0");
    }
    text
}

/// Milliseconds as the seconds of an answer: whole, or with three decimals.
pub fn timestamp(milliseconds: i64) -> String {
    let mut text = String::with_capacity(16);
    push_timestamp(&mut text, milliseconds);
    text
}

/// Appends the text of [`timestamp`].
pub fn push_timestamp(text: &mut String, milliseconds: i64) {
    let size = milliseconds.unsigned_abs();
    if milliseconds < 0 {
        text.push('-');
    }
    let (seconds, rest) = (size / 1000, size % 1000);
    text.push_str(itoa::Buffer::new().format(seconds));
    if rest != 0 {
        let _ = write!(text, ".{rest:03}");
    }
}

/// Milliseconds in the form of RFC 3339, truncated to seconds.
pub fn rfc3339(milliseconds: i64) -> String {
    let seconds = milliseconds / 1000;
    match jiff::Timestamp::from_second(seconds) {
        Ok(time) => time.to_string(),
        Err(_) => seconds.to_string(),
    }
}

/// With an exponent that has a sign and at least two digits.
fn exponential(value: f64) -> String {
    special(value).map_or_else(|| Digits::of(value).exponential(), str::to_owned)
}

/// The fewest digits that read back as a finite float: `d.ddd` times ten to the exponent.
struct Digits {
    sign: &'static str,
    /// Without leading or trailing zeros; `0` for zero.
    digits: String,
    exponent: i32,
}

impl Digits {
    fn of(value: f64) -> Self {
        let sign = if value.is_sign_negative() { "-" } else { "" };
        let mut buffer = zmij::Buffer::new();
        let text = buffer.format_finite(value.abs());
        let (mantissa, scale) = text.split_once('e').unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = [whole, fraction].concat();
        let significant = all.trim_start_matches('0');
        let digits = significant.trim_end_matches('0');
        if digits.is_empty() {
            return Self { sign, digits: "0".into(), exponent: 0 };
        }
        let zeros = (all.len() - significant.len()) as i32;
        let exponent = scale.parse().unwrap_or(0) + whole.len() as i32 - 1 - zeros;
        Self { sign, digits: digits.into(), exponent }
    }

    fn fixed(&self) -> String {
        let Self { sign, digits, exponent } = self;
        match usize::try_from(*exponent) {
            Err(_) => {
                format!("{sign}0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1))
            }
            Ok(last) if digits.len() <= last + 1 => {
                format!("{sign}{digits}{}", "0".repeat(last + 1 - digits.len()))
            }
            Ok(last) => format!("{sign}{}.{}", &digits[..=last], &digits[last + 1..]),
        }
    }

    fn exponential(&self) -> String {
        let Self { sign, digits, exponent } = self;
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        format!("{sign}{first}{point}{rest}e{exponent:+03}")
    }
}

fn special(value: f64) -> Option<&'static str> {
    match value {
        v if v.is_nan() => Some("NaN"),
        f64::INFINITY => Some("+Inf"),
        f64::NEG_INFINITY => Some("-Inf"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(form: fn(f64) -> String, cases: &[(f64, &str)]) {
        for (value, want) in cases {
            assert_eq!(form(*value), *want, "{value:e}");
        }
    }

    #[test]
    fn sample_values() {
        check(
            sample_value,
            &[
                (0.0, "0"),
                (-0.0, "-0"),
                (0.1 + 0.2, "0.30000000000000004"),
                // Two numbers of 17 digits are equally close to these.
                (1_774_401_868_760_501.0 / 8.0, "221800233595062.62"),
                (1_774_401_868_760_499.0 / 8.0, "221800233595062.38"),
                (1e-6, "0.000001"),
                (1e-7, "1e-07"),
                (-1.5e-7, "-1.5e-07"),
                (5e-324, "5e-324"),
                (123456789012345680000.0, "123456789012345680000"),
                (1e21, "1e+21"),
                (-2.5e100, "-2.5e+100"),
                (f64::NAN, "NaN"),
                (f64::INFINITY, "+Inf"),
                (f64::NEG_INFINITY, "-Inf"),
            ],
        );
    }

    proptest! {
        #[test]
        fn the_quick_ways_write_the_same(bits in any::<u64>(), whole in any::<i64>(), places in 0..18) {
            let decimal = whole as f64 / 10f64.powi(places);
            let binary = whole as f64 / 2f64.powi(places);
            for value in [f64::from_bits(bits), whole as f64, (whole % 1000) as f64, decimal, binary] {
                let size = value.abs();
                let plain = size == 0.0 || (1e-6..1e21).contains(&size);
                let slow = if plain { fixed(value) } else { exponential(value) };
                prop_assert_eq!(sample_value(value), slow);
                for text in [fixed(value), exponential(value), general(value)] {
                    let read: f64 = text.parse().expect("a number");
                    prop_assert!(read.to_bits() == value.to_bits() || read.is_nan() && value.is_nan());
                }
            }
        }
    }

    #[test]
    fn fixed_has_no_exponent() {
        check(fixed, &[(1e21, "1000000000000000000000"), (1e-7, "0.0000001"), (-0.0, "-0")]);
    }

    #[test]
    fn general_is_percent_g() {
        check(
            general,
            &[
                (0.0, "0"),
                (25.0, "25"),
                (100000.0, "100000"),
                (1e6, "1e+06"),
                (1234567.0, "1.234567e+06"),
                (123456789.5, "1.234567895e+08"),
                (0.0001, "0.0001"),
                (0.00001, "1e-05"),
                (1e21, "1e+21"),
                (f64::NEG_INFINITY, "-Inf"),
            ],
        );
        check(
            |value| general_rounded(value, 2),
            &[(1.0, "1"), (0.123, "0.12"), (12.3, "12"), (123.0, "1.2e+02"), (1e-9, "1e-09")],
        );
        check(|value| fixed_places(value, 6), &[(0.5, "0.500000"), (f64::INFINITY, "+Inf")]);
        check(open_metrics, &[(1.0, "1.0"), (0.5, "0.5"), (0.0, "0.0"), (1e6, "1e+06")]);
    }

    #[test]
    fn timestamps() {
        for (milliseconds, want) in
            [(0, "0"), (1000, "1"), (1, "0.001"), (-1, "-0.001"), (1435781430780, "1435781430.780")]
        {
            assert_eq!(timestamp(milliseconds), want);
        }
        assert_eq!(rfc3339(1435781430780), "2015-07-01T20:10:30Z");
    }
}
