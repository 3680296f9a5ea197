//! Sorts series by their labels without building label sets, for a flush and for a list that is cut.
//!
//! Series are sorted in groups ([`label_groups`]); the depth of a group is a number of labels.
//! Equal pairs are equal labels, so they are not compared.
//!
//! The map is requested again after some thousand series at most. So, if each request locks the map, writes with new
//! series need not wait until a million series are sorted. The ids must stay in use until the end.

use std::cmp::Ordering;
use std::ops::Deref;

use super::map::SeriesMap;
use promkairos_model::label_groups::{self, FEW, Group, Keeper};
use promkairos_model::same_bytes;

/// Series that are visited under one lock of the map.
const AT_ONCE: usize = 1 << 12;

/// A series; its place is its id.
type Entry = label_groups::Entry<()>;

/// The ids in the order of the labels of their series in the map that `map` returns. Sorting is
/// lazy: a caller that stops early does not wait for the rest.
pub(super) fn sorted<M: Deref<Target = SeriesMap>, F: Fn() -> M>(
    map: F,
    ids: Vec<u32>,
) -> Sorted<F> {
    let entries: Vec<Entry> = ids.into_iter().map(|id| Entry::new(id, ())).collect();
    let groups = vec![Group::all(entries.len())];
    Sorted { series: Series(map), entries, groups, at: 0 }
}

/// The iterator of [`sorted`].
pub(super) struct Sorted<F> {
    series: Series<F>,
    entries: Vec<Entry>,
    /// Groups that are not sorted yet, in reverse order.
    groups: Vec<Group>,
    at: usize,
}

impl<M: Deref<Target = SeriesMap>, F: Fn() -> M> Iterator for Sorted<F> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        while let Some(group) = self.groups.pop_if(|group| group.start() <= self.at) {
            let first = self.groups.len();
            group.sort(&self.series, &mut self.entries, &mut self.groups);
            self.groups[first..].reverse();
        }
        let entry = self.entries.get(self.at)?;
        self.at += 1;
        Some(entry.place)
    }
}

/// The series, with their labels in the map that this function returns.
struct Series<F>(F);

impl<M: Deref<Target = SeriesMap>, F: Fn() -> M> Keeper for Series<F> {
    type Item = ();

    fn first_difference(&self, entries: &[Entry], depth: usize) -> usize {
        let Some(first) = entries.first() else { return depth };
        let mut same = usize::MAX;
        for some in entries.chunks(AT_ONCE) {
            let map = self.0();
            let first = map.pairs(first.place);
            same = same.min(first.len());
            for entry in some {
                same = depth + same_pairs(&first[depth..same], &map.pairs(entry.place)[depth..]);
                if same == depth {
                    return depth;
                }
            }
        }
        same
    }

    fn set_keys(&self, entries: &mut [Entry], depth: usize) -> bool {
        let Some(first) = entries.first().map(|entry| entry.place) else { return false };
        let (mut same_name, mut name_bytes, mut value_bytes) = (true, usize::MAX, usize::MAX);
        for some in entries.chunks(AT_ONCE) {
            let map = self.0();
            let (name, value) = label(&map, first, depth);
            (name_bytes, value_bytes) = (name_bytes.min(name.len()), value_bytes.min(value.len()));
            let mut last = None;
            for entry in some {
                let pair = map.pairs(entry.place).get(depth);
                if pair == last {
                    continue;
                }
                last = pair;
                let of_entry = label(&map, entry.place, depth);
                same_name &= of_entry.0 == name;
                name_bytes = same_bytes(&name[..name_bytes], of_entry.0);
                value_bytes = same_bytes(&value[..value_bytes], of_entry.1);
            }
        }
        let mut parts = false;
        for some in entries.chunks_mut(AT_ONCE) {
            let map = self.0();
            for entry in some {
                let (name, value) = label(&map, entry.place, depth);
                let rest = if same_name { &value[value_bytes..] } else { &name[name_bytes..] };
                parts |= !rest.is_empty();
                entry.set_key(rest);
            }
        }
        parts
    }

    fn compare(&self, entries: &mut [Entry], depth: usize) {
        if entries.len() <= FEW {
            let map = self.0();
            entries.sort_unstable_by(|a, b| compare(&map, a.place, b.place, depth));
        } else {
            // There may be many entries, so the map is locked for one comparison at a time.
            entries.sort_unstable_by(|a, b| compare(&self.0(), a.place, b.place, depth));
        }
    }
}

/// Compares series whose first `depth` labels are equal.
fn compare(map: &SeriesMap, a: u32, b: u32, depth: usize) -> Ordering {
    let (a, b) = (map.pairs(a), map.pairs(b));
    let depth = depth + same_pairs(&a[depth..], &b[depth..]);
    let pair = |pairs: &[u32]| pairs.get(depth).map(|pair| map.index.label(*pair).pair());
    pair(a).cmp(&pair(b))
}

/// The number of equal pairs at the beginning of both.
fn same_pairs(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Name and value of the label after the first `depth`. If there is none, the name is empty, as no
/// other is: the shorter set comes first.
fn label(map: &SeriesMap, id: u32, depth: usize) -> (&[u8], &[u8]) {
    map.pairs(id).get(depth).map(|pair| map.index.label(*pair).pair()).unwrap_or_default()
}

#[cfg(test)]
use promkairos_model::Labels;

#[cfg(test)]
#[path = "../../../model/src/label_cases.rs"]
mod cases;

#[cfg(test)]
mod tests {
    use parking_lot::RwLock;
    use proptest::prelude::*;

    use super::*;

    fn check(sets: &[Labels]) {
        let mut map = SeriesMap::default();
        let mut ids: Vec<u32> = sets.iter().map(|set| map.find_or_insert(set.clone(), 0)).collect();
        ids.sort_unstable();
        ids.dedup();
        let map = RwLock::new(map);
        let found: Vec<Labels> =
            sorted(|| map.read(), ids).map(|id| map.read().labels(id)).collect();
        let mut want = sets.to_vec();
        want.sort();
        want.dedup();
        assert_eq!(found, want);
    }

    proptest! {
        #[test]
        fn it_is_the_order_of_sets(sets in cases::sets()) {
            check(&sets);
        }
    }

    #[test]
    fn more_series_than_are_looked_at_at_once() {
        check(&cases::fleet(3 * AT_ONCE as u32, 3 << 12));
    }

    #[test]
    fn values_of_which_each_goes_on_where_the_one_before_ends() {
        cases::ever_longer().iter().for_each(|sets| check(sets));
    }
}
