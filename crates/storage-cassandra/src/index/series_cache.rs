//! The windows (partitions of `row_keys`) whose series are in memory, by their identity: a bounded number of
//! bytes, shared by all readers. `cached_window` holds the rows of one window and knows how long they are
//! good. No I/O here; `window_reader` does the reading.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::identity::Identity;
use crate::index::cached_window::{CachedWindow, Held};
use crate::index::index_row::IndexRow;
use promkairos_model::Cache;
use promkairos_telemetry::CassandraMetrics;

/// All windows in memory.
pub(crate) struct SeriesCache {
    windows: Mutex<Cache<Identity, Arc<CachedWindow>>>,
    held: Arc<Held>,
    most_bytes: usize,
    /// Bytes of rows that are being read into windows.
    reading: AtomicUsize,
}

/// Counts rows that are being read into a window, until it is dropped.
pub(crate) struct Reading<'a> {
    cache: &'a SeriesCache,
    bytes: usize,
}

impl Reading<'_> {
    /// Sets the bytes of the rows read so far. Returns whether they fit, together with the rows that other tasks are
    /// reading.
    pub(crate) fn fits(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        self.bytes += more;
        let all = self.cache.reading.fetch_add(more, Ordering::Relaxed) + more;
        bytes <= self.cache.most_bytes_of_window() && all <= self.cache.most_bytes
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.cache.reading.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl SeriesCache {
    pub(crate) fn new(most_bytes: usize, metrics: CassandraMetrics) -> Self {
        Self {
            windows: Mutex::default(),
            held: Arc::new(Held::new(metrics)),
            most_bytes,
            reading: AtomicUsize::new(0),
        }
    }

    /// Bytes in use, about.
    pub(crate) fn bytes(&self) -> usize {
        self.held.bytes()
    }

    /// The most bytes of one window, so that no single window evicts all others.
    fn most_bytes_of_window(&self) -> usize {
        self.most_bytes / 2
    }

    /// Begins a read of rows into a window.
    pub(crate) fn reading(&self) -> Reading<'_> {
        Reading { cache: self, bytes: 0 }
    }

    /// The window with this identity.
    pub(crate) fn window(&self, id: Identity) -> Arc<CachedWindow> {
        let new = || Arc::new(CachedWindow::new(Arc::clone(&self.held)));
        Arc::clone(self.windows.lock().get_or_insert_with(id, new))
    }

    /// Whether the rows of the window with this identity are in memory and were read lately.
    pub(crate) fn has_rows(&self, id: Identity, now: Instant) -> bool {
        self.with_rows(id, now).is_some()
    }

    /// The window with this identity, if its rows are in memory and were read lately. Counts as a use.
    pub(crate) fn with_rows(&self, id: Identity, now: Instant) -> Option<Arc<CachedWindow>> {
        let window = self.windows.lock().get(&id).cloned();
        window.filter(|window| window.has_rows(now))
    }

    /// Adds rows that were written and acknowledged.
    pub(crate) fn add(&self, id: Identity, rows: impl Iterator<Item = IndexRow>) {
        let window = self.windows.lock().peek(&id).cloned();
        if let Some(window) = window {
            window.add(rows);
        }
    }

    /// Notes that rows were found in Cassandra which may be missing here: the next reader reads the window again.
    pub(crate) fn doubt(&self, id: Identity) {
        let window = self.windows.lock().peek(&id).cloned();
        if let Some(window) = window {
            window.doubt();
        }
    }

    /// Forgets a window, also for a read in progress.
    pub(crate) fn forget(&self, id: Identity) {
        self.windows.lock().remove(&id);
    }

    /// Forgets all windows. A task that still holds one may use it.
    pub(crate) fn forget_all(&self) {
        drop(std::mem::take(&mut *self.windows.lock()));
    }

    /// Evicts windows while there are too many bytes. A task that still holds an evicted window may use it.
    pub(crate) fn make_room(&self) {
        let mut windows = self.windows.lock();
        let mut left = self.bytes();
        while left > self.most_bytes
            && let Some(window) = windows.evict()
        {
            left = left.saturating_sub(window.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::index::cached_window::{Looked, Read, Rows};
    use crate::index::mtime::{Mtime, Mtimes};
    use promkairos_kairos::DataType;
    use promkairos_model::{Labels, Matcher};

    fn id(name: &str) -> Identity {
        Identity::of(&[name.as_bytes()])
    }

    fn row(host: &str) -> IndexRow {
        let labels = Labels::from_pairs([("__name__", "m"), ("host", host)]).expect("labels");
        IndexRow::of_series(labels, DataType::Double)
    }

    fn rows(hosts: &[&str]) -> Rows {
        let mut rows = Rows::default();
        hosts.iter().for_each(|host| rows.push(row(host)));
        rows
    }

    /// A read of 10 ms that began at `started`.
    fn read(mtime: Option<Mtime>, started: Instant) -> Read {
        Read { mtime, started, started_ms: 10_000, took: Duration::from_millis(10) }
    }

    fn hosts(window: &CachedWindow, matchers: &[Matcher]) -> Vec<String> {
        let mut hosts = Vec::new();
        let looked = window.select(matchers, DataType::holds_points, |row| {
            hosts.push(row.labels.get("host").to_owned());
            Ok(())
        });
        assert_eq!(looked.expect("no I/O"), Looked::Seen);
        hosts
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn own_writes_are_added_and_doubt_makes_a_read_necessary() {
        let (cache, ours) =
            (SeriesCache::new(1 << 20, CassandraMetrics::default()), Mtimes::default());
        let (window, start) = (cache.window(id("w")), Instant::now());
        assert!(!window.holds(None, &ours, start) && !window.is_checked_since(start));
        window.learn(read(None, start), window.epoch(), Some(rows(&["a", "b"])));
        assert!(window.is_checked_since(start) && window.holds(None, &ours, start + MS));
        cache.add(id("w"), ["b", "c"].map(row).into_iter());
        assert_eq!(hosts(&window, &[]), ["a", "b", "c"]);
        assert_eq!(hosts(&window, &[Matcher::equal("host", "c")]), ["c"]);
        assert!(window.is_checked_since(start + MS));
        // A read that began before our write ended may have missed it.
        let epoch = window.epoch();
        cache.add(id("w"), [row("d")].into_iter());
        window.learn(read(None, start + 2 * MS), epoch, Some(rows(&["a", "b", "c"])));
        assert!(!window.is_checked_since(start) && !window.holds(None, &ours, start + 3 * MS));
        window.learn(read(None, start + 4 * MS), window.epoch(), Some(rows(&["a"])));
        assert!(window.holds(None, &ours, start + 5 * MS));
        cache.doubt(id("w"));
        assert!(!window.holds(None, &ours, start + 6 * MS));
        cache.forget(id("w"));
        assert!(!Arc::ptr_eq(&window, &cache.window(id("w"))));
    }

    #[test]
    fn what_is_read_at_the_same_time_is_counted_together() {
        let cache = SeriesCache::new(1_000, CassandraMetrics::default());
        let mut first = cache.reading();
        assert!(first.fits(500) && !first.fits(501));
        let (mut second, mut third) = (cache.reading(), cache.reading());
        assert!(second.fits(400) && second.fits(400));
        assert!(!third.fits(100));
        drop(first);
        assert!(third.fits(100) && second.fits(500));
        drop((second, third));
        assert_eq!(cache.reading.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn memory_is_bounded_and_drops_what_was_not_used() {
        let metrics = CassandraMetrics::default();
        let cache = SeriesCache::new(20_000, metrics.clone());
        let doubles = || metrics.series_cached("kairos_double").get();
        for n in 0..100 {
            let window = cache.window(id(&n.to_string()));
            window.learn(read(None, Instant::now()), window.epoch(), Some(rows(&["a", "b"])));
            drop(window);
            cache.make_room();
            assert!(cache.bytes() <= 20_000, "{}", cache.bytes());
            assert_eq!(doubles(), metrics.windows_cached.get() * 2);
        }
        assert_eq!(hosts(&cache.window(id("99")), &[]), ["a", "b"]);
        let first = cache.window(id("0"));
        assert_eq!(first.select(&[], |_| true, |_| Ok(())).expect("no I/O"), Looked::TooLarge);
        let held = cache.bytes();
        let before = doubles();
        cache.add(id("99"), ["b", "c"].map(row).into_iter());
        assert_eq!(doubles(), before + 1);
        assert!(cache.bytes() > held + row("c").bytes());
        let held = cache.bytes();
        cache.forget(id("0"));
        assert_eq!(cache.bytes(), held);
        drop(first);
        assert!(cache.bytes() < held);
        cache.forget_all();
        assert_eq!((cache.bytes(), doubles(), metrics.windows_cached.get()), (0, 0, 0));
    }
}
