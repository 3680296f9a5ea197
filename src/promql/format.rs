//! Numbers and times as text, as Prometheus writes them.
//!
//! Every form has the fewest digits that read back as the same float. They differ in when they
//! change to an exponent: sample values below 1e-6 and from 1e21 on, [`general`] (Go's `%g`)
//! below 1e-4 and from 1e6 on, [`fixed`] never.

use std::fmt::Write as _;

/// Never with an exponent: scalars, and what `count_values` makes a label of.
pub fn fixed(value: f64) -> String {
    special(value).map_or_else(|| value.to_string(), str::to_owned)
}

/// As sample values are answered.
pub fn sample_value(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) { exponential(value) } else { fixed(value) }
}

/// As numbers stand in texts: Go's `%g`.
pub fn general(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || special(value).is_some() {
        return fixed(value);
    }
    let text = format!("{value:e}");
    let exponent: i32 = text.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    if (-4..6).contains(&exponent) { fixed(value) } else { exponential(value) }
}

/// Go's `%.{digits}g`: so many digits, and no zeros at the end.
pub fn general_rounded(value: f64, digits: usize) -> String {
    if value == 0.0 || special(value).is_some() {
        return fixed(value);
    }
    let rounded = format!("{value:.*e}", digits.saturating_sub(1));
    let exponent: i32 = rounded.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let value: f64 = rounded.parse().unwrap_or(value);
    if exponent < -4 || exponent >= digits as i32 { exponential(value) } else { fixed(value) }
}

/// Go's `%.{places}f`: so many digits after the point.
pub fn fixed_places(value: f64, places: usize) -> String {
    special(value).map_or_else(|| format!("{value:.places$}"), str::to_owned)
}

/// As OpenMetrics writes the label of a quantile: whole numbers end in `.0`.
pub fn open_metrics(value: f64) -> String {
    let mut text = general(value);
    if value.is_finite() && !text.contains(['.', 'e']) {
        text.push_str(".0");
    }
    text
}

/// Milliseconds as the seconds of an answer: whole, or with three decimals.
pub fn timestamp(milliseconds: i64) -> String {
    let size = milliseconds.unsigned_abs();
    let mut text = String::with_capacity(16);
    if milliseconds < 0 {
        text.push('-');
    }
    let (seconds, rest) = (size / 1000, size % 1000);
    let _ = write!(text, "{seconds}");
    if rest != 0 {
        let _ = write!(text, ".{rest:03}");
    }
    text
}

/// Milliseconds as the second they lie in, as RFC 3339 has it.
pub fn rfc3339(milliseconds: i64) -> String {
    let seconds = milliseconds / 1000;
    match jiff::Timestamp::from_second(seconds) {
        Ok(time) => time.to_string(),
        Err(_) => seconds.to_string(),
    }
}

/// With an exponent of a sign and at least two digits.
fn exponential(value: f64) -> String {
    if let Some(text) = special(value) {
        return text.to_owned();
    }
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.strip_prefix('-') {
        Some(digits) => format!("{mantissa}e-{digits:0>2}"),
        None => format!("{mantissa}e+{exponent:0>2}"),
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
