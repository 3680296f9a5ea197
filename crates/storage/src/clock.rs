//! The system clock in milliseconds since 1970, and a clock that can be passed to a store.
//!
//! No other module reads the system clock. It may be set back: code that needs rising times has to ensure them itself.

use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A clock; the default is the system clock.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> i64 + Send + Sync>);

impl Clock {
    /// A clock that returns `now_ms()`, in milliseconds since 1970.
    pub fn new(now_ms: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(now_ms))
    }

    /// A clock that never goes back: it returns the milliseconds since its creation.
    pub fn monotonic() -> Self {
        let begin = Instant::now();
        Self::new(move || i64::try_from(begin.elapsed().as_millis()).unwrap_or(i64::MAX))
    }

    /// The current time, in milliseconds since 1970.
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

/// Milliseconds since 1970; 0 if the clock is set to an earlier time.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
