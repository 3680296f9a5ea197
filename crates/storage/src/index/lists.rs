//! Stores many short lists of numbers, such as the pairs of series.
//!
//! Lists of the same length are stored one after another in blocks: a list takes its numbers and an id. Lists that
//! were inserted one after another lie next to each other. A block does not move, so growing copies nothing. The place
//! of a removed list is used for the next list of the same length.

use std::num::NonZeroU32;

/// Lists in a block.
const BLOCK: usize = 256;

/// A collection of lists.
#[derive(Debug, Default)]
pub struct Lists {
    /// By length.
    pools: Vec<Pool>,
    /// Bytes of the blocks.
    bytes: usize,
}

/// The place of a list; valid until the list is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListId {
    length: u32,
    /// Counted from 1.
    place: NonZeroU32,
}

#[derive(Debug, Default)]
struct Pool {
    blocks: Vec<Vec<u32>>,
    free: Vec<NonZeroU32>,
    /// The last place that was used.
    last: u32,
}

impl Lists {
    /// Inserts a list.
    pub fn insert(&mut self, list: &[u32]) -> ListId {
        if self.pools.len() <= list.len() {
            self.pools.resize_with(list.len() + 1, Pool::default);
        }
        let pool = &mut self.pools[list.len()];
        let blocks = pool.blocks.len();
        let place = pool.insert(list);
        self.bytes += (pool.blocks.len() - blocks) * BLOCK * size_of_val(list);
        ListId { length: list.len() as u32, place }
    }

    /// Bytes of memory of the lists, including free places.
    pub fn bytes(&self) -> usize {
        self.pools.capacity() * size_of::<Pool>() + self.bytes
    }

    /// The list with this id.
    #[inline]
    pub fn get(&self, id: ListId) -> &[u32] {
        let (block, range) = id.at();
        &self.pools[id.length as usize].blocks[block][range]
    }

    /// Removes a list.
    pub fn remove(&mut self, id: ListId) {
        self.pools[id.length as usize].free.push(id.place);
    }
}

impl ListId {
    /// The block of the list, and its range in the block.
    fn at(self) -> (usize, std::ops::Range<usize>) {
        let (place, length) = (self.place.get() as usize - 1, self.length as usize);
        let begin = place % BLOCK * length;
        (place / BLOCK, begin..begin + length)
    }
}

impl Pool {
    fn insert(&mut self, list: &[u32]) -> NonZeroU32 {
        let length = list.len() as u32;
        if let Some(place) = self.free.pop() {
            let (block, range) = ListId { length, place }.at();
            self.blocks[block][range].copy_from_slice(list);
            return place;
        }
        if self.last as usize == self.blocks.len() * BLOCK {
            self.blocks.push(Vec::with_capacity(BLOCK * list.len()));
        }
        self.last += 1;
        self.blocks.last_mut().expect("one was made").extend_from_slice(list);
        NonZeroU32::new(self.last).expect("it rises from 1")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lists_stay_what_they_are(
            steps in prop::collection::vec((prop::collection::vec(any::<u32>(), 0..5), 0..3u8), 0..2_000),
        ) {
            let (mut lists, mut kept) = (Lists::default(), HashMap::new());
            let mut order = Vec::new();
            for (at, (list, step)) in steps.into_iter().enumerate() {
                if step == 0 && !order.is_empty() {
                    let gone: ListId = order.swap_remove(at % order.len());
                    lists.remove(gone);
                    kept.remove(&(gone.length, gone.place));
                }
                let id = lists.insert(&list);
                order.push(id);
                prop_assert!(kept.insert((id.length, id.place), list).is_none(), "a place is given twice");
            }
            for id in &order {
                prop_assert_eq!(lists.get(*id), kept[&(id.length, id.place)].as_slice());
            }
            // Places are reused: for each length there are no more places than lists existed at a time.
            let places: u32 = lists.pools.iter().map(|pool| pool.last).sum();
            let free: usize = lists.pools.iter().map(|pool| pool.free.len()).sum();
            prop_assert_eq!(places as usize, kept.len() + free);
        }
    }
}
