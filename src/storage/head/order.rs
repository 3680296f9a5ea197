//! Sorting the series of a flush by their labels, without making label sets.
//!
//! As [`crate::model::sorted_by_labels`] does with sets, a group of series is looked at once for the first
//! label in which some differ, which their pairs tell, and is then sorted by eight bytes of it that are kept
//! beside each other; what is the same in these is a group in turn. Equal pairs are equal labels and are not looked at.
//!
//! It asks for the map anew after some thousand series at most. So writes that bring new series need not wait
//! until a million is sorted, where the map is locked for each time. The ids must stay in use until the end.

use std::cmp::Ordering;
use std::ops::{Deref, Range};

use super::map::SeriesMap;

/// Groups of so many series are sorted by comparing them.
const FEW: usize = 6;
/// So often a group is parted by the same label; then it is sorted by comparing, however the values of that
/// label were made.
const MOST_ROUNDS: u32 = 8;
/// The map is held for so many series.
const AT_ONCE: usize = 1 << 12;

struct Entry {
    key: u64,
    id: u32,
}

/// Series that have their place among the others.
struct Group {
    range: Range<usize>,
    /// So many labels are the same in all of them.
    depth: usize,
    /// How often it was parted by the label behind them.
    rounds: u32,
}

/// The ids in the order of the labels of their series, which are in the map that `map` gives. The last ones are
/// sorted when it comes to them: who stops before the end need not wait for that.
pub(super) fn sorted<M: Deref<Target = SeriesMap>, F: Fn() -> M>(
    map: F,
    ids: Vec<u32>,
) -> Sorted<F> {
    let entries: Vec<Entry> = ids.into_iter().map(|id| Entry { key: 0, id }).collect();
    let groups = vec![Group { range: 0..entries.len(), depth: 0, rounds: 0 }];
    Sorted { map, entries, groups, at: 0 }
}

/// What [`sorted`] gives.
pub(super) struct Sorted<F> {
    map: F,
    entries: Vec<Entry>,
    /// What is not sorted yet, the first ones last.
    groups: Vec<Group>,
    at: usize,
}

impl<M: Deref<Target = SeriesMap>, F: Fn() -> M> Iterator for Sorted<F> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        while let Some(group) = self.groups.pop_if(|group| group.range.start <= self.at) {
            let first = self.groups.len();
            sort(&self.map, &mut self.entries, &group, &mut self.groups);
            self.groups[first..].reverse();
        }
        let entry = self.entries.get(self.at)?;
        self.at += 1;
        Some(entry.id)
    }
}

/// Sorts the entries of `group`, or by eight bytes more: then what is left to do is put into `groups`.
fn sort<M: Deref<Target = SeriesMap>>(
    map: &impl Fn() -> M,
    entries: &mut [Entry],
    group: &Group,
    groups: &mut Vec<Group>,
) {
    let begin = group.range.start;
    let entries = &mut entries[group.range.clone()];
    if entries.len() <= FEW {
        let map = map();
        entries.sort_unstable_by(|a, b| compare(&map, a.id, b.id, group.depth));
        return;
    }
    let depth = first_difference(map, entries, group.depth);
    let rounds = if depth == group.depth { group.rounds + 1 } else { 1 };
    if rounds > MOST_ROUNDS || !key(map, entries, depth) {
        return compare_all(map, entries, depth);
    }
    entries.sort_unstable_by_key(|entry| entry.key);
    let mut first = 0;
    for run in entries.chunk_by(|a, b| a.key == b.key) {
        let range = first..first + run.len();
        first = range.end;
        if run.len() == entries.len() {
            // The same eight bytes where some differ: one ends where another has a byte of zeros.
            return compare_all(map, entries, depth);
        }
        if run.len() > 1 {
            let range = begin + range.start..begin + range.end;
            groups.push(Group { range, depth, rounds });
        }
    }
}

/// The same by comparing. There may be many, so the map is held for one comparison at a time.
fn compare_all<M: Deref<Target = SeriesMap>>(
    map: &impl Fn() -> M,
    entries: &mut [Entry],
    depth: usize,
) {
    entries.sort_unstable_by(|a, b| compare(&map(), a.id, b.id, depth));
}

/// Series whose first `depth` labels are the same.
fn compare(map: &SeriesMap, a: u32, b: u32, depth: usize) -> Ordering {
    let (a, b) = (map.pairs(a), map.pairs(b));
    let depth = depth + same_pairs(&a[depth..], &b[depth..]);
    let pair = |pairs: &[u32]| pairs.get(depth).map(|pair| map.index.label(*pair).pair());
    pair(a).cmp(&pair(b))
}

