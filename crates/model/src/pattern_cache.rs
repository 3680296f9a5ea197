//! Keeps compiled patterns for later requests, up to a number of bytes. Patterns in use stay in memory and are not
//! counted here.

use std::sync::Arc;

use parking_lot::Mutex;

use super::cache::Cache;
use super::pattern::Pattern;

/// Bytes of a cached pattern in addition to its own and its text.
const ENTRY_BYTES: usize = 512;

/// Patterns by their text.
#[derive(Debug)]
pub struct PatternCache {
    kept: Mutex<Kept>,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct Kept {
    patterns: Cache<Box<str>, Entry>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    pattern: Arc<Pattern>,
    bytes: usize,
}

impl PatternCache {
    /// A cache of at most `max_bytes`.
    pub fn new(max_bytes: usize) -> Self {
        Self { kept: Mutex::default(), max_bytes }
    }

    /// Bytes of all cached patterns.
    pub fn bytes(&self) -> usize {
        self.kept.lock().bytes
    }

    /// The pattern with this text.
    pub(super) fn get(&self, text: &str) -> Option<Arc<Pattern>> {
        self.kept.lock().patterns.get(text).map(|entry| Arc::clone(&entry.pattern))
    }

    /// Caches a pattern, unless it would take more than half of the cache.
    pub(super) fn keep(&self, text: &str, pattern: &Arc<Pattern>) {
        let bytes = pattern.bytes() + text.len() + ENTRY_BYTES;
        if bytes > self.max_bytes / 2 {
            return;
        }
        let mut kept = self.kept.lock();
        while kept.bytes + bytes > self.max_bytes
            && let Some(evicted) = kept.patterns.evict()
        {
            kept.bytes -= evicted.bytes;
        }
        kept.bytes += bytes;
        let entry = Entry { pattern: Arc::clone(pattern), bytes };
        if let Some(before) = kept.patterns.insert(text.into(), entry) {
            kept.bytes -= before.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Arc<Pattern> {
        Arc::new(Pattern::compile(text, 1 << 20).expect("valid"))
    }

    #[test]
    fn what_was_asked_for_lately_stays() {
        let one = pattern("a0.*").bytes() + 4 + ENTRY_BYTES;
        let cache = PatternCache::new(10 * one);
        for i in 0..10 {
            let text = format!("a{i}.*");
            cache.keep(&text, &pattern(&text));
        }
        assert_eq!(cache.bytes(), 10 * one, "ten fit");
        assert!(cache.get("a0.*").is_some());
        cache.keep("b0.*", &pattern("b0.*"));
        assert!(cache.get("a0.*").is_some() && cache.get("b0.*").is_some());
        assert!(cache.get("a1.*").is_none(), "the first without a use has gone");
        assert!(cache.bytes() <= 10 * one);
        // A large pattern does not evict all others.
        let large = "x.*".repeat(1000);
        cache.keep(&large, &pattern(&large));
        assert!(cache.get(&large).is_none() && cache.get("a0.*").is_some());
    }
}
