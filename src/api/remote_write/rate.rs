//! How many samples a second are taken.
//!
//! Whoever comes while there is something left takes all that a request has; what it took too much is
//! waited for by the next ones. So a request larger than a second's share passes, and the rate holds over time.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// What is left of the rate.
pub(super) struct Rate {
    left: Mutex<Left>,
}

struct Left {
    samples: f64,
    at: Instant,
}

impl Rate {
    /// A second's share is there at the start.
    pub(super) fn new(now: Instant) -> Self {
        Self { left: Mutex::new(Left { samples: f64::INFINITY, at: now }) }
    }

    /// Takes samples; else says after what time there are some.
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
