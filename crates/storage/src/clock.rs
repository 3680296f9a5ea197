//! The clock of the system, in milliseconds since 1970, and a clock that a store can be given.
//!
//! Nothing else reads it. It may be turned back: whoever needs times that rise sees to it.

use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A clock, by default that of the system.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> i64 + Send + Sync>);

impl Clock {
    /// A clock that shows what `now_ms` answers, in milliseconds since 1970.
    pub fn new(now_ms: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(now_ms))
    }

    /// One that never goes back: it shows the milliseconds since it was made.
    pub fn monotonic() -> Self {
        let begin = Instant::now();
        Self::new(move || i64::try_from(begin.elapsed().as_millis()).unwrap_or(i64::MAX))
    }

    /// What it shows, in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(now_ms)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now_ms())
    }
}

/// Milliseconds since 1970; 0 when the clock stands before.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
