//! The time that retention uses: the clock, unless the clock jumps ahead.
//!
//! A clock that is set far ahead, briefly or by mistake, must not empty the store. So a bound
//! starts at the newest stored point and moves at most [`PACE`] times as fast as time passes. A
//! jump of the clock removes no more than that until the clock is right again, and a store that was
//! off for long catches up within days. A clock that is behind delays retention and does not move
//! the bound. A restart forgets the bound: if clock and stored points are both far ahead, retention
//! follows them.

use std::time::{Duration, Instant};

/// How many times faster than real time the bound may move: a day in an hour.
const PACE: u32 = 24;

/// The bound in milliseconds since 1970, and when it was set; `None` = not set yet.
#[derive(Debug, Default)]
pub(super) struct RetentionClock(Option<(i64, Instant)>);

impl RetentionClock {
    /// The time for retention, in milliseconds since 1970. `clock` is the time of the clock at
    /// `at`, `newest` the time of the newest stored point. `None` while there is no point.
    pub(super) fn time(&mut self, clock: i64, newest: Option<i64>, at: Instant) -> Option<i64> {
        let bound = match self.0 {
            Some((bound, since)) => {
                let most = bound.saturating_add(pace(at.saturating_duration_since(since)));
                bound.max(clock.min(most))
            }
            None => newest?,
        };
        self.0 = Some((bound, at));
        Some(clock.min(bound))
    }
}

/// Milliseconds that the bound may move in this time.
fn pace(passed: Duration) -> i64 {
    i64::try_from(passed.saturating_mul(PACE).as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;
    const YEAR: i64 = 365 * 24 * HOUR;

    #[test]
    fn a_jump_is_followed_no_faster_than_at_its_pace() {
        let (mut horizon, start) = (RetentionClock::default(), Instant::now());
        let after = |minutes: u64| start + Duration::from_secs(60 * minutes);
        assert_eq!(horizon.time(YEAR, None, start), None, "nothing is stored");
        let jumped = YEAR + 1 + 24 * 60_000;
        for (clock, minutes, want) in [
            (YEAR, 0, YEAR - HOUR),
            (YEAR + 1, 60, YEAR + 1),
            // Ahead, and right again.
            (9 * YEAR, 61, jumped),
            (YEAR + 2, 62, YEAR + 2),
            // Back, and right again.
            (5, 63, 5),
            (YEAR + 3, 63, YEAR + 3),
            // Ahead, and it is right to be there.
            (3 * YEAR, 123, jumped + 24 * HOUR),
            (3 * YEAR + 1, 123 + 60 * 24 * 365, 3 * YEAR + 1),
        ] {
            let time = horizon.time(clock, Some(YEAR - HOUR), after(minutes));
            assert_eq!(time, Some(want), "{minutes}");
        }
    }

    #[test]
    fn it_is_never_ahead_of_the_clock() {
        let begin =
            |clock, newest| RetentionClock::default().time(clock, Some(newest), Instant::now());
        assert_eq!(begin(YEAR, 2 * YEAR), Some(YEAR));
        assert_eq!(begin(2 * YEAR, YEAR), Some(YEAR));
    }
}
