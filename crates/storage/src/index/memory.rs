//! The label index in memory, changed in place.
//!
//! Invariant: `all` holds exactly the series that were added and not removed, and each series is in the postings of
//! each of its labels and in no others. A label without series is removed, and so is a name without labels. Each label
//! (a name with a value) is stored once, whatever its number of series, and has a number, its pair. The caller may
//! keep the pairs of each series: with them a label set takes four bytes per label.
//!
//! Labels are hashed, not sorted: adding a series takes one look-up per label, and results are
//! sorted on request.

use hashbrown::DefaultHashBuilder;
use roaring::RoaringBitmap;

use crate::error::StoreError;
use promkairos_model::{Label, LabelPlace, LabelRef, LabelTexts, Labels, LabelsRef};

use super::evaluate::{LabelIndex, ValueJudge};
use super::names::{self, Name, Names, PairSlot, growth};
use super::postings::{Among, Ids, Postings, Sets, bitmap_bytes, bitmap_of_sorted};

/// A label index in memory. The caller assigns ids and should assign rising ones; others work, but
/// more slowly.
#[derive(Debug, Default)]
pub struct MemoryIndex {
    all: RoaringBitmap,
    names: Names,
    pairs: Vec<Pair>,
    texts: LabelTexts,
    /// Pairs that are not in use.
    free: Vec<u32>,
    sets: Sets,
    hasher: DefaultHashBuilder,
}

#[derive(Debug)]
struct Pair {
    label: LabelPlace,
    postings: Postings,
}

impl MemoryIndex {
    /// Adds a series under an id that is not in use.
    pub fn add(&mut self, series: u32, labels: LabelsRef<'_>) {
        self.add_told(series, labels, |_| {});
    }

    /// As `add`; calls `tell` with each pair of the series, in the order of its labels.
    pub fn add_told(&mut self, series: u32, labels: LabelsRef<'_>, mut tell: impl FnMut(u32)) {
        self.all.insert(series);
        for label in labels.labels() {
            tell(self.add_label(series, label));
        }
    }

    fn add_label(&mut self, series: u32, label: LabelRef<'_>) -> u32 {
        let Self { names, pairs, texts, free, sets, hasher, .. } = self;
        let label_of = |pair: u32| texts.get(pairs[pair as usize].label);
        let place = match names.look_up(label, hasher, label_of) {
            PairSlot::Pair(pair) => {
                sets.insert(&mut pairs[pair as usize].postings, series);
                return pair;
            }
            PairSlot::None(place) => place,
        };
        let new = Pair { label: texts.insert(label), postings: Postings::One(series) };
        let pair = match free.pop() {
            Some(pair) => {
                pairs[pair as usize] = new;
                pair
            }
            None => {
                pairs.push(new);
                (pairs.len() - 1) as u32
            }
        };
        names.insert(place, pair, hasher, |pair| texts.get(pairs[pair as usize].label));
        pair
    }

    /// Removes a series that has these pairs. The cost depends on the series, not on the size of the index.
    pub fn remove(&mut self, series: u32, pairs: &[u32]) {
        self.all.remove(series);
        for pair in pairs {
            let postings = &mut self.pairs[*pair as usize].postings;
            if !self.sets.remove(postings, series) {
                self.forget(*pair);
            }
        }
    }

    fn forget(&mut self, pair: u32) {
        let Self { names, pairs, texts, free, hasher, .. } = self;
        let place = pairs[pair as usize].label;
        names.remove(pair, hasher, |pair| texts.get(pairs[pair as usize].label));
        texts.remove(place);
        free.push(pair);
    }

