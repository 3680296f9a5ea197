//! The timestamps that samples may have. They are limited by two settings relative to the clock, by
//! the retention of the store, and by the supported years.
//!
//! The clock is read once per request: all its samples are checked alike. Accepted samples stay
//! accepted: a replay of the log checks nothing.

use std::time::Duration;

use super::batch::RejectReason;
use super::time::{MAX_TIMESTAMP, MIN_TIMESTAMP, TimeRange};

/// The setting for the largest age of a sample.
pub const MAX_SAMPLE_AGE: &str = "max-sample-age";

/// The setting for how long samples are kept.
pub const RETENTION: &str = "retention";

/// The largest distance of a sample from the current time; `None` = any distance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeLimits {
    /// Into the past.
    pub age: Option<Duration>,
    /// Into the future.
    pub lead: Option<Duration>,
    /// Into the past, by retention: the store would remove older samples right after acknowledging them.
    pub retention: Option<Duration>,
}

impl TimeLimits {
    /// The largest age of a sample, and the setting that limits it.
    fn oldest(&self) -> Option<(Duration, &'static str)> {
        let [age, kept] = [(self.age, MAX_SAMPLE_AGE), (self.retention, RETENTION)];
        let limits = [age, kept].into_iter().filter_map(|(most, setting)| Some((most?, setting)));
        limits.min_by_key(|(most, _)| *most)
    }
}

/// The timestamps that samples may have now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleTimes {
    limits: TimeLimits,
    range: TimeRange,
}

impl SampleTimes {
    /// All from year 1 to 9999.
    pub const ANY: Self = Self {
        limits: TimeLimits { age: None, lead: None, retention: None },
        range: TimeRange::new(MIN_TIMESTAMP, MAX_TIMESTAMP),
    };

    /// Timestamps within `limits` at the time `now`, in milliseconds since 1970.
    pub fn at(now: i64, limits: TimeLimits) -> Self {
        let oldest = |(most, _)| now.saturating_sub(millis(most));
        let start = limits.oldest().map_or(MIN_TIMESTAMP, oldest);
        let end = limits.lead.map_or(MAX_TIMESTAMP, |lead| now.saturating_add(millis(lead)));
        let range = TimeRange::new(start.max(MIN_TIMESTAMP), end.min(MAX_TIMESTAMP));
        Self { limits, range }
    }

    /// Checks whether a sample may have this timestamp.
    pub fn check(&self, timestamp: i64) -> Result<(), RejectReason> {
        if self.range.contains(timestamp) {
            return Ok(());
        }
        Err(match (self.limits.oldest(), self.limits.lead) {
            (_, Some(most)) if timestamp > self.range.end && timestamp <= MAX_TIMESTAMP => {
                RejectReason::TooFarAhead { timestamp, most }
            }
            (Some((most, setting)), _)
                if timestamp < self.range.start && timestamp >= MIN_TIMESTAMP =>
            {
                RejectReason::TooOld { timestamp, most, setting }
            }
            _ => RejectReason::TimestampOutOfRange(timestamp),
        })
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_SAMPLE_LEAD;

    const DAY: Duration = Duration::from_secs(86_400);
    /// 2026-11-27T00:00:00Z
    const NOW: i64 = 1_795_737_600_000;

    #[test]
    fn both_ends_belong_to_the_times_that_samples_may_have() {
        let limits = TimeLimits { age: Some(DAY), lead: Some(DAY * 2), retention: Some(2 * DAY) };
        let times = SampleTimes::at(NOW, limits);
        let (oldest, newest) = (NOW - 86_400_000, NOW + 2 * 86_400_000);
        for timestamp in [oldest, NOW, newest] {
            assert_eq!(times.check(timestamp), Ok(()));
        }
        let old = times.check(oldest - 1).expect_err("too old");
        let setting = MAX_SAMPLE_AGE;
        assert_eq!(old, RejectReason::TooOld { timestamp: oldest - 1, most: DAY, setting });
        assert_eq!(old.as_str(), MAX_SAMPLE_AGE);
        assert_eq!(
            old.to_string(),
            "timestamp 2026-11-25T23:59:59.999Z is more than 1d old, which is the setting max-sample-age"
        );
        let ahead = times.check(newest + 1).expect_err("too far ahead");
        assert_eq!(ahead, RejectReason::TooFarAhead { timestamp: newest + 1, most: DAY * 2 });
        assert_eq!(ahead.as_str(), MAX_SAMPLE_LEAD);
        assert_eq!(
            ahead.to_string(),
            "timestamp 2026-11-29T00:00:00.001Z is more than 2d in the future, which is the setting max-sample-lead"
        );
        let never = times.check(MAX_TIMESTAMP + 1);
        assert_eq!(never, Err(RejectReason::TimestampOutOfRange(MAX_TIMESTAMP + 1)));
    }

    #[test]
    fn what_the_store_would_remove_is_too_old() {
        let limits = TimeLimits { age: Some(DAY * 2), lead: None, retention: Some(DAY) };
        let times = SampleTimes::at(NOW, limits);
        assert_eq!(times.check(NOW - 86_400_000), Ok(()));
        let old = times.check(NOW - 86_400_001).expect_err("too old");
        assert_eq!(old.as_str(), "retention");
        assert_eq!(
            old.to_string(),
            "timestamp 2026-11-25T23:59:59.999Z is more than 1d old, which is the setting retention"
        );
    }

    #[test]
    fn without_limits_only_the_years_count() {
        let most = Some(Duration::MAX);
        for times in [
            SampleTimes::ANY,
            SampleTimes::at(NOW, TimeLimits::default()),
            SampleTimes::at(NOW, TimeLimits { age: most, lead: most, retention: most }),
        ] {
            for timestamp in [MIN_TIMESTAMP, 0, NOW, MAX_TIMESTAMP] {
                assert_eq!(times.check(timestamp), Ok(()), "{times:?}");
            }
            for timestamp in [i64::MIN, MIN_TIMESTAMP - 1, MAX_TIMESTAMP + 1, i64::MAX] {
                let never = Err(RejectReason::TimestampOutOfRange(timestamp));
                assert_eq!(times.check(timestamp), never, "{times:?}");
            }
        }
    }
}
