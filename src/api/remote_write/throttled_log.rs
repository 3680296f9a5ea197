//! Throttled log of refused writes: for each setting at most one line per interval, with the number of
//! refusals since the line before and the last reason.
//!
//! No refusal is lost: one that comes too early for a line is logged later by [`ThrottledLog::catch_up`], which is
//! called regularly. The metrics count separately.

use std::collections::BTreeMap;
use std::time::Instant;

use parking_lot::Mutex;

use crate::telemetry::Throttle;

/// The throttled lines about one kind of refused data.
pub(super) struct ThrottledLog {
    /// The beginning of each line.
    what: &'static str,
    by_setting: Mutex<BTreeMap<&'static str, Refused>>,
}

#[derive(Default)]
struct Refused {
    throttle: Throttle,
    /// The last reason.
    last: String,
}

impl ThrottledLog {
    /// Without any refusal yet.
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, by_setting: Mutex::default() }
    }

    /// Counts `more` refusals for a setting, of which `last` is the last reason.
    pub(super) fn count(&self, setting: &'static str, more: u64, last: String, now: Instant) {
        let mut by_setting = self.by_setting.lock();
        let of_setting = by_setting.entry(setting).or_default();
        of_setting.last = last;
        let due = of_setting.throttle.count(more, now);
        self.write(of_setting, due);
    }

    /// Logs the refusals whose interval has passed.
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
