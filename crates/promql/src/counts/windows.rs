//! The windows in which the results of a subquery are seen.

use std::ops::Range;

use crate::steps::Steps;

/// The windows of a subquery.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Windows {
    /// The steps at which windows end.
    pub outer: Steps,
    /// The steps of the subquery.
    pub inner: Steps,
    /// Milliseconds by which the windows end before their steps.
    pub offset: i64,
    /// The length of a window, in milliseconds.
    pub range: i64,
    /// Whether the window is the same for all steps, as `@` makes it.
    pub fixed: bool,
}

impl Windows {
    /// Whether each window contains all steps of the subquery.
    pub(super) fn see_all(&self) -> bool {
        self.fixed || self.outer.count() == 1
    }

    /// The steps of the subquery in the window of a step.
    pub(super) fn of(&self, step: usize) -> Range<usize> {
        if self.see_all() {
            return 0..self.inner.count();
        }
        let end = self.outer.time(step).saturating_sub(self.offset);
        self.up_to(end.saturating_sub(self.range))..self.up_to(end)
    }

    /// The number of steps of the subquery at or before `time`.
    fn up_to(&self, time: i64) -> usize {
        let after = time.saturating_sub(self.inner.start);
        if after < 0 {
            0
        } else {
            ((after / self.inner.interval) as usize + 1).min(self.inner.count())
        }
    }

    /// Whether a step of the subquery may be in no window.
    pub(super) fn leave_gaps(&self) -> bool {
        let first = self.inner.start.saturating_add(self.offset);
        self.outer.interval > self.range || self.is_before(first, self.outer.start)
    }

    /// The first window that contains this step of the subquery.
    pub(super) fn first(&self, step: usize) -> Option<usize> {
        let time = self.inner.time(step).saturating_add(self.offset);
        let after = time.saturating_sub(self.outer.start).max(0) as u64;
        let at = after.div_ceil(self.outer.interval as u64) as usize;
        (at < self.outer.count() && !self.is_before(time, self.outer.time(at))).then_some(at)
    }

    /// Whether a time is before the window of a step.
    fn is_before(&self, time: i64, step: i64) -> bool {
        time <= step.saturating_sub(self.range)
    }
}
