//! The conformance suite: every case runs on every store, through the trait alone.
//!
//! A case gets a new store in a [`Harness`] and may close and reopen it. The random histories
//! compare a store with the memory store, which is the model.

mod hints;
mod selection_memory;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use promkairos::chunk::Chunk;
use promkairos::model::{
    Counts, Histogram, Labels, MatchOp, Matcher, MetricType, Point, ResetHint, STALE_NAN_BITS,
    Span, TimeRange, Value,
};
use promkairos::storage::cassandra::{self, CassandraStore};
use promkairos::storage::clusters::{Clusters, ReadCluster};
use promkairos::storage::embedded::{self, Parts};
use promkairos::storage::head::{self, Head};
use promkairos::storage::memory::MemoryStore;
use promkairos::storage::{
    Clock, ListSize, SelectHints, SeriesQuery, SharedStore, Store, StoreError,
};
use promkairos::telemetry::{CassandraMetrics, HeadMetrics, StoreMetrics};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::batch::Batch;
use crate::support;
use hints::hints_of_resets_are_true;
use selection_memory::the_bytes_of_labels_are_limited;

/// A store under test and the means to reopen it on the same data.
pub(crate) struct Harness {
    pub(crate) store: SharedStore,
    pub(crate) reopen: Box<dyn Fn() -> Opening + Send>,
    /// Values that must live as long as the store: folders, keyspaces.
    #[expect(dead_code, reason = "only dropped")]
    pub(crate) keep: Vec<Box<dyn std::any::Any + Send>>,
}

pub(crate) type Opening = Pin<Box<dyn Future<Output = SharedStore> + Send>>;

impl Harness {
    /// Closes the store and opens it again on the same data.
    pub(crate) async fn reopen(&mut self) {
        self.store.close().await.expect("close");
        self.store = (self.reopen)().await;
    }
}

async fn memory() -> Harness {
    let store: SharedStore = Arc::new(MemoryStore::new());
    let same = store.clone();
    let reopen = Box::new(move || Box::pin(std::future::ready(same.clone())) as Opening);
    Harness { store, reopen, keep: Vec::new() }
}

/// Part files without a log: each batch becomes a part.
async fn parts() -> Harness {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().to_owned();
    let open = move || -> SharedStore {
        let parts = Parts::open(&path, embedded::Options::default(), StoreMetrics::default());
        Arc::new(parts.expect("part files"))
    };
    let store = open();
    let reopen = Box::new(move || Box::pin(std::future::ready(open())) as Opening);
    Harness { store, reopen, keep: vec![Box::new(dir)] }
}

/// The whole embedded store: log and head over part files.
async fn head_over_parts() -> Harness {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().to_owned();
    let reopen = move || {
        let path = path.clone();
        Box::pin(async move {
            let parts = path.join("parts");
            let options = embedded::Options::default();
            let parts = Parts::open(&parts, options, StoreMetrics::default());
            let parts: SharedStore = Arc::new(parts.expect("part files"));
            let options = head::Options::new(path.join("wal"));
            let head = Head::open(options, parts, HeadMetrics::default()).await;
            Arc::new(head.expect("a head")) as SharedStore
        }) as Opening
    };
    Harness { store: reopen().await, reopen: Box::new(reopen), keep: vec![Box::new(dir)] }
}

async fn head_over_memory() -> Harness {
    crate::head::harness(crate::head::Restart::Close).await
}

async fn head_that_crashes() -> Harness {
    crate::head::harness(crate::head::Restart::Crash).await
}

/// Flushes all the time, so that points are found in memory, in the store below, and in both.
async fn head_that_flushes() -> Harness {
    crate::head::harness(crate::head::Restart::FlushBefore).await
}

/// The KairosDB schema, written through.
async fn cassandra_store() -> Harness {
    let keyspace = Keyspace(support::keyspace());
    let options = keyspace.options();
    let reopen = move || {
        let options = options.clone();
        Box::pin(async move { Arc::new(open_cassandra(options).await) as SharedStore }) as Opening
    };
    Harness { store: reopen().await, reopen: Box::new(reopen), keep: vec![Box::new(keyspace)] }
}

/// The KairosDB schema beside a keyspace with older data and the metadata; both with read caches.
async fn clusters() -> Harness {
    let keyspaces = [(); 2].map(|()| Keyspace(support::keyspace()));
    let dir = tempfile::tempdir().expect("a folder");
    let options = keyspaces.each_ref().map(|keyspace| keyspace.cached(dir.path()));
    let reopen = move || {
        let [write, old] = options.clone();
        Box::pin(async move {
            let write: SharedStore = Arc::new(open_cassandra(write).await);
            let store: SharedStore = Arc::new(open_cassandra(old).await);
            let (name, range, metadata) = ("old".into(), TimeRange::ALL, Some(store.clone()));
            let read = vec![ReadCluster { name, range, store }];
            Arc::new(Clusters { write, read, metadata }) as SharedStore
        }) as Opening
    };
    let [write, old] = keyspaces;
    let keep: Vec<Box<dyn std::any::Any + Send>> =
        vec![Box::new(write), Box::new(old), Box::new(dir)];
    Harness { store: reopen().await, reopen: Box::new(reopen), keep }
}

