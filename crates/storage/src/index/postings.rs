//! The series that have one label.
//!
//! Most labels have one series or thousands. So [`Postings`] are either the single series or a
//! place in [`Sets`], which holds the larger ones: eight bytes per label.

use roaring::RoaringBitmap;

use super::names::growth;

/// Sets with at most this many series are plain vectors.
const FEW: usize = 512;

/// The series of one label; at least one. [`Sets`] interprets the place.
#[derive(Debug, Clone, Copy)]
pub(super) enum Postings {
    One(u32),
    /// The place of the set.
    More(u32),
}

/// The series of labels with more than one series.
#[derive(Debug, Default)]
pub(super) struct Sets {
    sets: Vec<Set>,
    free: Vec<u32>,
    /// Bytes of the sets without their places.
    bytes: usize,
}

#[derive(Debug)]
enum Set {
    /// Sorted.
    Few(Vec<u32>),
    Many(Box<Many>),
}

#[derive(Debug)]
struct Many {
    ids: RoaringBitmap,
    /// The number of ids, and the largest id ever: the bitmap would have to count them.
    count: u32,
    largest: u32,
}

/// The series of one label, for reading.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ids<'a> {
    One(u32),
    Few(&'a [u32]),
    Many(&'a RoaringBitmap),
}

/// The series that a listing is restricted to.
pub struct Among<'a> {
    /// Series with these ids ...
    pub ids: &'a RoaringBitmap,
    /// ... for which this returns true. It is called as rarely as possible.
    pub counts: &'a mut dyn FnMut(u32) -> bool,
}

impl Sets {
    pub(super) fn ids(&self, postings: Postings) -> Ids<'_> {
        match postings {
            Postings::One(series) => Ids::One(series),
            Postings::More(at) => match &self.sets[at as usize] {
                Set::Few(ids) => Ids::Few(ids),
                Set::Many(many) => Ids::Many(&many.ids),
            },
        }
    }

    pub(super) fn insert(&mut self, postings: &mut Postings, series: u32) {
        match *postings {
            Postings::One(first) if first == series => {}
            Postings::One(first) => {
                let set = Set::Few(vec![series.min(first), series.max(first)]);
                *postings = Postings::More(self.put(set));
            }
            Postings::More(at) => {
                let set = &mut self.sets[at as usize];
                let before = set.bytes();
                set.insert(series);
                self.bytes = self.bytes - before + set.bytes();
            }
        }
    }

    /// Removes a series. Returns whether others are left; postings without series must not be used any more.
    pub(super) fn remove(&mut self, postings: &mut Postings, series: u32) -> bool {
        let at = match *postings {
            Postings::One(only) => return only != series,
            Postings::More(at) => at,
        };
        let set = &mut self.sets[at as usize];
        let before = set.bytes();
        set.remove(series);
        self.bytes = self.bytes - before + set.bytes();
        let left = match set {
            Set::Few(ids) => match ids[..] {
                [only] => Some(only),
                _ => return true,
            },
            Set::Many(many) if many.count == 0 => None,
            Set::Many(_) => return true,
        };
        self.bytes -= set.bytes();
        *set = Set::Few(Vec::new());
        self.free.push(at);
        if let Some(only) = left {
            *postings = Postings::One(only);
        }
        left.is_some()
    }

    /// Bytes of memory of all sets.
    pub(super) fn bytes(&self) -> usize {
        let places = self.sets.capacity() * size_of::<Set>();
        places + self.free.capacity() * size_of::<u32>() + self.bytes
    }

    /// Additional bytes that the list of sets takes while it grows, if it will grow soon.
    pub(super) fn growth(&self) -> usize {
        growth(self.sets.len(), self.sets.capacity(), size_of::<Set>())
    }

    fn put(&mut self, set: Set) -> u32 {
        self.bytes += set.bytes();
        match self.free.pop() {
            Some(at) => {
                self.sets[at as usize] = set;
                at
            }
            None => {
                self.sets.push(set);
                (self.sets.len() - 1) as u32
            }
        }
    }
}

impl Set {
    fn insert(&mut self, series: u32) {
        match self {
            Self::Few(ids) => {
                match ids.last() {
                    Some(last) if *last < series => ids.push(series),
                    _ => {
                        if let Err(at) = ids.binary_search(&series) {
                            ids.insert(at, series);
                        }
                    }
                }
                if ids.len() > FEW {
                    let (count, largest) = (ids.len() as u32, ids.last().copied().unwrap_or(0));
                    let ids = bitmap_of_sorted(ids);
                    *self = Self::Many(Box::new(Many { ids, count, largest }));
                }
            }
            Self::Many(many) => {
                many.count += u32::from(many.ids.insert(series));
                many.largest = many.largest.max(series);
            }
        }
    }

