//! The number of requests that wait for something, and its limit.
//!
//! The caller decides what a request waits for, and for how long. [`Waiting`] counts it until it is dropped.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::error::QueryError;
use super::setting_names::MAX_QUEUE;

/// The number of waiting requests.
#[derive(Debug, Default)]
pub(crate) struct Queue(AtomicUsize);

/// A request that waits, until this is dropped.
pub(crate) struct Waiting<'a>(&'a Queue);

impl Queue {
    /// Whether no request waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Relaxed) == 0
    }

    /// Counts one more waiting request.
    pub(crate) fn join(&self) -> Waiting<'_> {
        self.0.fetch_add(1, Relaxed);
        Waiting(self)
    }

    /// Counts one more waiting query, unless `most` wait already. `until` continues the error "too many queries
    /// wait".
    pub(crate) fn join_within(&self, most: usize, until: &str) -> Result<Waiting<'_>, QueryError> {
        let before = self.0.fetch_add(1, Relaxed);
        let waiting = Waiting(self);
        if before < most {
            return Ok(waiting);
        }
        let what = format!(
            "too many queries wait{until}: more than {most}, which is the setting {MAX_QUEUE}"
        );
        Err(QueryError::Busy { what, setting: MAX_QUEUE })
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_wait_than_may() {
        let queue = Queue::default();
        let refused =
            |most| queue.join_within(most, " for it").map(drop).map_err(|error| error.to_string());
        assert!(queue.is_empty());
        let first = queue.join();
        let want =
            "too many queries wait for it: more than 1, which is the setting query-max-queue";
        assert_eq!(refused(1), Err(want.to_owned()));
        assert_eq!(refused(2), Ok(()), "who was refused waits no more");
        drop(first);
        assert_eq!(refused(1), Ok(()));
        assert!(queue.is_empty());
    }
}