/// Log and head over the KairosDB schema, with a read cache.
async fn head_over_cassandra() -> Harness {
    let (keyspace, dir) = (Keyspace(support::keyspace()), tempfile::tempdir().expect("a folder"));
    let (options, path) = (keyspace.cached(dir.path()), dir.path().join("log"));
    let reopen = move || {
        let (options, path) = (options.clone(), path.clone());
        Box::pin(async move {
            let below = Arc::new(open_cassandra(options).await);
            let options = head::Options { keeps_stamps: true, ..head::Options::new(path) };
            let head = Head::open(options, below, HeadMetrics::default()).await;
            Arc::new(head.expect("a head")) as SharedStore
        }) as Opening
    };
    let keep: Vec<Box<dyn std::any::Any + Send>> = vec![Box::new(keyspace), Box::new(dir)];
    Harness { store: reopen().await, reopen: Box::new(reopen), keep }
}

/// A keyspace that is dropped in Cassandra when this value is dropped.
struct Keyspace(String);

impl Keyspace {
    fn options(&self) -> cassandra::Options {
        support::cassandra::options(support::cassandra(), &self.0)
    }

    /// The options of the keyspace with a read cache in a folder.
    fn cached(&self, dir: &Path) -> cassandra::Options {
        let cache = cassandra::ReadCacheOptions {
            dir: dir.join("read-cache"),
            bytes: 1 << 20,
            memory: 16 << 20,
            settled_after: Duration::from_secs(600),
            min_age: Duration::from_secs(3600),
            max_age: Duration::from_secs(3600),
            clock: Clock::monotonic(),
        };
        cassandra::Options { read_cache: Some(cache), ..self.options() }
    }
}

impl Drop for Keyspace {
    fn drop(&mut self) {
        let drop = format!("DROP KEYSPACE IF EXISTS {}", self.0);
        // A new thread, since the current thread may be inside a runtime.
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                let session = support::cassandra::session(&support::cassandra()).await;
                session.query_unpaged(drop, ()).await.expect("the keyspace is dropped");
            });
        });
        if thread.join().is_err() && !std::thread::panicking() {
            panic!("the keyspace {} is still there", self.0);
        }
    }
}

async fn open_cassandra(options: cassandra::Options) -> CassandraStore {
    support::cassandra::open(options, &CassandraMetrics::default()).await
}

macro_rules! conformance {
    ($($store:ident),* $(,)?) => { $( conformance_of!($store); )* };
}

macro_rules! conformance_of {
    ($store:ident) => {
        mod $store {
            conformance_cases!(
                $store,
                what_is_written_is_found,
                values_keep_their_bits,
                histograms_of_every_kind,
                the_last_write_wins,
                a_float_beats_a_histogram_in_one_batch,
                any_order_and_any_age,
                integers_are_kept,
                matchers_of_every_kind,
                labels_are_sorted_and_validated,
                label_endpoints,
                the_bytes_of_labels_are_limited,
                ranges_are_closed,
                exemplars_are_kept,
                metadata_is_kept,
                a_delete_removes_what_was_there,
                everything_survives_a_restart,
                random_history,
                hints_of_resets_are_true,
            );
        }
    };
}

macro_rules! conformance_cases {
    ($store:ident, $($case:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(super::$store().await).await;
            }
        )*
    };
}

conformance!(
    memory,
    parts,
    head_over_parts,
    head_over_memory,
    head_that_crashes,
    head_that_flushes,
    cassandra_store,
    clusters,
    head_over_cassandra,
);

/// A time in 2023, in milliseconds.
const T: i64 = 1_700_000_000_000;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::from_pairs(pairs.iter().copied()).expect("valid labels")
}

fn matcher(op: MatchOp, name: &str, value: &str) -> Matcher {
    Matcher::new(op, name, value).expect("valid matcher")
}

async fn write(store: &dyn Store, batch: &Batch) -> promkairos::model::WriteOutcome {
    store.write(batch.build()).await.expect("write")
}

/// Points in the range of every matching series, by labels.
async fn read(
    store: &dyn Store,
    matchers: &[Matcher],
    range: TimeRange,
) -> Vec<(Labels, Vec<Point>)> {
    let selection = store.select(matchers, range, &SelectHints::default()).await.expect("select");
    assert!(selection.series.is_sorted_by(|a, b| a < b), "sorted and unique");
    let chunks = selection.reader.read(0..selection.series.len()).await.expect("read");
    assert_eq!(chunks.len(), selection.series.len());
    let mut result = Vec::new();
    for (labels, chunks) in selection.series.into_iter().zip(chunks) {
        let mut points: Vec<Point> = Vec::new();
        for chunk in &chunks {
            let decoded: Vec<Point> = chunk.points().map(|p| p.expect("a good chunk")).collect();
            assert_eq!(decoded.len(), usize::from(chunk.count), "count of {labels}");
            assert_eq!(decoded.first().map(|p| p.timestamp), Some(chunk.min_time));
            assert_eq!(decoded.last().map(|p| p.timestamp), Some(chunk.max_time));
            points.extend(decoded);
        }
        assert!(points.is_sorted_by(|a, b| a.timestamp < b.timestamp), "rising in {labels}");
        support::hints::assert_true(&points);
        points.retain(|p| range.contains(p.timestamp));
        points.iter_mut().for_each(forget_reset);
        if !points.is_empty() {
            result.push((labels, points));
        }
    }
    result
}

