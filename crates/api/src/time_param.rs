//! Times and durations in the parameters of the HTTP API.
//!
//! A time is Unix seconds with a fraction, rounded to milliseconds, or RFC 3339. A duration is
//! seconds or PromQL. Both are stored in nanoseconds, as in Prometheus, so that values out of range
//! are clamped to the same limits.

use jiff::civil::DateTime;

use promkairos_model::{MAX_TIMESTAMP, MIN_TIMESTAMP};
use promkairos_promql::{go_float, parse_duration, quoted};

/// The texts of Go clients for the minimum and maximum time, with their values.
const FAR: [(&str, TimeParam); 2] = [
    ("-292273086-05-16T16:47:06Z", TimeParam(EARLIEST_SECONDS * SECOND)),
    ("292277025-08-18T07:12:54.999999999Z", TimeParam(LATEST_SECONDS * SECOND + 999_999_999)),
];
const EARLIEST_SECONDS: i128 = i64::MIN as i128 / 1000 + 62_135_596_801;
const LATEST_SECONDS: i128 = i64::MAX as i128 / 1000 - 62_135_596_801;
/// Nanoseconds of a second.
const SECOND: i128 = 1_000_000_000;

/// Nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimeParam(pub(super) i128);

impl TimeParam {
    /// The minimum time.
    pub(super) const EARLIEST: Self = FAR[0].1;
    /// The maximum time.
    pub(super) const LATEST: Self = FAR[1].1;

    /// From milliseconds since 1970.
    pub(super) fn from_millis(millis: i64) -> Self {
        Self(i128::from(millis) * 1_000_000)
    }

    /// Parses the value of a parameter.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Some((_, far)) = FAR.iter().find(|(name, _)| *name == text) {
            return Ok(*far);
        }
        let time = go_float(text).ok().map(Self::from_seconds).or_else(|| rfc3339(text));
        time.ok_or_else(|| format!("cannot parse {} to a valid timestamp", quoted(text)))
    }

    fn from_seconds(seconds: f64) -> Self {
        let whole = seconds.trunc();
        if !is_held(seconds) {
            // Go converts what does not fit to `i64::MIN`; for NaN and infinity also the fraction.
            let fraction = if whole.is_finite() { 0 } else { i128::from(i64::MIN) };
            return Self(i128::from(i64::MIN) * SECOND + fraction);
        }
        let millis = (seconds.fract() * 1000.0).round();
        Self(whole as i128 * SECOND + millis as i128 * 1_000_000)
    }

    /// Milliseconds since 1970, clamped to the range of samples.
    pub(super) fn millis(self) -> i64 {
        let millis = self.0.div_euclid(1_000_000);
        millis.clamp(MIN_TIMESTAMP.into(), MAX_TIMESTAMP.into()) as i64
    }

    /// Milliseconds since 1970 for the evaluation; like Go, wraps nanoseconds to 64 bits.
    pub(super) fn query_millis(self) -> i64 {
        (self.0 as i64) / 1_000_000
    }
}

/// Parses a time of the API strictly, for requests such as deletes: milliseconds since 1970, clamped to the range
/// of samples. Values that Go would convert to its minimum (`Inf`, `NaN`, `1e30`) are refused. The error describes
/// the text.
pub fn parse_time(text: &str) -> Result<i64, String> {
    match go_float(text).ok() {
        Some(seconds) if !is_held(seconds) => Err(format!("{} is beyond all times", quoted(text))),
        _ => TimeParam::parse(text).map(TimeParam::millis),
    }
}

/// Whether the whole seconds fit into 64 bits; otherwise Go changes the value.
fn is_held(seconds: f64) -> bool {
    seconds.trunc().abs() < i64::MAX as f64
}

/// Parses a duration to nanoseconds.
pub(super) fn duration(text: &str) -> Result<i64, String> {
    let bad = || format!("cannot parse {} to a valid duration", quoted(text));
    let Ok(seconds) = go_float(text) else {
        return parse_duration(text).map_err(|_| bad());
    };
    let nanoseconds = seconds * 1e9;
    // The first value is 2^63, the first that does not fit.
    if !(i64::MIN as f64..i64::MAX as f64).contains(&nanoseconds) {
        return Err(format!("{}. It overflows int64", bad()));
    }
    Ok(nanoseconds as i64)
}

/// A duration in Go's notation.
pub(super) fn go_duration(nanoseconds: i64) -> String {
    let all = nanoseconds.unsigned_abs();
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let (unit, name) = match all {
        0 => return "0s".to_owned(),
        1..1_000 => return format!("{sign}{all}ns"),
        1_000..1_000_000 => (1_000, "µs"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        1_000_000_000.. => (1_000_000_000, "s"),
    };
    let whole = all / unit;
    // The fraction as digits after a 1, which keeps the zeros in front.
    let fraction = (unit + all % unit).to_string().replacen('1', ".", 1);
    let rest = format!("{}{name}", fraction.trim_end_matches('0').trim_end_matches('.'));
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    match (hours, minutes) {
        _ if name != "s" => format!("{sign}{whole}{rest}"),
        (0, 0) => format!("{sign}{seconds}{rest}"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}{rest}"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}{rest}"),
    }
}

