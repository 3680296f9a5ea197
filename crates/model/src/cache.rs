//! A map that knows which of its entries to evict next. The caches of blocks, series of windows, known index rows,
//! answers of label endpoints and compiled patterns use it, so they have one policy.
//!
//! The policy is CLOCK. The entries form a queue. An entry at the front that was used since it joined the queue goes to
//! the back; the first entry that was not used is evicted. So what is read once, as by a scan, goes before what is read
//! again and again. A use sets a flag; an eviction costs O(1), amortised over the uses.
//!
//! The owner counts bytes, because some entries grow after they were inserted: it evicts while it holds too much. No
//! lock, no clock, and no limit of its own.

use std::borrow::Borrow;
use std::hash::Hash;

use hashlink::LinkedHashMap;
use hashlink::linked_hash_map::Entry;

/// A map whose owner bounds it by evictions.
#[derive(Debug)]
pub struct Cache<K, V> {
    /// In the order of the queue.
    entries: LinkedHashMap<K, Queued<V>>,
}

#[derive(Debug)]
struct Queued<V> {
    value: V,
    /// Used since it joined the queue, or since it last went to the back.
    used: bool,
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self { entries: LinkedHashMap::default() }
    }
}

impl<K: Eq + Hash, V> Cache<K, V> {
    /// The value of a key. Counts as a use.
    pub fn get<Q: ?Sized + Eq + Hash>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let entry = self.entries.get_mut(key)?;
        entry.used = true;
        Some(&entry.value)
    }

    /// The value of a key. Does not count as a use.
    pub fn peek(&self, key: &K) -> Option<&V> {
        Some(&self.entries.get(key)?.value)
    }

    /// The value of a key, which is made if there is none. Counts as a use if there is one.
    pub fn get_or_insert_with(&mut self, key: K, new: impl FnOnce() -> V) -> &V {
        match self.entries.entry(key) {
            Entry::Occupied(entry) => {
                let entry = entry.into_mut();
                entry.used = true;
                &entry.value
            }
            Entry::Vacant(entry) => &entry.insert(Queued { value: new(), used: false }).value,
        }
    }

    /// Adds a value at the back of the queue. Returns the value that it replaces.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.entries.insert(key, Queued { value, used: false }).map(|before| before.value)
    }

    /// Removes the value of a key.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        Some(self.entries.remove(key)?.value)
    }

    /// Removes the first entry of the queue that was not used. None: the cache is empty.
    pub fn evict(&mut self) -> Option<V> {
        loop {
            let (key, Queued { value, used }) = self.entries.pop_front()?;
            if !used {
                return Some(value);
            }
            self.insert(key, value);
        }
    }

    /// Removes the entries for which `keep` is false, and frees their memory.
    pub fn retain(&mut self, mut keep: impl FnMut(&V) -> bool) {
        self.entries.retain(|_, entry| keep(&entry.value));
        self.entries.shrink_to_fit();
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|entry| &entry.value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Entries of a cache, and the distinct keys of a trace.
    const ROOM: usize = 1_000;
    const KEYS: usize = 20_000;
    const LENGTH: usize = 30_000;

    /// Looks up a key, which is inserted if it is absent. Returns whether it was there.
    trait Policy: Default {
        fn look_up(&mut self, key: usize) -> bool;

        /// Hits of a trace, in thousandths.
        fn hits(trace: &[usize]) -> usize {
            let mut policy = Self::default();
            trace.iter().filter(|key| policy.look_up(**key)).count() * 1_000 / trace.len()
        }
    }

    impl Policy for Cache<usize, ()> {
        fn look_up(&mut self, key: usize) -> bool {
            let is_there = self.get(&key).is_some();
            if !is_there {
                while self.entries.len() >= ROOM {
                    self.evict();
                }
                self.insert(key, ());
            }
            is_there
        }
    }

    /// Evicts the least recently used quarter.
    #[derive(Default)]
    struct Lru {
        used: HashMap<usize, usize>,
        now: usize,
    }

    impl Policy for Lru {
        fn look_up(&mut self, key: usize) -> bool {
            self.now += 1;
            let is_there = self.used.insert(key, self.now).is_some();
            if self.used.len() > ROOM {
                let mut times: Vec<usize> = self.used.values().copied().collect();
                times.sort_unstable();
                self.used.retain(|_, used| *used >= times[ROOM / 4]);
            }
            is_there
        }
    }

    /// Evicts the older generation when the younger one has half of the room.
    #[derive(Default)]
    struct Generations([HashMap<usize, ()>; 2]);

    impl Policy for Generations {
        fn look_up(&mut self, key: usize) -> bool {
            let Self([young, old]) = self;
            let is_there = young.contains_key(&key) || old.remove(&key).is_some();
            if !young.contains_key(&key) && young.len() >= ROOM / 2 {
                *old = std::mem::take(young);
            }
            young.insert(key, ());
            is_there
        }
    }

    /// Numbers below 1, the same in each run.
    fn numbers() -> impl Iterator<Item = f64> {
        let mut state = 0_u64;
        std::iter::repeat_with(move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        })
    }

    /// Key number `n` is asked for in proportion to 1 / n.
    fn zipf() -> Vec<usize> {
        let sums: Vec<f64> = (1..=KEYS)
            .scan(0.0, |sum, n| {
                *sum += 1.0 / n as f64;
                Some(*sum)
            })
            .collect();
        let key = |number: f64| sums.partition_point(|sum| *sum < number * sums[KEYS - 1]);
        numbers().take(LENGTH).map(key).collect()
    }

    /// A share of the requests is for `hot` keys. The others are for keys that come in turn and do not fit.
    fn scan(hot: usize, share: f64) -> Vec<usize> {
        let hot_key = |number: f64| (number / share * hot as f64) as usize;
        let key = |(at, number)| if number < share { hot_key(number) } else { hot + at % KEYS };
        numbers().take(LENGTH).enumerate().map(key).collect()
    }

    /// Requests for 600 hot keys, with breaks in which as many keys are read once as there is room for.
    fn bursts() -> Vec<usize> {
        let key = |(at, number)| match at % 5_000 {
            0..4_000 => (number * 600.0) as usize,
            _ => 600 + at,
        };
        numbers().take(LENGTH).enumerate().map(key).collect()
    }

    /// Zipf over keys that are given up one by one: what was popular is never asked for again.
    fn drift() -> Vec<usize> {
        zipf().into_iter().enumerate().map(|(at, key)| at / 20 + key).collect()
    }

    #[test]
    fn hits_are_not_fewer_than_with_the_policies_before() {
        let traces = [
            ("zipf", zipf()),
            ("a scan beside 300 hot keys", scan(300, 0.5)),
            ("a scan beside 700 hot keys", scan(700, 0.3)),
            ("bursts of a scan", bursts()),
            ("keys that are given up", drift()),
        ];
        for (name, trace) in traces {
            let hits = Cache::hits(&trace);
            let before = [Lru::hits(&trace), Generations::hits(&trace)];
            assert!(before.iter().all(|before| hits >= *before), "{name}: {hits}, {before:?}");
        }
    }

    #[test]
    fn what_was_used_outlives_what_was_not() {
        let mut cache = Cache::default();
        for key in ["a", "b", "c", "d"] {
            assert_eq!(cache.insert(key, key), None);
        }
        assert_eq!(cache.get("a"), Some(&"a"));
        assert_eq!(cache.get("e"), None);
        assert_eq!(cache.peek(&"b"), Some(&"b"));
        assert_eq!(*cache.get_or_insert_with("c", || "new"), "c");
        assert_eq!([(); 2].map(|()| cache.evict()), [Some("b"), Some("d")]);
        assert_eq!(*cache.get_or_insert_with("f", || "f"), "f");
        assert_eq!([(); 2].map(|()| cache.evict()), [Some("a"), Some("c")]);
        assert_eq!([cache.insert("f", "g"), cache.remove(&"f")], [Some("f"), Some("g")]);
        assert_eq!([cache.evict(), cache.remove(&"f")], [None, None]);
        cache.insert("h", "h");
        cache.insert("i", "i");
        assert_eq!(cache.get("h"), Some(&"h"));
        cache.retain(|value| *value != "i");
        assert_eq!(cache.values().collect::<Vec<_>>(), [&"h"]);
        assert_eq!([cache.evict(), cache.evict()], [Some("h"), None]);
    }
}
