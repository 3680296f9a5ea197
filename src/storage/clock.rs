//! The clock of the system, in milliseconds since 1970.
//!
//! Nothing else reads it. It may be turned back: whoever needs times that rise sees to it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970; 0 when the clock stands before.
pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