/// The integers in the range with their times, by labels.
async fn integers(
    store: &dyn Store,
    matchers: &[Matcher],
    range: TimeRange,
) -> Vec<(Labels, Vec<(i64, i64)>)> {
    let selection = store.select(matchers, range, &SelectHints::default()).await.expect("select");
    let chunks = selection.reader.read(0..selection.series.len()).await.expect("read");
    let of_series = |(labels, chunks): (Labels, Vec<Chunk>)| {
        let points = chunks.iter().flat_map(Chunk::stamped_points);
        let points = points.map(|entry| entry.expect("a good chunk"));
        let inside = points.filter(|entry| range.contains(entry.point.timestamp));
        let longs = inside.filter_map(|entry| Some((entry.point.timestamp, entry.long?)));
        (labels, longs.collect::<Vec<_>>())
    };
    let all = selection.series.into_iter().zip(chunks).map(of_series);
    all.filter(|(_, longs)| !longs.is_empty()).collect()
}

/// Each store decides where chunks begin, and so which counter resets it knows.
fn forget_reset(point: &mut Point) {
    if let Value::Histogram(histogram) = &mut point.value
        && histogram.reset_hint != ResetHint::Gauge
    {
        Arc::make_mut(histogram).reset_hint = ResetHint::Unknown;
    }
}

fn float(timestamp: i64, value: f64) -> Point {
    Point { timestamp, start_timestamp: 0, value: Value::Float(value) }
}

fn of_histogram(timestamp: i64, histogram: &Histogram) -> Point {
    let value = Value::Histogram(Arc::new(histogram.clone()));
    let mut point = Point { timestamp, start_timestamp: 0, value };
    forget_reset(&mut point);
    point
}

fn integer_histogram(k: u64) -> Histogram {
    Histogram {
        schema: 3,
        zero_threshold: 0.001,
        sum: 18.4 * k as f64,
        reset_hint: ResetHint::Unknown,
        positive_spans: vec![Span { offset: -5, length: 2 }, Span { offset: 1, length: 2 }],
        negative_spans: vec![Span { offset: 0, length: 1 }],
        custom_values: vec![],
        counts: Counts::Integer {
            count: 8 + 5 * k,
            zero_count: 2,
            positive: vec![1 + k as i64, 1, -1, 0],
            negative: vec![k as i64 + 1],
        },
    }
}

fn float_histogram(k: u64) -> Histogram {
    let k = k as f64;
    Histogram {
        reset_hint: ResetHint::Gauge,
        counts: Counts::Float {
            count: 7.5 + k,
            zero_count: 0.5,
            positive: vec![1.0 + k, 2.0, 1.5, 0.0],
            negative: vec![2.5],
        },
        ..integer_histogram(1)
    }
}

fn custom_histogram(k: u64) -> Histogram {
    Histogram {
        schema: promkairos::model::CUSTOM_BUCKETS_SCHEMA,
        zero_threshold: 0.0,
        sum: 3.5,
        reset_hint: ResetHint::Unknown,
        positive_spans: vec![Span { offset: 0, length: 3 }],
        negative_spans: vec![],
        custom_values: vec![0.1, 0.25, 1e9],
        counts: Counts::Integer {
            count: 6 + k,
            zero_count: 0,
            positive: vec![1 + k as i64, 1 - k as i64, 1],
            negative: vec![],
        },
    }
}

/// A stale marker as a histogram.
pub(crate) fn stale_histogram() -> Histogram {
    Histogram {
        schema: 0,
        zero_threshold: 0.0,
        sum: f64::from_bits(STALE_NAN_BITS),
        reset_hint: ResetHint::Unknown,
        positive_spans: vec![],
        negative_spans: vec![],
        custom_values: vec![],
        counts: Counts::Integer { count: 0, zero_count: 0, positive: vec![], negative: vec![] },
    }
}

async fn what_is_written_is_found(h: Harness) {
    let up = [("__name__", "up"), ("job", "a")];
    let batch = Batch::new().series(&up).sample(T, 1.0).sample(T + 15_000, 0.0);
    let outcome = write(&*h.store, &batch).await;
    assert_eq!((outcome.samples, outcome.histograms), (2, 0));
    assert!(outcome.rejections.is_empty());
    let want = vec![(labels(&up), vec![float(T, 1.0), float(T + 15_000, 0.0)])];
    assert_eq!(read(&*h.store, &[Matcher::equal("__name__", "up")], TimeRange::ALL).await, want);
    assert_eq!(read(&*h.store, &[], TimeRange::new(T, T + 20_000)).await, want);
    assert_eq!(read(&*h.store, &[Matcher::equal("__name__", "down")], TimeRange::ALL).await, []);
}

