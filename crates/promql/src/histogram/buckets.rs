//! One side of a histogram: bucket indexes in rising order, and a count for each.
//!
//! A gap between buckets takes no memory. Equal layouts, by far the most common case, are added
//! without a search. A bucket may hold 0 until [`Buckets::compact`]. The meaning of an index
//! depends on the schema of the histogram.

use super::amount::Amount;

/// Sorted buckets.
#[derive(Debug, Clone, Default)]
pub struct Buckets<N = f64> {
    indexes: Vec<i32>,
    counts: Vec<N>,
}

/// Collects buckets whose indexes rise; a bucket whose index does not is merged into the last one.
impl<N: Amount> FromIterator<(i32, N)> for Buckets<N> {
    fn from_iter<I: IntoIterator<Item = (i32, N)>>(iter: I) -> Self {
        let iter = iter.into_iter();
        // The exact capacity: there are many histograms, and merging is rare.
        let most = iter.size_hint().1.unwrap_or(0);
        let mut buckets =
            Self { indexes: Vec::with_capacity(most), counts: Vec::with_capacity(most) };
        for (index, count) in iter {
            buckets.push(index, count);
        }
        buckets
    }
}

impl<N: Amount> Buckets<N> {
    /// How many buckets there are.
    pub fn len(&self) -> usize {
        self.indexes.len()
    }

    /// Whether there are no buckets.
    pub fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// Index and count of every bucket, by rising index.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (i32, N)> + ExactSizeIterator {
        self.indexes.iter().copied().zip(self.counts.iter().copied())
    }

    /// Bytes of memory that the buckets take.
    pub(super) fn heap_bytes(&self) -> usize {
        self.indexes.capacity() * size_of::<i32>() + self.counts.capacity() * size_of::<N>()
    }

    /// The number of runs of adjacent buckets.
    pub fn runs(&self) -> usize {
        let gaps = self.indexes.windows(2).filter(|pair| pair[0].wrapping_add(1) != pair[1]);
        gaps.count() + usize::from(!self.is_empty())
    }

    /// Drops the empty buckets.
    pub fn compact(&mut self) {
        if self.counts.iter().any(|count| count.is_zero()) {
            let mut counts = self.counts.iter();
            self.indexes.retain(|_| counts.next().is_some_and(|count| !count.is_zero()));
            self.counts.retain(|count| !count.is_zero());
        }
    }

    pub(super) fn clear(&mut self) {
        self.indexes.clear();
        self.counts.clear();
    }

    /// Changes every count.
    pub(super) fn update(&mut self, change: impl Fn(N) -> N) {
        self.counts.iter_mut().for_each(|count| *count = change(*count));
    }

    /// The indexes and the counts; the counts can be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (i32, &mut N)> {
        self.indexes.iter().copied().zip(&mut self.counts)
    }

    /// The same buckets with another kind of count.
    pub(super) fn map<M: Amount>(&self, amount: impl Fn(N) -> M) -> Buckets<M> {
        Buckets {
            indexes: self.indexes.clone(),
            counts: self.counts.iter().map(|count| amount(*count)).collect(),
        }
    }

    /// Appends a bucket. If its index is not above the last one, adds its count to the last bucket.
    fn push(&mut self, index: i32, count: N) {
        match (self.indexes.last(), self.counts.last_mut()) {
            (Some(last), Some(held)) if index <= *last => *held = held.plus(count),
            _ => {
                self.indexes.push(index);
                self.counts.push(count);
            }
        }
    }

    /// The buckets from position `first` on, in a resolution that is 2^`shift` times lower.
    pub(super) fn reduced(&self, first: usize, shift: i32) -> Self {
        let shift = shift.clamp(0, 31);
        self.iter().skip(first).map(|(index, count)| (reduced_index(index, shift), count)).collect()
    }

    /// The buckets at the indexes that `target` returns; `target` must not decrease.
    pub(super) fn moved(&self, mut target: impl FnMut(i32) -> i32) -> Self {
        self.iter().map(|(index, count)| (target(index), count)).collect()
    }

    /// Drops the buckets at the front whose index `gone` accepts.
    pub(super) fn skip_while(&mut self, gone: impl Fn(i32) -> bool) {
        let first = self.indexes.partition_point(|index| gone(*index));
        self.indexes.drain(..first);
        self.counts.drain(..first);
    }

    /// Adds `sign` times the buckets of `other` from position `first` on.
    pub(super) fn add(&mut self, other: &Buckets, first: usize, sign: f64) {
        let (indexes, counts) = (&other.indexes[first..], &other.counts[first..]);
        let signed = |count: &f64| N::exactly(sign * count);
        if self.indexes == indexes {
            for (held, count) in self.counts.iter_mut().zip(counts) {
                *held = held.plus(signed(count));
            }
            return;
        }
        let mut known = self.indexes.iter();
        if indexes.iter().all(|index| known.any(|own| own == index)) {
            let mut own = self.indexes.iter().zip(&mut self.counts);
            for (index, count) in indexes.iter().zip(counts) {
                if let Some((_, held)) = own.find(|(own, _)| *own == index) {
                    *held = held.plus(signed(count));
                }
            }
            return;
        }
        let mut merged = Self {
            indexes: Vec::with_capacity(self.len() + indexes.len()),
            counts: Vec::with_capacity(self.len() + indexes.len()),
        };
        let mut own = self.iter().peekable();
        for (index, count) in indexes.iter().zip(counts) {
            while let Some((i, held)) = own.next_if(|(i, _)| i <= index) {
                merged.push(i, held);
            }
            merged.push(*index, signed(count));
        }
        own.for_each(|(i, held)| merged.push(i, held));
        *self = merged;
    }
}

