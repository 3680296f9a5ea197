//! What the log says of refused writes: for each setting at most one line in a while, with how many were
//! refused since the line before and the last of them.
//!
//! No refusal goes untold: what came too soon for a line of its own is told when its time has come, by who
//! calls [`Told::catch_up`] now and then. The metrics count for themselves.

use std::collections::BTreeMap;
use std::time::Instant;

use parking_lot::Mutex;

use crate::telemetry::Throttle;

/// Lines about one kind of thing that is refused.
pub(super) struct Told {
    /// How a line begins.
    what: &'static str,
    by_setting: Mutex<BTreeMap<&'static str, Refused>>,
}

#[derive(Default)]
struct Refused {
    throttle: Throttle,
    /// Why the last one was.
    last: String,
}

impl Told {
    /// Nothing was refused yet.
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, by_setting: Mutex::default() }
    }

    /// So many were refused for a setting, the last one with this text.
    pub(super) fn count(&self, setting: &'static str, more: u64, last: String, now: Instant) {
        let mut by_setting = self.by_setting.lock();
        let of_setting = by_setting.entry(setting).or_default();
        of_setting.last = last;
        let due = of_setting.throttle.count(more, now);
        self.write(of_setting, due);
    }

    /// Tells what had to wait and need wait no longer.
    pub(super) fn catch_up(&self, now: Instant) {
        for of_setting in self.by_setting.lock().values_mut() {
            let due = of_setting.throttle.waiting(now);
            self.write(of_setting, due);
        }
    }

    fn write(&self, of_setting: &Refused, due: Option<u64>) {
        if let Some(refused) = due {
            tracing::warn!(refused, "{} are refused: {}", self.what, of_setting.last);
        }
    }
}