async fn values_keep_their_bits(h: Harness) {
    let values = [
        0.0,
        -0.0,
        1.5,
        5e-324,
        f64::MAX,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::from_bits(STALE_NAN_BITS),
        f64::from_bits(0x7ff8_0000_0000_0001),
        f64::from_bits(0xfff8_dead_beef_0001),
    ];
    let mut batch = Batch::new().series(&[("__name__", "bits")]);
    for (i, value) in values.iter().enumerate() {
        batch = batch.sample(T + i as i64, *value);
    }
    write(&*h.store, &batch).await;
    let found = read(&*h.store, &[], TimeRange::new(T, T + 100)).await;
    let want: Vec<Point> =
        values.iter().enumerate().map(|(i, value)| float(T + i as i64, *value)).collect();
    assert_eq!(found, vec![(labels(&[("__name__", "bits")]), want)]);
}

async fn histograms_of_every_kind(h: Harness) {
    let all = [
        integer_histogram(1),
        integer_histogram(2),
        stale_histogram(),
        float_histogram(1),
        float_histogram(2),
        custom_histogram(0),
        custom_histogram(1),
        integer_histogram(3),
    ];
    let mut batch = Batch::new().series(&[("__name__", "h")]);
    for (i, histogram) in all.iter().enumerate() {
        batch = batch.histogram(T + 1000 * i as i64, histogram.clone());
    }
    assert_eq!(write(&*h.store, &batch).await.histograms, 8);
    let found = read(&*h.store, &[], TimeRange::new(T, T + 10_000)).await;
    assert_eq!(found.len(), 1);
    for (i, (point, histogram)) in found[0].1.iter().zip(&all).enumerate() {
        let Value::Histogram(got) = &point.value else { panic!("number {i} is a float") };
        if histogram.is_stale() {
            assert!(got.is_stale(), "number {i}");
        } else {
            assert_eq!(*point, of_histogram(T + 1000 * i as i64, histogram), "number {i}");
        }
    }
    assert_eq!(found[0].1.len(), 8);
}

async fn the_last_write_wins(h: Harness) {
    let name = [("__name__", "m")];
    let find = || read(&*h.store, &[], TimeRange::new(T - 10, T + 10));
    write(&*h.store, &Batch::new().series(&name).sample(T, 1.0).sample(T, 2.0)).await;
    assert_eq!(find().await, vec![(labels(&name), vec![float(T, 2.0)])]);
    let again = write(&*h.store, &Batch::new().series(&name).sample(T, 2.0)).await;
    assert_eq!(again.samples, 1, "a repetition counts as stored");
    write(&*h.store, &Batch::new().series(&name).sample(T, -3.0)).await;
    write(&*h.store, &Batch::new().series(&name).sample(T - 5, 4.0)).await;
    assert_eq!(find().await, vec![(labels(&name), vec![float(T - 5, 4.0), float(T, -3.0)])]);
    write(&*h.store, &Batch::new().series(&name).histogram(T, integer_histogram(1))).await;
    let point = of_histogram(T, &integer_histogram(1));
    assert_eq!(find().await, vec![(labels(&name), vec![float(T - 5, 4.0), point])]);
    write(&*h.store, &Batch::new().series(&name).sample(T, f64::NAN)).await;
    assert_eq!(find().await, vec![(labels(&name), vec![float(T - 5, 4.0), float(T, f64::NAN)])]);
    write(&*h.store, &Batch::new().series(&name).sample(T, 5.0)).await;
    assert_eq!(find().await, vec![(labels(&name), vec![float(T - 5, 4.0), float(T, 5.0)])]);
}

async fn a_float_beats_a_histogram_in_one_batch(h: Harness) {
    let name = [("__name__", "m")];
    let batch = Batch::new()
        .series(&name)
        .sample(T, 1.0)
        .histogram(T, integer_histogram(1))
        .series(&name)
        .histogram(T, integer_histogram(2))
        .histogram(T + 1, integer_histogram(2));
    write(&*h.store, &batch).await;
    let want = vec![float(T, 1.0), of_histogram(T + 1, &integer_histogram(2))];
    let found = read(&*h.store, &[], TimeRange::new(T, T + 1)).await;
    assert_eq!(found, vec![(labels(&name), want)]);
}

async fn any_order_and_any_age(h: Harness) {
    let name = [("__name__", "m")];
    let day = 86_400_000;
    let times = [T, T - day, T + 3 * day, 0, -5, -1_900_000_000, T - 1, 1_000_000_000_000, T + 1];
    for t in times {
        write(&*h.store, &Batch::new().series(&name).sample(t, t as f64)).await;
    }
    let mut sorted = times;
    sorted.sort();
    let want: Vec<Point> = sorted.iter().map(|t| float(*t, *t as f64)).collect();
    let found = read(&*h.store, &[Matcher::equal("__name__", "m")], TimeRange::ALL).await;
    assert_eq!(found, vec![(labels(&name), want)]);
    let found = read(&*h.store, &[], TimeRange::new(-5, -5)).await;
    assert_eq!(found, vec![(labels(&name), vec![float(-5, -5.0)])]);
}

