//! Removes or adds labels of a set without an allocation: the result is in a buffer of the caller, or only hashed.

use hashbrown::Equivalent;
use xxhash_rust::xxh3::xxh3_64;

use super::labels::{Labels, LabelsRef, RawLabels, next_label};

impl Equivalent<Labels> for LabelsRef<'_> {
    fn equivalent(&self, owned: &Labels) -> bool {
        *self == owned.as_ref()
    }
}

impl LabelsRef<'_> {
    /// The labels with these names, which must be sorted. Uses only `buffer` for memory.
    pub fn only_in<'b>(self, mut names: &[&str], buffer: &'b mut Vec<u8>) -> LabelsRef<'b> {
        buffer.clear();
        for (name, value) in self.pairs() {
            while names.first().is_some_and(|first| first.as_bytes() < name) {
                names = &names[1..];
            }
            match names.first() {
                Some(first) if first.as_bytes() == name => RawLabels::push(buffer, name, value),
                Some(_) => {}
                None => break,
            }
        }
        LabelsRef(buffer)
    }

    /// The labels whose name passes. Uses only `buffer` for memory.
    pub fn filtered_in<'b>(
        self,
        mut wanted: impl FnMut(&[u8]) -> bool,
        buffer: &'b mut Vec<u8>,
    ) -> LabelsRef<'b> {
        buffer.clear();
        for (name, value) in self.pairs().filter(|(name, _)| wanted(name)) {
            RawLabels::push(buffer, name, value);
        }
        LabelsRef(buffer)
    }

    /// The labels, plus the labels of `more` with other names. Uses only `buffer` for memory.
    pub fn completed_in<'b>(self, more: LabelsRef<'_>, buffer: &'b mut Vec<u8>) -> LabelsRef<'b>
    where
        Self: 'b,
    {
        if more.0.is_empty() {
            return LabelsRef(self.0);
        }
        buffer.clear();
        let mut more = more.pairs().peekable();
        for (name, value) in self.pairs() {
            while let Some((added, value)) = more.next_if(|(added, _)| *added < name) {
                RawLabels::push(buffer, added, value);
            }
            // The label of this set wins.
            let _ = more.next_if(|(added, _)| *added == name);
            RawLabels::push(buffer, name, value);
        }
        more.for_each(|(name, value)| RawLabels::push(buffer, name, value));
        LabelsRef(buffer)
    }

    /// A hash of the labels except those with these names, which must be sorted. Equal labels have equal hashes.
    pub fn hash_without(self, names: &[&str]) -> u64 {
        let (mut hash, mut rest) = (0, self.0);
        for name in names {
            let labels = rest;
            let mut before = 0;
            while let Some((first, _)) = next_label(&mut rest) {
                if first >= name.as_bytes() {
                    let is_it = first == name.as_bytes();
                    rest = if is_it { rest } else { &labels[before..] };
                    break;
                }
                before = labels.len() - rest.len();
            }
            // The labels between two of the names are hashed separately, whether the set has these names or not.
            hash = mix(hash, &labels[..before]);
        }
        mix(hash, rest)
    }
}

/// Extends the hash `before` by `bytes`.
fn mix(before: u64, bytes: &[u8]) -> u64 {
    // 2^64 divided by the golden ratio.
    (before.rotate_left(23) ^ xxh3_64(bytes)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_set_has_is_not_replaced() {
        let set =
            |pairs: &[(&str, &str)]| Labels::from_pairs(pairs.iter().copied()).expect("valid");
        let more = set(&[("a", "1"), ("job", "2"), ("z", "3")]);
        let mut buffer = vec![1];
        let mut check = |own: &[(&str, &str)], want: &[(&str, &str)]| {
            let (own, want) = (set(own), set(want));
            assert_eq!(own.as_ref().completed_in(more.as_ref(), &mut buffer), want.as_ref());
        };
        check(
            &[("__name__", "up"), ("job", "own")],
            &[("__name__", "up"), ("a", "1"), ("job", "own"), ("z", "3")],
        );
        check(&[], &[("a", "1"), ("job", "2"), ("z", "3")]);
        check(&[("z", "own"), ("zz", "4")], &[("a", "1"), ("job", "2"), ("z", "own"), ("zz", "4")]);
    }

    proptest! {
        #[test]
        fn a_completed_set_is_that_of_both_by_name(
            own in prop::collection::btree_map("[a-e]{1,2}", "[xy]{1,3}", 0..6),
            more in prop::collection::btree_map("[a-e]{1,2}", "[xy]{1,3}", 0..6),
        ) {
            let mut both = more.clone();
            both.extend(own.clone());
            let set = |pairs| Labels::from_pairs(pairs).expect("valid");
            let [own, more, both] = [own, more, both].map(set);
            let mut buffer = Vec::new();
            prop_assert_eq!(own.as_ref().completed_in(more.as_ref(), &mut buffer), both.as_ref());
        }

        #[test]
        fn a_hash_without_labels_is_that_of_the_rest(
            a in prop::collection::btree_map("[a-e]{1,2}", "[xy]{1,3}", 0..6),
            b in prop::collection::btree_map("[a-e]{1,2}", "[xy]{1,3}", 0..6),
            mut names in prop::collection::vec("[a-e]{1,2}", 0..4),
        ) {
            names.sort();
            names.dedup();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let [a, b] = [a, b].map(|pairs| Labels::from_pairs(pairs).expect("valid"));
            let rest = |set: &Labels| set.filtered(|name| names.iter().all(|n| n.as_bytes() != name));
            let hash = |set: &Labels| set.as_ref().hash_without(&names);
            prop_assert_eq!(hash(&a), hash(&rest(&a)), "{} without {:?}", a, names);
            let only = a.filtered(|name| names.iter().any(|n| n.as_bytes() == name));
            let mut buffer = vec![1];
            prop_assert_eq!(a.as_ref().only_in(&names, &mut buffer), only.as_ref());
            prop_assert_eq!(hash(&a) == hash(&b), rest(&a) == rest(&b), "{} {} {:?}", a, b, names);
        }
    }
}
