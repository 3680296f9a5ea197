//! The symbol table of remote write 2.0, and the labels that references into it denote.
//!
//! Labels are written to the arena in the encoding of version 1. Consecutive series have most
//! labels in common: labels that a series shares with the previous one, at the front and at the
//! end, are copied in one piece from the labels of that series. The bytes are the same as without
//! the copy.
//!
//! Labels are not interpreted or validated here.

use std::ops::Range;

use promkairos_model::{RawLabels, RejectReason};

/// The table, and the labels of the last call of `append`.
#[derive(Default)]
pub(super) struct Symbols<'a> {
    table: Vec<&'a [u8]>,
    last: Appended,
    /// Buffers of older labels, to be reused.
    spare: Appended,
}

/// Labels in the arena.
#[derive(Default)]
struct Appended {
    refs: Vec<[u32; 2]>,
    /// Where each label begins, and where the last one ends.
    bounds: Vec<usize>,
}

impl<'a> Symbols<'a> {
    /// Puts a symbol at the end of the table.
    pub(super) fn push(&mut self, symbol: &'a [u8]) {
        self.table.push(symbol);
    }

    /// Symbols in the table.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// The symbol behind `reference`; an error where the table has none.
    #[inline]
    pub(super) fn get(&self, reference: u32) -> Result<&'a [u8], RejectReason> {
        self.table.get(reference as usize).copied().ok_or_else(|| {
            let symbols = self.table.len();
            RejectReason::SymbolOutOfRange { reference: reference.into(), symbols }
        })
    }

    /// The name and the value of a pair of valid references.
    pub(super) fn label(&self, pair: [u32; 2]) -> [&'a [u8]; 2] {
        pair.map(|reference| self.table[reference as usize])
    }

    /// Appends the labels of `pairs`, whose references are all valid, to the arena. The labels of
    /// the previous call must still be at their place in the arena.
    pub(super) fn append(&mut self, pairs: &[[u32; 2]], arena: &mut Vec<u8>) {
        let mut next = std::mem::take(&mut self.spare);
        next.clear();
        let last = &self.last;
        let front = equal(pairs.iter().zip(&last.refs));
        let rest = pairs.len().min(last.refs.len()) - front;
        let back = equal(pairs.iter().rev().zip(last.refs.iter().rev()).take(rest));
        next.copy(last, 0..front, arena);
        for pair in &pairs[front..pairs.len() - back] {
            next.bounds.push(arena.len());
            let [name, value] = self.label(*pair);
            RawLabels::push(arena, name, value);
        }
        next.copy(last, last.refs.len() - back..last.refs.len(), arena);
        next.bounds.push(arena.len());
        next.refs.extend_from_slice(pairs);
        self.spare = std::mem::replace(&mut self.last, next);
    }
}

impl Appended {
    fn clear(&mut self) {
        self.refs.clear();
        self.bounds.clear();
    }

    /// Appends the bytes of some labels of another series, and where each label begins.
    fn copy(&mut self, other: &Self, labels: Range<usize>, arena: &mut Vec<u8>) {
        if labels.is_empty() {
            return;
        }
        let (begin, end) = (other.bounds[labels.start], other.bounds[labels.end]);
        let to = arena.len();
        self.bounds.extend(other.bounds[labels].iter().map(|at| at - begin + to));
        arena.extend_from_within(begin..end);
    }
}

/// How many pairs are equal before the first that is not.
fn equal<'p>(pairs: impl Iterator<Item = (&'p [u32; 2], &'p [u32; 2])>) -> usize {
    pairs.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever series follow each other, each has the bytes that it would have alone.
        #[test]
        fn labels_do_not_depend_on_the_series_before(
            series in proptest::collection::vec(
                proptest::collection::vec([0..4_u32, 0..4], 0..6),
                0..20,
            ),
        ) {
            let long = vec![b'v'; 300];
            let mut symbols = Symbols::default();
            [&b""[..], b"a", b"name", &long].into_iter().for_each(|symbol| symbols.push(symbol));
            let mut arena = b"what lay there".to_vec();
            for pairs in series {
                let mut want = arena.clone();
                for pair in &pairs {
                    let [name, value] = symbols.label(*pair);
                    RawLabels::push(&mut want, name, value);
                }
                symbols.append(&pairs, &mut arena);
                prop_assert_eq!(&arena, &want);
            }
        }
    }
}
