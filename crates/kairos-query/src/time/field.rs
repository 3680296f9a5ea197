//! Arithmetic in units of time: differences, additions, and where ranges of time begin, as Joda-Time does it.
//!
//! Hours and less are elapsed time. Days and more are local: a day has 23 or 25 hours when the offset changes.

use super::civil::{Civil, DAY, is_leap, saturate};
use super::zone::Zone;

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// 1 ms.
    Milliseconds,
    /// 1 s.
    Seconds,
    /// 60 s.
    Minutes,
    /// 60 min.
    Hours,
    /// Local days.
    Days,
    /// Local weeks, from Monday.
    Weeks,
    /// Months of the calendar.
    Months,
    /// Years of the calendar.
    Years,
}

impl TimeUnit {
    /// All units.
    pub(crate) const ALL: [Self; 8] = [
        Self::Milliseconds,
        Self::Seconds,
        Self::Minutes,
        Self::Hours,
        Self::Days,
        Self::Weeks,
        Self::Months,
        Self::Years,
    ];

    /// The name in queries and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Milliseconds => "MILLISECONDS",
            Self::Seconds => "SECONDS",
            Self::Minutes => "MINUTES",
            Self::Hours => "HOURS",
            Self::Days => "DAYS",
            Self::Weeks => "WEEKS",
            Self::Months => "MONTHS",
            Self::Years => "YEARS",
        }
    }

    /// A unit by its name, in any case.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name))
    }

    /// Its milliseconds, if all have the same.
    pub fn millis(self) -> Option<i64> {
        match self {
            Self::Milliseconds => Some(1),
            Self::Seconds => Some(1_000),
            Self::Minutes => Some(60_000),
            Self::Hours => Some(3_600_000),
            Self::Days => Some(DAY),
            Self::Weeks => Some(7 * DAY),
            Self::Months | Self::Years => None,
        }
    }

    fn is_elapsed(self) -> bool {
        matches!(self, Self::Milliseconds | Self::Seconds | Self::Minutes | Self::Hours)
    }
}

/// A length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// How many units.
    pub value: i64,
    /// The unit.
    pub unit: TimeUnit,
}

/// The range in which an instant is, if ranges of this length follow each other from `start`: its first instant, and
/// the first of the next range. The sampling is at least 1.
pub(crate) fn ranges(sampling: Sampling, zone: &Zone, start: i64, instant: i64) -> (i64, i64) {
    let past = difference(sampling.unit, zone, instant, start) / sampling.value.max(1);
    let at = |number: i64| add(sampling.unit, zone, start, number.saturating_mul(sampling.value));
    (at(past), at(past.saturating_add(1)))
}

/// Whole units from one instant to another, towards zero.
fn difference(unit: TimeUnit, zone: &Zone, to: i64, from: i64) -> i64 {
    if unit.is_elapsed() {
        return whole(to, from, unit.millis().unwrap_or(1));
    }
    let (to, from) = (zone.to_local(to), zone.to_local(from));
    match unit {
        TimeUnit::Months if to < from => -months(from, to),
        TimeUnit::Months => months(to, from),
        TimeUnit::Years if to < from => -years(from, to),
        TimeUnit::Years => years(to, from),
        _ => whole(to, from, unit.millis().unwrap_or(1)),
    }
}

fn whole(to: i64, from: i64, unit: i64) -> i64 {
    saturate((i128::from(to) - i128::from(from)) / i128::from(unit))
}

/// Whole months, where the last day of a month is as good as a later day of the other.
fn months(to: i64, from: i64) -> i64 {
    let (to, mut from) = (Civil::new(to), Civil::new(from));
    let months = to.months() - from.months();
    if to.is_last_of_month() {
        from.day = from.day.min(to.day);
    }
    months - i64::from(to.in_month() < from.in_month())
}

/// Whole years, where days after February are the same days in leap years and others.
fn years(to: i64, from: i64) -> i64 {
    const FEB_29: i64 = 59 * DAY;
    let (to, from) = (Civil::new(to), Civil::new(from));
    let (mut to_rest, mut from_rest) = (to.in_year(), from.in_year());
    if from_rest >= FEB_29 {
        if is_leap(from.year) {
            if !is_leap(to.year) {
                from_rest -= DAY;
            }
        } else if to_rest >= FEB_29 && is_leap(to.year) {
            to_rest -= DAY;
        }
    }
    to.year - from.year - i64::from(to_rest < from_rest)
}

