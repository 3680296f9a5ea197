//! When the index rows of the next window are written, and how fast. Pure.
//!
//! The writes are spread over the last part of a window. Each process begins at a slightly different
//! time, and all finish well before the next window, so that no window begins with a burst of writes.

use promkairos_kairos::{RowSpec, RowTime};

/// The last part of a window is at most this long, in milliseconds, ...
const LONGEST_LEAD: i64 = 2 * 3_600_000;
/// ... and at most the width of the window divided by this.
const LEAD_SHARE: i64 = 8;
/// The least and the most rows checked per second. Cassandra writes ten times as many.
const SLOWEST: f64 = 50.0;
const FASTEST: f64 = 5_000.0;

/// When this process writes ahead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    spec: RowSpec,
    lead: i64,
    /// How much later than the start of the last part this process begins, in milliseconds.
    delay: i64,
}

/// The change from one window to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowChange {
    /// The open window.
    pub(crate) open: RowTime,
    pub(crate) next: RowTime,
    lead: i64,
}

impl Schedule {
    /// Processes with different numbers begin at different times.
    pub(crate) fn new(spec: RowSpec, number: u64) -> Self {
        let lead = LONGEST_LEAD.min(spec.width() / LEAD_SHARE);
        let delay = (number >> 1).cast_signed() % (lead / 4).max(1);
        Self { spec, lead, delay }
    }

    /// The change to prepare at `now`, in milliseconds since 1970, if it is time.
    pub(crate) fn change(&self, now: i64) -> Option<WindowChange> {
        let open = self.spec.row_time(now);
        let next = RowTime::from_stored(open.millis().checked_add(self.spec.width())?);
        let begin = next.millis() - self.lead + self.delay;
        // Before 1970 windows are not ranges of time.
        (now >= begin && open.millis() >= 0).then_some(WindowChange { open, next, lead: self.lead })
    }
}

impl WindowChange {
    /// Whether the next window has begun.
    pub(crate) fn is_over(&self, now: i64) -> bool {
        now >= self.next.millis()
    }

    /// Whole seconds until the next window begins, rounded up.
    pub(crate) fn begins_in(&self, now: i64) -> i64 {
        (self.next.millis() - now).max(0).div_euclid(1000) + 1
    }

    /// Rows to check per second so that all are done while a quarter of the time is left.
    pub(crate) fn rows_per_second(&self, rows: usize, now: i64) -> f64 {
        let left = self.next.millis() - self.lead / 4 - now;
        if left <= 0 {
            return FASTEST;
        }
        (rows as f64 * 1000.0 / left as f64).clamp(SLOWEST, FASTEST)
    }

    /// When to look again for series that were not live before.
    pub(crate) fn again(&self, now: i64) -> i64 {
        now + self.lead / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_kairos::TimeUnit;

    const HOUR: i64 = 3_600_000;
    const WIDTH: i64 = 504 * HOUR;

    #[test]
    fn it_is_time_in_the_last_part_of_a_window() {
        let first = Schedule::new(RowSpec::DEFAULT, 0);
        let last = Schedule::new(RowSpec::DEFAULT, 2 * (HOUR / 2 - 1).unsigned_abs());
        let begins = 5 * WIDTH;
        for (schedule, begin) in [(first, 2 * HOUR), (last, 2 * HOUR - (HOUR / 2 - 1))] {
            assert_eq!(schedule.change(begins - begin - 1), None);
            let change = schedule.change(begins - begin).expect("time");
            assert_eq!((change.open.millis(), change.next.millis()), (4 * WIDTH, begins));
            assert_eq!(schedule.change(begins - 1), Some(change));
            assert!(!change.is_over(begins - 1) && change.is_over(begins));
            assert_eq!(schedule.change(begins), None);
        }
        assert_eq!(first.change(-1), None);
        let short = |width| RowSpec::new(TimeUnit::Milliseconds, width).expect("valid");
        let schedule = Schedule::new(short(16), u64::MAX);
        assert_eq!([13, 14, 15].map(|now| schedule.change(now).is_some()), [false, true, true]);
        assert_eq!(Schedule::new(short(1), 0).change(7), None, "nothing of it is a last part");
    }

    #[test]
    fn rows_are_spread_over_the_time_that_is_left() {
        let change = Schedule::new(RowSpec::DEFAULT, 0).change(WIDTH - HOUR).expect("time");
        let rate = |rows, before| change.rows_per_second(rows, WIDTH - before);
        assert_eq!(rate(1_800_000, HOUR), 1_000.0);
        assert_eq!(rate(1_800_000, 2 * HOUR), 1_800_000.0 / 5_400.0);
        assert_eq!(rate(10, 2 * HOUR), SLOWEST);
        assert_eq!((rate(usize::MAX, 2 * HOUR), rate(1, HOUR / 2)), (FASTEST, FASTEST));
        assert_eq!([0, 1, 999, 1_000, 1_001].map(|b| change.begins_in(WIDTH - b)), [1, 1, 1, 2, 2]);
        assert_eq!(change.begins_in(WIDTH + 5), 1);
    }
}