async fn matchers_of_every_kind(h: Harness) {
    use MatchOp::{Equal, NotEqual, NotRegex, Regex};
    let sets: Vec<Labels> = [
        &[("__name__", "a"), ("job", "x"), ("i", "1")][..],
        &[("__name__", "a"), ("job", "y"), ("i", "2")],
        &[("__name__", "a"), ("job", "y")],
        &[("__name__", "ab"), ("job", "x:y=z"), ("i", "héé\n")],
        &[("__name__", "b"), ("weird.näme 🦀", "v")],
    ]
    .into_iter()
    .map(labels)
    .collect();
    let mut batch = Batch::new();
    for set in &sets {
        batch = batch.labels(set).sample(T, 1.0);
    }
    write(&*h.store, &batch).await;
    type Case = (&'static [(MatchOp, &'static str, &'static str)], &'static [usize]);
    let cases: &[Case] = &[
        (&[], &[0, 1, 2, 3, 4]),
        (&[(Equal, "__name__", "a")], &[0, 1, 2]),
        (&[(NotEqual, "__name__", "a")], &[3, 4]),
        (&[(Equal, "__name__", "a"), (Equal, "job", "y")], &[1, 2]),
        (&[(Equal, "__name__", "a"), (Equal, "i", "")], &[2]),
        (&[(Equal, "__name__", "a"), (NotEqual, "i", "")], &[0, 1]),
        (&[(Equal, "__name__", "a"), (NotEqual, "i", "1")], &[1, 2]),
        (&[(Regex, "__name__", "a|b")], &[0, 1, 2, 4]),
        (&[(Regex, "__name__", "a.*")], &[0, 1, 2, 3]),
        (&[(Regex, "__name__", "a.+")], &[3]),
        (&[(Regex, "__name__", ".*b")], &[3, 4]),
        (&[(NotRegex, "__name__", "a.*")], &[4]),
        (&[(Equal, "job", "x:y=z")], &[3]),
        (&[(Regex, "i", "h..\n")], &[3]),
        (&[(Regex, "i", "h.*")], &[3]),
        (&[(Regex, "i", "1|2|")], &[0, 1, 2, 4]),
        (&[(NotRegex, "i", "1|2|")], &[3]),
        (&[(Equal, "weird.näme 🦀", "v")], &[4]),
        (&[(Equal, "nope", "")], &[0, 1, 2, 3, 4]),
        (&[(Equal, "nope", "x")], &[]),
        (&[(Regex, "job", "[xy]"), (NotEqual, "i", "2")], &[0, 2]),
    ];
    for (matchers, want) in cases {
        let matchers: Vec<Matcher> =
            matchers.iter().map(|(op, name, value)| matcher(*op, name, value)).collect();
        let mut want: Vec<Labels> = want.iter().map(|i| sets[*i].clone()).collect();
        want.sort();
        let found = read(&*h.store, &matchers, TimeRange::new(T, T)).await;
        let found: Vec<Labels> = found.into_iter().map(|(labels, _)| labels).collect();
        assert_eq!(found, want, "select {matchers:?}");
        let query = SeriesQuery {
            matchers: matchers.clone(),
            range: TimeRange::ALL,
            limit: ListSize::UNLIMITED,
        };
        let listed = h.store.series(&query).await.expect("series");
        assert_eq!(listed.items, want, "series {matchers:?}");
    }
}

async fn labels_are_sorted_and_validated(h: Harness) {
    let batch = Batch::new()
        .series(&[("job", "a"), ("__name__", "up"), ("empty", "")])
        .sample(T, 1.0)
        .series(&[("job", "no name")])
        .sample(T, 1.0)
        .series(&[("__name__", "up"), ("job", "a"), ("job", "b")])
        .sample(T, 1.0)
        .series(&[("__name__", "up"), ("job", "a")])
        .sample(T + 1, 2.0);
    let outcome = write(&*h.store, &batch).await;
    assert_eq!((outcome.samples, outcome.rejections.len()), (2, 2));
    let up = labels(&[("__name__", "up"), ("job", "a")]);
    let found = read(&*h.store, &[], TimeRange::new(T, T + 1)).await;
    assert_eq!(found, vec![(up, vec![float(T, 1.0), float(T + 1, 2.0)])]);
}

