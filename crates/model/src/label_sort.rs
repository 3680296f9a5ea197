//! Sorts many label sets with [`label_groups`](super::label_groups). The depth is in bytes.

use std::marker::PhantomData;

use super::label_groups::{Entry, Group, Keeper};
use super::label_order::{end_of_label, same_bytes};
use super::labels::{LabelsRef, RawLabels};

/// `items` in the order of their label sets; the sort is stable.
pub fn sorted_by_labels<T>(items: Vec<T>, labels: impl Fn(&T) -> LabelsRef<'_>) -> Vec<T> {
    let places = sorted_places(items.iter().map(labels));
    let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
    let mut sorted = Vec::with_capacity(items.len());
    sorted.extend(places.into_iter().filter_map(|place| items[place as usize].take()));
    sorted
}

/// The positions of `sets` in sorted order; the sort is stable.
pub fn sorted_places<'a>(sets: impl ExactSizeIterator<Item = LabelsRef<'a>>) -> Vec<u32> {
    let entry = |(set, place)| Entry::new(place, Set { set, text: &[] });
    let mut entries: Vec<Entry<Set<'a>>> = sets.zip(0..).map(entry).collect();
    let mut groups = vec![Group::all(entries.len())];
    while let Some(group) = groups.pop() {
        group.sort(&Sets(PhantomData), &mut entries, &mut groups);
    }
    entries.into_iter().map(|entry| entry.place).collect()
}

struct Set<'a> {
    set: LabelsRef<'a>,
    /// The name or value that the key is taken from.
    text: &'a [u8],
}

/// The entries contain their labels.
struct Sets<'a>(PhantomData<LabelsRef<'a>>);

impl<'a> Keeper for Sets<'a> {
    type Item = Set<'a>;

    fn first_difference(&self, entries: &[Entry<Set<'a>>], depth: usize) -> usize {
        let Some((first, others)) = entries.split_first() else { return depth };
        let first = first.item.set.as_bytes();
        let mut same = first.len();
        for other in others {
            let other = other.item.set.as_bytes();
            same = depth + same_bytes(&first[depth..same], &other[depth..]);
        }
        let mut begin = depth;
        while let Some(end) = end_of_label(first, begin).filter(|end| *end <= same) {
            begin = end;
        }
        begin
    }

    fn set_keys(&self, entries: &mut [Entry<Set<'a>>], depth: usize) -> bool {
        let Some(first) = entries.first() else { return false };
        let (name, value) = label(first.item.set, depth);
        let (mut same_name, mut shared) = (true, value.len());
        for Entry { item, .. } in &mut *entries {
            let of_entry = label(item.set, depth);
            same_name &= of_entry.0 == name;
            item.text = of_entry.1;
            shared = same_bytes(&value[..shared], item.text);
        }
        if !same_name {
            shared = name.len();
            for Entry { item, .. } in &mut *entries {
                item.text = label(item.set, depth).0;
                shared = same_bytes(&name[..shared], item.text);
            }
        }
        let mut parts = false;
        for entry in entries {
            let rest = &entry.item.text[shared..];
            parts |= !rest.is_empty();
            entry.set_key(rest);
        }
        parts
    }

    fn compare(&self, entries: &mut [Entry<Set<'a>>], _: usize) {
        entries.sort_unstable_by(|a, b| a.item.set.cmp(&b.item.set).then(a.place.cmp(&b.place)));
    }
}

/// Name and value of the label that begins at `at`. At the end of the set both are empty; no other
/// name is empty, so a shorter set comes first.
fn label(set: LabelsRef<'_>, at: usize) -> (&[u8], &[u8]) {
    RawLabels(&set.as_bytes()[at..]).pairs().next().flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Labels, label_cases as cases};

    fn check(sets: &[Labels]) {
        let places = sorted_places(sets.iter().map(Labels::as_ref));
        let mut want: Vec<u32> = (0..sets.len() as u32).collect();
        want.sort_by(|a, b| sets[*a as usize].cmp(&sets[*b as usize]));
        assert_eq!(places, want);
    }

    proptest! {
        #[test]
        fn it_is_the_order_of_sets(sets in cases::sets()) {
            check(&sets);
        }
    }

    #[test]
    fn sets_of_a_fleet_and_the_same_ones_again() {
        check(&cases::fleet(3000, 1000));
    }

    #[test]
    fn values_of_which_each_goes_on_where_the_one_before_ends() {
        cases::ever_longer().iter().for_each(|sets| check(sets));
    }
}
