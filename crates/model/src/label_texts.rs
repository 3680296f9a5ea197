//! Stores the bytes of millions of labels in blocks.
//!
//! Invariant: from insertion to removal, a place holds one label in the canonical encoding. Only
//! the first block, which begins small, may move, and a label lies within one block; so growing
//! copies nothing else. The room of a removed label is reused for a label of about the same length.

use super::label::LabelRef;
use super::label_order::end_of_label;

/// Places are multiples of this number of bytes.
const STEP: usize = 8;
/// Bytes of a block. A longer label has a block of its own.
const BLOCK: usize = 1 << 16;

/// A collection of labels.
#[derive(Debug, Default)]
pub struct LabelTexts {
    blocks: Vec<Vec<u8>>,
    /// Bytes of all blocks, including free room.
    bytes: usize,
    /// Free places, by the number of steps that they have room for.
    free: Vec<Vec<LabelPlace>>,
}

/// The place of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelPlace(u32);

impl LabelPlace {
    /// The block, and the offset of the label in it.
    fn at(self) -> (usize, usize) {
        let at = self.0 as usize * STEP;
        (at / BLOCK, at % BLOCK)
    }
}

impl LabelTexts {
    /// Inserts a label.
    pub fn insert(&mut self, label: LabelRef<'_>) -> LabelPlace {
        let bytes = label.as_bytes();
        let steps = bytes.len().div_ceil(STEP);
        if let Some(place) = self.free.get_mut(steps).and_then(Vec::pop) {
            let (block, begin) = place.at();
            self.blocks[block][begin..begin + bytes.len()].copy_from_slice(bytes);
            return place;
        }
        let room = steps * STEP;
        if self.blocks.last().is_none_or(|block| block.len() + room > BLOCK) {
            // The first block is small: there may be many collections with a few labels each.
            let first = if self.blocks.is_empty() { 0 } else { BLOCK };
            self.blocks.push(Vec::with_capacity(first.max(room)));
            self.bytes += first.max(room);
        }
        let begin = (self.blocks.len() - 1) * BLOCK;
        let block = self.blocks.last_mut().expect("one was made");
        if block.capacity() - block.len() < room {
            let before = block.capacity();
            let doubled = (2 * before).clamp(block.len() + room, BLOCK.max(block.len() + room));
            block.reserve_exact(doubled - block.len());
            self.bytes += block.capacity() - before;
        }
        let place = (begin + block.len()) / STEP;
        block.extend_from_slice(bytes);
        block.resize(block.len().next_multiple_of(STEP), 0);
        LabelPlace(u32::try_from(place).expect("less than 32 GB of labels"))
    }

    /// Bytes of memory, including free room.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Removes a label.
    pub fn remove(&mut self, place: LabelPlace) {
        let steps = self.get(place).as_bytes().len().div_ceil(STEP);
        if self.free.len() <= steps {
            self.free.resize_with(steps + 1, Vec::new);
        }
        self.free[steps].push(place);
    }

