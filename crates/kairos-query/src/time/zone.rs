//! Time zones, and local times as Joda-Time converts them: which of two instants a repeated hour means, and where the
//! hour that is left out goes, depends on how Joda-Time guesses, so the guesses are the same here.
//!
//! Zones come from the database that is part of the program, not from files of the machine.

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

/// Milliseconds of 400 years, after which the calendar and its weeks repeat.
const CYCLE: i64 = 146_097 * super::civil::DAY;

/// A time zone.
#[derive(Debug, Clone, PartialEq)]
pub enum Zone {
    /// One offset, in milliseconds.
    Fixed(i64),
    /// A zone of the database.
    Named(TimeZone),
}

impl Zone {
    /// UTC.
    pub const UTC: Self = Self::Fixed(0);

    /// A zone by its name, or an offset such as `+05:30`.
    pub(crate) fn parse(id: &str) -> Option<Self> {
        if id == "UTC" {
            return Some(Self::UTC);
        }
        if let Some(sign) = id.chars().next().filter(|c| "+-".contains(*c)) {
            let offset = offset(&id[1..])?;
            return Some(Self::Fixed(if sign == '-' { -offset } else { offset }));
        }
        // The database does not care for case, KairosDB does.
        let zone = TimeZoneDatabase::bundled().get(id).ok()?;
        (zone.iana_name() == Some(id)).then_some(Self::Named(zone))
    }

    /// All names, sorted.
    pub(crate) fn names() -> Vec<String> {
        let database = TimeZoneDatabase::bundled();
        let mut names: Vec<String> = database.available().map(|name| name.to_string()).collect();
        names.sort_unstable();
        names
    }

    fn offset(&self, instant: i64) -> i64 {
        match self {
            Self::Fixed(offset) => *offset,
            Self::Named(zone) => {
                let (timestamp, _) = within_database(instant);
                i64::from(zone.to_offset(timestamp).seconds()) * 1_000
            }
        }
    }

    /// The next change of the offset.
    fn next_transition(&self, instant: i64) -> i64 {
        let Self::Named(zone) = self else { return i64::MAX };
        let (timestamp, shifted) = within_database(instant);
        let next = zone.following(timestamp).next();
        next.map_or(i64::MAX, |next| next.timestamp().as_millisecond().saturating_add(shifted))
    }

    /// The last change of the offset, at or before an instant.
    fn previous_transition(&self, instant: i64) -> Option<i64> {
        let Self::Named(zone) = self else { return None };
        let (timestamp, shifted) = within_database(instant.saturating_add(1));
        let previous = zone.preceding(timestamp).next()?;
        // Joda-Time means the last instant with the old offset.
        Some(previous.timestamp().as_millisecond().saturating_add(shifted).saturating_sub(1))
    }

    /// The local time at an instant.
    pub(super) fn to_local(&self, instant: i64) -> i64 {
        instant.saturating_add(self.offset(instant))
    }

    /// The instant of a local time that was computed from `original`, whose offset is kept if it can be.
    pub(super) fn to_instant(&self, local: i64, original: i64) -> i64 {
        let offset = self.offset(original);
        let instant = local.saturating_sub(offset);
        if self.offset(instant) == offset {
            return instant;
        }
        let first = self.offset(local);
        let second = self.offset(local.saturating_sub(first));
        match first < 0 && first != second && self.is_between(local, first, second) {
            true => local.saturating_sub(first),
            false => local.saturating_sub(second),
        }
    }

    /// The instant of a local time that was computed without its offset.
    pub(super) fn to_instant_of_duration(&self, local: i64) -> i64 {
        let first = self.offset(local);
        let instant = local.saturating_sub(first);
        let second = self.offset(instant);
        if first != second {
            return match first < second && self.is_between(local, first, second) {
                true => instant,
                false => local.saturating_sub(second),
            };
        }
        let before = if first < 0 { None } else { self.previous_transition(instant) };
        let before =
            before.filter(|before| *before < instant).map(|before| (before, self.offset(before)));
        match before {
            Some((before, offset)) if instant.saturating_sub(before) <= offset - first => {
                local.saturating_sub(offset)
            }
            _ => instant,
        }
    }