/// How many pairs both begin with.
fn same_pairs(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// How many labels are the same in all, when the first `depth` are.
fn first_difference<M: Deref<Target = SeriesMap>>(
    map: &impl Fn() -> M,
    entries: &[Entry],
    depth: usize,
) -> usize {
    let Some(first) = entries.first() else { return depth };
    let mut same = usize::MAX;
    for some in entries.chunks(AT_ONCE) {
        let map = map();
        let first = map.pairs(first.id);
        same = same.min(first.len());
        for entry in some {
            same = depth + same_pairs(&first[depth..same], &map.pairs(entry.id)[depth..]);
            if same == depth {
                return depth;
            }
        }
    }
    same
}

/// Gives each entry the eight bytes with which the label behind the first `depth` parts from those of
/// others. Whether there is something to part them.
fn key<M: Deref<Target = SeriesMap>>(
    map: &impl Fn() -> M,
    entries: &mut [Entry],
    depth: usize,
) -> bool {
    let Some(first) = entries.first().map(|entry| entry.id) else { return false };
    let (mut same_name, mut name_bytes, mut value_bytes) = (true, usize::MAX, usize::MAX);
    for some in entries.chunks(AT_ONCE) {
        let map = map();
        let (name, value) = label(&map, first, depth);
        let mut last = None;
        for entry in some {
            let pair = map.pairs(entry.id).get(depth);
            if pair == last {
                continue;
            }
            last = pair;
            let of_entry = label(&map, entry.id, depth);
            same_name &= of_entry.0 == name;
            name_bytes = same_bytes(name, of_entry.0, name_bytes);
            value_bytes = same_bytes(value, of_entry.1, value_bytes);
        }
    }
    let mut parts = false;
    for some in entries.chunks_mut(AT_ONCE) {
        let map = map();
        for entry in some {
            let (name, value) = label(&map, entry.id, depth);
            let rest = if same_name { &value[value_bytes..] } else { &name[name_bytes..] };
            parts |= !rest.is_empty();
            let mut bytes = [0; 8];
            let taken = rest.len().min(8);
            bytes[..taken].copy_from_slice(&rest[..taken]);
            entry.key = u64::from_be_bytes(bytes);
        }
    }
    parts
}

/// How many bytes both begin with, `most` at most.
fn same_bytes(a: &[u8], b: &[u8], most: usize) -> usize {
    a.iter().zip(b).take(most).take_while(|(a, b)| a == b).count()
}

/// Name and value of the label behind the first `depth`. Where none is the name is empty, as it is nowhere
/// else: what has ended comes first.
fn label(map: &SeriesMap, id: u32, depth: usize) -> (&[u8], &[u8]) {
    map.pairs(id).get(depth).map(|pair| map.index.label(*pair).pair()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use parking_lot::RwLock;
    use proptest::prelude::*;

    use super::*;
    use crate::model::Labels;

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

    fn set(pairs: &[(&str, &str)]) -> Labels {
        Labels::from_pairs(pairs.iter().copied()).expect("valid")
    }

    proptest! {
        #[test]
        fn it_is_the_order_of_sets(
            sets in prop::collection::vec(
                prop::collection::btree_map(
                    prop_oneof![3 => "[a-c]{1,2}", 1 => "a{9,12}[ab]{0,2}"],
                    prop_oneof!["[ab]{1,3}", "a{6,9}[ab\\x00]{0,3}", "a{120,130}[ab]{1,12}", "(a|é){1,9}"],
                    0..5,
                ),
                0..60,
            ),
        ) {
            let sets: Vec<Labels> =
                sets.into_iter().map(|pairs| Labels::from_pairs(pairs).expect("valid")).collect();
            check(&sets);
        }
    }

    #[test]
    fn more_series_than_are_looked_at_at_once() {
        let mut sets = Vec::new();
        for at in 0..3 * AT_ONCE as u32 {
            let at = at.wrapping_mul(2_654_435_761) % (3 << 12);
            let (name, instance) = (format!("metric_{}_total", at % 7), format!("host-{at}:9100"));
            sets.push(set(&[("__name__", &name), ("env", "prod"), ("instance", &instance)]));
        }
        sets.push(set(&[("__name__", "metric_3_total")]));
        sets.push(Labels::default());
        check(&sets);
    }

    #[test]
    fn values_of_which_each_goes_on_where_the_one_before_ends() {
        let value = "x".repeat(4000);
        let sets: Vec<Labels> = (1..400).map(|at| set(&[("a", &value[..at * 10])])).collect();
        check(&sets);
        let zeros = "\0".repeat(100);
        let sets: Vec<Labels> = (1..100).rev().map(|at| set(&[("a", &zeros[..at])])).collect();
        check(&sets);
    }
}
