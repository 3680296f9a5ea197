//! A bounded cache of unpacked blocks and part directories, shared by all parts of a store.
//!
//! There are two generations. A used entry moves to the young generation. When that holds half of the limit, it
//! becomes the old generation, and the previous old generation is evicted. So entries that were not used for a while
//! go, and the limit is exceeded by one entry at most. Hits and misses are counted.

use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use parking_lot::Mutex;

use super::directory::Directory;
use promkairos_telemetry::StoreMetrics;

/// Part and offset of a block; every part has its own id.
pub(super) type BlockKey = (u64, u64);

#[derive(Clone)]
pub(super) enum Cached {
    Block(Bytes),
    Directory(Arc<Directory>),
}

pub(super) struct BlockCache {
    half: usize,
    generations: Mutex<Generations>,
    metrics: StoreMetrics,
}

#[derive(Default)]
struct Generations {
    young: HashMap<BlockKey, Cached>,
    young_bytes: usize,
    old: HashMap<BlockKey, Cached>,
    old_bytes: usize,
}

impl BlockCache {
    pub(super) fn new(bytes: usize, metrics: StoreMetrics) -> Self {
        Self { half: bytes / 2, generations: Mutex::default(), metrics }
    }

    pub(super) fn get(&self, key: BlockKey) -> Option<Cached> {
        let found = self.find(key);
        let StoreMetrics { block_cache_hits, block_cache_misses, .. } = &self.metrics;
        if found.is_some() { block_cache_hits } else { block_cache_misses }.inc();
        found
    }

    fn find(&self, key: BlockKey) -> Option<Cached> {
        let mut generations = self.generations.lock();
        if let Some(cached) = generations.young.get(&key) {
            return Some(cached.clone());
        }
        let cached = generations.old.remove(&key)?;
        generations.old_bytes -= cached.bytes();
        self.put(&mut generations, key, cached.clone());
        Some(cached)
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        let mut generations = self.generations.lock();
        *generations = Generations::default();
        self.metrics.block_cache_bytes.set(0);
    }

    pub(super) fn insert(&self, key: BlockKey, cached: Cached) {
        self.put(&mut self.generations.lock(), key, cached);
    }

    fn put(&self, generations: &mut Generations, key: BlockKey, cached: Cached) {
        generations.insert(key, cached, self.half);
        let bytes = generations.young_bytes + generations.old_bytes;
        self.metrics.block_cache_bytes.set(bytes as i64);
    }
}

impl Generations {
    fn insert(&mut self, key: BlockKey, cached: Cached, half: usize) {
        let bytes = cached.bytes();
        if self.young_bytes.saturating_add(bytes) > half {
            self.old = std::mem::take(&mut self.young);
            self.old_bytes = std::mem::take(&mut self.young_bytes);
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
        let metrics = StoreMetrics::default();
        let cache = BlockCache::new(20 << 10, metrics.clone());
        let block = || Cached::Block(Bytes::from(vec![0; 1 << 10]));
        cache.insert((0, 0), block());
        for offset in 1..1_000 {
            cache.insert((1, offset), block());
            assert!(cache.get((0, 0)).is_some(), "used every time");
            let generations = cache.generations.lock();
            assert!(generations.young.len() + generations.old.len() <= 20);
            let all = generations.young.values().chain(generations.old.values());
            let bytes: usize = all.map(Cached::bytes).sum();
            assert_eq!(metrics.block_cache_bytes.get(), bytes as i64);
        }
        assert!(cache.get((1, 1)).is_none());
        let counted = || (metrics.block_cache_hits.get(), metrics.block_cache_misses.get());
        assert_eq!(counted(), (999, 1));
        cache.insert((2, 0), Cached::Block(Bytes::from(vec![0; 30 << 10])));
        assert!(cache.get((2, 0)).is_none(), "larger than the bound");
        cache.clear();
        assert!(cache.get((0, 0)).is_none(), "forgotten");
        assert_eq!(metrics.block_cache_bytes.get(), 0);
        assert_eq!(counted(), (999, 3));
        cache.insert((0, 0), block());
        assert!(cache.get((0, 0)).is_some(), "and used again");
    }
}
