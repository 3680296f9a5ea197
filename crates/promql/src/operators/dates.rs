//! Parts of a date, as of a number of seconds since 1970 in UTC: day, month, year, hour and so on.
//!
//! Every number has a date; a number that does not fit in 64 bits is converted as in Go on amd64.

use crate::signature::Function;

const DAY: i128 = 86_400;

/// The beginning of Go's count of seconds, as seconds before 1970.
const BEGINNING: i128 = (292_277_022_400 / 400 * 146_097 + 306) * DAY + 62_135_596_800;

/// The part of the date that `function` returns.
pub(crate) fn date_function(function: Function) -> Option<fn(f64) -> f64> {
    Some(match function {
        Function::DayOfMonth => |v| date(v).day as f64,
        Function::DayOfWeek => |v| (seconds(v).div_euclid(DAY) + 4).rem_euclid(7) as f64,
        Function::DayOfYear => |v| {
            let date = date(v);
            (days_before(date.year, date.month) + date.day) as f64
        },
        Function::DaysInMonth => |v| {
            let date = date(v);
            days_in_month(date.year, date.month) as f64
        },
        Function::Hour => |v| (seconds(v).rem_euclid(DAY) / 3600) as f64,
        Function::Minute => |v| (seconds(v).rem_euclid(3600) / 60) as f64,
        Function::Month => |v| date(v).month as f64,
        Function::Year => |v| date(v).year as f64,
        _ => return None,
    })
}

struct Date {
    year: i128,
    /// From 1.
    month: i128,
    /// From 1.
    day: i128,
}

fn seconds(value: f64) -> i128 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let seconds = if (-LIMIT..LIMIT).contains(&value) { value as i64 } else { i64::MIN };
    // Go counts in unsigned 64 bits, so a time before its beginning wraps to the end.
    (i128::from(seconds) + BEGINNING).rem_euclid(1 << 64) - BEGINNING
}

fn date(value: f64) -> Date {
    // Eras of 400 years that begin in March, so that the leap day is the last day of a year.
    let days = seconds(value).div_euclid(DAY) + 719_468;
    let era = days.div_euclid(146_097);
    let day = days.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    Date { year: year + era * 400 + i128::from(month <= 2), month, day }
}

fn is_leap(year: i128) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

fn days_in_month(year: i128, month: i128) -> i128 {
    match month {
        2 => 28 + i128::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_before(year: i128, month: i128) -> i128 {
    (1..month).map(|month| days_in_month(year, month)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_dates() {
        let check = |seconds: f64, want: [f64; 8]| {
            let functions = [
                Function::Year,
                Function::Month,
                Function::DayOfMonth,
                Function::DayOfYear,
                Function::DayOfWeek,
                Function::DaysInMonth,
                Function::Hour,
                Function::Minute,
            ];
            let got = functions.map(|f| date_function(f).expect("a date function")(seconds));
            assert_eq!(got, want, "{seconds}");
        };
        check(0.0, [1970., 1., 1., 1., 4., 31., 0., 0.]);
        check(-1.0, [1969., 12., 31., 365., 3., 31., 23., 59.]);
        check(951_782_400.0, [2000., 2., 29., 60., 2., 29., 0., 0.]);
        check(1_230_768_000.5, [2009., 1., 1., 1., 4., 31., 0., 0.]);
        check(f64::NAN, [292_277_026_596., 12., 4., 339., 0., 31., 15., 30.]);
        check(4_107_542_399.0, [2100., 2., 28., 59., 0., 28., 23., 59.]);
    }
}
