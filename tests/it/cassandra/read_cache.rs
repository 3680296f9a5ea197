//! The read cache over a real Cassandra: it answers the same as a store without a cache.

mod changes;
mod files;
mod histories;
mod many;
mod servers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use promkairos::kairos::DataType;
use promkairos::model::{
    Counts, Histogram, Labels, Matcher, Point, ResetHint, STALE_NAN_BITS, Span, TimeRange, Value,
};
use promkairos::storage::cassandra::{CassandraStore, Options, ReadCacheOptions, Role};
use promkairos::storage::{Clock, Flush, SeriesRun, Store};
use promkairos::telemetry::CassandraMetrics;

use super::deletes::now;
use super::keyspace::{Request, TestKeyspace, key, labels, named, read};

const WIDTH: i64 = 1_814_400_000;
const HOUR: i64 = 3_600_000;

/// A keyspace, and a folder for the caches of its stores.
pub(crate) struct Cached {
    pub(crate) keyspace: TestKeyspace,
    folder: tempfile::TempDir,
}

impl Cached {
    pub(crate) async fn new() -> Self {
        Self::over(TestKeyspace::new().await)
    }

    pub(crate) fn over(keyspace: TestKeyspace) -> Self {
        Self { keyspace, folder: tempfile::tempdir().expect("a folder") }
    }

    pub(crate) fn options(&self) -> ReadCacheOptions {
        cache_in(self.folder.path())
    }

    /// A store with a cache.
    pub(crate) async fn open(&self) -> Opened {
        self.open_with(self.options(), self.keyspace.options()).await
    }

    pub(crate) async fn open_with(&self, cache: ReadCacheOptions, options: Options) -> Opened {
        let metrics = CassandraMetrics::default();
        let options = Options { read_cache: Some(cache), ..options };
        let store = crate::support::cassandra::open(options, &metrics).await;
        Opened { store, metrics }
    }

    /// The files of the caches. They have no names, but this process has them open.
    fn files(&self) -> Vec<PathBuf> {
        let all = std::fs::read_dir("/proc/self/fd").expect("open files");
        let all = all.map(|entry| entry.expect("an entry").path());
        let ours = |path: &PathBuf| {
            std::fs::read_link(path).is_ok_and(|file| file.starts_with(self.folder.path()))
        };
        all.filter(ours).collect()
    }
}

/// A cache below a folder.
pub(crate) fn cache_in(folder: &Path) -> ReadCacheOptions {
    ReadCacheOptions {
        dir: folder.join("read-cache"),
        bytes: 64 << 20,
        memory: 16 << 20,
        settled_after: Duration::from_secs(600),
        // Longer than any test, so cached points are read from the cache.
        min_age: Duration::from_secs(3600),
        max_age: Duration::from_secs(3600),
        clock: Clock::monotonic(),
    }
}

/// A store with a cache, and its metrics.
pub(crate) struct Opened {
    pub(crate) store: CassandraStore,
    pub(crate) metrics: CassandraMetrics,
}

impl Opened {
    /// Reads; returns the points and the number of data rows that were read.
    async fn rows_read(&self, matchers: &[Matcher], range: TimeRange) -> (All, u64) {
        let before = self.metrics.rows_read.get();
        let all = all(&self.store, matchers, range).await;
        (all, self.metrics.rows_read.get() - before)
    }
}

/// Points by series, as time, start and bits. The reset hints of histograms depend on the cut of
/// chunks, with and without a cache.
type All = BTreeMap<Labels, Vec<(i64, i64, Bits)>>;

#[derive(Debug, Clone, PartialEq)]
enum Bits {
    Float(u64),
    /// A stale marker has only its time.
    Stale,
    Histogram(Histogram),
}