    /// The label at this place.
    #[inline]
    pub fn get(&self, place: LabelPlace) -> LabelRef<'_> {
        let (block, begin) = place.at();
        let block = &self.blocks[block];
        let end = match block[begin + 1] {
            length @ 0..0x80 => begin + 2 + usize::from(length),
            _ => end_of_label(block, begin).expect("a label is there"),
        };
        LabelRef(&block[begin..end])
    }

    /// The rest of `bytes` behind the label at this place; `None` if they do not begin with this label.
    #[inline]
    pub fn strip<'b>(&self, place: LabelPlace, bytes: &'b [u8]) -> Option<&'b [u8]> {
        // Equal labels have equal lengths. Reading the length from `bytes` avoids a wait for
        // distant memory, so the labels of a set are fetched in parallel.
        let length = match bytes {
            [_, length @ 0..0x80, ..] => 2 + usize::from(*length),
            _ => self.get(place).as_bytes().len(),
        };
        let (block, begin) = place.at();
        let (label, rest) = bytes.split_at_checked(length)?;
        (self.blocks[block].get(begin..begin + length)? == label).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::Label;

    /// Lengths on both sides of a step, of a second length byte, and of a block.
    fn label() -> impl Strategy<Value = Label> {
        let long = prop_oneof![20_000..30_000usize, 65_500..65_560usize];
        let length = prop_oneof![8 => 0..20usize, 4 => 110..140usize, 2 => long];
        ("[ab]{1,3}", length).prop_map(|(name, length)| Label::new(&name, &"v".repeat(length)))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn labels_stay_what_they_are(
            steps in prop::collection::vec((label(), any::<Option<prop::sample::Index>>()), 0..200),
        ) {
            let (mut texts, mut kept) = (LabelTexts::default(), HashMap::new());
            let mut places: Vec<LabelPlace> = Vec::new();
            for (label, gone) in &steps {
                if let Some(gone) = gone
                    && !places.is_empty()
                {
                    let place = places.swap_remove(gone.index(places.len()));
                    texts.remove(place);
                    kept.remove(&place);
                }
                let place = texts.insert(label.as_ref());
                places.push(place);
                prop_assert!(kept.insert(place, label).is_none(), "a place is given twice");
            }
            for place in &places {
                prop_assert_eq!(texts.get(*place), kept[place].as_ref());
                for (other, _) in &steps {
                    let mut bytes = other.as_ref().as_bytes().to_vec();
                    let is_it = other == kept[place];
                    prop_assert_eq!(texts.strip(*place, &bytes), is_it.then_some(&[][..]));
                    bytes.push(7);
                    prop_assert_eq!(texts.strip(*place, &bytes), is_it.then_some(&[7][..]));
                }
            }
        }

        /// Bytes from a sender need not be labels.
        #[test]
        fn bytes_of_any_kind_are_compared(label in label(), bytes: Vec<u8>, cut: prop::sample::Index, change: u8) {
            let mut texts = LabelTexts::default();
            let place = texts.insert(label.as_ref());
            let bytes_of = label.as_ref().as_bytes();
            prop_assert_eq!(texts.strip(place, &bytes), bytes.strip_prefix(bytes_of));
            let at = cut.index(bytes_of.len());
            prop_assert_eq!(texts.strip(place, &bytes_of[..at]), None);
            let mut changed = bytes_of.to_vec();
            changed[at] ^= change;
            changed.extend_from_slice(&bytes);
            prop_assert_eq!(texts.strip(place, &changed), changed.strip_prefix(bytes_of));
        }
    }

    #[test]
    fn room_is_taken_again() {
        let mut texts = LabelTexts::default();
        for turn in 0..1000 {
            let label = Label::new("pod", &format!("pod-{turn:05}"));
            let place = texts.insert(label.as_ref());
            assert_eq!(place, LabelPlace(0));
            texts.remove(place);
        }
        let first = texts.bytes();
        assert!(first <= 32, "{first}");
        texts.insert(Label::new("pod", &"x".repeat(2 * BLOCK)).as_ref());
        assert!((2 * BLOCK..2 * BLOCK + 64).contains(&texts.bytes()));
    }

    #[test]
    fn the_first_block_grows_and_the_others_do_not_move() {
        let mut texts = LabelTexts::default();
        for n in 0..5_000 {
            texts.insert(Label::new("pod", &format!("pod-{n:030}")).as_ref());
            let capacity: usize = texts.blocks.iter().map(Vec::capacity).sum();
            assert_eq!(texts.bytes(), capacity);
            let used: usize = texts.blocks.iter().map(Vec::len).sum();
            assert!(capacity <= 2 * used + BLOCK && texts.blocks[0].capacity() <= BLOCK);
            if used < BLOCK / 2 {
                assert!(capacity <= 2 * used, "{capacity} for {used}");
            }
        }
    }
}
