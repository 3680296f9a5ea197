//! The rate limit of requests: the token bucket of `rate_limit` in the web configuration.
//!
//! There is one bucket for all clients and paths, as in Prometheus. Health checks are exempt: a rate
//! limit must not make a probe restart the process. A request without a token is answered 429 at once,
//! before the login; no request waits.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::settings::RateLimit;

/// A token bucket, stored as the time at which it is full again.
pub(super) struct Bucket(Mutex<Instant>);

impl Bucket {
    /// A full bucket.
    pub(super) fn new(now: Instant) -> Self {
        Self(Mutex::new(now))
    }

    /// Takes a token, or returns the time until one is available.
    pub(super) fn take(&self, limit: RateLimit, now: Instant) -> Result<(), Duration> {
        let mut full_at = self.0.lock();
        let whole = limit.interval.saturating_mul(limit.burst);
        // Tokens that were taken under a previous limit count as at most the whole bucket of this one.
        let lacking = full_at.saturating_duration_since(now).min(whole);
        let taken = lacking.saturating_add(limit.interval);
        let (left, answer) = match taken <= whole {
            true => (taken, Ok(())),
            false => (lacking, Err(taken - whole)),
        };
        // A time that `Instant` cannot hold takes nothing.
        *full_at = now.checked_add(left).unwrap_or(*full_at);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_one_by_one_and_no_more_than_a_burst_is_kept() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let limit = RateLimit { interval: Duration::from_millis(100), burst: 2 };
        let bucket = Bucket::new(begun);
        let take = |ms, limit| bucket.take(limit, at(ms));
        assert_eq!((take(0, limit), take(0, limit)), (Ok(()), Ok(())));
        assert_eq!(take(0, limit), Err(Duration::from_millis(100)));
        assert_eq!(take(75, limit), Err(Duration::from_millis(25)));
        assert_eq!(take(100, limit), Ok(()));
        assert!(take(110, limit).is_err());
        for _ in 0..2 {
            assert_eq!(take(60_000, limit), Ok(()));
        }
        assert!(take(60_000, limit).is_err());
        // The limit may change while the bucket stays.
        let wider = RateLimit { burst: 5, ..limit };
        let taken = (0..10).filter(|_| take(61_000, wider).is_ok()).count();
        assert_eq!(taken, 5);
        let slower = RateLimit { interval: Duration::from_secs(60), burst: 1 };
        let quick = RateLimit { interval: Duration::from_millis(10), burst: 1 };
        let other = Bucket::new(begun);
        assert_eq!(other.take(slower, at(0)), Ok(()));
        assert_eq!(other.take(quick, at(0)), Err(Duration::from_millis(10)));
        assert_eq!(other.take(quick, at(10)), Ok(()));
    }
}