async fn all(store: &dyn Store, matchers: &[Matcher], range: TimeRange) -> All {
    let bits = |point: &Point| {
        let bits = match &point.value {
            Value::Float(value) => Bits::Float(value.to_bits()),
            Value::Histogram(histogram) if histogram.is_stale() => Bits::Stale,
            Value::Histogram(histogram) => {
                let mut histogram = (**histogram).clone();
                if histogram.reset_hint != ResetHint::Gauge {
                    histogram.reset_hint = ResetHint::Unknown;
                }
                Bits::Histogram(histogram)
            }
        };
        (point.timestamp, point.start_timestamp, bits)
    };
    let read = read(store, matchers, range).await.into_iter();
    read.map(|(labels, points)| (labels, points.iter().map(bits).collect())).collect()
}

fn histogram(count: u64, reset_hint: ResetHint) -> Histogram {
    Histogram {
        schema: 3,
        zero_threshold: 0.001,
        sum: count as f64 / 3.0,
        reset_hint,
        positive_spans: vec![Span { offset: 0, length: 1 }],
        negative_spans: vec![],
        custom_values: vec![],
        counts: Counts::Integer {
            count,
            zero_count: 0,
            positive: vec![count as i64],
            negative: vec![],
        },
    }
}

fn series(name: &str, number: usize) -> Labels {
    labels(&[("__name__", name), ("host", &format!("h{number}"))])
}

/// Writes a cell of a type that only a KairosDB writes, with its index rows.
async fn neighbour_writes(
    keyspace: &TestKeyspace,
    series: &Labels,
    (row_time, data_type): (i64, DataType),
    (column, value): ([u8; 4], &[u8]),
    using: &str,
) {
    let cql = format!(
        "INSERT INTO {{k}}.data_points (key, column1, value) VALUES (?, ?, ?) USING {using}"
    );
    let values = (key(series, row_time, data_type.clone()), column.to_vec(), value);
    keyspace.cql_with(&cql, values).await;
    let (metric, host) = (series.get("__name__"), series.get("host"));
    let data_type = data_type.as_str();
    for cql in [
        format!(
            "INSERT INTO {{k}}.row_key_time_index (metric, table_name, row_time) \
             VALUES ('{metric}', 'data_points', {row_time}) USING TIMESTAMP 5"
        ),
        format!(
            "INSERT INTO {{k}}.row_keys (metric, table_name, row_time, data_type, tags, mtime) \
             VALUES ('{metric}', 'data_points', {row_time}, '{data_type}', {{'host': '{host}'}}, \
             now()) USING TIMESTAMP {}",
            now()
        ),
    ] {
        keyspace.cql(&cql).await;
    }
}

/// Fills a store with series that are not small; returns its points.
async fn fill(store: &dyn Store, metric: &str) -> All {
    for first in (0..200).step_by(50) {
        let mut request = Request::default();
        for number in first..first + 50 {
            let value = |at: i64| (at * 7_919 % 1_009) as f64 / 3.0;
            let points: Vec<(i64, f64)> = (0..100).map(|at| (at * 15_000, value(at))).collect();
            request = request.floats(&series(metric, number), &points);
        }
        request.write(store).await;
    }
    all(store, &named(metric), TimeRange::ALL).await
}

fn flush(runs: Vec<SeriesRun>) -> Flush<'static> {
    let (exemplars, days, metadata, pace) = Default::default();
    Flush { through: 1, runs: Box::new(runs.into_iter()), exemplars, days, metadata, pace }
}