    /// The label of a pair in use.
    pub fn label(&self, pair: u32) -> LabelRef<'_> {
        self.texts.get(self.pairs[pair as usize].label)
    }

    /// The label set of these pairs.
    pub fn labels(&self, pairs: &[u32]) -> Labels {
        Labels::joined(pairs.iter().map(|pair| self.label(*pair)))
    }

    /// Length in bytes of the encoding of the label set of these pairs.
    pub fn label_bytes(&self, pairs: &[u32]) -> usize {
        pairs.iter().map(|pair| self.label(*pair).as_bytes().len()).sum()
    }

    /// Whether `bytes` are the encoding of the label set of these pairs.
    #[inline]
    pub fn is_set(&self, pairs: &[u32], bytes: &[u8]) -> bool {
        let mut rest = bytes;
        for pair in pairs {
            match self.texts.strip(self.pairs[*pair as usize].label, rest) {
                Some(others) => rest = others,
                None => return false,
            }
        }
        rest.is_empty()
    }

    /// The value of the label `name` among these pairs; empty if the label is absent.
    pub fn value(&self, pairs: &[u32], name: &str) -> &str {
        let mut labels = pairs.iter().map(|pair| self.label(*pair));
        labels.find(|label| label.pair().0 == name.as_bytes()).map_or("", LabelRef::value)
    }

    /// The ids of all series.
    pub fn ids(&self) -> &RoaringBitmap {
        &self.all
    }

    /// How many labels there are: names with a value.
    pub fn label_count(&self) -> usize {
        self.pairs.len() - self.free.len()
    }

    /// Bytes of memory, including free room.
    pub fn bytes(&self) -> usize {
        let lists =
            self.pairs.capacity() * size_of::<Pair>() + self.free.capacity() * size_of::<u32>();
        let all = bitmap_bytes(self.all.len(), self.all.max());
        lists + all + self.texts.bytes() + self.names.bytes() + self.sets.bytes()
    }

    /// Additional bytes that lists and tables take while they grow, if they will grow soon.
    pub fn growth(&self) -> usize {
        growth(self.pairs.len(), self.pairs.capacity(), size_of::<Pair>())
            + self.names.growth()
            + self.sets.growth()
    }

    /// Approximate additional bytes for a label set whose labels are all new.
    pub fn bytes_of_new(labels: LabelsRef<'_>) -> usize {
        // Lists and tables that grow have up to twice the room that they need.
        const LABEL: usize = 2 * size_of::<Pair>() + names::NEW + size_of::<u64>();
        labels.labels().map(|label| LABEL + label.as_bytes().len()).sum()
    }

    /// Names of labels, sorted: of all series, or of the series `among`.
    pub fn names(&self, mut among: Option<Among<'_>>) -> Vec<&str> {
        let mut occurs = |name: &Name| match &mut among {
            Some(among) => name.pairs().any(|pair| self.ids_of(pair).occurs(among)),
            None => true,
        };
        let names = self.names.iter().filter(|name| occurs(name));
        let mut names: Vec<&str> = names.map(|name| name.text(|pair| self.label(pair))).collect();
        names.sort_unstable();
        names
    }

    /// Values of the label `name`, sorted: of all series, or of the series `among`.
    pub fn values(&self, name: &str, mut among: Option<Among<'_>>) -> Vec<&str> {
        let mut occurs =
            |pair: u32| among.as_mut().is_none_or(|among| self.ids_of(pair).occurs(among));
        let pairs = self.pairs_of(name).filter(|pair| occurs(*pair));
        let mut values: Vec<&str> = pairs.map(|pair| self.label(pair).value()).collect();
        values.sort_unstable();
        values
    }

    /// Values of the label `name`, sorted, with the series of each.
    pub fn postings_by_value(&self, name: &str) -> impl Iterator<Item = (&str, RoaringBitmap)> {
        let values = self.pairs_of(name).map(|pair| (self.label(pair).value(), pair));
        let mut values: Vec<(&str, u32)> = values.collect();
        values.sort_unstable();
        values.into_iter().map(|(value, pair)| (value, self.ids_of(pair).within(None)))
    }

    /// The index with access to the labels of its series, as needed to evaluate matchers: `values`
    /// returns the value that a series has for a name, or the empty string. It is called only for
    /// series that were added and not removed.
    pub fn with_values<'a, V: Fn(u32, &str) -> &'a str>(&'a self, values: V) -> Labelled<'a, V> {
        Labelled { index: self, values }
    }

    fn ids_of(&self, pair: u32) -> Ids<'_> {
        self.sets.ids(self.pairs[pair as usize].postings)
    }

    fn name(&self, name: &str) -> Option<&Name> {
        self.names.find(name, &self.hasher, |pair| self.label(pair))
    }

    fn pairs_of(&self, name: &str) -> impl Iterator<Item = u32> {
        self.name(name).into_iter().flat_map(Name::pairs)
    }

    /// Series whose label `name` has exactly `value` (not empty); `None` = no series.
    fn find(&self, name: &str, value: &str) -> Option<Ids<'_>> {
        let label = Label::new(name, value);
        match self.names.look_up(label.as_ref(), &self.hasher, |pair| self.label(pair)) {
            PairSlot::Pair(pair) => Some(self.ids_of(pair)),
            PairSlot::None(_) => None,
        }
    }

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
        for pair in self.pairs_of(name) {
            let value = self.label(pair).value();
            if !value.starts_with(prefix) || !passes(value) {
                continue;
            }
            match (self.ids_of(pair), within) {
                (Ids::One(series), _) => few.extend(Some(series).filter(is_in)),
                (Ids::Few(series), None) => few.extend_from_slice(series),
                (Ids::Few(series), _) => few.extend(series.iter().copied().filter(is_in)),
                (Ids::Many(series), Some(within)) => union |= series & within,
                (Ids::Many(series), None) => union |= series,
            }
        }
        few.sort_unstable();
        union |= bitmap_of_sorted(&few);
        union
    }
}