/// `2006-01-02T15:04:05.999999999Z`, or an offset such as `+01:00` instead of `Z`.
fn rfc3339(text: &str) -> Option<TimeParam> {
    let fits = |text: &[u8], form: &[u8]| {
        text.len() == form.len()
            && text.iter().zip(form).all(|(byte, form)| match form {
                b'0' => byte.is_ascii_digit(),
                form => byte == form,
            })
    };
    let (head, tail) = text.as_bytes().split_at_checked(19)?;
    let fraction = match tail.split_first() {
        Some((b'.' | b',', rest)) => 1 + rest.iter().take_while(|b| b.is_ascii_digit()).count(),
        _ => 0,
    };
    let zone = &tail[fraction..];
    let zoned = zone == b"Z" || fits(zone, b"+00:00") || fits(zone, b"-00:00");
    let formed = fits(head, b"0000-00-00T00:00:00") && fraction != 1 && zoned;
    if !formed || head.ends_with(b"60") {
        return None;
    }
    // Parsed as local time, because jiff's last instant is a day before the last accepted one.
    let local: DateTime = text[..19 + fraction].parse().ok()?;
    let since = local.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0)).as_nanos();
    Some(TimeParam(since - offset(zone)? * SECOND))
}

/// The offset of a time zone, `Z` or `+01:00`, in seconds.
fn offset(zone: &[u8]) -> Option<i128> {
    let [sign, digits @ ..] = zone else { return None };
    let [a, b, b':', c, d] = digits else { return Some(0) };
    let number = |tens: &u8, ones: &u8| i128::from(tens - b'0') * 10 + i128::from(ones - b'0');
    let (hours, minutes) = (number(a, b), number(c, d));
    let seconds = (hours * 60 + minutes) * 60;
    (hours <= 24 && minutes <= 60).then_some(if *sign == b'-' { -seconds } else { seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let check = |text: &str, want: Option<i64>| {
            assert_eq!(TimeParam::parse(text).ok().map(TimeParam::millis), want, "{text}");
        };
        check("1700000000", Some(1_700_000_000_000));
        check("1700000000.1239", Some(1_700_000_000_124));
        check("1_700_000_000", Some(1_700_000_000_000));
        check("-0.5", Some(-500));
        check("2023-11-14T22:13:20Z", Some(1_700_000_000_000));
        check("2023-11-14T23:13:20.5+01:00", Some(1_700_000_000_500));
        check("1e18", Some(MAX_TIMESTAMP));
        check(FAR[0].0, Some(MIN_TIMESTAMP));
        check(FAR[1].0, Some(MAX_TIMESTAMP));
        check("NaN", Some(MIN_TIMESTAMP));
        check("9999-12-31T23:59:59.999Z", Some(MAX_TIMESTAMP));
        check("0001-01-01T00:00:00Z", Some(MIN_TIMESTAMP));
        check("2023-11-14T20:43:20-01:30", Some(1_700_000_000_000));
        check("2023-11-14T22:13:20+25:00", None);
        for bad in ["", "yesterday", "1e400", " 1", "1__0", "_1", "0x10", "2023-11-14"] {
            check(bad, None);
        }
        for bad in ["2023-11-14t22:13:20z", "2023-11-14 22:13:20Z", "2023-11-14T22:13:20"] {
            check(bad, None);
        }
        for bad in ["2023-13-14T22:13:20Z", "2023-11-14T22:13:60Z", "2023-11-14T22:13:20.Z"] {
            check(bad, None);
        }
    }

    #[test]
    fn where_much_hangs_on_a_time_it_has_to_be_one() {
        for beyond in ["Inf", "-Inf", "NaN", "1e30", "-1e30", "9223372036854775807"] {
            assert_eq!(parse_time(beyond), Err(format!("\"{beyond}\" is beyond all times")));
        }
        assert_eq!(parse_time("1e18"), Ok(MAX_TIMESTAMP));
        assert_eq!(parse_time(FAR[0].0), Ok(MIN_TIMESTAMP));
        assert_eq!(parse_time("-0.5"), Ok(-500));
        assert!(parse_time("yesterday").is_err());
    }

    #[test]
    fn times_of_queries_wrap_as_those_of_prometheus() {
        let check = |text: &str, want: i64| {
            assert_eq!(TimeParam::parse(text).map(TimeParam::query_millis), Ok(want), "{text}");
        };
        check("1704068400.125", 1_704_068_400_125);
        check("-1", -1000);
        check("Inf", -9_223_372_036_854);
        check("1e18", -6_930_898_827_444);
        check("-62135596801", -6_795_364_579_871);
        check(FAR[0].0, 6_795_364_580_679);
        check(FAR[1].0, -6_795_364_579_679);
    }

    #[test]
    fn durations() {
        assert_eq!(duration("1.5"), Ok(1_500_000_000));
        assert_eq!(duration("-1"), Ok(-1_000_000_000));
        assert_eq!(duration("1h30m"), Ok(5_400_000_000_000));
        assert_eq!(duration("5M").expect_err("refused"), "cannot parse \"5M\" to a valid duration");
        let long = "cannot parse \"1e30\" to a valid duration. It overflows int64";
        assert_eq!(duration("1e30").expect_err("refused"), long);
        assert!(duration("").is_err() && duration("1e400").is_err() && duration("-1m").is_err());
        // Just too long, and not a number.
        assert!(duration("9223372036.854775807").is_err() && duration("NaN").is_err());
        assert_eq!(duration("-9223372036.854775808"), Ok(i64::MIN));
        for (nanoseconds, shown) in [
            (0, "0s"),
            (-1_000_000_000, "-1s"),
            (-100, "-100ns"),
            (12, "12ns"),
            (1_500, "1.5µs"),
            (20_000_000, "20ms"),
            (120_000_000_000, "2m0s"),
            (-1_050_000, "-1.05ms"),
            (-61_500_000_000, "-1m1.5s"),
            (3_600_000_000_000, "1h0m0s"),
            (90_061_000_000_000, "25h1m1s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(go_duration(nanoseconds), shown);
        }
    }
}
