//! Which index rows are known to stand in Cassandra, and until when. Bounded; no I/O.
//!
//! Only what was read or acknowledged is in here, never what failed. Memory can become false, as a
//! KairosDB deletes index rows too: a window (metric, table name, row time) that was not read for
//! a while counts as unknown and is read again.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::identity::Identity;

/// When an index row expires, in seconds since 1970.
pub(super) type Expiry = i64;
/// It does not expire.
pub(super) const NEVER: Expiry = i64::MAX;
/// It is not there.
const ABSENT: Expiry = i64::MIN;

/// All windows.
pub(super) struct IndexMemory {
    windows: Mutex<HashMap<Identity, Arc<Window>>>,
    rows: Arc<AtomicUsize>,
    most_rows: usize,
    clock: AtomicU64,
}

/// What is known of one partition of `row_keys` and of the rows that lead to it.
pub(super) struct Window {
    /// Held by the one who reads the window from Cassandra.
    pub(super) reading: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    used: AtomicU64,
    all_rows: Arc<AtomicUsize>,
}

#[derive(Default)]
struct State {
    read: Option<Instant>,
    known: Known,
}

/// Rows of a window and when they expire.
pub(super) struct Known {
    pub(super) row_keys: HashMap<Identity, Expiry>,
    pub(super) row_time: Expiry,
    pub(super) name: bool,
}

impl Default for Known {
    fn default() -> Self {
        Self { row_keys: HashMap::new(), row_time: ABSENT, name: false }
    }
}

/// What must be written before data may be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missing {
    /// Positions in what was asked for.
    pub(super) row_keys: Vec<usize>,
    pub(super) row_time: bool,
    pub(super) name: bool,
}

impl Missing {
    pub(super) fn is_empty(&self) -> bool {
        self.row_keys.is_empty() && !self.row_time && !self.name
    }
}

impl IndexMemory {
    /// A memory of so many rows of `row_keys`.
    pub(super) fn new(most_rows: usize) -> Self {
        Self {
            windows: Mutex::default(),
            rows: Arc::default(),
            most_rows,
            clock: AtomicU64::new(0),
        }
    }

    /// How many rows of `row_keys` are remembered.
    pub(super) fn len(&self) -> usize {
        self.rows.load(Ordering::Relaxed)
    }

    /// The window with this identity. Makes room where memory is full.
    pub(super) fn window(&self, id: Identity) -> Arc<Window> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut windows = self.windows.lock();
        if self.len() > self.most_rows {
            self.make_room(&mut windows);
        }
        let window = windows.entry(id).or_insert_with(|| {
            Arc::new(Window {
                reading: tokio::sync::Mutex::default(),
                state: Mutex::default(),
                used: AtomicU64::new(now),
                all_rows: Arc::clone(&self.rows),
            })
        });
        window.used.store(now, Ordering::Relaxed);
        Arc::clone(window)
    }

    /// Forgets a window.
    pub(super) fn forget(&self, id: Identity) {
        if let Some(window) = self.windows.lock().remove(&id) {
            window.clear();
        }
    }

    /// Drops the windows that were not used for longest until a quarter is free.
    fn make_room(&self, windows: &mut HashMap<Identity, Arc<Window>>) {
        let mut by_age: Vec<(u64, Identity)> =
            windows.iter().map(|(id, w)| (w.used.load(Ordering::Relaxed), *id)).collect();
        by_age.sort_unstable();
        for (_, id) in by_age {
            if self.len() <= self.most_rows / 4 * 3 {
                break;
            }
            if let Some(window) = windows.remove(&id) {
                window.clear();
            }
        }
    }
}

impl Window {
    /// What of `rows` is missing or expires before `needed`; None when the window was not read
    /// since `since`.
    pub(super) fn missing(
        &self,
        rows: &[Identity],
        needed: Expiry,
        since: Option<Instant>,
    ) -> Option<Missing> {
        let state = self.state.lock();
        let read = state.read?;
        if since.is_some_and(|since| read < since) {
            return None;
        }
        let lasts = |row: &Identity| state.known.row_keys.get(row).is_some_and(|e| *e >= needed);
        let row_keys = rows.iter().enumerate().filter(|(_, row)| !lasts(row));
        Some(Missing {
            row_keys: row_keys.map(|(at, _)| at).collect(),
            row_time: state.known.row_time < needed,
            name: !state.known.name,
        })
    }

