//! The active series, by a 64-bit hash of their labels. Each expires in a minute that writes postpone.
//!
//! A write to known series only reads the table: it takes no lock for a series and allocates nothing.
//! Senders name their series in the same order each time, so the series that followed the previous one
//! last time is tried first; that saves a lookup in distant memory. The series limiter defines minutes and decides
//! which new series are accepted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use hashbrown::HashTable;

/// Entries that one step of a sweep looks at: about a millisecond.
const SWEPT_AT_ONCE: usize = 1 << 16;

/// All active series.
#[derive(Default)]
pub(super) struct ActiveSeries {
    /// Positions in `entries`, by hash.
    table: HashTable<u32>,
    entries: Vec<Entry>,
    /// Positions of unused entries.
    free: Vec<u32>,
    of_metric: HashMap<u64, u64>,
}

struct Entry {
    hash: u64,
    metric: u64,
    /// The first minute in which the series is no longer active; 0 = the entry is unused.
    until: AtomicU32,
    /// Position of the series that a request last named after this one; only a guess.
    next: AtomicU32,
}

impl ActiveSeries {
    /// The number of active series.
    pub(super) fn len(&self) -> u64 {
        self.table.len() as u64
    }

    /// The number of active series of a metric, given the hash of its name.
    pub(super) fn len_of_metric(&self, metric: u64) -> u64 {
        self.of_metric.get(&metric).copied().unwrap_or(0)
    }

    /// The largest number of active series of one metric.
    pub(super) fn most_of_a_metric(&self) -> u64 {
        self.of_metric.values().copied().max().unwrap_or(0)
    }

    /// Notes a write to a series, which keeps it active until minute `until`; false = the series is
    /// unknown. `before` is the position of the series that the request named before.
    pub(super) fn note(&self, before: &mut Option<u32>, hash: u64, until: u32) -> bool {
        let last = before.and_then(|at| self.entries.get(at as usize));
        let guess = last.map(|last| last.next.load(Ordering::Relaxed));
        let is_right = |at: &u32| {
            let entry = self.entries.get(*at as usize);
            entry.is_some_and(|it| it.hash == hash && it.until.load(Ordering::Relaxed) > 0)
        };
        let at = match guess.filter(is_right) {
            Some(at) => at,
            None => {
                let Some(at) = self.find(hash) else { return false };
                if let Some(last) = last {
                    last.next.store(at, Ordering::Relaxed);
                }
                at
            }
        };
        let known = &self.entries[at as usize].until;
        // Storing the same value would invalidate the cache lines of other cores.
        if known.load(Ordering::Relaxed) < until {
            known.store(until, Ordering::Relaxed);
        }
        *before = Some(at);
        true
    }

    fn find(&self, hash: u64) -> Option<u32> {
        self.table.find(hash, |at| self.entries[*at as usize].hash == hash).copied()
    }

    /// Adds an unknown series of a metric.
    pub(super) fn add(&mut self, hash: u64, metric: u64, until: u32) {
        let at = self.free.pop().unwrap_or(self.entries.len() as u32);
        let (until, next) = (until.into(), (at + 1).into());
        let entry = Entry { hash, metric, until, next };
        match self.entries.get_mut(at as usize) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        let entries = &self.entries;
        self.table.insert_unique(hash, at, |at| entries[*at as usize].hash);
        *self.of_metric.entry(metric).or_default() += 1;
    }

    /// Removes series that are not active in this minute, from [`SWEPT_AT_ONCE`] entries beginning at `from`.
    /// Returns the next position; `None` = the end was reached.
    pub(super) fn sweep(&mut self, minute: u32, from: usize) -> Option<usize> {
        let Self { table, entries, free, of_metric } = self;
        let to = entries.len().min(from.saturating_add(SWEPT_AT_ONCE));
        for (at, entry) in entries.iter().enumerate().take(to).skip(from) {
            let until = entry.until.load(Ordering::Relaxed);
            if until == 0 || minute < until {
                continue;
            }
            entry.until.store(0, Ordering::Relaxed);
            if let Ok(found) = table.find_entry(entry.hash, |other| *other as usize == at) {
                found.remove();
            }
            free.push(at as u32);
            if let Some(count) = of_metric.get_mut(&entry.metric) {
                *count -= 1;
                if *count == 0 {
                    of_metric.remove(&entry.metric);
                }
            }
        }
        if to < entries.len() {
            return Some(to);
        }
        if table.len() < entries.len() / 4 {
            self.close_up();
        }
        None
    }

    /// Frees the memory of unused entries.
    fn close_up(&mut self) {
        let all = std::mem::take(self);
        self.of_metric = all.of_metric;
        let known = |entry: &Entry| entry.until.load(Ordering::Relaxed) > 0;
        self.entries = all.entries.into_iter().filter(known).collect();
        // `collect` may allocate more than it needs.
        self.entries.shrink_to_fit();
        let entries = &self.entries;
        for (at, entry) in (0..).zip(entries) {
            entry.next.store(at + 1, Ordering::Relaxed);
            self.table.insert_unique(entry.hash, at, |at| entries[*at as usize].hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A series is found by its own hash alone while it is active, whatever series came before it or
        /// used its entry.
        #[test]
        fn they_are_as_a_plain_map_has_them(
            requests in prop::collection::vec(prop::collection::vec(1u64..12, 1..12), 1..24),
            stay in 1u32..6,
        ) {
            let (mut active, mut plain) = (ActiveSeries::default(), BTreeMap::new());
            for (minute, request) in (0..).zip(&requests) {
                prop_assert_eq!(active.sweep(minute, 0), None);
                plain.retain(|_, until| minute < *until);
                let mut before = None;
                for hash in request {
                    let known = active.note(&mut before, *hash, minute + stay);
                    prop_assert_eq!(known, plain.contains_key(hash));
                    if !known {
                        active.add(*hash, hash % 2, minute + stay);
                    }
                    plain.insert(*hash, minute + stay);
                }
                prop_assert_eq!(active.len(), plain.len() as u64);
                let odd = plain.keys().filter(|hash| *hash % 2 == 1).count() as u64;
                prop_assert_eq!(active.len_of_metric(1), odd);
            }
        }
    }

    #[test]
    fn places_are_looked_at_in_pieces_and_given_back_when_few_are_left() {
        let mut active = ActiveSeries::default();
        let count = 2 * SWEPT_AT_ONCE as u64 + 5;
        for hash in 0..count {
            active.add(hash, 7, if hash % 8 == 0 { 9 } else { 2 });
        }
        assert_eq!(active.sweep(1, 0), Some(SWEPT_AT_ONCE));
        assert_eq!(active.len(), count);
        let (mut from, mut pieces) = (Some(0), 0);
        while let Some(at) = from {
            from = active.sweep(2, at);
            pieces += 1;
        }
        assert_eq!(pieces, 3);
        assert_eq!((active.len(), active.len_of_metric(7)), (count / 8 + 1, count / 8 + 1));
        assert_eq!((active.entries.len() as u64, active.free.len()), (count / 8 + 1, 0));
        let mut before = None;
        for hash in 0..count {
            assert_eq!(active.note(&mut before, hash, 9), hash % 8 == 0, "{hash}");
        }
        assert_eq!(active.sweep(9, 0), None);
        assert_eq!((active.len(), active.entries.capacity()), (0, 0));
    }
}
