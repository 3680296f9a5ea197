//! The budget of one query: how many samples and bytes it holds in memory, and its limits.
//!
//! An operator takes memory from the budget before it allocates. A [`Held`] gives its share back when it is dropped.
//! It is kept alone or inside the data: [`Points`](super::points::Points) count their histograms,
//! [`KeptPoints`](super::points::KeptPoints) also their floats, and [`SeriesList`](super::series_list::SeriesList)
//! its label sets. For the floats that pass through an operator, one series at all steps is counted. Temporary memory
//! for computing one value is not counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::error::QueryError;
use super::query_memory::QueryMemory;
use super::setting_names::{MAX_BYTES, MAX_SAMPLES};
use promkairos_model::ShownSize;

/// Above every limit; sums of it do not overflow.
const BEYOND: usize = 1 << 52;
/// Most bytes that `Held::cover` takes before they are needed.
const MOST_AHEAD: usize = 256 << 10;

/// The budget of one query.
#[derive(Debug)]
pub(crate) struct Budget {
    samples: AtomicUsize,
    peak_samples: AtomicUsize,
    bytes: AtomicUsize,
    max_samples: usize,
    max_bytes: usize,
    /// The memory of all queries.
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
    /// A budget of which nothing is taken.
    pub(crate) fn new(max_samples: usize, max_bytes: usize, all: &Arc<QueryMemory>) -> Arc<Self> {
        Arc::new(Self {
            samples: AtomicUsize::new(0),
            peak_samples: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            max_samples,
            max_bytes,
            all: Arc::clone(all),
        })
    }

    /// A `Held` that holds nothing yet.
    pub(crate) fn nothing(self: &Arc<Self>) -> Held {
        Held { budget: Arc::clone(self), samples: 0, bytes: 0 }
    }

    /// A `Held` with these samples and bytes.
    pub(crate) fn hold(self: &Arc<Self>, samples: usize, bytes: usize) -> Result<Held, QueryError> {
        let mut held = self.nothing();
        held.take(samples, bytes)?;
        Ok(held)
    }

    /// Takes these bytes if the query then holds at most a quarter of its limit. For memory that the query can do
    /// without.
    pub(crate) fn hold_if_quarter(self: &Arc<Self>, bytes: usize) -> Option<Held> {
        let most = self.max_bytes / 4;
        let fits = |held: usize| held.checked_add(bytes).filter(|held| *held <= most);
        let before = self.bytes.fetch_update(Relaxed, Relaxed, fits).ok()?;
        let held = Held { budget: Arc::clone(self), samples: 0, bytes };
        self.all.try_take(bytes, before + bytes).ok()?;
        Some(held)
    }

    /// Most bytes that may be held.
    pub(crate) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Bytes held now.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// The most samples that were held at the same time.
    pub(crate) fn peak_samples(&self) -> usize {
        self.peak_samples.load(Relaxed)
    }
}

impl Held {
    /// Takes more samples and bytes. If this fails, they are not held.
    pub fn take(&mut self, samples: usize, bytes: usize) -> Result<(), QueryError> {
        self.try_take(samples, bytes).inspect_err(|_| {
            // Kept, they would refuse the reads of others until the end of the query.
            self.give(bytes.min(BEYOND));
            let samples = samples.min(BEYOND);
            self.samples -= samples;
            self.budget.samples.fetch_sub(samples, Relaxed);
        })
    }

    fn try_take(&mut self, samples: usize, bytes: usize) -> Result<(), QueryError> {
        let budget = &self.budget;
        // Sums of numbers above every limit must not overflow.
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

    /// A `Held` of the same budget that holds nothing yet.
    pub fn another(&self) -> Self {
        self.budget.nothing()
    }

    /// Takes bytes until at least `bytes` are held. Each call updates the counter of all queries, so a small increase
    /// takes up to an eighth of the held bytes in advance.
    pub fn cover(&mut self, bytes: usize) -> Result<(), QueryError> {
        let Some(missing) = bytes.checked_sub(self.bytes).filter(|missing| *missing > 0) else {
            return Ok(());
        };
        let ahead = missing.max((self.bytes / 8).min(MOST_AHEAD));
        let now = self.budget.bytes.load(Relaxed).saturating_add(ahead);
        self.take(0, if now <= self.budget.max_bytes { ahead } else { missing })
    }

    /// Takes or gives back bytes until exactly `bytes` are held.
    pub fn set(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.give(self.bytes.saturating_sub(bytes));
        self.take(0, bytes.saturating_sub(self.bytes))
    }

    /// Gives back these bytes, or all bytes if fewer are held.
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
    use crate::settings::Settings;
    use promkairos_storage::{Pressure, Refused};

    #[test]
    fn what_is_dropped_can_be_taken_again() {
        let budget = Settings { max_samples: 10, ..Settings::default() }.budget();
        let mut first = budget.nothing();
        first.take(6, 0).expect("within the limit");
        assert!(matches!(budget.nothing().take(5, 0), Err(QueryError::TooManySamples { .. })));
        drop(first);
        budget.nothing().take(10, 0).expect("within the limit");
        assert_eq!(budget.peak_samples(), 11);
    }

    #[test]
    fn what_grows_is_covered_and_given_back_in_parts() {
        let budget = Settings { max_bytes: 10_000, ..Settings::default() }.budget();
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
        let (one, other) = (settings.budget(), settings.budget());
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
        let budget = settings.budget();
        pressure.note(15_000);
        let mut held = budget.nothing();
        held.take(0, 3_300).expect("less than 85 %, though it counts twice");
        let error = budget.nothing().take(0, 100).expect_err("as much").to_string();
        let want = "the process has 15000 bytes in memory, and the setting memory-limit is 25KiB, and 3400 bytes more \
                    were taken since the process was measured: no query may hold more than 100 bytes now";
        assert_eq!(error, want);
        // The queries hold the bytes, but the process does not grow: it had them before.
        pressure.note(15_000);
        held.take(0, 3_300).expect("less than 85 % again");
    }

    #[test]
    fn where_memory_is_short_a_query_gets_a_little() {
        let pressure = Arc::new(Pressure::new(25_600));
        let memory = QueryMemory::new(10_000, Arc::clone(&pressure));
        let settings = Settings { memory: Arc::new(memory), ..Settings::default() };
        let budget = settings.budget();
        budget.nothing().take(0, 5_000).expect("there is room");
        pressure.note(25_000);
        let mut held = budget.nothing();
        held.take(0, 100).expect("a little");
        let error = held.take(0, 1).expect_err("more than that").to_string();
        let want = "the process has 25000 bytes in memory, and the setting memory-limit is 25KiB, and 101 bytes more \
                    were taken since the process was measured: no query may hold more than 100 bytes now";
        assert_eq!(error, want);
        assert_eq!(pressure.take_refused(Refused::Query), 1);
        // The error of the limit of the query itself is another one.
        let budget = Settings { max_bytes: 50, ..settings }.budget();
        let error = budget.nothing().take(0, 20_000).expect_err("more than that").to_string();
        assert!(error.ends_with("the setting query-max-memory"), "{error}");
        assert_eq!(pressure.take_refused(Refused::Query), 0);
    }
}
