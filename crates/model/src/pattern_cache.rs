//! Keeps compiled patterns for later requests, up to a number of bytes.
//!
//! The least recently used patterns are evicted first. Patterns in use stay in memory and are not counted here.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

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
    patterns: HashMap<Box<str>, Entry>,
    bytes: usize,
    /// A counter that rises with each look-up.
    now: u64,
}

#[derive(Debug)]
struct Entry {
    pattern: Arc<Pattern>,
    bytes: usize,
    used: u64,
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
        let mut kept = self.kept.lock();
        kept.now += 1;
        let now = kept.now;
        let entry = kept.patterns.get_mut(text)?;
        entry.used = now;
        Some(Arc::clone(&entry.pattern))
    }

    /// Caches a pattern, unless it would take more than half of the cache.
    pub(super) fn keep(&self, text: &str, pattern: &Arc<Pattern>) {
        let bytes = pattern.bytes() + text.len() + ENTRY_BYTES;
        if bytes > self.max_bytes / 2 {
            return;
        }
        let mut kept = self.kept.lock();
        kept.now += 1;
        let entry = Entry { pattern: Arc::clone(pattern), bytes, used: kept.now };
        kept.bytes += bytes;
        if let Some(before) = kept.patterns.insert(text.into(), entry) {
            kept.bytes -= before.bytes;
        }
        if kept.bytes > self.max_bytes {
            kept.shrink(self.max_bytes / 4 * 3);
        }
    }
}

impl Kept {
    /// Evicts the oldest patterns until at most `most_bytes` bytes are left.
    fn shrink(&mut self, most_bytes: usize) {
        let mut used: Vec<(u64, usize)> =
            self.patterns.values().map(|entry| (entry.used, entry.bytes)).collect();
        used.sort_unstable();
        let mut left = self.bytes;
        let gone = used.iter().take_while(|(_, bytes)| {
            let goes = left > most_bytes;
            left -= if goes { *bytes } else { 0 };
            goes
        });
        let Some((last, _)) = gone.last() else { return };
        self.patterns.retain(|_, entry| entry.used > *last);
        self.bytes = left;
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
        for i in 0..100 {
            let text = format!("a{}.*", i % 10);
            if cache.get(&text).is_none() {
                cache.keep(&text, &pattern(&text));
            }
        }
        assert_eq!(cache.bytes(), 10 * one, "ten fit");
        assert!(cache.get("a0.*").is_some());
        cache.keep("b0.*", &pattern("b0.*"));
        assert!(cache.get("a0.*").is_some() && cache.get("b0.*").is_some());
        assert!(cache.get("a1.*").is_none(), "the oldest has gone");
        assert!(cache.bytes() <= 10 * one);
        // A large pattern does not evict all others.
        let large = "x.*".repeat(1000);
        cache.keep(&large, &pattern(&large));
        assert!(cache.get(&large).is_none() && cache.get("a0.*").is_some());
    }
}
