//! How many samples and bytes a query holds in memory, and how many it may.
//!
//! An operator takes what it keeps from the budget before it makes it, and gives it back by dropping what it got:
//! a [`Held`], alone or inside of what is kept, as [`Points`](super::points::Points) count their histograms,
//! [`KeptPoints`](super::points::KeptPoints) also their floats and [`SeriesList`](super::series_list::SeriesList) its
//! label sets. Floats on their way through an operator are not counted but for one series at all steps, which each
//! operator has room for. What one value takes while it is computed is not counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::error::QueryError;
use super::query_memory::{Opening, QueryMemory};
use super::settings::{MAX_BYTES, MAX_SAMPLES, Settings};
use promkairos_model::ShownSize;

/// More than a query can hold at all.
const BEYOND: usize = 1 << 52;
/// Bytes that are taken before they are needed, at most.
const MOST_AHEAD: usize = 256 << 10;

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
pub struct Held {
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
        self.all.try_take(bytes, before + bytes).ok()?;
        Some(held)
    }

    /// Bytes that may be held.
    pub(crate) fn max_bytes(&self) -> usize {
        self.max_bytes
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
        self.all.opening(self.max_bytes).await
    }

    /// The same for a selection to which that was too little.
    pub(crate) async fn large_opening(&self) -> Result<Opening<'_>, QueryError> {
        self.all.large_opening(self.max_bytes).await
    }
}

impl Held {
    /// Takes more.
    pub fn take(&mut self, samples: usize, bytes: usize) -> Result<(), QueryError> {
        let budget = &self.budget;
        // What is beyond any limit must not wrap around.
        let (samples, bytes) = (samples.min(BEYOND), bytes.min(BEYOND));
        self.samples += samples;
        self.bytes += bytes;
        let now = budget.samples.fetch_add(samples, Relaxed) + samples;
        let bytes_now = budget.bytes.fetch_add(bytes, Relaxed) + bytes;
        budget.peak_samples.fetch_max(now, Relaxed);
        let of_all = budget.all.try_take(bytes, bytes_now);
        if now > budget.max_samples {
            let limit = budget.max_samples;
            return Err(QueryError::TooManySamples { limit, setting: MAX_SAMPLES });
        }
        if bytes_now > budget.max_bytes {
            let what = format!(
                "query would hold more than {} in memory, which is the setting {MAX_BYTES}",
                ShownSize::of(budget.max_bytes)
            );
            return Err(QueryError::Limit { what, setting: MAX_BYTES });
        }
        of_all.map_err(|why| budget.all.refuse(why))
    }

    /// Of the same budget, and holds nothing yet.
    pub fn another(&self) -> Self {
        self.budget.nothing()
    }

    /// Takes no samples, and bytes until these are held at least. What grows bit by bit takes some more at a time
    /// than it needs: whether there is room is asked of all queries.
    pub fn cover(&mut self, bytes: usize) -> Result<(), QueryError> {
        let Some(missing) = bytes.checked_sub(self.bytes).filter(|missing| *missing > 0) else {
            return Ok(());
        };
        let ahead = missing.max((self.bytes / 8).min(MOST_AHEAD));
        let now = self.budget.bytes.load(Relaxed).saturating_add(ahead);
        self.take(0, if now <= self.budget.max_bytes { ahead } else { missing })
    }

    /// Gives some bytes back, or all where it holds less.
    pub fn give(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.bytes.fetch_sub(bytes, Relaxed);
        self.budget.all.release(bytes);
    }

    /// Gives everything back.
    pub fn release(&mut self) {
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
    use promkairos_storage::{Pressure, Refused};

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
    fn what_grows_is_covered_and_given_back_in_parts() {
        let budget = Budget::new(&Settings { max_bytes: 10_000, ..Settings::default() });
        let mut held = budget.nothing();
        for bytes in 1..=8_000 {
            held.cover(bytes).expect("within the limit");
            assert!((bytes..=bytes + bytes / 8 + 1).contains(&budget.bytes()));
        }
        assert!(held.cover(10_001).is_err());
        held.give(6_000);
        assert!(budget.bytes() < 6_000);
        held.give(1 << 40);
        assert_eq!(budget.bytes(), 0);
        held.cover(10_000).expect("there is room again");
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
    fn what_queries_took_since_a_look_counts_as_memory_of_the_process() {
        let pressure = Arc::new(Pressure::new(25_600));
        let memory = Arc::new(QueryMemory::new(20_000, Arc::clone(&pressure)));
        let settings = Settings { memory: Arc::clone(&memory), ..Settings::default() };
        let budget = Budget::new(&settings);
        pressure.note(15_000);
        let mut held = budget.nothing();
        held.take(0, 3_300).expect("less than 85 %, though it counts twice");
        let error = budget.nothing().take(0, 100).expect_err("as much").to_string();
        let want = "the process has 15000 bytes in memory, and the setting memory-limit is 25KiB, and queries took \
                    3400 bytes more since it was looked at: no query may hold more than 100 bytes now";
        assert_eq!(error, want);
        // They hold it, and the process does not have it: it was there before.
        pressure.note(15_000);
        memory.looked_at();
        held.take(0, 3_300).expect("less than 85 % again");
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
        let want = "the process has 25000 bytes in memory, and the setting memory-limit is 25KiB: no \
                    query may hold more than 100 bytes now";
        assert_eq!(error, want);
        assert_eq!(pressure.take_refused(Refused::Query), 1);
        // Its own limit is another one.
        let budget = Budget::new(&Settings { max_bytes: 50, ..settings });
        let error = budget.nothing().take(0, 20_000).expect_err("more than that").to_string();
        assert!(error.ends_with("the setting query-max-memory"), "{error}");
        assert_eq!(pressure.take_refused(Refused::Query), 0);
    }
}