impl Buckets {
    /// Whether indexes and counts are the same, bit for bit.
    pub(super) fn same(&self, other: &Self) -> bool {
        self.indexes == other.indexes
            && self.counts.iter().zip(&other.counts).all(|(a, b)| a.to_bits() == b.to_bits())
    }
}

/// The index of a bucket in a resolution that is 2^`shift` times lower. A bucket is (lower, upper]
/// and bucket 1 begins at the bound 1, so indexes are shifted relative to 1.
fn reduced_index(index: i32, shift: i32) -> i32 {
    (index.wrapping_sub(1) >> shift).wrapping_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(pairs: &[(i32, f64)]) -> Buckets {
        pairs.iter().copied().collect()
    }

    fn pairs(buckets: &Buckets) -> Vec<(i32, f64)> {
        buckets.iter().collect()
    }

    #[test]
    fn adds_equal_layouts_in_place_and_others_by_merging() {
        let mut a = buckets(&[(1, 1.0), (2, 2.0)]);
        a.add(&buckets(&[(1, 3.0), (2, 5.0)]), 0, 1.0);
        assert_eq!(pairs(&a), [(1, 4.0), (2, 7.0)]);
        a.add(&buckets(&[(-5, 9.0), (0, 1.0), (2, 1.0), (7, 2.0)]), 1, -1.0);
        assert_eq!(pairs(&a), [(0, -1.0), (1, 4.0), (2, 6.0), (7, -2.0)]);
        assert_eq!(a.runs(), 2);
    }

    #[test]
    fn adds_some_of_its_own_buckets_in_place() {
        let mut a = buckets(&[(1, 1.0), (2, 2.0), (5, 3.0)]);
        let place = a.counts.as_ptr();
        a.add(&buckets(&[(2, 10.0), (5, 10.0)]), 0, 1.0);
        assert_eq!(pairs(&a), [(1, 1.0), (2, 12.0), (5, 13.0)]);
        assert_eq!(a.counts.as_ptr(), place);
    }

    #[test]
    fn reduces_about_index_one() {
        let fine =
            buckets(&[(-3, 1.0), (-2, 1.0), (-1, 1.0), (0, 1.0), (1, 1.0), (2, 1.0), (3, 1.0)]);
        assert_eq!(pairs(&fine.reduced(0, 1)), [(-1, 2.0), (0, 2.0), (1, 2.0), (2, 1.0)]);
        assert_eq!(pairs(&fine.reduced(3, 2)), [(0, 1.0), (1, 3.0)]);
    }

    #[test]
    fn compacting_drops_what_holds_nothing() {
        let mut a = buckets(&[(0, 0.0), (1, 1.0), (2, -0.0), (3, f64::NAN)]);
        a.compact();
        assert_eq!(a.indexes, [1, 3]);
        assert_eq!(a.len(), 2);
    }
}