    /// Bytes of the set without its place.
    fn bytes(&self) -> usize {
        match self {
            Self::Few(ids) => ids.capacity() * size_of::<u32>(),
            Self::Many(many) => {
                size_of::<Many>() + bitmap_bytes(many.count.into(), Some(many.largest))
            }
        }
    }

    fn remove(&mut self, series: u32) {
        match self {
            Self::Few(ids) => {
                if let Ok(at) = ids.binary_search(&series) {
                    ids.remove(at);
                }
            }
            Self::Many(many) => many.count -= u32::from(many.ids.remove(series)),
        }
    }
}

impl Ids<'_> {
    pub(super) fn len(self) -> u64 {
        match self {
            Self::One(_) => 1,
            Self::Few(ids) => ids.len() as u64,
            Self::Many(ids) => ids.len(),
        }
    }

    /// The series in `within`; `None` = all series.
    pub(super) fn within(self, within: Option<&RoaringBitmap>) -> RoaringBitmap {
        let is_in = |series: &u32| within.is_none_or(|within| within.contains(*series));
        match (self, within) {
            (Self::One(series), _) => Some(series).filter(is_in).into_iter().collect(),
            (Self::Few(ids), _) => ids.iter().copied().filter(is_in).collect(),
            (Self::Many(ids), Some(within)) => ids & within,
            (Self::Many(ids), None) => ids.clone(),
        }
    }

    pub(super) fn occurs(self, Among { ids: within, counts }: &mut Among<'_>) -> bool {
        /// Usually one of the first series occurs, so no intersection is needed.
        const FIRST: usize = 4;
        let mut is_one = |series: u32| within.contains(series) && counts(series);
        match self {
            Self::One(series) => is_one(series),
            Self::Few(ids) => ids.iter().any(|series| is_one(*series)),
            Self::Many(ids) => {
                ids.iter().take(FIRST).any(is_one) || (ids & *within).into_iter().any(counts)
            }
        }
    }
}

/// The set of these ids, which must be sorted.
pub(super) fn bitmap_of_sorted(ids: &[u32]) -> RoaringBitmap {
    debug_assert!(ids.is_sorted());
    ids.iter().copied().collect()
}

/// Approximate bytes of a set of `count` ids in memory, if the ids are evenly spread.
pub(super) fn bitmap_bytes(count: u64, largest: Option<u32>) -> usize {
    /// A container has the ids with the same upper 16 bits: a list of the lower bits, or a bitmap.
    const CONTAINER: usize = 56;
    const BITMAP: usize = 8 << 10;
    let containers = largest.map_or(0, |largest| largest as usize / (1 << 16) + 1);
    if containers == 0 {
        return 0;
    }
    // A list that grows has up to twice the room that it needs.
    let list = (count as usize / containers * 3).min(BITMAP);
    containers * (CONTAINER + list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postings_keep_their_members_through_every_size() {
        let (mut sets, mut postings) = (Sets::default(), Postings::One(3));
        let ids: Vec<u32> = (0..2_000).map(|i| 3 + i * 7).collect();
        let odd: RoaringBitmap = (1..14_000).step_by(2).collect();
        let check = |sets: &Sets, postings: Postings, ids: &[u32]| {
            let (found, expected) = (sets.ids(postings), bitmap_of_sorted(ids));
            assert_eq!((found.len(), found.within(None)), (ids.len() as u64, expected.clone()));
            assert_eq!(found.within(Some(&odd)), expected & &odd);
        };
        for (i, id) in ids.iter().enumerate() {
            sets.insert(&mut postings, *id);
            check(&sets, postings, &ids[..=i]);
        }
        assert!(matches!(sets.ids(postings), Ids::Many(_)));
        for (i, id) in ids.iter().enumerate() {
            assert!(sets.remove(&mut postings, id + 1));
            let left = sets.remove(&mut postings, *id);
            assert_eq!(!left, id == ids.last().expect("not empty"));
            if left {
                check(&sets, postings, &ids[i + 1..]);
            }
        }
        for turn in [2, 3] {
            let mut other = Postings::One(9);
            sets.insert(&mut other, turn);
            check(&sets, other, &[turn, 9]);
            assert!(sets.remove(&mut other, turn));
            assert!(matches!(other, Postings::One(9)));
            assert!(sets.remove(&mut other, turn));
            assert!(!sets.remove(&mut other, 9));
        }
        assert_eq!(sets.sets.len(), 1, "the place of a set that is gone is taken again");
    }
}
