//! Sorting many label sets.
//!
//! Sets that are sorted mostly begin alike, and lie all over memory: comparing two of them means to fetch
//! both. So a group of sets is looked at once for the first label in which some differ, and is then sorted by
//! eight bytes of it that are kept beside each other; what is the same in these is a group in turn. The order
//! is that of [`LabelsRef`], which decides wherever eight bytes do not.

use std::ops::Range;

use super::label_order::{end_of_label, same_bytes};
use super::labels::{LabelsRef, RawLabels};

/// Groups of so many sets are sorted by comparing them.
const FEW: usize = 6;
/// So often a group is parted by the same label; then it is sorted by comparing, however the values of that
/// label were made.
const MOST_ROUNDS: u32 = 8;

/// `items` in the order of their label sets; of equal ones the first stays first.
pub(crate) fn sorted_by_labels<T>(items: Vec<T>, labels: impl Fn(&T) -> LabelsRef<'_>) -> Vec<T> {
    let places = sorted_places(items.iter().map(labels));
    let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
    let mut sorted = Vec::with_capacity(items.len());
    sorted.extend(places.into_iter().filter_map(|place| items[place as usize].take()));
    sorted
}

/// The places of `sets` in their order; of equal ones the first comes first.
pub(crate) fn sorted_places<'a>(sets: impl ExactSizeIterator<Item = LabelsRef<'a>>) -> Vec<u32> {
    let entry = |(set, place)| Entry { key: 0, set, text: &[], place };
    let mut entries: Vec<Entry<'a>> = sets.zip(0..).map(entry).collect();
    let mut groups = vec![Group { range: 0..entries.len(), at: 0, rounds: 0 }];
    while let Some(group) = groups.pop() {
        sort(&mut entries, &group, &mut groups);
    }
    entries.into_iter().map(|entry| entry.place).collect()
}

struct Entry<'a> {
    key: u64,
    set: LabelsRef<'a>,
    /// The part of the set that the key is of.
    text: &'a [u8],
    place: u32,
}

/// Entries that have their place among the others.
struct Group {
    range: Range<usize>,
    /// All labels that end here, or before, are the same.
    at: usize,
    /// How often it was parted by the label behind them.
    rounds: u32,
}

/// Sorts the entries of `group`, or by eight bytes more: then what is left to do is put into `groups`.
fn sort(entries: &mut [Entry<'_>], group: &Group, groups: &mut Vec<Group>) {
    let begin = group.range.start;
    let entries = &mut entries[group.range.clone()];
    if entries.len() <= FEW {
        return compare(entries);
    }
    let at = first_difference(entries, group.at);
    let rounds = if at == group.at { group.rounds + 1 } else { 1 };
    if rounds > MOST_ROUNDS || !key(entries, at) {
        return compare(entries);
    }
    entries.sort_unstable_by_key(|entry| (entry.key, entry.place));
    let mut first = 0;
    for run in entries.chunk_by(|a, b| a.key == b.key) {
        let range = first..first + run.len();
        first = range.end;
        if run.len() == entries.len() {
            // The same eight bytes where some differ: one ends where another has a byte of zeros.
            return compare(entries);
        }
        if run.len() > 1 {
            let range = begin + range.start..begin + range.end;
            groups.push(Group { range, at, rounds });
        }
    }
}

fn compare(entries: &mut [Entry<'_>]) {
    entries.sort_unstable_by(|a, b| a.set.cmp(&b.set).then(a.place.cmp(&b.place)));
}

/// Where the first label begins that is not the same in all entries, which agree up to `at`.
fn first_difference(entries: &[Entry<'_>], at: usize) -> usize {
    let Some((first, others)) = entries.split_first() else { return at };
    let first = first.set.as_bytes();
    let mut same = first.len();
    for other in others {
        same = at + same_bytes(&first[at..same], &other.set.as_bytes()[at..]);
    }
    let mut begin = at;
    while let Some(end) = end_of_label(first, begin).filter(|end| *end <= same) {
        begin = end;
    }
    begin
}

/// Gives each entry the eight bytes with which the label that begins at `at` parts from those of others.
/// Whether there is something to part them.
fn key(entries: &mut [Entry<'_>], at: usize) -> bool {
    let Some(first) = entries.first() else { return false };
    let (name, value) = label(first.set, at);
    let (mut same_name, mut shared) = (true, value.len());
    for entry in &mut *entries {
        let of_entry = label(entry.set, at);
        same_name &= of_entry.0 == name;
        entry.text = of_entry.1;
        shared = same_bytes(&value[..shared], entry.text);
    }
    if !same_name {
        shared = name.len();
        for entry in &mut *entries {
            entry.text = label(entry.set, at).0;
            shared = same_bytes(&name[..shared], entry.text);
        }
    }
    let mut parts = false;
    for entry in entries {
        let rest = &entry.text[shared..];
        parts |= !rest.is_empty();
        let mut bytes = [0; 8];
        let taken = rest.len().min(8);
        bytes[..taken].copy_from_slice(&rest[..taken]);
        entry.key = u64::from_be_bytes(bytes);
    }
    parts
}

/// Name and value of the label that begins at `at`. Where none does the name is empty, as it is nowhere else:
/// what has ended comes first.
fn label(set: LabelsRef<'_>, at: usize) -> (&[u8], &[u8]) {
    RawLabels(&set.as_bytes()[at..]).pairs().next().flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::Labels;

    fn check(sets: &[Labels]) {
        let places = sorted_places(sets.iter().map(Labels::as_ref));
        let mut want: Vec<u32> = (0..sets.len() as u32).collect();
        want.sort_by(|a, b| sets[*a as usize].cmp(&sets[*b as usize]));
        assert_eq!(places, want);
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
    fn sets_of_a_fleet_and_the_same_ones_again() {
        let mut sets = Vec::new();
        for at in 0..3000u32 {
            let at = at.wrapping_mul(2_654_435_761) % 1000;
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
