//! The label index of the head: in memory, changed in place.
//!
//! Invariant: `all` holds exactly the series that were added and not removed, and every one of
//! them stands in the postings of each of its labels and nowhere else. A name or a value
//! without series is not kept. Each name and each value is stored once, whatever the number of
//! series; the label sets themselves are kept by the caller.
//!
//! Values are hashed, not sorted: adding a series is one look-up a label, and a sorted answer
//! is sorted when it is asked for.

use hashbrown::HashMap;
use roaring::RoaringBitmap;

use crate::model::LabelsRef;
use crate::storage::StoreError;

use super::{LabelIndex, ValueJudge};

/// Postings with at most this many series are plain vectors.
const FEW: usize = 512;

/// A label index in memory. Ids are given by the caller and are expected to rise; others work,
/// more slowly.
#[derive(Debug, Default)]
pub struct MemoryIndex {
    all: RoaringBitmap,
    names: HashMap<String, HashMap<Box<str>, Postings>>,
}

/// Series that a listing is about.
pub struct Among<'a> {
    /// Those of these ids ...
    pub ids: &'a RoaringBitmap,
    /// ... for which this is true. It is asked as seldom as possible.
    pub counts: &'a mut dyn FnMut(u32) -> bool,
}

/// Ids of the series with one label; never empty inside an index, rising.
#[derive(Debug)]
enum Postings {
    One(u32),
    Few(Vec<u32>),
    Many(RoaringBitmap),
}

impl MemoryIndex {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a series under an id that is not in use.
    pub fn add(&mut self, series: u32, labels: LabelsRef<'_>) {
        self.all.insert(series);
        for (name, value) in labels.iter() {
            let values = self.names.entry_ref(name).or_default();
            match values.get_mut(value) {
                Some(postings) => postings.insert(series),
                None => drop(values.insert(value.into(), Postings::One(series))),
            }
        }
    }

    /// Removes series, each with the labels that it was added with. The cost is that of the
    /// series removed, not of the index.
    pub fn remove<'a>(&mut self, series: impl IntoIterator<Item = (u32, LabelsRef<'a>)>) {
        for (id, labels) in series {
            self.all.remove(id);
            for (name, value) in labels.iter() {
                self.remove_label(id, name, value);
            }
        }
    }

    /// How many series there are.
    pub fn len(&self) -> u64 {
        self.all.len()
    }

    /// Whether there are no series.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Names of labels, sorted: of all series, or of some.
    pub fn names(&self, mut among: Option<Among<'_>>) -> Vec<&str> {
        let mut occurs = |values: &HashMap<Box<str>, Postings>| match &mut among {
            Some(among) => values.values().any(|postings| postings.occurs(among)),
            None => true,
        };
        let names = self.names.iter().filter(|(_, values)| occurs(values));
        let mut names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// Values of the label `name`, sorted: of all series, or of some.
    pub fn values(&self, name: &str, mut among: Option<Among<'_>>) -> Vec<&str> {
        let mut occurs =
            |postings: &Postings| among.as_mut().is_none_or(|among| postings.occurs(among));
        let values = self.names.get(name).into_iter().flatten();
        let values = values.filter(|(_, postings)| occurs(postings));
        let mut values: Vec<&str> = values.map(|(value, _)| &**value).collect();
        values.sort_unstable();
        values
    }

    /// Series whose label `name` has exactly `value` (not empty).
    pub fn postings(&self, name: &str, value: &str) -> RoaringBitmap {
        self.find(name, value).map(|postings| postings.within(None)).unwrap_or_default()
    }

    /// The index with a way to the labels of its series, as the evaluation of matchers needs them.
    /// `labels` is asked only for series that were added and not removed.
    pub fn with_labels<'a, L: Fn(u32) -> LabelsRef<'a>>(&'a self, labels: L) -> Labelled<'a, L> {
        Labelled { index: self, labels }
    }

    fn find(&self, name: &str, value: &str) -> Option<&Postings> {
        self.names.get(name)?.get(value)
    }

    fn remove_label(&mut self, id: u32, name: &str, value: &str) {
        let Some(values) = self.names.get_mut(name) else { return };
        let Some(postings) = values.get_mut(value) else { return };
        if postings.remove(id) == Left::Nothing {
            values.remove(value);
        }
        if values.is_empty() {
            self.names.remove(name);
        }
    }
}

/// A [`MemoryIndex`] with the labels of its series.
pub struct Labelled<'a, L> {
    index: &'a MemoryIndex,
    labels: L,
}