async fn label_endpoints(h: Harness) {
    let batch = Batch::new()
        .series(&[("__name__", "a"), ("job", "x")])
        .sample(T, 1.0)
        .series(&[("__name__", "b"), ("job", "y"), ("zone", "1")])
        .sample(T, 1.0)
        .series(&[("__name__", "c"), ("job", "y")])
        .sample(T, 1.0);
    write(&*h.store, &batch).await;
    let query = |matchers: Vec<Matcher>, limit| SeriesQuery {
        matchers,
        range: TimeRange::new(T - 1000, T + 1000),
        limit: ListSize::items(limit),
    };
    let s = &h.store;
    let names = s.label_names(&query(vec![], usize::MAX)).await.expect("names");
    assert_eq!((names.items.join(" "), names.truncated), ("__name__ job zone".into(), false));
    let names = s.label_names(&query(vec![], 2)).await.expect("names");
    assert_eq!((names.items.join(" "), names.truncated), ("__name__ job".into(), true));
    // The same limit by bytes.
    let of_bytes = |bytes| {
        let limit = ListSize { items: 9, bytes };
        SeriesQuery { limit, ..query(vec![], 9) }
    };
    let names = s.label_names(&of_bytes(14)).await.expect("names");
    assert_eq!((names.items.join(" "), names.truncated), ("__name__ job".into(), true));
    let names = s.label_names(&of_bytes(15)).await.expect("names");
    assert_eq!((names.items.len(), names.truncated), (3, false));
    let values = s.label_values("__name__", &of_bytes(2)).await.expect("values");
    assert_eq!((values.items.join(" "), values.truncated), ("a b".into(), true));
    let series = s.series(&of_bytes(1)).await.expect("series");
    assert_eq!((series.items.len(), series.truncated), (0, true));
    let names =
        s.label_names(&query(vec![Matcher::equal("job", "x")], usize::MAX)).await.expect("names");
    assert_eq!(names.items.join(" "), "__name__ job");
    let values = s.label_values("__name__", &query(vec![], usize::MAX)).await.expect("values");
    assert_eq!(values.items.join(" "), "a b c");
    let values = s.label_values("job", &query(vec![], 1)).await.expect("values");
    assert_eq!((values.items.join(" "), values.truncated), ("x".into(), true));
    let of_y = vec![Matcher::equal("job", "y")];
    let values = s.label_values("__name__", &query(of_y, usize::MAX)).await.expect("values");
    assert_eq!(values.items.join(" "), "b c");
    let values = s.label_values("zone", &query(vec![], usize::MAX)).await.expect("values");
    assert_eq!(values.items.join(" "), "1");
    let values = s.label_values("nope", &query(vec![], usize::MAX)).await.expect("values");
    assert_eq!(values.items.len(), 0);
    let series = s.series(&query(vec![], 2)).await.expect("series");
    assert_eq!((series.items.len(), series.truncated), (2, true));
    let mut long_ago = query(vec![], usize::MAX);
    long_ago.range = TimeRange::new(0, 1000);
    assert_eq!(s.series(&long_ago).await.expect("series").items, []);
}

async fn ranges_are_closed(h: Harness) {
    let name = [("__name__", "m")];
    let mut batch = Batch::new().series(&name);
    for i in 0..300 {
        batch = batch.sample(T + i * 1000, i as f64);
    }
    write(&*h.store, &batch).await;
    let count = async |start, end| {
        read(&*h.store, &[], TimeRange::new(start, end)).await.first().map_or(0, |(_, p)| p.len())
    };
    assert_eq!(count(T, T + 299_000).await, 300);
    assert_eq!(count(T, T).await, 1);
    assert_eq!(count(T + 1, T + 999).await, 0);
    assert_eq!(count(T + 1000, T + 3000).await, 3);
    assert_eq!(count(T + 299_000, i64::MAX).await, 1);
    assert_eq!(count(i64::MIN, T).await, 1);
    assert_eq!(count(T + 10, T).await, 0);
}

async fn exemplars_are_kept(mut h: Harness) {
    let name = [("__name__", "m"), ("job", "x")];
    let batch = Batch::new()
        .series(&name)
        .sample(T, 1.0)
        .exemplar(T, 0.5, &[("trace_id", "b")])
        .exemplar(T, 0.25, &[("trace_id", "a")])
        .exemplar(T - 1000, 1.5, &[]);
    assert_eq!(write(&*h.store, &batch).await.exemplars, 3);
    assert_eq!(write(&*h.store, &batch).await.exemplars, 3);
    for _ in 0..2 {
        let job = [Matcher::equal("job", "x")];
        let found = h.store.exemplars(&job, TimeRange::ALL, 1 << 20).await.expect("exemplars");
        assert_eq!(found.len(), 1);
        let too_many = h.store.exemplars(&job, TimeRange::ALL, 600).await;
        assert!(matches!(too_many, Err(StoreError::Limit(_))), "{too_many:?}");
        let fewer = h.store.exemplars(&job, TimeRange::new(0, T - 1000), 600).await;
        assert_eq!(fewer.expect("one exemplar").len(), 1);
        let printed: Vec<String> = found[0]
            .1
            .iter()
            .map(|e| format!("{} {} {}", e.timestamp - T, e.labels, e.value))
            .collect();
        let want = ["-1000 {} 1.5", "0 {trace_id=\"a\"} 0.25", "0 {trace_id=\"b\"} 0.5"];
        assert_eq!(printed, want);
        let none = h
            .store
            .exemplars(&[], TimeRange::new(T + 1, T + 5), usize::MAX)
            .await
            .expect("exemplars");
        assert_eq!(none, []);
        let other = [Matcher::equal("job", "y")];
        assert_eq!(
            h.store.exemplars(&other, TimeRange::ALL, usize::MAX).await.expect("exemplars"),
            []
        );
        h.reopen().await;
    }
}

