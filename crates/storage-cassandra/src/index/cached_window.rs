//! The series of one window (a partition of `row_keys`) in memory, with postings.
//!
//! A window in memory holds at least the rows that were in Cassandra when its read began and the
//! rows that this process has written since. `mtime` tells whether a neighbour has added rows, but
//! it is only a hint: a window is read again in any case when it [is old](Read::is_old). No I/O
//! here; `window_reader` does the reading.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use crate::identity::Identity;
use crate::index::index_row::IndexRow;
use crate::index::mtime::{Mtime, Mtimes};
use promkairos_kairos::DataType;
use promkairos_model::Matcher;
use promkairos_storage::StoreError;
use promkairos_storage::index::{MemoryIndex, evaluate, table_bytes};
use promkairos_telemetry::CassandraMetrics;

/// A window is read again after this time, whatever `mtime` says, ...
pub(crate) const OLD: Duration = Duration::from_secs(30);
/// ... or after this multiple of the duration of the last read, if that is longer. A window is also read again
/// after that multiple while `mtime` shows our own inserts only: an insert of another process may hide behind them.
const SHARE: u32 = 50;
/// A read that begins more than this many milliseconds after the last insert sees every row that
/// was stamped before it. Until then `mtime` may stay the same although a row was added.
const SETTLED_MS: i64 = 100;

/// Bytes of memory of a window without rows.
const EMPTY: usize = 768;

/// The totals of all windows.
pub(crate) struct Held {
    bytes: AtomicUsize,
    metrics: CassandraMetrics,
}

impl Held {
    pub(crate) fn new(metrics: CassandraMetrics) -> Self {
        Self { bytes: AtomicUsize::new(0), metrics }
    }

    /// Bytes in memory, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn add(&self, rows: Option<&Rows>) {
        let Some(rows) = rows else { return };
        self.bytes.fetch_add(rows.bytes, Ordering::Relaxed);
        for (data_type, count) in &rows.types {
            self.metrics.series_cached(data_type.as_str()).inc_by(*count);
        }
    }

    fn remove(&self, rows: Option<&Rows>) {
        let Some(rows) = rows else { return };
        self.bytes.fetch_sub(rows.bytes, Ordering::Relaxed);
        for (data_type, count) in &rows.types {
            self.metrics.series_cached(data_type.as_str()).dec_by(*count);
        }
    }
}

/// One window.
pub(crate) struct CachedWindow {
    /// Held by the task that reads the window from Cassandra.
    pub(crate) reading: tokio::sync::Mutex<()>,
    state: RwLock<CachedState>,
    held: Arc<Held>,
}

/// What a window holds now, and when that was checked.
#[derive(Default)]
struct CachedState {
    /// Rises with every change that a read in progress may have missed.
    epoch: Epoch,
    /// When the last check against Cassandra began that found the content good.
    checked: Option<Instant>,
    content: Option<Content>,
}

/// Counts the changes of a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

struct Content {
    read: Read,
    /// The epoch for which the content is good.
    epoch: Epoch,
    /// None: the rows exceed the memory limit.
    rows: Option<Rows>,
}

/// When a window was read, and how long it took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Read {
    /// `mtime` just before the read.
    pub(crate) mtime: Option<Mtime>,
    pub(crate) started: Instant,
    /// `started` in milliseconds since 1970.
    pub(crate) started_ms: i64,
    pub(crate) took: Duration,
}

impl Read {
    fn is_old(&self, now: Instant) -> bool {
        now.duration_since(self.started) >= OLD.max(self.took * SHARE)
    }

    /// Whether the rows are still complete, given that `mtime` is now `found`.
    fn holds(&self, found: Option<Mtime>, ours: &Mtimes, now: Instant) -> bool {
        let Some(found) = found else { return self.mtime.is_none() };
        if Some(found) == self.mtime {
            return found.stamp.saturating_add(SETTLED_MS) < self.started_ms;
        }
        ours.is_ours(found.id) && now.duration_since(self.started) < self.took * SHARE
    }
}

/// The rows of a window.
#[derive(Default)]
pub(crate) struct Rows {
    rows: Vec<Arc<IndexRow>>,
    index: MemoryIndex,
    known: HashSet<Identity>,
    types: BTreeMap<DataType, i64>,
    /// Bytes of the rows alone.
    of_rows: usize,
    bytes: usize,
}

/// Bytes of memory of the counts by type.
const TYPES: usize = 512;

