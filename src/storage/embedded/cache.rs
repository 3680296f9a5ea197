//! A bounded cache of unpacked blocks and part directories, shared by all parts of a store.
//!
//! Two generations: what is used moves to the young one; when that holds half of the bound it
//! becomes the old one and the former old one goes. So what was not used for a while is gone,
//! and the bytes held never pass the bound by more than one entry.

use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use parking_lot::Mutex;

use super::directory::Directory;

/// Part and offset of a block; parts never share an id.
pub(super) type BlockKey = (u64, u64);

#[derive(Clone)]
pub(super) enum Cached {
    Block(Bytes),
    Directory(Arc<Directory>),
}

pub(super) struct BlockCache {
    half: usize,
    generations: Mutex<Generations>,
}

#[derive(Default)]
struct Generations {
    young: HashMap<BlockKey, Cached>,
    young_bytes: usize,
    old: HashMap<BlockKey, Cached>,
}

impl BlockCache {
    pub(super) fn new(bytes: usize) -> Self {
        Self { half: bytes / 2, generations: Mutex::default() }
    }

    pub(super) fn get(&self, key: BlockKey) -> Option<Cached> {
        let mut generations = self.generations.lock();
        if let Some(cached) = generations.young.get(&key) {
            return Some(cached.clone());
        }
        let cached = generations.old.remove(&key)?;
        generations.insert(key, cached.clone(), self.half);
        Some(cached)
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        *self.generations.lock() = Generations::default();
    }

    pub(super) fn insert(&self, key: BlockKey, cached: Cached) {
        self.generations.lock().insert(key, cached, self.half);
    }
}

impl Generations {
    fn insert(&mut self, key: BlockKey, cached: Cached, half: usize) {
        let bytes = cached.bytes();
        if self.young_bytes.saturating_add(bytes) > half {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        if bytes <= half && self.young.insert(key, cached).is_none() {
            self.young_bytes += bytes;
        }
    }
}

impl Cached {
    fn bytes(&self) -> usize {
        const ENTRY: usize = 64;
        ENTRY
            + match self {
                Self::Block(block) => block.len(),
                Self::Directory(directory) => directory.memory(),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_bound_holds() {
        let cache = BlockCache::new(20 << 10);
        let block = || Cached::Block(Bytes::from(vec![0; 1 << 10]));
        cache.insert((0, 0), block());
        for offset in 1..1_000 {
            cache.insert((1, offset), block());
            assert!(cache.get((0, 0)).is_some(), "used every time");
            let generations = cache.generations.lock();
            assert!(generations.young.len() + generations.old.len() <= 20);
        }
        assert!(cache.get((1, 1)).is_none());
        cache.insert((2, 0), Cached::Block(Bytes::from(vec![0; 30 << 10])));
        assert!(cache.get((2, 0)).is_none(), "larger than the bound");
        cache.clear();
        assert!(cache.get((0, 0)).is_none(), "forgotten");
        cache.insert((0, 0), block());
        assert!(cache.get((0, 0)).is_some(), "and used again");
    }
}
