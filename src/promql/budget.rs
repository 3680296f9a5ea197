//! How many samples and bytes a query holds in memory, and how many it may; and all queries together.
//!
//! Whoever keeps points of many series takes them from the budget and gives them back by
//! dropping what it got. Points on their way through an operator are not counted but for one series at
//! all steps, which each operator has room for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::error::QueryError;
use super::settings::{MAX_BYTES, MAX_SAMPLES, Settings};
use crate::storage::{Level, MEMORY_LIMIT, Pressure, Refused};

/// More than a query can hold at all.
const BEYOND: usize = 1 << 52;

/// A query that holds no more than this part of what the process may have goes on when memory is short.
const LITTLE: u64 = 256;
/// Parts of what a query may hold: a selection is opened with one, and only if that is too little with all.
const OPENINGS: u32 = 16;

/// What all queries of an engine hold together, and may.
#[derive(Debug)]
pub struct QueryMemory {
    bytes: AtomicUsize,
    max_bytes: usize,
    pressure: Arc<Pressure>,
    /// What is opened holds label sets that no budget has yet: all that is opened at a time has no more
    /// than one query may hold.
    openings: Semaphore,
}

/// Leave to open a selection.
pub(crate) struct Opening<'a> {
    /// Most bytes that its label sets may have.
    pub(crate) max_bytes: usize,
    _turn: SemaphorePermit<'a>,
}

impl QueryMemory {
    /// Room for `max_bytes`, as long as the process is not short of memory.
    pub fn new(max_bytes: usize, pressure: Arc<Pressure>) -> Self {
        let openings = Semaphore::new(OPENINGS as usize);
        Self { bytes: AtomicUsize::new(0), max_bytes, pressure, openings }
    }

    /// Bytes held now.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Takes more for a query that then holds `of_query` bytes. They are held, whatever the answer is.
    fn take(&self, bytes: usize, of_query: usize) -> Result<(), QueryError> {
        let now = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        let little = self.little();
        if bytes == 0 || of_query <= little {
            return Ok(());
        }
        let why = if now > self.max_bytes {
            format!(
                "all queries would hold more than {} bytes in memory, which is half of the setting \
                 {MEMORY_LIMIT}",
                self.max_bytes
            )
        } else if self.pressure.level() >= Level::Full {
            return Err(self.short());
        } else {
            return Ok(());
        };
        self.pressure.count(Refused::Query);
        Err(QueryError::Limit(why))
    }

    /// What a query may always hold.
    fn little(&self) -> usize {
        usize::try_from(self.pressure.limit() / LITTLE).unwrap_or(usize::MAX)
    }

    /// The refusal of a query that would hold more than a little while memory is short.
    fn short(&self) -> QueryError {
        self.pressure.count(Refused::Query);
        let (text, little) = (self.pressure.text(), self.little());
        QueryError::Limit(format!("{text}: no query may hold more than {little} bytes now"))
    }

    fn release(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
    }
}

impl PartialEq for QueryMemory {
    /// Whether they are one.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for QueryMemory {}

impl Default for QueryMemory {
    /// As much as there is.
    fn default() -> Self {
        Self::new(usize::MAX, Arc::default())
    }
}

/// The budget of one query.
#[derive(Debug)]
pub(crate) struct Budget {
    samples: AtomicUsize,
    peak_samples: AtomicUsize,
    bytes: AtomicUsize,
    max_samples: usize,
    max_bytes: usize,
    /// Of all queries.
    all: Arc<QueryMemory>,
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
            all: Arc::clone(&settings.memory),
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
        let before = self.bytes.fetch_update(Relaxed, Relaxed, fits).ok()?;
        let held = Held { budget: Arc::clone(self), samples: 0, bytes };
        self.all.take(bytes, before + bytes).ok()?;
        Some(held)
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

    /// Leave to open a selection of some size, in turn with those of all queries.
    pub(crate) async fn opening(&self) -> Result<Opening<'_>, QueryError> {
        let turn = self.all.openings.acquire().await.map_err(|_| QueryError::Canceled)?;
        let mut max_bytes = self.max_bytes / OPENINGS as usize;
        if self.all.pressure.level() >= Level::Full {
            max_bytes = max_bytes.min(self.all.little());
        }
        Ok(Opening { max_bytes, _turn: turn })
    }

    /// The same for a selection to which that was too little.
    pub(crate) async fn large_opening(&self) -> Result<Opening<'_>, QueryError> {
        let turns = self.all.openings.acquire_many(OPENINGS).await;
        let turn = turns.map_err(|_| QueryError::Canceled)?;
        if self.all.pressure.level() >= Level::Full {
            return Err(self.all.short());
        }
        Ok(Opening { max_bytes: self.max_bytes, _turn: turn })
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
        let of_all = budget.all.take(bytes, bytes_now);
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
        of_all
    }

    /// Gives everything back.
    pub(crate) fn release(&mut self) {
        self.budget.samples.fetch_sub(self.samples, Relaxed);
        self.budget.bytes.fetch_sub(self.bytes, Relaxed);
        self.budget.all.release(self.bytes);
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

    #[test]
    fn queries_share_what_all_may_hold() {
        let memory = Arc::new(QueryMemory::new(1_000, Arc::new(Pressure::new(25_600))));
        let settings = Settings { memory: Arc::clone(&memory), ..Settings::default() };
        let (one, other) = (Budget::new(&settings), Budget::new(&settings));
        let mut held = one.nothing();
        held.take(0, 900).expect("within the limit");
        let error = other.nothing().take(0, 101).expect_err("beyond it").to_string();
        assert!(error.contains("more than 1000 bytes in memory"), "{error}");
        assert!(error.ends_with("half of the setting memory-limit"), "{error}");
        assert!(other.hold_if_quarter(101).is_none());
        other.nothing().take(0, 100).expect("a little is always there");
        assert_eq!(memory.bytes(), 900, "what was refused is given back");
        drop(held);
        other.nothing().take(0, 1_000).expect("there is room again");
        assert_eq!(memory.bytes(), 0);
    }

    #[test]
    fn where_memory_is_short_a_query_gets_a_little() {
        let pressure = Arc::new(Pressure::new(25_600));
        let memory = QueryMemory::new(10_000, Arc::clone(&pressure));
        let settings = Settings { memory: Arc::new(memory), ..Settings::default() };
        let budget = Budget::new(&settings);
        budget.nothing().take(0, 5_000).expect("there is room");
        pressure.note(25_000);
        let mut held = budget.nothing();
        held.take(0, 100).expect("a little");
        let error = held.take(0, 1).expect_err("more than that").to_string();
        let want = "the process has 25000 bytes in memory, and the setting memory-limit is 25600: no \
                    query may hold more than 100 bytes now";
        assert_eq!(error, want);
        assert_eq!(pressure.take_refused(Refused::Query), 1);
    }
}