impl<'a, L: Fn(u32) -> LabelsRef<'a>> LabelIndex for Labelled<'a, L> {
    fn all(&self) -> Result<RoaringBitmap, StoreError> {
        Ok(self.index.all.clone())
    }

    fn value_count(&self, name: &str) -> u64 {
        self.index.names.get(name).map_or(0, HashMap::len) as u64
    }

    fn series_count(&self, name: &str, value: &str) -> u64 {
        self.index.find(name, value).map_or(0, Postings::len)
    }

    fn postings(
        &self,
        name: &str,
        value: &str,
        within: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap, StoreError> {
        let postings = self.index.find(name, value);
        Ok(postings.map(|postings| postings.within(within)).unwrap_or_default())
    }

    fn union_where(
        &self,
        name: &str,
        prefix: &str,
        passes: &dyn Fn(&str) -> bool,
        within: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap, StoreError> {
        match within {
            Some(within) if within.len() < self.value_count(name) => {
                let mut judge = ValueJudge::new(prefix, passes);
                let is_in = |id: &u32| judge.passes((self.labels)(*id).get(name));
                Ok(within.iter().filter(is_in).collect())
            }
            within => Ok(self.index.by_values(name, prefix, passes, within)),
        }
    }
}

impl MemoryIndex {
    fn by_values(
        &self,
        name: &str,
        prefix: &str,
        passes: &dyn Fn(&str) -> bool,
        within: Option<&RoaringBitmap>,
    ) -> RoaringBitmap {
        let mut union = RoaringBitmap::new();
        let mut few = Vec::new();
        let is_in = |series: &u32| within.is_none_or(|within| within.contains(*series));
        for (value, postings) in self.names.get(name).into_iter().flatten() {
            if !value.starts_with(prefix) || !passes(value) {
                continue;
            }
            match (postings, within) {
                (Postings::One(series), _) => few.extend(Some(*series).filter(is_in)),
                (Postings::Few(series), None) => few.extend_from_slice(series),
                (Postings::Few(series), _) => few.extend(series.iter().copied().filter(is_in)),
                (Postings::Many(series), Some(within)) => union |= series & within,
                (Postings::Many(series), None) => union |= series,
            }
        }
        few.sort_unstable();
        union |= bitmap_of_sorted(&few);
        union
    }
}

#[derive(PartialEq, Eq)]
enum Left {
    Nothing,
    Something,
}

impl Postings {
    fn insert(&mut self, series: u32) {
        match self {
            Self::One(first) if *first == series => {}
            Self::One(first) => {
                let (low, high) = (series.min(*first), series.max(*first));
                *self = Self::Few(vec![low, high]);
            }
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
                    *self = Self::Many(bitmap_of_sorted(ids));
                }
            }
            Self::Many(ids) => drop(ids.insert(series)),
        }
    }

    fn remove(&mut self, series: u32) -> Left {
        let empty = match self {
            Self::One(only) => *only == series,
            Self::Few(ids) => {
                if let Ok(at) = ids.binary_search(&series) {
                    ids.remove(at);
                }
                ids.is_empty()
            }
            Self::Many(ids) => {
                ids.remove(series);
                ids.is_empty()
            }
        };
        if empty { Left::Nothing } else { Left::Something }
    }

    fn len(&self) -> u64 {
        match self {
            Self::One(_) => 1,
            Self::Few(ids) => ids.len() as u64,
            Self::Many(ids) => ids.len(),
        }
    }

    /// Those within; `None` = all.
    fn within(&self, within: Option<&RoaringBitmap>) -> RoaringBitmap {
        let is_in = |series: &u32| within.is_none_or(|within| within.contains(*series));
        match (self, within) {
            (Self::One(series), _) => Some(*series).filter(is_in).into_iter().collect(),
            (Self::Few(ids), _) => ids.iter().copied().filter(is_in).collect(),
            (Self::Many(ids), Some(within)) => ids & within,
            (Self::Many(ids), None) => ids.clone(),
        }
    }

    fn occurs(&self, Among { ids: within, counts }: &mut Among<'_>) -> bool {
        /// The first ones tell as a rule, without an intersection.
        const FIRST: usize = 4;
        let mut is_one = |series: u32| within.contains(series) && counts(series);
        match self {
            Self::One(series) => is_one(*series),
            Self::Few(ids) => ids.iter().any(|series| is_one(*series)),
            Self::Many(ids) => {
                ids.iter().take(FIRST).any(is_one) || (ids & *within).into_iter().any(counts)
            }
        }
    }
}