/// An instant some units later.
fn add(unit: TimeUnit, zone: &Zone, instant: i64, number: i64) -> i64 {
    match number == 0 || unit.is_elapsed() {
        true => plus(unit, instant, number),
        false => zone.to_instant(plus(unit, zone.to_local(instant), number), instant),
    }
}

fn plus(unit: TimeUnit, local: i64, number: i64) -> i64 {
    match unit.millis() {
        Some(millis) => saturate(i128::from(local) + i128::from(number) * i128::from(millis)),
        None => {
            let date = Civil::new(local);
            let months = if unit == TimeUnit::Years { number.saturating_mul(12) } else { number };
            date.with_months(date.months().saturating_add(months)).local()
        }
    }
}

/// The milliseconds of a length of time that begins at an instant.
pub(crate) fn add_duration(sampling: Sampling, zone: &Zone, instant: i64) -> i64 {
    let Sampling { value, unit } = sampling;
    let end = match unit.is_elapsed() {
        true => plus(unit, instant, value),
        false => zone.to_instant_of_duration(plus(unit, zone.to_local(instant), value)),
    };
    match unit {
        TimeUnit::Milliseconds => value,
        _ => end.saturating_sub(instant),
    }
}

/// The time of a relative time of a query: in UTC.
pub(crate) fn before(sampling: Sampling, now: i64) -> i64 {
    plus(sampling.unit, now, sampling.value.saturating_neg())
}

/// Months since the year 0, in UTC.
pub(crate) fn month_number(instant: i64) -> i64 {
    Civil::new(instant).months()
}

