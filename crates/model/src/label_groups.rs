//! Sorts entries by their labels in groups, independent of how the labels are stored.
//!
//! Entries to sort mostly have the same first labels, and are spread over memory: comparing two label sets fetches
//! both. So each group is scanned once for the first label that differs, and is then sorted by eight bytes of this
//! label, stored next to each other. Entries with the same eight bytes form a new group. The order is the order of
//! [`LabelsRef`](super::LabelsRef): the [`Keeper`] of the labels compares them if eight bytes cannot decide.

use std::ops::Range;

/// Groups of at most this size are sorted by comparison.
pub const FEW: usize = 6;
/// Maximum number of times that a group is divided by the same label; after that it is sorted by comparison.
/// This bounds the work for hostile values of the label.
const MOST_ROUNDS: u32 = 8;

/// An entry to sort: with equal labels, the lower place comes first.
pub struct Entry<T> {
    key: u64,
    /// Its position in the input.
    pub place: u32,
    /// Data that the keeper of the labels stores with the entry.
    pub item: T,
}

impl<T> Entry<T> {
    /// An entry without a key.
    pub fn new(place: u32, item: T) -> Self {
        Self { key: 0, place, item }
    }

    /// Sets the key to the first eight bytes of `rest`.
    pub fn set_key(&mut self, rest: &[u8]) {
        let mut bytes = [0; 8];
        let taken = rest.len().min(8);
        bytes[..taken].copy_from_slice(&rest[..taken]);
        self.key = u64::from_be_bytes(bytes);
    }
}

/// Provides the labels of entries. A depth is a length in bytes or in labels, as the keeper chooses.
pub trait Keeper {
    /// Data that the keeper stores with an entry.
    type Item;

    /// The depth up to which the labels of all entries are equal; they are equal up to `depth`.
    fn first_difference(&self, entries: &[Entry<Self::Item>], depth: usize) -> usize;

    /// Sets the key of each entry to the first bytes in which the label at `depth` differs. Returns
    /// whether the keys can divide the entries.
    fn set_keys(&self, entries: &mut [Entry<Self::Item>], depth: usize) -> bool;

    /// Sorts entries by comparison; their labels are equal up to `depth`.
    fn compare(&self, entries: &mut [Entry<Self::Item>], depth: usize);
}

/// Entries that are in the right place as a group.
pub struct Group {
    range: Range<usize>,
    depth: usize,
    /// How many times it was divided by the label at this depth.
    rounds: u32,
}

impl Group {
    /// A group of all `count` entries.
    pub fn all(count: usize) -> Self {
        Self { range: 0..count, depth: 0, rounds: 0 }
    }

    /// The position of its first entry.
    pub fn start(&self) -> usize {
        self.range.start
    }

    /// Sorts the entries by comparison or by eight more bytes; adds groups left to sort to `left`, in order.
    pub fn sort<K: Keeper>(self, keeper: &K, entries: &mut [Entry<K::Item>], left: &mut Vec<Self>) {
        let begin = self.range.start;
        let entries = &mut entries[self.range];
        if entries.len() <= FEW {
            return keeper.compare(entries, self.depth);
        }
        let depth = keeper.first_difference(entries, self.depth);
        let rounds = if depth == self.depth { self.rounds + 1 } else { 1 };
        if rounds > MOST_ROUNDS || !keeper.set_keys(entries, depth) {
            return keeper.compare(entries, depth);
        }
        entries.sort_unstable_by_key(|entry| (entry.key, entry.place));
        let mut first = 0;
        for run in entries.chunk_by(|a, b| a.key == b.key) {
            let range = first..first + run.len();
            first = range.end;
            if run.len() == entries.len() {
                // All keys are equal although labels differ: one ends where another has a zero byte.
                return keeper.compare(entries, depth);
            }
            if run.len() > 1 {
                let range = begin + range.start..begin + range.end;
                left.push(Self { range, depth, rounds });
            }
        }
    }
}