#[tokio::test]
async fn again_is_the_same_and_what_is_settled_is_not_read_again() {
    let cached = Cached::new().await;
    let (plain, store) = (cached.keyspace.open().await, cached.open().await);
    let (recent, special) = (now() - 60_000, f64::from_bits(0x7ff8_0000_dead_beef));
    let mut request = Request::default();
    for number in 0..40 {
        let value = number as f64 / 7.0;
        let mut points: Vec<(i64, f64)> =
            (0..300).map(|at| (at * 15_000, value + at as f64)).collect();
        points.extend([(-7, 1.0), (7, special), (WIDTH - 1, f64::INFINITY), (WIDTH, -0.0)]);
        points.extend([(5 * WIDTH + 3, f64::from_bits(STALE_NAN_BITS)), (recent, 4.0)]);
        request = request.floats(&series("m", number), &points);
    }
    let counts = [3, 8, 2, 2, 9, 1, 40, 41, 7];
    for (at, count) in counts.into_iter().enumerate() {
        let hints = [ResetHint::Unknown, ResetHint::NotReset, ResetHint::Reset, ResetHint::Gauge];
        for (number, hint) in hints.into_iter().enumerate() {
            let time = at as i64 * 15_000 + WIDTH;
            request = request.histogram(&series("m", number), time + 1, histogram(count, hint));
        }
    }
    let stale =
        Histogram { sum: f64::from_bits(STALE_NAN_BITS), ..histogram(1, ResetHint::Unknown) };
    request = request.histogram(&series("m", 0), WIDTH + 900_000, stale);
    request.write(&plain).await;
    // Types of a KairosDB, also at times where we have points.
    for (number, data_type, cell) in [
        (0, DataType::Long, (15_000u32, &[84u8][..])),
        (1, DataType::Long, (33, &[84])),
        (2, DataType::Legacy, (45_000, &[14])),
    ] {
        let cell = (cell.0.to_be_bytes(), cell.1);
        let using = format!("TIMESTAMP {}", now());
        neighbour_writes(&cached.keyspace, &series("m", number), (0, data_type), cell, &using)
            .await;
    }
    let want = all(&plain, &named("m"), TimeRange::ALL).await;
    assert_eq!(want.len(), 40);
    let (first, rows) = store.rows_read(&named("m"), TimeRange::ALL).await;
    assert_eq!(first, want);
    assert!(rows > 40 * 300, "{rows}");
    for _ in 0..3 {
        let (again, rows) = store.rows_read(&named("m"), TimeRange::ALL).await;
        assert_eq!(again, want);
        // One window before 1970 and one recent window.
        assert_eq!(rows, 2 * 40);
    }
    assert_eq!(store.metrics.read_cache_damaged.get(), 0);
    // Parts of the range, and a sliding range.
    for at in 0..30 {
        let range = TimeRange::new(at * 50_000, at * 50_000 + 400_000);
        let (part, rows) = store.rows_read(&named("m"), range).await;
        assert_eq!((part, rows), (all(&plain, &named("m"), range).await, 0));
    }
    cached.keyspace.drop().await;
}

#[tokio::test]
async fn a_range_that_slides_reads_only_its_new_end() {
    let cached = Cached::new().await;
    let (plain, store) = (cached.keyspace.open().await, cached.open().await);
    let points: Vec<(i64, f64)> = (0..2_000).map(|at| (at * 15_000, at as f64)).collect();
    Request::default().floats(&series("m", 1), &points).write(&plain).await;
    let mut rows = 0;
    for at in 0..100 {
        let range = TimeRange::new(at * 60_000, at * 60_000 + HOUR);
        let (found, read) = store.rows_read(&named("m"), range).await;
        assert_eq!(found, all(&plain, &named("m"), range).await);
        rows += read;
        assert!(at == 0 || read <= 44, "{read} rows at {at}");
    }
    // Each row is read once: as many as the whole range has.
    assert!(rows <= 240 + 100 * 4 + 80, "{rows}");
    // Earlier times as well.
    let (found, read) = store.rows_read(&named("m"), TimeRange::new(-HOUR, 100 * 60_000)).await;
    assert_eq!((found[&series("m", 1)].len(), read), (401, 0));
    cached.keyspace.drop().await;
}

