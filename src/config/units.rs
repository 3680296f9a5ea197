//! Durations and sizes as people write them: `1h30m`, `15s`, `2y`; `8GiB`, `512MB`, `1024`.
//!
//! Units are exact: a year is 365 days, a day 24 hours, `k` is 1000 and `Ki` is 1024.

use std::time::Duration;

/// Why a duration or a size is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not a duration.
    #[error("not a duration; write it as 15s, 2h, 1h30m or 2y (units: ms s m h d w y)")]
    Duration,
    /// Not a size.
    #[error(
        "not a size; write it as 512MiB, 8GiB or 1000000 (units: B KiB MiB GiB TiB KB MB GB TB)"
    )]
    Size,
    /// More than the type can represent.
    #[error("too large")]
    TooLarge,
}

/// Parses a duration: numbers with units, each unit at most once and the larger ones first, or `0`.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    const UNITS: [(&str, u64); 7] = [
        ("y", 365 * 24 * 3_600_000),
        ("w", 7 * 24 * 3_600_000),
        ("d", 24 * 3_600_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1_000),
        ("ms", 1),
    ];
    let mut rest = text.trim();
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(UnitError::Duration);
    }
    let (mut total, mut next_unit) = (0_u64, 0);
    while !rest.is_empty() {
        let (number, tail) = leading_number(rest).ok_or(UnitError::Duration)?;
        let unit_len = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_len);
        let at = UNITS.iter().position(|(name, _)| *name == unit).ok_or(UnitError::Duration)?;
        if at < next_unit {
            return Err(UnitError::Duration);
        }
        next_unit = at + 1;
        let milliseconds = number?.checked_mul(UNITS[at].1).ok_or(UnitError::TooLarge)?;
        total = total.checked_add(milliseconds).ok_or(UnitError::TooLarge)?;
        rest = tail;
    }
    Ok(Duration::from_millis(total))
}

/// Parses a size in bytes: a whole number, with a unit or in bytes.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    const UNITS: [(&str, u64); 10] = [
        ("", 1),
        ("b", 1),
        ("kb", 1_000),
        ("mb", 1_000_000),
        ("gb", 1_000_000_000),
        ("tb", 1_000_000_000_000),
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
        ("tib", 1 << 40),
    ];
    let (number, unit) = leading_number(text.trim()).ok_or(UnitError::Size)?;
    let unit = unit.trim_start().to_ascii_lowercase();
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(UnitError::Size)?;
    number?.checked_mul(*factor).ok_or(UnitError::TooLarge)
}

/// The leading digits of `text`, and the rest; `None` without digits.
fn leading_number(text: &str) -> Option<(Result<u64, UnitError>, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    (!digits.is_empty()).then(|| (digits.parse().map_err(|_| UnitError::TooLarge), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let check = |text: &str, want: Result<u64, UnitError>| {
            assert_eq!(parse_duration(text), want.map(Duration::from_millis), "{text}");
        };
        check("15s", Ok(15_000));
        check("1h30m", Ok(5_400_000));
        check("250ms", Ok(250));
        check("1m5ms", Ok(60_005));
        check("2y", Ok(2 * 365 * 86_400_000));
        check("1w1d", Ok(8 * 86_400_000));
        check("0", Ok(0));
        check("0s", Ok(0));
        for bad in ["", "15", "h", "1x", "1m1h", "1h1h", "-1s", "1.5h", "1h x", "1h 2m"] {
            check(bad, Err(UnitError::Duration));
        }
        check("99999999999999999999s", Err(UnitError::TooLarge));
        check("18446744073709551615y", Err(UnitError::TooLarge));
    }

    #[test]
    fn sizes() {
        let check = |text: &str, want: Result<u64, UnitError>| {
            assert_eq!(parse_size(text), want, "{text}");
        };
        check("8GiB", Ok(8 << 30));
        check("8 gib", Ok(8 << 30));
        check("512MB", Ok(512_000_000));
        check("1024", Ok(1024));
        check("0", Ok(0));
        for bad in ["", "GiB", "8G1B", "8 PiB", "-1", "1.5GiB"] {
            check(bad, Err(UnitError::Size));
        }
        check("99999999999TiB", Err(UnitError::TooLarge));
    }
}
