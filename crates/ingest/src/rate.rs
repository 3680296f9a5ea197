//! Limits the samples per second.
//!
//! A request is accepted while any allowance is left, even if it has more samples; later requests are
//! refused until the debt is paid. So a request larger than one second's allowance passes, and the average rate holds.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The remaining allowance.
pub(super) struct Rate {
    left: Mutex<Left>,
}

struct Left {
    samples: f64,
    at: Instant,
}

impl Rate {
    /// Starts with the allowance of one second.
    pub(super) fn new(now: Instant) -> Self {
        Self { left: Mutex::new(Left { samples: f64::INFINITY, at: now }) }
    }

    /// Takes samples, or returns the time until some are available.
    pub(super) fn take(&self, samples: usize, rate: u64, now: Instant) -> Result<(), Duration> {
        let rate = rate as f64;
        let mut left = self.left.lock();
        let passed = now.saturating_duration_since(left.at).as_secs_f64();
        left.samples = (left.samples + passed * rate).min(rate);
        left.at = now;
        if left.samples > 0.0 {
            left.samples -= samples as f64;
            return Ok(());
        }
        Err(Duration::from_secs_f64(-left.samples / rate).max(Duration::from_secs(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_too_large_is_waited_for_by_the_next() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let rate = Rate::new(begun);
        rate.take(350, 100, at(0)).expect("a second's share is there");
        assert_eq!(rate.take(1, 100, at(0)), Err(Duration::from_millis(2500)));
        assert_eq!(rate.take(1, 100, at(2000)), Err(Duration::from_secs(1)));
        rate.take(1, 100, at(2600)).expect("it is paid back");
        rate.take(1, 100, at(100_000)).expect("and no more than a second's share is saved");
        rate.take(99, 100, at(100_000)).expect("the rest of it");
        rate.take(1, 100, at(100_000)).expect_err("nothing is left");
    }
}
