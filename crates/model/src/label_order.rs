//! Compares label sets by their canonical encodings.
//!
//! Label sets to compare mostly have a common prefix: a metric has hundreds of series with the same first labels. So
//! equal bytes are skipped eight at a time, and only the label with the first difference is decoded.

use std::cmp::Ordering;

use super::labels::{LabelsRef, RawLabels};
use super::varint;

impl PartialOrd for LabelsRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LabelsRef<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.as_bytes(), other.as_bytes());
        let same = same_bytes(a, b);
        // Labels that end within the common prefix are equal.
        let mut at = 0;
        while let Some(end) = end_of_label(a, at).filter(|end| *end <= same) {
            at = end;
        }
        let first = |bytes| RawLabels(bytes).pairs().next();
        first(&a[at..]).cmp(&first(&b[at..]))
    }
}

/// The length in bytes of the common prefix.
pub fn same_bytes(a: &[u8], b: &[u8]) -> usize {
    let (blocks_a, blocks_b) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    let blocks = blocks_a.iter().zip(blocks_b).take_while(|(a, b)| a == b).count();
    let rest = a[8 * blocks..].iter().zip(&b[8 * blocks..]).take_while(|(a, b)| a == b);
    8 * blocks + rest.count()
}

/// The end of the label that begins at this offset; `None` at the end of the set. A label is a tag
/// of one byte, its length, and its content.
pub(super) fn end_of_label(labels: &[u8], at: usize) -> Option<usize> {
    let mut rest = labels.get(at + 1..)?.iter();
    let length = varint::read(|| rest.next().copied().ok_or(()), ()).ok()?;
    Some(labels.len() - rest.len() + length as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Labels;

    fn set() -> impl Strategy<Value = Labels> {
        let value = prop_oneof!["[ab]{1,3}", "a{120,140}[ab]{1,9}", "(a|é){1,9}"];
        prop::collection::btree_map("[a-c]{1,2}", value, 0..6)
            .prop_map(|pairs| Labels::from_pairs(pairs).expect("valid"))
    }

    proptest! {
        #[test]
        fn it_is_that_of_the_pairs(a in set(), b in set()) {
            prop_assert_eq!(a.cmp(&b), a.iter().cmp(b.iter()), "{} {}", a, b);
            prop_assert_eq!(a.cmp(&a.clone()), Ordering::Equal);
        }
    }

    #[test]
    fn it_is_pairwise_and_a_prefix_comes_first() {
        let sets = [
            [("__name__", "a")].as_slice(),
            &[("__name__", "a"), ("b", "1")],
            &[("__name__", "a"), ("b", "10")],
            &[("__name__", "a"), ("b", "2")],
            &[("__name__", "a"), ("c", "0")],
            &[("__name__", "ab")],
        ];
        let sets = sets.map(|set| Labels::from_pairs(set.iter().copied()).expect("valid"));
        assert!(sets.is_sorted_by(|a, b| a < b));
    }
}
