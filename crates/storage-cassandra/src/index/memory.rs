//! Remembers which index rows exist in Cassandra, until when, and when their series was last
//! written. Bounded; no I/O.
//!
//! Only rows that were read or acknowledged are remembered, never failed writes. Memory can become
//! stale, because KairosDB deletes index rows too: a window (metric, table name, row time) that was
//! not read for a while counts as unknown and is read again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::identity::Identity;
use crate::index::window::{self, WindowKey};
use crate::lifetime::Expiry;
use promkairos_kairos::RowTime;
use promkairos_model::Cache;

/// When a series was last written, in seconds since 1970.
pub(crate) type Used = i64;
/// Not written by this process.
pub(crate) const UNUSED: Used = i64::MIN;
/// The row does not exist.
const ABSENT: Expiry = i64::MIN;

/// The remembered windows.
pub(crate) struct IndexMemory {
    windows: Mutex<Cache<Identity, Arc<KnownWindow>>>,
    rows: Arc<AtomicUsize>,
    most_rows: usize,
    /// Windows whose index rows are being deleted.
    deleting: Mutex<HashSet<Identity>>,
}

/// What is known of one partition of `row_keys` and of the rows that lead to it.
pub(crate) struct KnownWindow {
    of: window::Window,
    /// Held by the task that reads the window from Cassandra.
    pub(crate) reading: tokio::sync::Mutex<()>,
    state: Mutex<LastRead>,
    /// Used since [`IndexMemory::relieve`] was last called.
    used: AtomicBool,
    all_rows: Arc<AtomicUsize>,
}

/// What the last read of a window found, and what was written since.
#[derive(Default)]
struct LastRead {
    read: Option<Instant>,
    known: Known,
}

/// A row of `row_keys` to look up, and the time of the data that uses it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) row: Identity,
    pub(crate) used: Used,
}

/// A row of `row_keys` that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) expiry: Expiry,
    used: Used,
}

impl Standing {
    pub(crate) fn until(expiry: Expiry) -> Self {
        Self { expiry, used: UNUSED }
    }
}

/// Rows of a window and when they expire.
pub(crate) struct Known {
    pub(crate) row_keys: HashMap<Identity, Standing>,
    pub(crate) row_time: Expiry,
    pub(crate) name: bool,
}

impl Default for Known {
    fn default() -> Self {
        Self { row_keys: HashMap::new(), row_time: ABSENT, name: false }
    }
}

/// The index rows that must be written before the data.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// Positions in the rows that were looked up.
    pub(crate) row_keys: Vec<usize>,
    pub(crate) row_time: bool,
    pub(crate) name: bool,
}

impl Missing {
    pub(crate) fn is_empty(&self) -> bool {
        self.row_keys.is_empty() && !self.row_time && !self.name
    }
}

/// Marks a window whose index rows are being deleted, until it is dropped.
pub(crate) struct Deleting<'a> {
    memory: &'a IndexMemory,
    id: Identity,
}

impl IndexMemory {
    /// A memory of at most `most_rows` rows of `row_keys`.
    pub(crate) fn new(most_rows: usize) -> Self {
        Self {
            windows: Mutex::default(),
            rows: Arc::default(),
            most_rows,
            deleting: Mutex::default(),
        }
    }

    /// Marks a window whose index rows are being deleted, until the result is dropped: rows that exist now are not
    /// relied on. Rows that are written from now on are remembered.
    pub(crate) fn delete(&self, id: Identity) -> Deleting<'_> {
        self.deleting.lock().insert(id);
        self.forget(id);
        Deleting { memory: self, id }
    }

    /// Whether index rows of a window are being deleted.
    pub(crate) fn is_deleting(&self, id: Identity) -> bool {
        self.deleting.lock().contains(&id)
    }

    /// The number of remembered rows of `row_keys`.
    pub(crate) fn len(&self) -> usize {
        self.rows.load(Ordering::Relaxed)
    }

    /// The window with this key. Evicts others when memory is full.
    pub(crate) fn window(&self, key: WindowKey<'_>) -> Arc<KnownWindow> {
        let mut windows = self.windows.lock();
        while self.len() > self.most_rows
            && let Some(window) = windows.evict()
        {
            window.clear();
        }
        let window = windows.get_or_insert_with(key.identity(), || {
            Arc::new(KnownWindow {
                of: key.to_window(),
                reading: tokio::sync::Mutex::default(),
                state: Mutex::default(),
                used: AtomicBool::new(true),
                all_rows: Arc::clone(&self.rows),
            })
        });
        window.used.store(true, Ordering::Relaxed);
        Arc::clone(window)
    }

    /// The windows of a row time.
    pub(crate) fn of_row_time(&self, row_time: RowTime) -> Vec<Arc<KnownWindow>> {
        let windows = self.windows.lock();
        windows.values().filter(|window| window.of.row_time == row_time).cloned().collect()
    }

    /// Forgets a window.
    pub(crate) fn forget(&self, id: Identity) {
        if let Some(window) = self.windows.lock().remove(&id) {
            window.clear();
        }
    }

    /// Forgets all windows.
    pub(crate) fn forget_all(&self) {
        let windows = std::mem::take(&mut *self.windows.lock());
        windows.values().for_each(|window| window.clear());
    }

    /// Forgets the windows that were not used since the last call. The others are being written to, and
    /// would only have to be read again.
    pub(crate) fn relieve(&self) {
        self.windows.lock().retain(|window| {
            let is_used = window.used.swap(false, Ordering::Relaxed);
            if !is_used {
                window.clear();
            }
            is_used
        });
    }
}

