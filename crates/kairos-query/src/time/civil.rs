//! The Gregorian calendar, in both directions without end, on milliseconds of a local time.

/// Milliseconds of a day.
pub(super) const DAY: i64 = 86_400_000;

/// A date and the time of its day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Civil {
    pub(super) year: i64,
    /// 1 to 12.
    pub(super) month: i64,
    /// 1 to 31.
    pub(super) day: i64,
    /// Milliseconds since midnight.
    pub(super) millis: i64,
}

impl Civil {
    /// The date of a local time. Eras of 400 years begin on 1 March.
    pub(super) fn new(local: i64) -> Self {
        let days = local.div_euclid(DAY) + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        Self {
            year: year_of_era + era * 400 + i64::from(month >= 10),
            month: if month < 10 { month + 3 } else { month - 9 },
            day: day_of_year - (153 * month + 2) / 5 + 1,
            millis: local.rem_euclid(DAY),
        }
    }

    /// The local time, at the ends of 64 bits if it is beyond them.
    pub(super) fn local(self) -> i64 {
        let year = i128::from(self.year) - i128::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let month = i128::from((self.month + 9) % 12);
        let day_of_year = (153 * month + 2) / 5 + i128::from(self.day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * 146_097 + day_of_era - 719_468;
        saturate(days * i128::from(DAY) + i128::from(self.millis))
    }

    /// Months since the year 0.
    pub(super) fn months(self) -> i64 {
        self.year * 12 + self.month - 1
    }

    /// The same day and time in another month, or its last day if it has no such day.
    pub(super) fn with_months(self, months: i64) -> Self {
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        Self { year, month, day: self.day.min(days_in(year, month)), ..self }
    }

    /// Whether the day is the last of its month.
    pub(super) fn is_last_of_month(self) -> bool {
        self.day == days_in(self.year, self.month)
    }

    /// Milliseconds since the month began.
    pub(super) fn in_month(self) -> i64 {
        (self.day - 1) * DAY + self.millis
    }

    /// Milliseconds since the year began.
    pub(super) fn in_year(self) -> i64 {
        self.local().saturating_sub(Self { month: 1, day: 1, millis: 0, ..self }.local())
    }
}

pub(super) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The nearest number of 64 bits.
pub(super) fn saturate(value: i128) -> i64 {
    value.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let cases = [
            (0, (1970, 1, 1)),
            (951_782_400_000, (2000, 2, 29)),
            (-1, (1969, 12, 31)),
            (-62_167_219_200_000, (0, 1, 1)),
            (1_700_000_000_000, (2023, 11, 14)),
        ];
        for (local, date) in cases {
            let civil = Civil::new(local);
            assert_eq!((civil.year, civil.month, civil.day), date);
            assert_eq!(civil.local(), local);
        }
        for local in [i64::MIN, i64::MAX] {
            assert_eq!(Civil::new(local).local(), local);
        }
    }

    #[test]
    fn the_thirty_first_becomes_the_last_of_a_month() {
        let may = Civil { year: 2023, month: 5, day: 31, millis: 7 };
        let february = may.with_months(may.months() - 3);
        assert_eq!(february, Civil { year: 2023, month: 2, day: 28, millis: 7 });
        assert!(february.is_last_of_month());
    }
}
