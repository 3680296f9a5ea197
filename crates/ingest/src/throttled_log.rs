//! Throttled log of refused writes: for each kind of data and each setting at most one line per interval, with the
//! number of refusals since the line before and the last reason.
//!
//! No refusal is lost: one that comes too early for a line is logged later by [`ThrottledLog::catch_up`], which is
//! called regularly. The metrics count separately.

use std::collections::BTreeMap;
use std::time::Instant;

use parking_lot::Mutex;
use promkairos_telemetry::Throttle;

/// The throttled lines, by the kind of the refused data, which begins a line, and by the setting.
#[derive(Default)]
pub(super) struct ThrottledLog {
    refused: Mutex<BTreeMap<(&'static str, &'static str), Refused>>,
}

#[derive(Default)]
struct Refused {
    throttle: Throttle,
    /// The last reason.
    last: String,
}

impl ThrottledLog {
    /// Counts `more` refusals of this kind for a setting, of which `last` is the last reason.
    pub(super) fn count(
        &self,
        what: &'static str,
        setting: &'static str,
        more: u64,
        last: String,
        now: Instant,
    ) {
        let mut refused = self.refused.lock();
        let refused = refused.entry((what, setting)).or_default();
        refused.last = last;
        let due = refused.throttle.count(more, now);
        refused.write(what, due);
    }

    /// Logs the refusals whose interval has passed.
    pub(super) fn catch_up(&self, now: Instant) {
        for ((what, _), refused) in self.refused.lock().iter_mut() {
            let due = refused.throttle.waiting(now);
            refused.write(what, due);
        }
    }
}

impl Refused {
    fn write(&self, what: &str, due: Option<u64>) {
        if let Some(refused) = due {
            tracing::warn!(refused, "{what} are refused: {}", self.last);
        }
    }
}