/// For a range that ends in settled time the cached part ends at any time; for a range that goes on it ends at
/// a step of ten minutes. Points between the two ends must be returned once.
#[tokio::test]
async fn a_range_that_goes_on_behind_what_is_kept_has_each_point_once() {
    const STEP: i64 = 600_000;
    let cached = Cached::new().await;
    let plain = cached.keyspace.open().await;
    let now = now();
    let begin = now - 4 * STEP;
    let points: Vec<(i64, f64)> =
        (0..4 * STEP / 1_000).map(|at| (begin + at * 1_000, at as f64)).collect();
    Request::default().floats(&series("m", 1), &points).write(&plain).await;
    // Settled time ends in the middle of a step, whatever the time is.
    let settled = now - now.rem_euclid(STEP) - STEP - STEP / 2;
    let settled_after = Duration::from_millis(now.abs_diff(settled));
    let options = ReadCacheOptions { settled_after, ..cached.options() };
    let store = cached.open_with(options, cached.keyspace.options()).await;
    let end_of_kept = settled - STEP / 6;
    let first = TimeRange::new(begin, end_of_kept);
    assert_eq!(all(&store.store, &named("m"), first).await.len(), 1);
    for end in [now, end_of_kept + 90_000, settled, i64::MAX] {
        let range = TimeRange::new(begin, end);
        let (got, read) = store.rows_read(&named("m"), range).await;
        assert_eq!(got, all(&plain, &named("m"), range).await, "{range:?}");
        // A sliding range is read ahead, as far as points are settled by now.
        let settled = self::now() - (now - settled);
        let rest = (end.min(now).max(settled) - end_of_kept) / 1_000;
        assert!(read.cast_signed() <= rest + 1, "{read} rows of {rest}");
    }
    cached.keyspace.drop().await;
}

/// An old keyspace of a read cluster may lack the table that records changes.
#[tokio::test]
async fn a_keyspace_to_read_is_cached_where_changes_can_be_known() {
    let cached = Cached::new().await;
    let plain = cached.keyspace.open().await;
    let want = fill(&plain, "m").await;
    let to_read = || Options { role: Role::Read, ..cached.keyspace.options() };
    let store = Arc::new(cached.open_with(cached.options(), to_read()).await);
    for rows in [20_000, 0] {
        assert_eq!(store.rows_read(&named("m"), TimeRange::ALL).await, (want.clone(), rows));
    }
    // Deletes are the only changes of a read cluster.
    let one = [Matcher::equal("__name__", "m"), Matcher::equal("host", "h7")];
    let other = cached.open_with(cached.options(), to_read()).await;
    other.store.delete(&one, TimeRange::ALL).await.expect("deleted");
    assert_eq!(all(&store.store, &one, TimeRange::ALL).await, All::new());
    plain.close().await.expect("closed");
    cached.keyspace.cql("DROP TABLE {k}.service_index").await;
    let store = cached.open_with(cached.options(), to_read()).await;
    for _ in 0..2 {
        let (got, rows) = store.rows_read(&named("m"), TimeRange::ALL).await;
        assert_eq!((got.len(), rows), (199, 19_900));
    }
    assert_eq!(store.metrics.read_cache_entries.get(), 0);
    cached.keyspace.drop().await;
}

#[tokio::test]
async fn explain_says_what_is_in_the_cache() {
    let cached = Cached::new().await;
    let store = cached.open().await;
    let points = [(10, 1.0), (WIDTH, f64::NAN)];
    for number in 0..3 {
        Request::default().floats(&series("m", number), &points).write(&store.store).await;
    }
    let explain = async |matchers: &[Matcher]| {
        let explanation = store.store.explain(matchers, TimeRange::ALL).await.expect("explained");
        (explanation.partitions, explanation.cached_partitions)
    };
    assert_eq!(explain(&named("m")).await, (6, 0));
    let one = [Matcher::equal("__name__", "m"), Matcher::equal("host", "h1")];
    all(&store.store, &one, TimeRange::new(0, HOUR)).await;
    assert_eq!(explain(&named("m")).await, (6, 0), "of the first window only a part is there");
    all(&store.store, &one, TimeRange::ALL).await;
    assert_eq!(explain(&named("m")).await, (6, 2));
    all(&store.store, &named("m"), TimeRange::ALL).await;
    assert_eq!(explain(&named("m")).await, (6, 6));
    cached.keyspace.drop().await;
}
