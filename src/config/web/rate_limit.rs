//! `rate_limit`: a token bucket for requests: each request takes one token, one token is added
//! after every `interval`, and the bucket holds at most `burst`.
//!
//! The format is as in Prometheus: durations as Go writes them, or a number of nanoseconds.
//! Requests are counted in `api`, not here.

use std::time::Duration;

use super::super::error::ConfigError;
use super::super::keys::Key;
use super::yaml::{Entry, Table};
use crate::api::RateLimit;

pub(super) const KEYS: [Key; 2] = [
    Key::new(
        "interval",
        "Time between two requests, as Go writes it: 100ms, 1.5s, 1m30s; 0 = no limit",
        "no limit",
    ),
    Key::new(
        "burst",
        "How many requests are answered at once after a rest; at least 1",
        "refused where interval is more than 0",
    ),
];

/// The limit of an entry; `None` = no limit.
pub(super) fn rate_limit(
    entry: &Entry<'_>,
    warnings: &mut Vec<String>,
) -> Result<Option<RateLimit>, ConfigError> {
    let table = entry.table(&KEYS)?;
    let burst = table.get("burst").map(burst).transpose()?;
    let Some(entry) = table.get("interval") else { return Ok(None) };
    let text = entry.text()?;
    if let Ok(nanoseconds @ 1..) = text.parse() {
        let is = Duration::from_nanos(nanoseconds);
        let why = "a number without a unit is nanoseconds, as in Prometheus";
        warnings.push(entry.about(format!("{why}: this is {is:?}")));
    }
    let refused = || entry.refuse("must be a duration such as 100ms, 1s or 1m30s, or 0");
    let interval = go_duration(&text).ok_or_else(refused)?;
    match (interval, burst) {
        (Duration::ZERO, _) => Ok(None),
        (interval, Some(burst)) if burst > 0 => Ok(Some(RateLimit { interval, burst })),
        _ => Err(without_burst(&table, entry)),
    }
}

/// Refuses `burst: 0`: Prometheus accepts it and answers every request with 429.
fn without_burst(table: &Table<'_>, interval: &Entry<'_>) -> ConfigError {
    let why = "must be at least 1: otherwise no request at all would be answered";
    match table.get("burst") {
        Some(entry) => entry.refuse(why),
        None => interval.refuse(format!("needs burst, which {why}")),
    }
}

fn burst(entry: &Entry<'_>) -> Result<u32, ConfigError> {
    let text = entry.text()?;
    // YAML reads 010 as 8.
    let is_octal = text.len() > 1 && text.starts_with('0');
    let number = text.parse::<u32>().ok().filter(|_| !is_octal);
    number.ok_or_else(|| {
        entry.refuse("must be a whole number of at least 0, below 2^32, without zeros before it")
    })
}

/// Parses a duration as Go writes it: numbers with units, or nanoseconds without one; `None` =
/// invalid, negative, or more than 290 years.
fn go_duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1.0),
        ("us", 1e3),
        ("µs", 1e3),
        ("μs", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("m", 60e9),
        ("h", 3600e9),
    ];
    let text = text.strip_prefix('+').unwrap_or(text);
    if text.starts_with('+') {
        return None;
    }
    if let Ok(nanoseconds) = text.parse::<u64>() {
        return i64::try_from(nanoseconds).ok().map(|_| Duration::from_nanos(nanoseconds));
    }
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.';
    let (mut rest, mut total) = (text, 0.0);
    while !rest.is_empty() {
        let (number, tail) = rest.split_at(rest.find(|c| !is_of_number(c))?);
        let (unit, tail) = tail.split_at(tail.find(is_of_number).unwrap_or(tail.len()));
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total += number.parse::<f64>().ok()? * factor;
        rest = tail;
    }
    let fits = !text.is_empty() && total < i64::MAX as f64;
    fits.then(|| Duration::from_nanos(total as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        let ms = Duration::from_millis;
        for (text, want) in [
            ("0", Some(ms(0))),
            ("0s", Some(ms(0))),
            ("5", Some(Duration::from_nanos(5))),
            ("1s", Some(ms(1000))),
            ("+1.5s", Some(ms(1500))),
            (".5s", Some(ms(500))),
            ("1.s", Some(ms(1000))),
            ("1m30s", Some(ms(90_000))),
            ("1h1ms", Some(ms(3_600_001))),
            ("250us", Some(Duration::from_micros(250))),
            ("250µs", Some(Duration::from_micros(250))),
            ("", None),
            ("+", None),
            ("++5", None),
            ("s", None),
            (".s", None),
            ("-1s", None),
            ("1d", None),
            ("1.5", None),
            ("1 s", None),
            ("1.2.3s", None),
            ("3000000h", None),
            ("9223372036854775808", None),
        ] {
            assert_eq!(go_duration(text), want, "{text:?}");
        }
    }
}
