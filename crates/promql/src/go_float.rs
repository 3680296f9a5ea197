//! Parses floats as Go's `strconv.ParseFloat` does: in labels, in parameters and in expressions.
//!
//! Floats are decimal, or hexadecimal with a binary exponent (`0x1p-2`). `_` may be between digits. `Inf`, `Infinity`
//! and `NaN` are accepted in any case. The value is the nearest float, or the even one of two. Expressions accept
//! more forms of whole numbers: see `numbers`.

/// Why a text is no float.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoFloat {
    /// It does not have the form of a float.
    #[error("invalid syntax")]
    Syntax,
    /// It is beyond the finite floats.
    #[error("value out of range")]
    Range,
}

/// Bits of the mantissa of a float, the hidden one included.
const MANTISSA: i64 = 53;
/// Exponents of the smallest and the largest normal float.
const LEAST: i64 = -1022;
const MOST: i64 = 1023;

/// Parses `text`.
pub fn go_float(text: &str) -> Result<f64, NoFloat> {
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => (-1.0, &text[1..]),
        Some(b'+') => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if ["inf", "infinity"].iter().any(|word| digits.eq_ignore_ascii_case(word)) {
        return Ok(sign * f64::INFINITY);
    }
    if text.eq_ignore_ascii_case("nan") {
        return Ok(f64::NAN);
    }
    if !separators_fit(digits) {
        return Err(NoFloat::Syntax);
    }
    let plain = digits.replace('_', "");
    let hexadecimal = plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X"));
    let value = match hexadecimal {
        Some(digits) => hexadecimal_float(digits)?,
        None if plain.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
            plain.parse().map_err(|_| NoFloat::Syntax)?
        }
        None => return Err(NoFloat::Syntax),
    };
    if f64::is_infinite(value) { Err(NoFloat::Range) } else { Ok(sign * value) }
}

/// Whether each `_` is between digits, or between `0x` and a digit.
pub(crate) fn separators_fit(text: &str) -> bool {
    let hex = text.starts_with("0x") || text.starts_with("0X");
    let is_digit = |b: u8| if hex { b.is_ascii_hexdigit() } else { b.is_ascii_digit() };
    let bytes = text.as_bytes();
    (0..bytes.len()).filter(|&at| bytes[at] == b'_').all(|at| {
        let before = at > 0 && (is_digit(bytes[at - 1]) || (hex && at == 2));
        before && bytes.get(at + 1).is_some_and(|&b| is_digit(b))
    })
}

/// Parses what follows `0x`: hexadecimal digits, at most one point among them, and an exponent. Infinite = out of
/// range.
fn hexadecimal_float(text: &str) -> Result<f64, NoFloat> {
    let (digits, power) = text.split_once(['p', 'P']).ok_or(NoFloat::Syntax)?;
    let unsigned = power.strip_prefix(['+', '-']).unwrap_or(power);
    let points = digits.bytes().filter(|byte| *byte == b'.').count();
    let is_whole = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_whole(unsigned) || points > 1 || digits.len() == points {
        return Err(NoFloat::Syntax);
    }
    // The value is `bits` times 2^`exponent`, and a little more if `is_more`.
    let (mut bits, mut is_more, mut is_fraction) = (0_u64, false, false);
    let most = i64::from(i32::MAX);
    let mut exponent = power.parse().unwrap_or(if power.starts_with('-') { -most } else { most });
    exponent = exponent.clamp(-most, most);
    for digit in digits.chars() {
        if digit == '.' {
            is_fraction = true;
            continue;
        }
        let digit = digit.to_digit(16).ok_or(NoFloat::Syntax)?;
        if bits >> 60 == 0 {
            bits = bits << 4 | u64::from(digit);
            exponent -= if is_fraction { 4 } else { 0 };
        } else {
            is_more |= digit != 0;
            exponent += if is_fraction { 0 } else { 4 };
        }
    }
    if bits == 0 {
        return Ok(0.0);
    }
    let shift = bits.leading_zeros();
    let (bits, exponent) = (bits << shift, exponent - i64::from(shift) + 63);
    Ok(nearest(bits, is_more, exponent))
}

/// The float nearest to a number whose highest 64 bits are `bits`. The first bit is set and has the value
/// 2^`exponent`. The number is a little larger than `bits` if `is_more`.
fn nearest(bits: u64, is_more: bool, exponent: i64) -> f64 {
    if exponent > MOST {
        return f64::INFINITY;
    }
    // A subnormal number has fewer bits.
    let missing = (LEAST - exponent).max(0);
    let dropped = 64 - MANTISSA + missing;
    let kept = if dropped < 64 { bits >> dropped } else { 0 };
    let rest = u128::from(bits) << 1 | u128::from(is_more);
    let half = 1_u128.checked_shl(u32::try_from(dropped).unwrap_or(u32::MAX)).unwrap_or(u128::MAX);
    let rest = rest & ((half - 1) | half);
    let is_up = rest > half || rest == half && kept & 1 == 1;
    // A carry out of the mantissa increments the exponent, up to infinity.
    let biased = if missing > 0 { 0 } else { (exponent - LEAST) as u64 };
    f64::from_bits((biased << (MANTISSA - 1)) + kept + u64::from(is_up))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `strconv.ParseFloat(text, 64)` of Go 1.26 returns for texts of all forms, and for random texts.
    const OF_GO: &str = include_str!("../../../tests/data/go/floats.tsv");

    #[test]
    fn each_text_is_read_as_go_reads_it() {
        let mut read = 0;
        for line in OF_GO.lines() {
            let fields: Vec<&str> = line.splitn(3, '\t').collect();
            let [answer, bits, text] = fields[..] else { panic!("{line:?}") };
            let got = go_float(text);
            match answer {
                "ok" => {
                    let bits = u64::from_str_radix(bits, 16).expect("bits");
                    let (value, want) = (got.expect(text), f64::from_bits(bits));
                    let is_same = value.to_bits() == bits || value.is_nan() && want.is_nan();
                    assert!(is_same, "{text}: {value:e}, and Go has {want:e}");
                }
                "range" => assert_eq!(got, Err(NoFloat::Range), "{text}"),
                _ => assert_eq!(got, Err(NoFloat::Syntax), "{text}"),
            }
            read += 1;
        }
        assert_eq!(read, OF_GO.lines().count());
        assert!(read > 600, "{read}");
    }
}