/// Where the ranges of a query begin: the first instant of the year, month, week or day of its start, or of its second
/// if ranges are milliseconds.
pub(crate) fn align(unit: TimeUnit, zone: &Zone, instant: i64) -> i64 {
    // Step by step, as each step may pass a change of the offset.
    let set = |instant: i64, change: &dyn Fn(i64) -> i64| {
        let local = zone.to_local(instant);
        match change(local) {
            same if same == local => instant,
            changed => zone.to_instant(changed, instant),
        }
    };
    let floor = |unit: i64| move |local: i64| local.saturating_sub(local.rem_euclid(unit));
    let date = |change: fn(Civil) -> Civil| move |local: i64| change(Civil::new(local)).local();
    match unit {
        TimeUnit::Years => {
            set(set(instant, &date(|date| Civil { month: 1, day: 1, ..date })), &floor(DAY))
        }
        TimeUnit::Months => set(set(instant, &date(|date| Civil { day: 1, ..date })), &floor(DAY)),
        TimeUnit::Weeks => {
            // 1970 began on a Thursday.
            let monday =
                |local: i64| local.saturating_sub((local.div_euclid(DAY) + 3).rem_euclid(7) * DAY);
            set(set(instant, &monday), &floor(DAY))
        }
        TimeUnit::Milliseconds => set(instant, &floor(1_000)),
        TimeUnit::Days | TimeUnit::Hours | TimeUnit::Minutes | TimeUnit::Seconds => {
            let hour =
                |local: i64| local.saturating_sub(local.rem_euclid(DAY) / 3_600_000 * 3_600_000);
            let hours = set(instant, &hour);
            set(set(set(hours, &floor(3_600_000)), &floor(60_000)), &floor(1_000))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn instant(text: &str) -> i64 {
        text.parse::<jiff::Timestamp>().expect("valid").as_millisecond()
    }

    fn zone(id: &str) -> Zone {
        Zone::parse(id).expect("valid")
    }

    #[test]
    fn days_are_local_and_hours_elapsed() {
        let berlin = zone("Europe/Berlin");
        let start = align(TimeUnit::Days, &berlin, instant("2024-03-30T12:00:00Z"));
        assert_eq!(start, instant("2024-03-29T23:00:00Z"));
        let day =
            |at| ranges(Sampling { value: 1, unit: TimeUnit::Days }, &berlin, start, instant(at));
        let (from, to) = day("2024-03-31T12:00:00Z");
        assert_eq!((from, to - from), (instant("2024-03-30T23:00:00Z"), 23 * HOUR));
        let (from, to) = day("2024-10-27T12:00:00Z");
        assert_eq!((from, to - from), (instant("2024-10-26T22:00:00Z"), 25 * HOUR));
        let hours = Sampling { value: 12, unit: TimeUnit::Hours };
        let (from, to) = ranges(hours, &berlin, start, instant("2024-03-31T12:00:00Z"));
        assert_eq!((from, to), (instant("2024-03-31T11:00:00Z"), instant("2024-03-31T23:00:00Z")));
    }

    #[test]
    fn months_and_years_end_with_their_last_day() {
        let range = |value, unit, start, at| {
            let (from, to) =
                ranges(Sampling { value, unit }, &Zone::UTC, instant(start), instant(at));
            let text = |at| jiff::Timestamp::from_millisecond(at).expect("valid").to_string();
            (text(from), text(to))
        };
        assert_eq!(
            range(1, TimeUnit::Months, "2023-01-31T00:00:00Z", "2023-02-28T01:00:00Z"),
            ("2023-02-28T00:00:00Z".into(), "2023-03-31T00:00:00Z".into())
        );
        assert_eq!(
            range(3, TimeUnit::Months, "2023-01-01T00:00:00Z", "2023-06-30T23:00:00Z"),
            ("2023-04-01T00:00:00Z".into(), "2023-07-01T00:00:00Z".into())
        );
        assert_eq!(
            range(1, TimeUnit::Years, "2024-02-29T00:00:00Z", "2025-03-01T00:00:00Z"),
            ("2025-02-28T00:00:00Z".into(), "2026-02-28T00:00:00Z".into())
        );
    }

    #[test]
    fn ranges_before_their_start_are_numbered_towards_zero() {
        let seconds = Sampling { value: 5, unit: TimeUnit::Seconds };
        assert_eq!(ranges(seconds, &Zone::UTC, 10_000, 9_999), (10_000, 15_000));
        assert_eq!(ranges(seconds, &Zone::UTC, 10_000, 4_000), (5_000, 10_000));
    }

    #[test]
    fn units_align_where_joda_time_says() {
        let utc = |unit, at: &str| align(unit, &Zone::UTC, instant(at));
        let at = "2023-11-14T22:13:19.5Z";
        assert_eq!(utc(TimeUnit::Years, at), instant("2023-01-01T00:00:00Z"));
        assert_eq!(utc(TimeUnit::Months, at), instant("2023-11-01T00:00:00Z"));
        assert_eq!(utc(TimeUnit::Weeks, at), instant("2023-11-13T00:00:00Z"));
        assert_eq!(utc(TimeUnit::Minutes, at), instant("2023-11-14T00:00:00Z"));
        assert_eq!(utc(TimeUnit::Milliseconds, at), instant("2023-11-14T22:13:19Z"));
        // The day began at 01:00.
        let paulo = zone("America/Sao_Paulo");
        assert_eq!(
            align(TimeUnit::Days, &paulo, instant("2018-11-04T12:00:00Z")),
            instant("2018-11-04T03:00:00Z")
        );
    }

    #[test]
    fn lengths_depend_on_where_they_begin() {
        let length = |unit, at| {
            add_duration(Sampling { value: 1, unit }, &zone("Europe/Berlin"), instant(at))
        };
        assert_eq!(length(TimeUnit::Days, "2024-03-30T12:00:00Z"), 23 * HOUR);
        assert_eq!(length(TimeUnit::Months, "2024-02-01T12:00:00Z"), 29 * 24 * HOUR);
        assert_eq!(length(TimeUnit::Seconds, "2024-02-01T12:00:00Z"), 1_000);
        let year = Sampling { value: 10, unit: TimeUnit::Years };
        assert_eq!(before(year, instant("2024-02-29T00:00:00Z")), instant("2014-02-28T00:00:00Z"));
    }
}
