//! Throttles a log line for events that may come with every request: the line is written at most
//! once in [`PAUSE`], with the number of events since the line before.
//!
//! Other events are counted for the next line. Callers that must not lose the last ones call
//! [`Throttle::waiting`] now and then. There is no clock here: callers pass the time.

use std::time::{Duration, Instant};

/// Least time between two lines.
const PAUSE: Duration = Duration::from_secs(10);

/// One kind of line.
#[derive(Debug, Default)]
pub struct Throttle {
    written: Option<Instant>,
    /// Number of events since then.
    since: u64,
}

impl Throttle {
    /// Counts `more` events. If a line may be written now, returns the number of events since the last line.
    pub fn count(&mut self, more: u64, now: Instant) -> Option<u64> {
        self.since += more;
        if self.written.is_some_and(|written| now < written + PAUSE) {
            return None;
        }
        self.written = Some(now);
        Some(std::mem::take(&mut self.since))
    }

    /// The number of events since the last line, if there were any and a line may be written now.
    pub fn waiting(&mut self, now: Instant) -> Option<u64> {
        (self.since > 0).then(|| self.count(0, now)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_written_at_once_and_the_others_are_counted() {
        let (begin, mut throttle) = (Instant::now(), Throttle::default());
        let mut at = |ms: u64, more| throttle.count(more, begin + Duration::from_millis(ms));
        assert_eq!(at(0, 1), Some(1));
        assert_eq!((at(0, 2), at(9_999, 3)), (None, None));
        assert_eq!(at(10_000, 1), Some(6));
        assert_eq!(at(19_999, 0), None);
        assert_eq!(at(60_000, 0), Some(0));
        assert_eq!(at(60_001, 2), None);
        let mut waiting = |ms| throttle.waiting(begin + Duration::from_millis(ms));
        assert_eq!([69_999, 70_000, 80_000].map(&mut waiting), [None, Some(2), None]);
    }
}