impl Rows {
    /// Adds a row. Rows with the same labels and type are all kept: their keys in Cassandra differ.
    pub(crate) fn push(&mut self, row: IndexRow) {
        self.of_rows += row.bytes();
        *self.types.entry(row.data_type.clone()).or_default() += 1;
        self.known.insert(row.identity);
        self.index.add(self.rows.len() as u32, row.labels.as_ref());
        self.rows.push(Arc::new(row));
        let places = self.rows.capacity() * size_of::<Arc<IndexRow>>();
        let known = table_bytes(self.known.capacity(), size_of::<Identity>());
        self.bytes = self.of_rows + places + known + TYPES + self.index.bytes();
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Calls `visit` for every row that passes the matchers and has a wanted type.
    fn show(
        &self,
        matchers: &[Matcher],
        wanted: fn(&DataType) -> bool,
        mut visit: impl FnMut(&Arc<IndexRow>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let value = |at, name: &str| self.rows[at as usize].labels.get(name);
        let index = self.index.with_values(value);
        for at in evaluate(&index, matchers)? {
            let row = &self.rows[at as usize];
            if wanted(&row.data_type) {
                visit(row)?;
            }
        }
        Ok(())
    }
}

/// The result of a look-up in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looked {
    /// All rows were visited.
    Seen,
    /// The window is not in memory, because it is too large.
    TooLarge,
}

impl CachedState {
    fn advance(&mut self) {
        self.epoch.0 += 1;
    }

    fn rows(&self) -> Option<&Rows> {
        self.content.as_ref()?.rows.as_ref()
    }

    fn bytes(&self) -> usize {
        EMPTY + self.rows().map_or(0, Rows::bytes)
    }
}

impl CachedWindow {
    /// A window without content; its memory counts in `held`.
    pub(crate) fn new(held: Arc<Held>) -> Self {
        held.bytes.fetch_add(EMPTY, Ordering::Relaxed);
        held.metrics.windows_cached.inc();
        Self { reading: tokio::sync::Mutex::default(), state: RwLock::default(), held }
    }

    /// Bytes in memory, about.
    pub(crate) fn bytes(&self) -> usize {
        self.state.read().bytes()
    }

    /// Whether the rows are in memory and were read lately.
    pub(crate) fn has_rows(&self, now: Instant) -> bool {
        let state = self.state.read();
        let content = state.content.as_ref();
        content.is_some_and(|content| content.rows.is_some() && !content.read.is_old(now))
    }

    /// Makes the next reader read the window again.
    pub(crate) fn doubt(&self) {
        self.state.write().advance();
    }

    /// Whether Cassandra was asked since `asked`, so that no other task needs to ask.
    pub(crate) fn is_checked_since(&self, asked: Instant) -> bool {
        let state = self.state.read();
        let is_good = |content: &Content| content.epoch == state.epoch || content.rows.is_none();
        state.checked.is_some_and(|checked| checked >= asked)
            && state.content.as_ref().is_some_and(is_good)
    }

    /// The current epoch, for a read that begins now.
    pub(crate) fn epoch(&self) -> Epoch {
        self.state.read().epoch
    }

    /// Whether the content is still good when `mtime`, read at `asked`, is `found`.
    pub(crate) fn holds(&self, found: Option<Mtime>, ours: &Mtimes, asked: Instant) -> bool {
        let mut state = self.state.write();
        let Some(content) = &state.content else { return false };
        let is_good = content.epoch == state.epoch && content.read.holds(found, ours, asked);
        // A window that is too large keeps no rows that could be wrong.
        let holds = !content.read.is_old(asked) && (is_good || content.rows.is_none());
        if holds {
            state.checked = Some(asked);
        }
        holds
    }

    /// Replaces the content by what was read. None: the rows exceed the memory limit.
    pub(crate) fn learn(&self, read: Read, epoch: Epoch, rows: Option<Rows>) {
        let mut state = self.state.write();
        self.held.remove(state.rows());
        state.content = Some(Content { read, epoch, rows });
        state.checked = Some(read.started);
        self.held.add(state.rows());
    }

    /// Adds rows that were written and acknowledged.
    pub(crate) fn add(&self, rows: impl Iterator<Item = IndexRow>) {
        let mut state = self.state.write();
        let CachedState { epoch, content, .. } = &mut *state;
        let is_good = content.as_ref().is_some_and(|content| content.epoch == *epoch);
        // A read in progress may have missed them.
        epoch.0 += 1;
        let Some(content) = content else { return };
        if is_good {
            content.epoch = *epoch;
        }
        let Some(known) = &mut content.rows else { return };
        self.held.remove(Some(known));
        for row in rows {
            if !known.known.contains(&row.identity) {
                known.push(row);
            }
        }
        self.held.add(Some(known));
    }