fn bitmap_of_sorted(ids: &[u32]) -> RoaringBitmap {
    debug_assert!(ids.is_sorted());
    ids.iter().copied().collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;

    use super::*;
    use crate::model::{Labels, Matcher};
    use crate::storage::index::{cases, evaluate};

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        Labels::from_pairs(pairs.iter().copied()).expect("valid labels")
    }

    #[test]
    fn names_and_values_follow_what_is_added_and_removed() {
        let mut index = MemoryIndex::new();
        let a = labels(&[("__name__", "up"), ("job", "b")]);
        let b = labels(&[("__name__", "up"), ("job", "a"), ("zone", "z")]);
        index.add(0, a.as_ref());
        index.add(7, b.as_ref());
        assert_eq!(index.names(None), ["__name__", "job", "zone"]);
        assert_eq!(index.values("job", None), ["a", "b"]);
        let (both, only_a) = (RoaringBitmap::from_iter([0, 7]), RoaringBitmap::from_iter([0]));
        for (ids, counts) in [(&only_a, [0, 7]), (&both, [0, 9])] {
            let counts = &mut |id| counts.contains(&id);
            assert_eq!(index.names(Some(Among { ids, counts })), ["__name__", "job"]);
            assert_eq!(index.values("job", Some(Among { ids, counts })), ["b"]);
        }
        index.remove([(7, b.as_ref())]);
        assert_eq!(index.names(None), ["__name__", "job"]);
        assert_eq!(index.values("job", None), ["b"]);
        assert_eq!((index.len(), index.values("zone", None).len()), (1, 0));
        index.remove([(0, a.as_ref())]);
        assert!(index.is_empty() && index.names(None).is_empty());
    }

    #[test]
    fn postings_keep_their_members_through_every_size() {
        let mut postings = Postings::One(3);
        let ids: Vec<u32> = (0..2_000).map(|i| 3 + i * 7).collect();
        let odd: RoaringBitmap = (1..14_000).step_by(2).collect();
        for (i, id) in ids.iter().enumerate() {
            postings.insert(*id);
            let expected: RoaringBitmap = ids[..=i].iter().copied().collect();
            assert_eq!(postings.within(None), expected);
            assert_eq!(postings.within(Some(&odd)), expected & &odd);
            assert_eq!(postings.len(), i as u64 + 1);
        }
        assert!(matches!(postings, Postings::Many(_)));
        for id in &ids {
            assert!(postings.remove(id + 1) == Left::Something);
            let left = postings.remove(*id);
            assert_eq!(left == Left::Nothing, id == ids.last().expect("not empty"));
        }
    }

    #[test]
    fn the_shorter_of_values_and_series_is_walked() {
        let sets = cases::sets(3_000);
        let mut index = MemoryIndex::new();
        (0..).zip(&sets).for_each(|(id, set)| index.add(id, set.as_ref()));
        let asked = Cell::new(0);
        let index = index.with_labels(|id| {
            asked.set(asked.get() + 1);
            sets[id as usize].as_ref()
        });
        let check = |count: u32, name: &str, want: (u32, u32)| {
            let matched = Cell::new(0);
            let passes = |value: &str| {
                matched.set(matched.get() + 1);
                value.ends_with('1')
            };
            let within: RoaringBitmap = (0..count).map(|id| id * 3).collect();
            asked.set(0);
            let found = index.union_where(name, "", &passes, Some(&within)).expect("no I/O");
            let is_in = |id: &u32| sets[*id as usize].get(name).ends_with('1');
            assert_eq!(found, within.iter().filter(is_in).collect());
            assert_eq!((asked.get(), matched.get()), want, "{count} series, values of {name}");
        };
        check(10, "host", (10, 10));
        check(900, "host", (900, 900));
        check(10, "rack", (10, 10));
        check(149, "rack", (149, 149));
        check(150, "rack", (0, 150));
        // Ten neighbours of one metric, asked about once.
        check(10, "__name__", (10, 1));
        check(30, "__name__", (0, 30));
        check(10, "absent", (0, 0));
    }

    proptest! {
        #[test]
        fn evaluation_is_a_filter(
            count in 0..200usize,
            removed in prop::collection::vec(any::<bool>(), 200),
            matchers in prop::collection::vec(cases::matcher(), 0..4),
        ) {
            let sets = cases::sets(count);
            let mut index = MemoryIndex::new();
            for (id, set) in sets.iter().enumerate() {
                index.add(id as u32, set.as_ref());
            }
            let live = |id: usize| !removed[id];
            let gone = sets.iter().enumerate().filter(|(id, _)| !live(*id));
            index.remove(gone.map(|(id, set)| (id as u32, set.as_ref())));
            let index = index.with_labels(|id| {
                assert!(live(id as usize), "a series that is gone is asked for");
                sets[id as usize].as_ref()
            });
            let expected: RoaringBitmap = cases::matching(&sets, &matchers)
                .into_iter()
                .filter(|id| live(*id as usize))
                .collect();
            prop_assert_eq!(evaluate(&index, &matchers).expect("no I/O"), expected);
        }
    }

    /// With postings of every size.
    #[test]
    fn evaluation_of_many_series_is_a_filter() {
        let sets = cases::sets(3_000);
        let mut index = MemoryIndex::new();
        for (id, set) in (0..).zip(&sets) {
            index.add(id, set.as_ref());
        }
        let index = index.with_labels(|id| sets[id as usize].as_ref());
        let check = |matchers: Vec<Matcher>| {
            let want = cases::matching(&sets, &matchers);
            prop_assert_eq!(evaluate(&index, &matchers).expect("no I/O"), want);
            Ok(())
        };
        let matchers = prop::collection::vec(cases::matcher(), 0..4);
        TestRunner::default().run(&matchers, check).expect("each is a filter");
    }
}