impl Drop for Deleting<'_> {
    fn drop(&mut self) {
        self.memory.deleting.lock().remove(&self.id);
    }
}

impl KnownWindow {
    /// The key of the window.
    pub(crate) fn key(&self) -> WindowKey<'_> {
        self.of.key()
    }

    /// The rows of `rows` that are missing or expire before `needed`; None when the window was not
    /// read since `since`. Notes when the rows were used.
    pub(crate) fn missing(
        &self,
        rows: &[Asked],
        needed: Expiry,
        since: Option<Instant>,
    ) -> Option<Missing> {
        let LastRead { read, known } = &mut *self.state.lock();
        let read = read.filter(|read| since.is_none_or(|since| *read >= since));
        let mut row_keys = Vec::new();
        for (at, asked) in rows.iter().enumerate() {
            match known.row_keys.get_mut(&asked.row) {
                Some(standing) => {
                    standing.used = standing.used.max(asked.used);
                    if standing.expiry < needed {
                        row_keys.push(at);
                    }
                }
                None => row_keys.push(at),
            }
        }
        read.map(|_| Missing { row_keys, row_time: known.row_time < needed, name: !known.name })
    }

    /// Counts the rows that were used since a time.
    pub(crate) fn count_used(&self, since: Used) -> usize {
        let state = self.state.lock();
        state.known.row_keys.values().filter(|standing| standing.used >= since).count()
    }

    /// Whether a row was used since a time.
    pub(crate) fn is_used(&self, row: Identity, since: Used) -> bool {
        let state = self.state.lock();
        state.known.row_keys.get(&row).is_some_and(|standing| standing.used >= since)
    }

    /// Replaces the remembered rows by those that were read.
    pub(crate) fn learn(&self, mut known: Known) {
        let mut state = self.state.lock();
        for (row, standing) in &mut known.row_keys {
            if let Some(before) = state.known.row_keys.get(row) {
                standing.used = before.used;
            }
        }
        self.all_rows.fetch_add(known.row_keys.len(), Ordering::Relaxed);
        self.all_rows.fetch_sub(state.known.row_keys.len(), Ordering::Relaxed);
        *state = LastRead { read: Some(Instant::now()), known };
    }

    /// Remembers rows of `row_keys` that were acknowledged.
    pub(crate) fn remember_row_keys(&self, rows: impl Iterator<Item = Asked>, expiry: Expiry) {
        let mut state = self.state.lock();
        let before = state.known.row_keys.len();
        for asked in rows {
            let new = Standing::until(expiry);
            let standing = state.known.row_keys.entry(asked.row).or_insert(new);
            standing.expiry = standing.expiry.max(expiry);
            standing.used = standing.used.max(asked.used);
        }
        let new = state.known.row_keys.len() - before;
        self.all_rows.fetch_add(new, Ordering::Relaxed);
    }

    /// Remembers the row of `row_key_time_index`.
    pub(crate) fn remember_row_time(&self, expiry: Expiry) {
        let mut state = self.state.lock();
        state.known.row_time = state.known.row_time.max(expiry);
    }

    /// Remembers the name in `string_index`.
    pub(crate) fn remember_name(&self) {
        self.state.lock().known.name = true;
    }

    fn clear(&self) {
        let state = std::mem::take(&mut *self.state.lock());
        self.all_rows.fetch_sub(state.known.row_keys.len(), Ordering::Relaxed);
    }
}