    /// Replaces what is known by what was read.
    pub(super) fn learn(&self, known: Known) {
        let mut state = self.state.lock();
        self.all_rows.fetch_add(known.row_keys.len(), Ordering::Relaxed);
        self.all_rows.fetch_sub(state.known.row_keys.len(), Ordering::Relaxed);
        *state = State { read: Some(Instant::now()), known };
    }

    /// Remembers rows of `row_keys` that were acknowledged.
    pub(super) fn remember_row_keys(&self, rows: impl Iterator<Item = Identity>, expiry: Expiry) {
        let mut state = self.state.lock();
        let before = state.known.row_keys.len();
        for row in rows {
            let known = state.known.row_keys.entry(row).or_insert(expiry);
            *known = (*known).max(expiry);
        }
        let new = state.known.row_keys.len() - before;
        self.all_rows.fetch_add(new, Ordering::Relaxed);
    }

    /// Remembers the row of `row_key_time_index`.
    pub(super) fn remember_row_time(&self, expiry: Expiry) {
        let mut state = self.state.lock();
        state.known.row_time = state.known.row_time.max(expiry);
    }

    /// Remembers the name in `string_index`.
    pub(super) fn remember_name(&self) {
        self.state.lock().known.name = true;
    }

    fn clear(&self) {
        let state = std::mem::take(&mut *self.state.lock());
        self.all_rows.fetch_sub(state.known.row_keys.len(), Ordering::Relaxed);
    }
}

/// Someone may still hold a window that was dropped from memory.
impl Drop for Window {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The time before which a window must have been read, so that it need not be again.
pub(super) fn recheck_since(recheck: Duration) -> Option<Instant> {
    Instant::now().checked_sub(recheck)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> Identity {
        Identity::of(&[name.as_bytes()])
    }

    #[test]
    fn only_what_was_read_or_acknowledged_is_known() {
        let memory = IndexMemory::new(100);
        let window = memory.window(id("w"));
        let rows = [id("a"), id("b")];
        assert_eq!(window.missing(&rows, 10, None), None);
        window.learn(Known {
            row_keys: HashMap::from([(id("a"), 10), (id("z"), NEVER)]),
            row_time: NEVER,
            name: false,
        });
        let missing = |needed| window.missing(&rows, needed, None).expect("read");
        let want = |row_keys: &[usize], row_time, name| Missing {
            row_keys: row_keys.to_vec(),
            row_time,
            name,
        };
        assert_eq!(missing(10), want(&[1], false, true));
        assert_eq!(missing(11), want(&[0, 1], false, true));
        window.remember_row_keys([id("b")].into_iter(), NEVER);
        window.remember_name();
        assert_eq!(missing(10), want(&[], false, false));
        assert_eq!(memory.len(), 3);
        let later = Some(Instant::now() + Duration::from_secs(1));
        assert_eq!(window.missing(&rows, 10, later), None);
        memory.forget(id("w"));
        assert_eq!((memory.len(), memory.window(id("w")).missing(&rows, 0, None)), (0, None));
    }

    #[test]
    fn memory_is_bounded_and_drops_what_was_not_used() {
        let memory = IndexMemory::new(10);
        for n in 0..100 {
            let window = memory.window(id(&n.to_string()));
            window.learn(Known::default());
            window.remember_row_keys((0..4).map(|row| id(&format!("{n} {row}"))), NEVER);
            assert!(memory.len() <= 14, "{}", memory.len());
        }
        assert!(memory.window(id("99")).missing(&[], NEVER, None).is_some());
        assert!(memory.window(id("0")).missing(&[], NEVER, None).is_none());
    }
}
