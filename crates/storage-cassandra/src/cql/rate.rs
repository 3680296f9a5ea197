//! Limits how often something is done per second, over all tasks that share the limit.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The limit. Time lost to a slow step is not made up for.
pub(crate) struct Rate {
    /// None = no limit.
    each: Option<Duration>,
    next: Mutex<Instant>,
}

impl Rate {
    /// One in this time.
    pub(crate) fn new(each: Option<Duration>) -> Self {
        Self { each, next: Mutex::new(Instant::now()) }
    }

    /// Waits until it may be done `times` more times.
    pub(crate) async fn take(&self, times: u32) {
        let Some(each) = self.each else { return };
        let turn = {
            let mut next = self.next.lock();
            let turn = (*next).max(Instant::now());
            *next = turn + each * times;
            turn
        };
        tokio::time::sleep_until(turn).await;
    }
}
