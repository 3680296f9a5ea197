//! A bounded cache of unpacked blocks and part directories, shared by all parts of a store. It counts hits and misses.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::directory::Directory;
use promkairos_model::Cache;
use promkairos_telemetry::StoreMetrics;

/// Part and offset of a block; every part has its own id.
pub(super) type BlockKey = (u64, u64);

#[derive(Clone)]
pub(super) enum Cached {
    Block(Bytes),
    Directory(Arc<Directory>),
}

pub(super) struct BlockCache {
    most_bytes: usize,
    kept: Mutex<Kept>,
    metrics: StoreMetrics,
}

#[derive(Default)]
struct Kept {
    entries: Cache<BlockKey, Cached>,
    bytes: usize,
}

impl BlockCache {
    pub(super) fn new(most_bytes: usize, metrics: StoreMetrics) -> Self {
        Self { most_bytes, kept: Mutex::default(), metrics }
    }

    pub(super) fn get(&self, key: BlockKey) -> Option<Cached> {
        let found = self.kept.lock().entries.get(&key).cloned();
        let StoreMetrics { block_cache_hits, block_cache_misses, .. } = &self.metrics;
        if found.is_some() { block_cache_hits } else { block_cache_misses }.inc();
        found
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        let mut kept = self.kept.lock();
        *kept = Kept::default();
        self.metrics.block_cache_bytes.set(0);
    }

    /// Keeps a block or a directory, unless it would take more than half of the cache.
    pub(super) fn insert(&self, key: BlockKey, cached: Cached) {
        let bytes = cached.bytes();
        if bytes > self.most_bytes / 2 {
            return;
        }
        let mut kept = self.kept.lock();
        while kept.bytes + bytes > self.most_bytes
            && let Some(evicted) = kept.entries.evict()
        {
            kept.bytes -= evicted.bytes();
        }
        kept.bytes += bytes;
        if let Some(before) = kept.entries.insert(key, cached) {
            kept.bytes -= before.bytes();
        }
        self.metrics.block_cache_bytes.set(kept.bytes as i64);
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
            let kept = cache.kept.lock();
            let bytes: usize = kept.entries.values().map(Cached::bytes).sum();
            assert!(bytes == kept.bytes && bytes <= 20 << 10);
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