async fn metadata_is_kept(mut h: Harness) {
    let batch = Batch::new()
        .metadata("up", MetricType::Gauge, "Is it up?", "")
        .metadata("t", MetricType::Counter, "", "seconds")
        .metadata("t", MetricType::Counter, "Time \"spent\"\n🦀", "seconds");
    assert_eq!(write(&*h.store, &batch).await.metadata, 3);
    for _ in 0..2 {
        let all = h.store.metadata(None, usize::MAX).await.expect("metadata");
        assert_eq!(all.iter().map(|(name, _)| &name[..]).collect::<Vec<_>>(), ["t", "up"]);
        assert_eq!(all[0].1.help, "Time \"spent\"\n🦀");
        assert_eq!((all[0].1.kind, &all[0].1.unit[..]), (MetricType::Counter, "seconds"));
        let first = h.store.metadata(None, 1).await.expect("metadata");
        assert_eq!(first, all[..1]);
        let one = h.store.metadata(Some("up"), usize::MAX).await.expect("metadata");
        assert_eq!(one, vec![all[1].clone()]);
        assert_eq!(h.store.metadata(Some("nope"), usize::MAX).await.expect("metadata"), []);
        h.reopen().await;
    }
}

async fn a_delete_removes_what_was_there(mut h: Harness) {
    let (a, b) = ([("__name__", "a")], [("__name__", "b")]);
    let mut batch = Batch::new().series(&a);
    for i in 0..10 {
        batch = batch.sample(T + i, i as f64);
    }
    batch = batch.exemplar(T + 4, 1.0, &[("x", "y")]);
    batch = batch.series(&b).sample(T + 4, 1.0);
    write(&*h.store, &batch).await;
    let range = TimeRange::new(T + 3, T + 6);
    h.store.delete(&[Matcher::equal("__name__", "a")], range).await.expect("delete");
    write(&*h.store, &Batch::new().series(&a).sample(T + 5, 50.0)).await;
    for _ in 0..2 {
        let found = read(&*h.store, &[], TimeRange::new(T, T + 100)).await;
        let times: Vec<i64> = found[0].1.iter().map(|p| p.timestamp - T).collect();
        assert_eq!(times, [0, 1, 2, 5, 7, 8, 9]);
        assert_eq!(found[0].1[3], float(T + 5, 50.0));
        assert_eq!(found[1], (labels(&b), vec![float(T + 4, 1.0)]));
        assert_eq!(
            h.store.exemplars(&[], TimeRange::ALL, usize::MAX).await.expect("exemplars"),
            []
        );
        h.reopen().await;
    }
    h.store.delete(&[Matcher::equal("__name__", "a")], TimeRange::ALL).await.expect("delete");
    h.reopen().await;
    let found = read(&*h.store, &[], TimeRange::new(T, T + 100)).await;
    assert_eq!(found, vec![(labels(&b), vec![float(T + 4, 1.0)])]);
    write(&*h.store, &Batch::new().series(&a).sample(T, 7.0)).await;
    let found = read(&*h.store, &[Matcher::equal("__name__", "a")], TimeRange::ALL).await;
    assert_eq!(found, vec![(labels(&a), vec![float(T, 7.0)])]);
}

async fn everything_survives_a_restart(mut h: Harness) {
    let (a, b) = ([("__name__", "a")], [("__name__", "b"), ("x", "1")]);
    let mut batch = Batch::new().series(&a);
    for i in 0..1000 {
        batch = batch.sample(T + i * 15_000, (i * i % 77) as f64);
    }
    batch = batch.series(&b).sample(T, 1.0).histogram(T + 1, integer_histogram(4));
    write(&*h.store, &batch).await;
    let before = read(&*h.store, &[], TimeRange::new(T, i64::MAX)).await;
    assert_eq!((before.len(), before[0].1.len(), before[1].1.len()), (2, 1000, 2));
    h.reopen().await;
    write(&*h.store, &Batch::new().series(&a).sample(T + 7, -1.0)).await;
    h.reopen().await;
    let after = read(&*h.store, &[], TimeRange::new(T, i64::MAX)).await;
    assert_eq!((after[0].1.len(), &after[1]), (1001, &before[1]));
    assert_eq!(after[0].1[1], float(T + 7, -1.0));
}

/// Integers keep their 64 bits beside floats, in any order, over a restart.
async fn integers_are_kept(mut h: Harness) {
    let two53 = 1 << 53;
    let series = || Batch::new().series(&[("__name__", "kept"), ("unit", "bytes")]);
    // In order, late, the same time again in each type, and the ends.
    let first = series().long(T, two53 + 1).sample(T + 1, 0.5).long(T + 2, i64::MIN);
    write(&*h.store, &first.long(T + 3, i64::MAX).long(T + 5, 0)).await;
    write(&*h.store, &series().long(T + 4, -two53 - 1).sample(T + 5, -0.0)).await;
    write(&*h.store, &series().long(T + 1, 7).long(T + 6, two53)).await;
    let (name, all) = (Matcher::equal("__name__", "kept"), TimeRange::new(T, T + 10));
    let want = [
        (T, two53 + 1),
        (T + 1, 7),
        (T + 2, i64::MIN),
        (T + 3, i64::MAX),
        (T + 4, -two53 - 1),
        (T + 6, two53),
    ];
    for _ in 0..2 {
        let found = integers(&*h.store, std::slice::from_ref(&name), all).await;
        assert_eq!(found.iter().map(|(_, longs)| &longs[..]).collect::<Vec<_>>(), [&want[..]]);
        let floats = read(&*h.store, std::slice::from_ref(&name), all).await;
        let nearest = want.iter().map(|(time, long)| float(*time, *long as f64));
        let mut nearest: Vec<Point> = nearest.chain([float(T + 5, -0.0)]).collect();
        nearest.sort_by_key(|point| point.timestamp);
        assert_eq!(floats.into_iter().map(|(_, points)| points).collect::<Vec<_>>(), [nearest]);
        h.reopen().await;
    }
}