    /// Whether the offset changes between the two instants that two offsets give.
    fn is_between(&self, local: i64, first: i64, second: i64) -> bool {
        self.next_transition(local.saturating_sub(first))
            != self.next_transition(local.saturating_sub(second))
    }
}

/// The same time of a year that the database knows, and by how much it was shifted. The rules of a zone hold for all
/// later years.
fn within_database(instant: i64) -> (Timestamp, i64) {
    let (least, greatest) = (Timestamp::MIN.as_millisecond(), Timestamp::MAX.as_millisecond());
    let cycles =
        (instant.max(greatest) - greatest).div_euclid(CYCLE) + i64::from(instant > greatest);
    let shifted = cycles.saturating_mul(CYCLE);
    let instant = instant.saturating_sub(shifted).max(least);
    (Timestamp::from_millisecond(instant).unwrap_or(Timestamp::MIN), shifted)
}

/// `hh`, `hh:mm`, `hhmm`, `hh:mm:ss` or `hhmmss`, in milliseconds.
fn offset(text: &str) -> Option<i64> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if !parts.is_empty() && text.as_bytes().get(2) == Some(&b':') {
            rest = rest.strip_prefix(':')?;
        }
        let digits = rest.get(..2).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?;
        parts.push(digits.parse::<i64>().ok()?);
        rest = &rest[2..];
    }
    let (hours, minutes, seconds) = match parts[..] {
        [hours] => (hours, 0, 0),
        [hours, minutes] => (hours, minutes, 0),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    let is_valid = hours < 24 && minutes < 60 && seconds < 60;
    is_valid.then_some(((hours * 60 + minutes) * 60 + seconds) * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn zones_have_names_and_offsets() {
        assert_eq!(Zone::parse("+05:30"), Some(Zone::Fixed(5 * HOUR + HOUR / 2)));
        assert_eq!(Zone::parse("-0100"), Some(Zone::Fixed(-HOUR)));
        assert!(matches!(Zone::parse("Asia/Kabul"), Some(Zone::Named(_))));
        for id in ["", "+", "+1", "+25", "+01:0", "asia/kabul", "Bogus/X", "+ü"] {
            assert_eq!(Zone::parse(id), None, "{id}");
        }
        assert!(Zone::names().len() > 500);
    }

    #[test]
    fn the_hour_left_out_goes_forward() {
        // 2024-03-10 02:30 in New York and 2024-03-31 02:30 in Berlin are 03:30.
        for (id, local, instant) in [
            ("America/New_York", 1_710_037_800_000, 1_710_055_800_000_i64),
            ("Europe/Berlin", 1_711_852_200_000, 1_711_848_600_000),
        ] {
            let zone = Zone::parse(id).expect("valid");
            assert_eq!(zone.to_instant(local, instant - 24 * HOUR), instant, "{id}");
            assert_eq!(zone.to_instant_of_duration(local), instant, "{id}");
        }
    }

    #[test]
    fn a_repeated_hour_keeps_the_offset_of_the_day_before_if_it_can() {
        // 2024-11-03 01:30 in New York is 05:30 and 06:30 UTC.
        let zone = Zone::parse("America/New_York").expect("valid");
        let (local, summer) = (1_730_597_400_000, 1_730_611_800_000_i64);
        assert_eq!(zone.to_instant(local, summer - 24 * HOUR), summer);
        assert_eq!(zone.to_instant(local, summer + 48 * HOUR), summer + HOUR);
        assert_eq!(zone.to_instant_of_duration(local), summer);
        let berlin = Zone::parse("Europe/Berlin").expect("valid");
        // 2024-10-27 02:30 in Berlin.
        let (local, summer) = (1_729_996_200_000, 1_729_989_000_000_i64);
        assert_eq!(berlin.to_instant_of_duration(local), summer);
    }

    #[test]
    fn rules_hold_in_all_years() {
        let zone = Zone::parse("America/New_York").expect("valid");
        let summer = 1_720_000_000_000;
        for cycles in [0, 1, 100, 10_000] {
            assert_eq!(zone.offset(summer + cycles * CYCLE), -4 * HOUR);
        }
        for instant in [i64::MIN, i64::MAX] {
            let local = zone.to_local(instant);
            zone.to_instant(local, instant);
            zone.to_instant_of_duration(local);
        }
    }
}
