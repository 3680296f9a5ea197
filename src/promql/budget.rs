//! How many samples and bytes a query holds in memory, and how many it may.
//!
//! Whoever keeps points of many series takes them from the budget and gives them back by
//! dropping what it got. Points on their way through an operator are not counted but for one series at
//! all steps, which each operator has room for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::error::QueryError;
use super::settings::{MAX_BYTES, MAX_SAMPLES, Settings};

/// More than a query can hold at all.
const BEYOND: usize = 1 << 52;

/// The budget of one query.
#[derive(Debug)]
pub(crate) struct Budget {
    samples: AtomicUsize,
    peak_samples: AtomicUsize,
    bytes: AtomicUsize,
    max_samples: usize,
    max_bytes: usize,
}

/// Samples and bytes taken from a budget until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    budget: Arc<Budget>,
    samples: usize,
    bytes: usize,
}

impl Budget {
    /// An untouched budget.
    pub(crate) fn new(settings: &Settings) -> Arc<Self> {
        Arc::new(Self {
            samples: AtomicUsize::new(0),
            peak_samples: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            max_samples: settings.max_samples,
            max_bytes: settings.max_bytes,
        })
    }

    /// Holds nothing yet.
    pub(crate) fn nothing(self: &Arc<Self>) -> Held {
        Held { budget: Arc::clone(self), samples: 0, bytes: 0 }
    }

    /// Holds these bytes if all that is held has a quarter of what may be then: for what can be done
    /// without.
    pub(crate) fn hold_if_quarter(self: &Arc<Self>, bytes: usize) -> Option<Held> {
        let most = self.max_bytes / 4;
        let fits = |held: usize| held.checked_add(bytes).filter(|held| *held <= most);
        self.bytes.fetch_update(Relaxed, Relaxed, fits).ok()?;
        Some(Held { budget: Arc::clone(self), samples: 0, bytes })
    }

    /// Bytes held now.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// The most samples held at a time.
    pub(crate) fn peak_samples(&self) -> usize {
        self.peak_samples.load(Relaxed)
    }

    /// Most bytes of labels that one selection may have.
    pub(crate) fn max_bytes(&self) -> usize {
        self.max_bytes
    }
}

impl Held {
    /// Takes more.
    pub(crate) fn take(&mut self, samples: usize, bytes: usize) -> Result<(), QueryError> {
        let budget = &self.budget;
        // What is beyond any limit must not wrap around.
        let (samples, bytes) = (samples.min(BEYOND), bytes.min(BEYOND));
        self.samples += samples;
        self.bytes += bytes;
        let now = budget.samples.fetch_add(samples, Relaxed) + samples;
        let bytes_now = budget.bytes.fetch_add(bytes, Relaxed) + bytes;
        budget.peak_samples.fetch_max(now, Relaxed);
        if now > budget.max_samples {
            let limit = budget.max_samples;
            return Err(QueryError::TooManySamples { limit, setting: MAX_SAMPLES });
        }
        if bytes_now > budget.max_bytes {
            return Err(QueryError::Limit(format!(
                "query would hold more than {} bytes in memory, which is the setting {MAX_BYTES}",
                budget.max_bytes
            )));
        }
        Ok(())
    }

    /// Gives everything back.
    pub(crate) fn release(&mut self) {
        self.budget.samples.fetch_sub(self.samples, Relaxed);
        self.budget.bytes.fetch_sub(self.bytes, Relaxed);
        (self.samples, self.bytes) = (0, 0);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_can_be_taken_again() {
        let budget = Budget::new(&Settings { max_samples: 10, ..Settings::default() });
        let mut first = budget.nothing();
        first.take(6, 0).expect("within the limit");
        assert!(matches!(budget.nothing().take(5, 0), Err(QueryError::TooManySamples { .. })));
        drop(first);
        budget.nothing().take(10, 0).expect("within the limit");
        assert_eq!(budget.peak_samples(), 11);
    }
}