    /// Calls `visit` for every row that passes the matchers and has a wanted type.
    pub(crate) fn select(
        &self,
        matchers: &[Matcher],
        wanted: fn(&DataType) -> bool,
        visit: impl FnMut(&Arc<IndexRow>) -> Result<(), StoreError>,
    ) -> Result<Looked, StoreError> {
        match self.state.read().rows() {
            Some(rows) => rows.show(matchers, wanted, visit).map(|()| Looked::Seen),
            None => Ok(Looked::TooLarge),
        }
    }

    /// Selects like [`Self::select`], from rows that [`Self::holds`] found good. Returns whether they
    /// still are good: a read that began earlier may have replaced them.
    pub(crate) fn select_good(
        &self,
        matchers: &[Matcher],
        wanted: fn(&DataType) -> bool,
        visit: impl FnMut(&Arc<IndexRow>) -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        let state = self.state.read();
        let is_good = state.content.as_ref().is_some_and(|content| content.epoch == state.epoch);
        match state.rows() {
            Some(rows) if is_good => rows.show(matchers, wanted, visit).map(|()| true),
            _ => Ok(false),
        }
    }
}

/// A task may still have held a window that was dropped from the cache, so its memory is counted until here.
impl Drop for CachedWindow {
    fn drop(&mut self) {
        self.held.remove(self.state.get_mut().rows());
        self.held.bytes.fetch_sub(EMPTY, Ordering::Relaxed);
        self.held.metrics.windows_cached.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counting::counted;

    /// A read of 10 ms that began at `started`.
    fn read(mtime: Option<Mtime>, started: Instant) -> Read {
        Read { mtime, started, started_ms: 10_000, took: Duration::from_millis(10) }
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn mtime_says_whether_to_read_again() {
        let (ours, neighbour) = (Mtimes::default(), Mtimes::default());
        let mtime = |by: &Mtimes, stamp| Some(Mtime { id: by.next(stamp), stamp });
        let start = Instant::now();
        let old = mtime(&neighbour, 5_000);
        let holds = |read: Read, found, after: Duration| read.holds(found, &ours, start + after);
        assert!(holds(read(old, start), old, 29_000 * MS));
        assert!(!holds(read(old, start), mtime(&neighbour, 5_001), MS));
        assert!(!holds(read(None, start), old, MS) && holds(read(None, start), None, MS));
        // Another row may have come with the same stamp just after.
        let young = mtime(&neighbour, 9_950);
        assert!(!holds(read(young, start), young, MS));
        // A neighbour's insert may hide behind our own, so `mtime` is trusted only for 50 times the read.
        let own = mtime(&ours, 11_000);
        assert!(holds(read(old, start), own, 499 * MS) && !holds(read(old, start), own, 500 * MS));
        assert!(!read(old, start).is_old(start + 29_999 * MS));
        assert!(read(old, start).is_old(start + 30_000 * MS));
        let slow = Read { took: Duration::from_secs(2), ..read(old, start) };
        assert!(!slow.is_old(start + 99_000 * MS) && slow.is_old(start + 100_000 * MS));
    }

    #[test]
    fn what_a_read_that_began_earlier_brings_is_not_good() {
        let window = CachedWindow::new(Arc::new(Held::new(CassandraMetrics::default())));
        let seen = || {
            let mut rows = 0;
            let good = window.select_good(
                &[],
                |_| true,
                |_| {
                    rows += 1;
                    Ok(())
                },
            );
            (good.expect("no matcher fails"), rows)
        };
        let learn = |epoch| {
            window.learn(read(None, Instant::now()), epoch, Some(Rows::default()));
        };
        learn(window.epoch());
        assert_eq!(seen(), (true, 0));
        let begun = window.epoch();
        let row = IndexRow::of_tags("m", DataType::Double, &[("host", "a")]).expect("a row");
        window.add(std::iter::once(row));
        assert_eq!(seen(), (true, 1));
        learn(begun);
        assert_eq!(seen(), (false, 0));
    }

    #[test]
    fn a_window_counts_what_it_takes_though_it_has_one_row() {
        for count in [1, 2, 30, 3_000] {
            let held = Arc::new(Held::new(CassandraMetrics::default()));
            let (windows, given, _) = counted(|| {
                let window = |_| {
                    let window = CachedWindow::new(Arc::clone(&held));
                    let mut rows = Rows::default();
                    for host in 0..count {
                        let tags = [("host", &*format!("host-{host:05}")), ("job", "node")];
                        rows.push(IndexRow::of_tags("m", DataType::Double, &tags).expect("a row"));
                    }
                    window.learn(read(None, Instant::now()), window.epoch(), Some(rows));
                    Arc::new(window)
                };
                (0..3_000 / count).map(window).collect::<Vec<_>>()
            });
            let factor = held.bytes() as f64 / given as f64;
            assert!((0.8..1.7).contains(&factor), "{count} rows: {} of {given}", held.bytes());
            drop(windows);
        }
    }
}
