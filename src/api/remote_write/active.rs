//! The active series: known by a hash of 64 bits of their labels, each until a minute that writes put off.
//!
//! Who writes to known series needs the table for reading only: no series of theirs takes a lock or an
//! allocation. Senders name their series in the same order each time, so what came behind the last one
//! before is tried first, which needs no walk through memory that lies far apart. What a minute is, and
//! which series may be new, is for the guard.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use hashbrown::HashTable;

/// Places that are looked at in one go when series are forgotten: a millisecond or so.
const SWEPT_AT_ONCE: usize = 1 << 16;

/// All active series.
#[derive(Default)]
pub(super) struct ActiveSeries {
    /// Positions in `entries`, by hash.
    table: HashTable<u32>,
    entries: Vec<Entry>,
    /// Positions of entries that are none.
    free: Vec<u32>,
    of_metric: HashMap<u64, u64>,
}

struct Entry {
    hash: u64,
    metric: u64,
    /// The first minute in which it is not active any more; 0 = no series is here.
    until: AtomicU32,
    /// Where the series is that a request last named behind this one; only a guess.
    next: AtomicU32,
}

impl ActiveSeries {
    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.table.len() as u64
    }

    /// How many there are of a metric, by the hash of its name.
    pub(super) fn len_of_metric(&self, metric: u64) -> u64 {
        self.of_metric.get(&metric).copied().unwrap_or(0)
    }

    /// The most that a metric has.
    pub(super) fn most_of_a_metric(&self) -> u64 {
        self.of_metric.values().copied().max().unwrap_or(0)
    }

    /// Says that a series is written to, which makes it active until this minute; false = it is not known.
    /// `before` is the series that the request named before it.
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
        // Writing what is there already would cost the other cores their copies.
        if known.load(Ordering::Relaxed) < until {
            known.store(until, Ordering::Relaxed);
        }
        *before = Some(at);
        true
    }

    fn find(&self, hash: u64) -> Option<u32> {
        self.table.find(hash, |at| self.entries[*at as usize].hash == hash).copied()
    }

    /// Adds a series of a metric that is not known.
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

    /// Forgets the series that are not active any more in this minute, of [`SWEPT_AT_ONCE`] places from one on.
    /// Answers where to go on; `None` = that was the last place.
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

    /// Gives the memory back of places where no series is.
    fn close_up(&mut self) {
        let all = std::mem::take(self);
        self.of_metric = all.of_metric;
        let known = |entry: &Entry| entry.until.load(Ordering::Relaxed) > 0;
        self.entries = all.entries.into_iter().filter(known).collect();
        // They are shorter than the room that they were collected in.
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
        /// Whatever came behind a series before, and whoever had its place, a series is known by its own
        /// hash alone, and for as long as it is active.
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