/// A task may still hold a window that was evicted.
impl Drop for KnownWindow {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A window that was read since this time is not read again.
pub(crate) fn recheck_since(recheck: Duration) -> Option<Instant> {
    Instant::now().checked_sub(recheck)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifetime::NEVER;
    use promkairos_kairos::TableName;

    fn id(name: &str) -> Identity {
        Identity::of(&[name.as_bytes()])
    }

    fn key(metric: &str) -> WindowKey<'_> {
        let row_time = RowTime::from_stored(0);
        WindowKey { metric, table_name: TableName::DataPoints, row_time }
    }

    fn asked(name: &str, used: Used) -> Asked {
        Asked { row: id(name), used }
    }

    #[test]
    fn only_what_was_read_or_acknowledged_is_known() {
        let memory = IndexMemory::new(100);
        let window = memory.window(key("w"));
        let rows = [asked("a", 0), asked("b", 0)];
        assert_eq!(window.missing(&rows, 10, None), None);
        let row_keys = [(id("a"), Standing::until(10)), (id("z"), Standing::until(NEVER))];
        window.learn(Known { row_keys: row_keys.into(), row_time: NEVER, name: false });
        let missing = |needed| window.missing(&rows, needed, None).expect("read");
        let want = |row_keys: &[usize], row_time, name| Missing {
            row_keys: row_keys.to_vec(),
            row_time,
            name,
        };
        assert_eq!(missing(10), want(&[1], false, true));
        assert_eq!(missing(11), want(&[0, 1], false, true));
        window.remember_row_keys([asked("b", 0)].into_iter(), NEVER);
        window.remember_name();
        assert_eq!(missing(10), want(&[], false, false));
        assert_eq!(memory.len(), 3);
        let later = Some(Instant::now() + Duration::from_secs(1));
        assert_eq!(window.missing(&rows, 10, later), None);
        memory.forget(key("w").identity());
        assert_eq!((memory.len(), memory.window(key("w")).missing(&rows, 0, None)), (0, None));
        let window = memory.window(key("w"));
        window.learn(Known::default());
        window.remember_row_keys([asked("a", UNUSED)].into_iter(), NEVER);
        assert_eq!(memory.len(), 1);
        memory.forget_all();
        assert_eq!((memory.len(), memory.window(key("w")).missing(&rows, 0, None)), (0, None));
    }

    #[test]
    fn when_a_series_was_last_written_outlives_a_read_of_its_window() {
        let memory = IndexMemory::new(100);
        let window = memory.window(key("w"));
        window.remember_row_keys([asked("a", 5), asked("b", UNUSED)].into_iter(), NEVER);
        window.missing(&[asked("a", 7)], 0, None);
        window.missing(&[asked("a", 6), asked("c", 9)], 0, None);
        let row_keys = ["a", "b", "c"].map(|name| (id(name), Standing::until(NEVER)));
        window.learn(Known { row_keys: row_keys.into(), ..Known::default() });
        assert_eq!([7, 8].map(|since| window.count_used(since)), [1, 0]);
        assert!(window.is_used(id("a"), 7) && !window.is_used(id("b"), 0));
        let found = |row_time| memory.of_row_time(RowTime::from_stored(row_time)).len();
        assert_eq!((found(0), found(1), window.key().metric), (1, 0, "w"));
    }

    #[test]
    fn memory_is_bounded_and_drops_what_was_not_used() {
        let memory = IndexMemory::new(10);
        for n in 0..100 {
            let metric = n.to_string();
            let window = memory.window(key(&metric));
            window.learn(Known::default());
            let rows = (0..4).map(|row| asked(&format!("{n} {row}"), 0));
            window.remember_row_keys(rows, NEVER);
            assert!(memory.len() <= 14, "{}", memory.len());
        }
        assert!(memory.window(key("99")).missing(&[], NEVER, None).is_some());
        assert!(memory.window(key("0")).missing(&[], NEVER, None).is_none());
    }
    #[test]
    fn windows_that_nobody_writes_to_go_where_memory_is_short() {
        let memory = IndexMemory::new(100);
        let write = |metric: &str| {
            let window = memory.window(key(metric));
            window.learn(Known::default());
            window.remember_row_keys([asked(metric, 0)].into_iter(), NEVER);
        };
        write("live");
        write("over");
        memory.relieve();
        assert_eq!(memory.len(), 2, "both were written to");
        write("live");
        memory.relieve();
        assert_eq!(memory.len(), 1);
        assert!(memory.window(key("live")).missing(&[], NEVER, None).is_some());
        let over = memory.window(key("over"));
        assert!(over.missing(&[], NEVER, None).is_none());
        memory.relieve();
        memory.relieve();
        assert_eq!(memory.len(), 0);
        // A late write to an evicted window must not count for ever.
        over.remember_row_keys([asked("over", 0)].into_iter(), NEVER);
        drop(over);
        assert_eq!(memory.len(), 0);
    }
}
