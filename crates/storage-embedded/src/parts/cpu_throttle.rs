//! Throttles background work to half of one core, unless a caller waits for it.
//!
//! The work calls [`CpuThrottle::keep`] often, which rests for as long as the work took. Clock and
//! sleep are parameters, so that tests need not wait.

use std::time::{Duration, Instant};

/// Limits work to half of the time of one thread.
pub(super) struct CpuThrottle<'a> {
    hurry: Box<dyn Fn() -> bool + 'a>,
    now: Box<dyn Fn() -> Instant + 'a>,
    sleep: Box<dyn Fn(Duration) + 'a>,
    /// When the present piece of work began.
    began: Instant,
}

impl<'a> CpuThrottle<'a> {
    /// Time of work before a rest.
    pub(super) const PIECE: Duration = Duration::from_millis(10);
    /// Longest rest. A piece that took longer was interrupted: other work had the core.
    const LONGEST_REST: Duration = Duration::from_millis(100);

    /// Starts a cycle. While `hurry` returns true, the work does not rest.
    pub(super) fn new(hurry: impl Fn() -> bool + 'a) -> Self {
        Self::with(hurry, Instant::now, std::thread::sleep)
    }

    /// As `new`, with another clock and another way to sleep.
    pub(super) fn with(
        hurry: impl Fn() -> bool + 'a,
        now: impl Fn() -> Instant + 'a,
        sleep: impl Fn(Duration) + 'a,
    ) -> Self {
        let began = now();
        Self { hurry: Box::new(hurry), now: Box::new(now), sleep: Box::new(sleep), began }
    }

    /// Rests for as long as the work took since the last rest. Called often.
    pub(super) fn keep(&mut self) {
        let worked = (self.now)().saturating_duration_since(self.began);
        if worked <= Self::PIECE {
            return;
        }
        if !(self.hurry)() {
            (self.sleep)(worked.min(Self::LONGEST_REST));
        }
        self.began = (self.now)();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn it_rests_as_long_as_it_worked_unless_there_is_a_hurry() {
        let start = Instant::now();
        let (now, rested, hurry) = (Cell::new(start), Cell::new(Duration::ZERO), Cell::new(false));
        let sleep = |time| {
            rested.set(rested.get() + time);
            now.set(now.get() + time);
        };
        let mut duty = CpuThrottle::with(|| hurry.get(), || now.get(), sleep);
        let mut rest_after = |millis: u64| {
            now.set(now.get() + Duration::from_millis(millis));
            let before = rested.get();
            duty.keep();
            (rested.get() - before).as_millis()
        };
        // Pieces add up until they are worth a rest.
        assert_eq!([4, 4, 4, 4].map(&mut rest_after), [0, 0, 12, 0]);
        assert_eq!(rest_after(46), 50);
        assert_eq!([1_000_000, 10, 11].map(&mut rest_after), [100, 0, 21]);
        hurry.set(true);
        assert_eq!([20, 1_000, 5].map(&mut rest_after), [0, 0, 0]);
        // Work at full speed is not made up for.
        hurry.set(false);
        assert_eq!([5, 1].map(&mut rest_after), [0, 11]);
    }
}