/// Random writes, deletes, restarts and reads; every answer is compared with the model's.
async fn random_history(mut h: Harness) {
    let (rounds, steps) = if support::long() { (20, 120) } else { (2, 60) };
    let first = support::seed();
    for round in 0..rounds {
        let seed = first.wrapping_add(round);
        println!("round {round} alone: PROMKAIROS_TEST_SEED={seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let oracle = MemoryStore::new();
        // Each round has its own metric, so that rounds do not affect each other.
        let metric = format!("m{seed:x}");
        for step in 0..steps {
            history_step(&mut rng, &mut h, &oracle, &metric, step).await;
        }
    }
}

async fn history_step(
    rng: &mut StdRng,
    h: &mut Harness,
    oracle: &MemoryStore,
    metric: &str,
    step: usize,
) {
    let name = Matcher::equal("__name__", metric);
    match rng.random_range(0..20) {
        0 => h.reopen().await,
        1 => {
            let matchers = [name, random_matcher(rng)];
            let range = random_range(rng);
            h.store.delete(&matchers, range).await.expect("delete");
            oracle.delete(&matchers, range).await.expect("delete");
        }
        2..=12 => {
            let batch = random_batch(rng, metric, step);
            let got = write(&*h.store, &batch).await;
            assert_eq!(got, write(oracle, &batch).await, "outcome at step {step}");
        }
        _ => {
            let matchers = [name, random_matcher(rng)];
            let range = random_range(rng);
            let want = read(oracle, &matchers, range).await;
            let got = read(&*h.store, &matchers, range).await;
            assert_eq!(got, want, "step {step}: {matchers:?} {range:?}");
            let want = integers(oracle, &matchers, range).await;
            let got = integers(&*h.store, &matchers, range).await;
            assert_eq!(got, want, "integers at step {step}: {matchers:?} {range:?}");
            let want = oracle.exemplars(&matchers, range, usize::MAX).await.expect("exemplars");
            let got = h.store.exemplars(&matchers, range, usize::MAX).await.expect("exemplars");
            assert_eq!(got, want, "exemplars at step {step}: {matchers:?} {range:?}");
        }
    }
}

/// A time near the begin of one of three days, so that writes collide and cross partitions.
fn random_time(rng: &mut StdRng) -> i64 {
    let day = rng.random_range(0..3) * 86_400_000;
    T + day + rng.random_range(0..40) * 1000
}

fn random_range(rng: &mut StdRng) -> TimeRange {
    let (a, b) = (random_time(rng), random_time(rng));
    if rng.random_bool(0.1) { TimeRange::ALL } else { TimeRange::new(a.min(b), a.max(b)) }
}

fn random_matcher(rng: &mut StdRng) -> Matcher {
    let ops = [MatchOp::Equal, MatchOp::NotEqual, MatchOp::Regex, MatchOp::NotRegex];
    let op = ops[rng.random_range(0..4)];
    let values = ["", "0", "1", "2"];
    let patterns = ["", "0|1", ".*", ".+", "[12]", "1.*"];
    match op {
        MatchOp::Equal | MatchOp::NotEqual => matcher(op, "s", values[rng.random_range(0..4)]),
        _ => matcher(op, "s", patterns[rng.random_range(0..6)]),
    }
}

fn random_batch(rng: &mut StdRng, metric: &str, step: usize) -> Batch {
    let mut batch = Batch::new();
    for _ in 0..rng.random_range(1..4) {
        let s = ["", "0", "1", "2"][rng.random_range(0..4)];
        batch = batch.series(&[("__name__", metric), ("s", s)]);
        for i in 0..rng.random_range(1..30) {
            let t = random_time(rng);
            batch = match rng.random_range(0..12) {
                0 => batch.histogram(t, integer_histogram(step as u64)),
                1 => batch.histogram(t, float_histogram(step as u64)),
                2 => batch.histogram(t, custom_histogram(step as u64)),
                3 => batch.sample(t, f64::from_bits(STALE_NAN_BITS)),
                4..=6 => batch.long(t, (1 << 53) + (step * 100 + i) as i64),
                _ => batch.sample(t, (step * 100 + i) as f64),
            };
        }
        if rng.random_bool(0.3) {
            let id = step.to_string();
            batch = batch.exemplar(random_time(rng), step as f64, &[("id", &id)]);
        }
    }
    batch
}
