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

use super::LabelIndex;

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

impl LabelIndex for MemoryIndex {
    fn all(&self) -> Result<RoaringBitmap, StoreError> {
        Ok(self.all.clone())
    }

    fn postings(&self, name: &str, value: &str) -> Result<RoaringBitmap, StoreError> {
        let postings = self.names.get(name).and_then(|values| values.get(value));
        Ok(postings.map(Postings::to_bitmap).unwrap_or_default())
    }

    fn union_where(
        &self,
        name: &str,
        prefix: &str,
        passes: &dyn Fn(&str) -> bool,
    ) -> Result<RoaringBitmap, StoreError> {
        let mut union = RoaringBitmap::new();
        let mut single = Vec::new();
        for (value, postings) in self.names.get(name).into_iter().flatten() {
            if value.starts_with(prefix) && passes(value) {
                match postings {
                    Postings::One(series) => single.push(*series),
                    Postings::Few(series) => single.extend_from_slice(series),
                    Postings::Many(series) => union |= series,
                }
            }
        }
        single.sort_unstable();
        union |= bitmap_of_sorted(&single);
        Ok(union)
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

    fn to_bitmap(&self) -> RoaringBitmap {
        match self {
            Self::One(series) => RoaringBitmap::from_iter([*series]),
            Self::Few(ids) => bitmap_of_sorted(ids),
            Self::Many(ids) => ids.clone(),
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
    use proptest::prelude::*;

    use super::*;
    use crate::model::{Labels, MatchOp, Matcher};
    use crate::storage::index::evaluate;

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
        for (i, id) in ids.iter().enumerate() {
            postings.insert(*id);
            let expected: RoaringBitmap = ids[..=i].iter().copied().collect();
            assert_eq!(postings.to_bitmap(), expected);
        }
        assert!(matches!(postings, Postings::Many(_)));
        for id in &ids {
            assert!(postings.remove(id + 1) == Left::Something);
            let left = postings.remove(*id);
            assert_eq!(left == Left::Nothing, id == ids.last().expect("not empty"));
        }
    }

    fn value() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec!["", "a", "ab", "abc", "b", "bc", "é", "a\nb"])
    }

    fn label_set() -> impl Strategy<Value = Labels> {
        (value(), value(), value())
            .prop_map(|(x, y, z)| labels(&[("__name__", "m"), ("x", x), ("y", y), ("z", z)]))
    }

    fn matcher() -> impl Strategy<Value = Matcher> {
        let literal = (
            prop::sample::select(vec![MatchOp::Equal, MatchOp::NotEqual]),
            value().prop_map(str::to_owned),
        );
        let pattern = (
            prop::sample::select(vec![MatchOp::Regex, MatchOp::NotRegex]),
            prop::sample::select(vec![
                "", ".*", ".+", "a", "a|b", "a|", "ab?", "a.*", "ab.*|b", ".b.*", "b.?", "[ab]+",
                "nothing", "(a|ab)c?", "é|x",
            ])
            .prop_map(str::to_owned),
        );
        let name = prop::sample::select(vec!["__name__", "x", "y", "z", "absent"]);
        (name, prop_oneof![literal, pattern]).prop_map(|(name, (op, value))| {
            Matcher::new(op, name, &value).expect("the patterns are valid")
        })
    }

    proptest! {
        #[test]
        fn evaluation_is_a_filter(
            sets in prop::collection::vec(label_set(), 0..40),
            removed in prop::collection::vec(any::<bool>(), 40),
            matchers in prop::collection::vec(matcher(), 0..4),
        ) {
            let mut index = MemoryIndex::new();
            for (id, set) in sets.iter().enumerate() {
                index.add(id as u32, set.as_ref());
            }
            let live = |id: usize| !removed[id];
            let gone = sets.iter().enumerate().filter(|(id, _)| !live(*id));
            index.remove(gone.map(|(id, set)| (id as u32, set.as_ref())));
            let expected: RoaringBitmap = sets
                .iter()
                .enumerate()
                .filter(|(id, set)| live(*id) && Matcher::all_match(&matchers, set))
                .map(|(id, _)| id as u32)
                .collect();
            prop_assert_eq!(evaluate(&index, &matchers).expect("no I/O"), expected);
        }
    }
}
