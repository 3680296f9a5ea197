//! Texts to numbers as Java does it, with the texts of its `NumberFormatException`.
//!
//! Differences: only digits of ASCII are digits, and a double has no hexadecimal form. KairosDB takes digits of any
//! script in long values, and would store what looks like a text as a number.

/// `Long.parseLong`: a sign, and digits.
pub fn parse_long(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| for_input(text))
}

/// `Integer.parseInt`.
pub fn parse_int(text: &str) -> Result<i32, String> {
    text.parse().map_err(|_| for_input(text))
}

/// `Double.parseDouble`: spaces around, `NaN` and `Infinity`, and a suffix `d` or `f` are allowed.
pub fn parse_double(text: &str) -> Result<f64, String> {
    let trimmed = text.trim_matches(|c| c <= ' ');
    if trimmed.is_empty() {
        return Err("empty String".to_owned());
    }
    let (sign, rest) = match trimmed.as_bytes()[0] {
        b'-' => (-1.0, &trimmed[1..]),
        b'+' => (1.0, &trimmed[1..]),
        _ => (1.0, trimmed),
    };
    match rest {
        "NaN" => return Ok(f64::NAN),
        "Infinity" => return Ok(sign * f64::INFINITY),
        _ => {}
    }
    let digits = rest.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(rest);
    // Rust knows other names of infinity and NaN, which do not begin with these.
    if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && let Ok(value) = digits.parse::<f64>()
    {
        return Ok(sign * value);
    }
    let number = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.');
    if number.filter(|byte| *byte == b'.').count() > 1 {
        return Err("multiple points".to_owned());
    }
    Err(for_input(trimmed))
}

/// `BigDecimal.longValue` of a number of JSON: the lowest 64 bits of its integral part.
pub fn wrapped_long(number: &str) -> Result<i64, String> {
    if let Ok(value) = number.parse() {
        return Ok(value);
    }
    let (is_negative, rest) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number),
    };
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            (mantissa, exponent.parse::<i32>().map_err(|_| "Exponent overflow.".to_owned())?)
        }
        None => (rest, 0),
    };
    let (integral, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    // Where the point is, counted in digits from the first.
    let point = integral.len() as i64 + i64::from(exponent);
    let kept = usize::try_from(point.max(0)).unwrap_or(usize::MAX);
    let digits = integral.bytes().chain(fraction.bytes());
    let mut value = digits.take(kept).fold(0_u64, |value, digit| {
        value.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0')))
    });
    let zeros = point - (integral.len() + fraction.len()) as i64;
    // 10^64 is a multiple of 2^64.
    for _ in 0..zeros.clamp(0, 64) {
        value = value.wrapping_mul(10);
    }
    let value = value.cast_signed();
    Ok(if is_negative { value.wrapping_neg() } else { value })
}

fn for_input(text: &str) -> String {
    format!("For input string: \"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longs_wrap_as_in_java() {
        // Computed by java.math.BigDecimal's definition: the integral part modulo 2^64.
        let cases: [(&str, i64); 23] = [
            ("0", 0),
            ("-0", 0),
            ("7", 7),
            ("5.9", 5),
            ("-5.9", -5),
            ("-12.9", -12),
            ("5e-1", 0),
            ("1.25e1", 12),
            ("0.999", 0),
            ("1e5", 100_000),
            ("1.5E+1", 15),
            ("1.5e1", 15),
            ("123e-2", 1),
            ("123e-3", 0),
            ("-123.456e1", -1234),
            ("1700000000000.7", 1_700_000_000_000),
            ("9223372036854775807", i64::MAX),
            ("9223372036854775808", i64::MIN),
            ("-9223372036854775808", i64::MIN),
            ("99999999999999999999", 7_766_279_631_452_241_919),
            ("-99999999999999999999", -7_766_279_631_452_241_919),
            ("1e64", 0),
            ("3e2147483647", 0),
        ];
        for (number, long) in cases {
            assert_eq!(wrapped_long(number), Ok(long), "{number}");
        }
        assert_eq!(wrapped_long("1e63"), Ok(i64::MIN), "10^63 is 2^63 times an odd number");
        assert_eq!(wrapped_long("1e2147483648"), Err("Exponent overflow.".to_owned()));
    }

    #[test]
    fn doubles_have_the_forms_of_java() {
        let cases = [
            ("7.5", 7.5),
            (" 7.5\t", 7.5),
            (" 1.5d ", 1.5),
            ("+.5", 0.5),
            ("1.", 1.0),
            ("1.0e3", 1000.0),
            ("1.5f", 1.5),
            ("1e2D", 100.0),
            ("-Infinity", f64::NEG_INFINITY),
            ("1e400", f64::INFINITY),
        ];
        for (text, value) in cases {
            assert_eq!(parse_double(text), Ok(value), "{text}");
        }
        assert_eq!(parse_double("-0.0").map(f64::to_bits), Ok((-0.0_f64).to_bits()));
        assert!(["NaN", "-NaN"].iter().all(|text| parse_double(text).is_ok_and(f64::is_nan)));
        for (text, error) in [
            ("", "empty String"),
            (" ", "empty String"),
            ("abc ", "For input string: \"abc\""),
            ("-", "For input string: \"-\""),
            (".", "For input string: \".\""),
            ("1e", "For input string: \"1e\""),
            ("inf", "For input string: \"inf\""),
            ("nan", "For input string: \"nan\""),
            ("infinity", "For input string: \"infinity\""),
            ("1_0", "For input string: \"1_0\""),
            ("0x1p3", "For input string: \"0x1p3\""),
            ("1.2.3", "multiple points"),
            (".1.2", "multiple points"),
        ] {
            assert_eq!(parse_double(text), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn integers_have_a_sign_and_digits() {
        assert_eq!(parse_long("+5"), Ok(5));
        assert_eq!(parse_long(""), Err("For input string: \"\"".to_owned()));
        assert_eq!(parse_long("5 "), Err("For input string: \"5 \"".to_owned()));
        assert_eq!(parse_int("-600"), Ok(-600));
        assert_eq!(parse_int("3000000000"), Err("For input string: \"3000000000\"".to_owned()));
    }
}
