//! A clock for tests of throttled work.

use std::cell::Cell;
use std::time::Instant;

use super::cpu_throttle::CpuThrottle;

/// A clock that advances by more than a piece at each reading, and counts the calls of `sleep`.
pub(super) struct Ticking {
    now: Cell<Instant>,
    rests: Cell<usize>,
    hurry: Cell<bool>,
}

impl Ticking {
    pub(super) fn new() -> Self {
        Self { now: Cell::new(Instant::now()), rests: Cell::new(0), hurry: Cell::new(false) }
    }

    pub(super) fn set_hurry(&self) {
        self.hurry.set(true);
    }

    pub(super) fn duty(&self) -> CpuThrottle<'_> {
        let now = || {
            self.now.set(self.now.get() + CpuThrottle::PIECE * 2);
            self.now.get()
        };
        let rest = |_| self.rests.set(self.rests.get() + 1);
        CpuThrottle::with(|| self.hurry.get(), now, rest)
    }

    pub(super) fn rests(&self) -> usize {
        self.rests.get()
    }
}
