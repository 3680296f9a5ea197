//! Sorting by labels in groups, however the labels are kept.
//!
//! What is sorted mostly begins alike, and lies all over memory: comparing two label sets means to fetch both. So a
//! group is looked at once for the first label in which some differ, and is then sorted by eight bytes of it that
//! are kept beside each other; what is the same in these is a group in turn. The order is that of
//! [`LabelsRef`](super::LabelsRef): who keeps the labels decides wherever eight bytes do not.

use std::ops::Range;

/// Groups of so many are sorted by comparing them.
pub const FEW: usize = 6;
/// So often a group is parted by the same label; then it is sorted by comparing, however the values of that
/// label were made.
const MOST_ROUNDS: u32 = 8;

/// What is sorted: of the same labels, the lower place comes first.
pub struct Entry<T> {
    key: u64,
    /// Its place among all.
    pub place: u32,
    /// What else the keeper of the labels wants to have beside it.
    pub item: T,
}

impl<T> Entry<T> {
    /// One that has no key yet.
    pub fn new(place: u32, item: T) -> Self {
        Self { key: 0, place, item }
    }

    /// Sorts by the first eight bytes of `rest`, in which it may differ from others.
    pub fn set_key(&mut self, rest: &[u8]) {
        let mut bytes = [0; 8];
        let taken = rest.len().min(8);
        bytes[..taken].copy_from_slice(&rest[..taken]);
        self.key = u64::from_be_bytes(bytes);
    }
}

/// Who keeps the labels of entries. A depth says up to where labels are the same, in bytes or in labels as it likes.
pub trait Keeper {
    /// What it wants to have beside the place of an entry.
    type Item;

    /// How deep the labels of all entries are the same, which are up to `depth`.
    fn first_difference(&self, entries: &[Entry<Self::Item>], depth: usize) -> usize;

    /// Gives each entry the key of the bytes in which the label at `depth` parts from those of others. Whether there
    /// is something to part them.
    fn set_keys(&self, entries: &mut [Entry<Self::Item>], depth: usize) -> bool;

    /// Sorts entries by comparing them, whose labels are the same up to `depth`.
    fn compare(&self, entries: &mut [Entry<Self::Item>], depth: usize);
}

/// Entries that have their place among the others.
pub struct Group {
    range: Range<usize>,
    depth: usize,
    /// How often it was parted by the label at this depth.
    rounds: u32,
}

impl Group {
    /// All of so many entries.
    pub fn all(count: usize) -> Self {
        Self { range: 0..count, depth: 0, rounds: 0 }
    }

    /// Where its first entry is.
    pub fn start(&self) -> usize {
        self.range.start
    }

    /// Sorts its entries, or by eight bytes more: then what is left to do is put into `left`, in order.
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
                // The same eight bytes where some differ: one ends where another has a byte of zeros.
                return keeper.compare(entries, depth);
            }
            if run.len() > 1 {
                let range = begin + range.start..begin + range.end;
                left.push(Self { range, depth, rounds });
            }
        }
    }
}