/// A [`MemoryIndex`] with access to the label values of its series.
pub struct Labelled<'a, V> {
    index: &'a MemoryIndex,
    values: V,
}

impl<'a, V: Fn(u32, &str) -> &'a str> LabelIndex for Labelled<'a, V> {
    fn all(&self) -> Result<RoaringBitmap, StoreError> {
        Ok(self.index.all.clone())
    }

    fn value_count(&self, name: &str) -> u64 {
        self.index.name(name).map_or(0, Name::len) as u64
    }

    fn series_count(&self, name: &str, value: &str) -> u64 {
        self.index.find(name, value).map_or(0, Ids::len)
    }

    fn postings(
        &self,
        name: &str,
        value: &str,
        within: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap, StoreError> {
        Ok(self.index.find(name, value).map(|ids| ids.within(within)).unwrap_or_default())
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
                let is_in = |id: &u32| judge.passes((self.values)(*id, name));
                Ok(within.iter().filter(is_in).collect())
            }
            within => Ok(self.index.by_values(name, prefix, passes, within)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;

    use super::*;
    use crate::index::{cases, evaluate};
    use promkairos_model::Matcher;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        Labels::from_pairs(pairs.iter().copied()).expect("valid labels")
    }

    fn add(index: &mut MemoryIndex, series: u32, labels: &Labels) -> Vec<u32> {
        let mut pairs = Vec::new();
        index.add_told(series, labels.as_ref(), |pair| pairs.push(pair));
        pairs
    }

    #[test]
    fn names_and_values_follow_what_is_added_and_removed() {
        let mut index = MemoryIndex::default();
        let a = labels(&[("__name__", "up"), ("job", "b")]);
        let b = labels(&[("__name__", "up"), ("job", "a"), ("zone", "z")]);
        let (of_a, of_b) = (add(&mut index, 0, &a), add(&mut index, 7, &b));
        assert_eq!(index.names(None), ["__name__", "job", "zone"]);
        assert_eq!(index.values("job", None), ["a", "b"]);
        let series = |ids: &[u32]| ids.iter().copied().collect::<RoaringBitmap>();
        let postings: Vec<(&str, RoaringBitmap)> = index.postings_by_value("job").collect();
        assert_eq!(postings, [("a", series(&[7])), ("b", series(&[0]))]);
        let (both, only_a) = (series(&[0, 7]), series(&[0]));
        for (ids, counts) in [(&only_a, [0, 7]), (&both, [0, 9])] {
            let counts = &mut |id| counts.contains(&id);
            assert_eq!(index.names(Some(Among { ids, counts })), ["__name__", "job"]);
            assert_eq!(index.values("job", Some(Among { ids, counts })), ["b"]);
        }
        index.remove(7, &of_b);
        assert_eq!(index.names(None), ["__name__", "job"]);
        assert_eq!(index.values("job", None), ["b"]);
        assert_eq!((index.ids().len(), index.values("zone", None).len()), (1, 0));
        index.remove(0, &of_a);
        assert!(index.ids().is_empty() && index.names(None).is_empty());
        // All pairs are free.
        let again = BTreeSet::from_iter(add(&mut index, 1, &b));
        assert!(again.len() == 3 && again.into_iter().all(|pair| pair < 4));
    }

    /// Names and values where one is a prefix of another, long ones, and so few labels that sets share some.
    fn set() -> impl Strategy<Value = Labels> {
        let name = prop_oneof!["[ab]{1,3}", Just("a".repeat(126)), Just("a".repeat(127))];
        let value =
            prop_oneof!["[xy]{1,2}", Just("x".repeat(120)), Just("x".repeat(130)), "é{1,2}"];
        prop::collection::btree_map(name, value, 0..40)
            .prop_map(|pairs| Labels::from_pairs(pairs).expect("valid"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        /// Series are added and removed, and their ids and pairs are reused.
        #[test]
        fn a_series_is_its_pairs(steps in prop::collection::vec((set(), 0u32..8), 0..60)) {
            let mut index = MemoryIndex::default();
            let mut series: BTreeMap<u32, (Labels, Vec<u32>)> = BTreeMap::new();
            for (set, id) in steps {
                if let Some((_, pairs)) = series.remove(&id) {
                    index.remove(id, &pairs);
                }
                let pairs = add(&mut index, id, &set);
                series.insert(id, (set, pairs));
                let mut distinct = BTreeSet::new();
                for (set, pairs) in series.values() {
                    prop_assert_eq!(&index.labels(pairs), set);
                    prop_assert_eq!(index.label_bytes(pairs), set.as_bytes().len());
                    for ((name, value), pair) in set.iter().zip(pairs) {
                        prop_assert_eq!(index.value(pairs, name), value);
                        distinct.insert((name, value, *pair));
                    }
                    prop_assert_eq!(index.value(pairs, "absent"), "");
                    for (other, _) in series.values() {
                        prop_assert_eq!(index.is_set(pairs, other.as_bytes()), other == set);
                    }
                }
                // One pair per label and one label per pair; there are no more pairs than were in use at a time.
                let used: BTreeSet<u32> = distinct.iter().map(|(_, _, pair)| *pair).collect();
                prop_assert_eq!(used.len(), distinct.len());
                prop_assert_eq!(index.pairs.len(), used.len() + index.free.len());
                let names: BTreeSet<&str> = distinct.iter().map(|(name, _, _)| *name).collect();
                prop_assert_eq!(index.names(None), Vec::from_iter(names));
                for (name, value, pair) in &distinct {
                    let has = |(_, (set, _)): &(&u32, &(Labels, Vec<u32>))| set.get(name) == *value;
                    let want: RoaringBitmap = series.iter().filter(has).map(|(id, _)| *id).collect();
                    prop_assert_eq!(index.ids_of(*pair).within(None), want);
                }
            }
        }

        /// Bytes from a sender match a series only if they are identical to its encoding.
        #[test]
        fn bytes_of_another_order_are_no_set(set in set(), at: prop::sample::Index, change in 1u8..) {
            let mut index = MemoryIndex::default();
            let pairs = add(&mut index, 0, &set);
            let mut backwards = Vec::new();
            let labels: Vec<LabelRef<'_>> = set.as_ref().labels().collect();
            labels.iter().rev().for_each(|label| backwards.extend_from_slice(label.as_bytes()));
            prop_assert_eq!(index.is_set(&pairs, &backwards), backwards == set.as_bytes());
            let mut bytes = set.as_bytes().to_vec();
            prop_assert!(index.is_set(&pairs, &bytes));
            bytes.push(change);
            prop_assert!(!index.is_set(&pairs, &bytes));
            bytes.pop();
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                prop_assert!(!index.is_set(&pairs, &bytes[..at]));
                bytes[at] ^= change;
                prop_assert!(!index.is_set(&pairs, &bytes));
            }
        }
    }

    #[test]
    fn the_shorter_of_values_and_series_is_walked() {
        let sets = cases::sets(3_000);
        let mut index = MemoryIndex::default();
        (0..).zip(&sets).for_each(|(id, set)| index.add(id, set.as_ref()));
        let asked = Cell::new(0);
        let index = index.with_values(|id, name| {
            asked.set(asked.get() + 1);
            sets[id as usize].get(name)
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
        // Ten neighbouring series of one metric share one question.
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
            let mut index = MemoryIndex::default();
            let pairs: Vec<Vec<u32>> =
                (0..).zip(&sets).map(|(id, set)| add(&mut index, id, set)).collect();
            let live = |id: usize| !removed[id];
            for (id, pairs) in pairs.iter().enumerate().filter(|(id, _)| !live(*id)) {
                index.remove(id as u32, pairs);
            }
            let index = index.with_values(|id, name| {
                assert!(live(id as usize), "a series that is gone is asked for");
                index.value(&pairs[id as usize], name)
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
        let mut index = MemoryIndex::default();
        for (id, set) in (0..).zip(&sets) {
            index.add(id, set.as_ref());
        }
        let index = index.with_values(|id, name| sets[id as usize].get(name));
        let check = |matchers: Vec<Matcher>| {
            let want = cases::matching(&sets, &matchers);
            prop_assert_eq!(evaluate(&index, &matchers).expect("no I/O"), want);
            Ok(())
        };
        let matchers = prop::collection::vec(cases::matcher(), 0..4);
        TestRunner::default().run(&matchers, check).expect("each is a filter");
    }
}
