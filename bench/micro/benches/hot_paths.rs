//! Times decoding a body; finding its series; the log; chunks as they grow; all of these together;
//! replaying the log; decoding chunks; finding series by labels; windows of `rate` and folds.
//! `cargo bench -p micro` times them, and compares with the previous run. `cargo test -p micro`
//! runs each once, on less data, so that none stops working unnoticed.
//!
//! Windows and folds are timed as queries over a head, whose chunks are in memory, and over part
//! files, whose chunks are read and unpacked; the pages of the files are in the page cache.

#![allow(missing_docs, reason = "criterion's macros make functions without")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use micro::{BEGIN, SCRAPE, SERIES, Unsynced, body, chunks, labels_of_many, value};
use promkairos::chunk::{Appended, Chunk, Floats, OpenChunk, pack};
use promkairos::model::{Body, Labels, MatchOp, Matcher, Protocol};
use promkairos::promql::{Engine, Features, QueryOptions, QueryValue, Settings, Steps, parse};
use promkairos::storage::embedded::{self, Parts};
use promkairos::storage::head::wal::{self, Mark, Record, WalOptions};
use promkairos::storage::head::{Head, Options};
use promkairos::storage::index::{MemoryIndex, evaluate};
use promkairos::storage::memory::MemoryStore;
use promkairos::storage::{SharedStore, Store};
use promkairos::telemetry::{HeadMetrics, StoreMetrics};
use promkairos::wire::{self, Policy, Scratch};
use tokio::runtime::Runtime;

/// Samples of a series in the chunks that are decoded: an hour.
const HOUR: i64 = 240;
const PROTOCOLS: [(&str, Protocol); 2] =
    [("remote write 1.0", Protocol::V1), ("remote write 2.0", Protocol::V2)];

/// The first number if the benchmark is timed, the second if it is only run.
fn when_timed<T>(many: T, few: T) -> T {
    if std::env::args().any(|argument| argument == "--bench") { many } else { few }
}

fn series() -> Vec<u32> {
    (0..SERIES).collect()
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    group.throughput(Throughput::Elements(SERIES.into()));
    for (name, protocol) in PROTOCOLS {
        let (block, mut scratch) = (body(protocol, &series(), 0), Scratch::default());
        group.bench_function(format!("{name}, 2,000 samples"), |bencher| {
            bencher.iter(|| {
                let body = Body { protocol, compressed: &block };
                let batch = wire::decode(body, &mut scratch, Policy::Accept).expect("a good body");
                black_box(batch.samples.len())
            });
        });
    }
    group.finish();
}

async fn write(store: &dyn Store, protocol: Protocol, block: &[u8], scratch: &mut Scratch) {
    let body = Body { protocol, compressed: block };
    let batch = wire::decode(body, scratch, Policy::Accept).expect("a good body");
    store.write(batch).await.expect("taken");
}

fn options(dir: &std::path::Path) -> Options {
    let interval = Duration::from_secs(1 << 20);
    Options { flush_interval: interval, disk: Arc::new(Unsynced), ..Options::new(dir) }
}

async fn open(dir: &std::path::Path) -> Head {
    let below: SharedStore = Arc::new(MemoryStore::new());
    Head::open(options(dir), below, HeadMetrics::default()).await.expect("it opens")
}

/// A head with a closed log still finds the series of a request, and then refuses it: no other
/// thread takes part, and nothing is stored.
fn look_up(criterion: &mut Criterion) {
    let (runtime, dir) =
        (Runtime::new().expect("a runtime"), tempfile::tempdir().expect("a folder"));
    let head = runtime.block_on(open(dir.path()));
    // The second order has another successor for each series than the first.
    let another: Vec<u32> = (0..SERIES).map(|at| at * 7 % SERIES).collect();
    let orders = [series(), another];
    let blocks = orders.map(|order| body(Protocol::V1, &order, 0));
    runtime.block_on(write(&head, Protocol::V1, &blocks[0], &mut Scratch::default()));
    runtime.block_on(head.close()).expect("closed");
    let mut scratches = [Scratch::default(), Scratch::default()];
    let bodies = blocks.each_ref().map(|block| Body { protocol: Protocol::V1, compressed: block });
    let mut decoded = bodies
        .iter()
        .zip(&mut scratches)
        .map(|(body, scratch)| wire::decode(*body, scratch, Policy::Accept).expect("a good body"));
    let [same, other] = [decoded.next(), decoded.next()].map(|batch| batch.expect("two"));
    let mut group = criterion.benchmark_group("look-up");
    group.throughput(Throughput::Elements(SERIES.into()));
    let refused = |batch| runtime.block_on(head.write(batch)).expect_err("closed");
    group.bench_function("2,000 known series in the order of the request before", |bencher| {
        bencher.iter_batched(|| same.clone(), refused, BatchSize::PerIteration);
    });
    let mut turn = false;
    group.bench_function("2,000 known series in another order", |bencher| {
        let next = || {
            turn = !turn;
            if turn { other.clone() } else { same.clone() }
        };
        bencher.iter_batched(next, refused, BatchSize::PerIteration);
    });
    group.finish();
}

fn log(criterion: &mut Criterion) {
    let (runtime, dir) =
        (Runtime::new().expect("a runtime"), tempfile::tempdir().expect("a folder"));
    let (dir, disk) = (dir.path().to_owned(), Arc::new(Unsynced));
    let options = WalOptions { dir, mark: Mark::None, segment_bytes: 16 << 20, disk };
    let log = wal::open(options, HeadMetrics::default(), 0, &mut |_| Ok(())).expect("it opens");
    let (protocol, block) = (Protocol::V1, body(Protocol::V1, &series(), 0));
    let mut group = criterion.benchmark_group("log");
    group.throughput(Throughput::Bytes(block.len() as u64));
    group.bench_function("append a body of 2,000 samples", |bencher| {
        // The folder must not grow without limit.
        let forget = || {
            let last = log.last();
            if last.is_multiple_of(256) {
                log.forget(last).expect("removed");
            }
        };
        let append = |()| {
            runtime.block_on(async {
                let room = log.admit(block.len()).await;
                let record = Record::Write { protocol, rejected: Vec::new(), body: &block };
                let commit = log.append(room, BEGIN, record).expect("taken");
                drop(commit.wait().await.expect("written"));
            });
        };
        bencher.iter_batched(forget, append, BatchSize::PerIteration);
    });
    group.finish();
}

fn append(criterion: &mut Criterion) {
    let values = |scrape: i64| -> Vec<f64> { series().iter().map(|n| value(*n, scrape)).collect() };
    let open = |value: &f64| OpenChunk::with_float(BEGIN, 0, *value, 0);
    let mut chunks: Vec<OpenChunk> = values(0).iter().map(open).collect();
    let mut group = criterion.benchmark_group("append");
    group.throughput(Throughput::Elements(SERIES.into()));
    group.bench_function("a sample to each of 2,000 chunks", |bencher| {
        let mut scrape = 0;
        let next = || {
            scrape += 1;
            (BEGIN + scrape * SCRAPE, values(scrape))
        };
        let append = |(timestamp, values): (i64, Vec<f64>)| {
            for (chunk, value) in chunks.iter_mut().zip(values) {
                if chunk.append_float(timestamp, 0, value, 0) != Appended::Yes {
                    black_box(chunk.to_chunk());
                    *chunk = OpenChunk::with_float(timestamp, 0, value, 0);
                }
            }
        };
        bencher.iter_batched(next, append, BatchSize::PerIteration);
    });
    group.finish();
}

fn head(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut group = criterion.benchmark_group("head");
    group.throughput(Throughput::Elements(SERIES.into()));
    for (name, protocol) in PROTOCOLS {
        let (dir, mut scratch) = (tempfile::tempdir().expect("a folder"), Scratch::default());
        let head = runtime.block_on(open(dir.path()));
        let mut scrape = 0;
        let mut next = || {
            scrape += 1;
            body(protocol, &series(), scrape)
        };
        let what = format!("decode, log and append 2,000 samples of known series, {name}");
        group.bench_function(what, |bencher| {
            let write =
                |block: Vec<u8>| runtime.block_on(write(&head, protocol, &block, &mut scratch));
            bencher.iter_batched(&mut next, write, BatchSize::PerIteration);
        });
    }

    let logged = tempfile::tempdir().expect("a folder");
    let head = runtime.block_on(open(logged.path()));
    for scrape in 0..50 {
        let block = body(Protocol::V1, &series(), scrape);
        runtime.block_on(write(&head, Protocol::V1, &block, &mut Scratch::default()));
    }
    group.throughput(Throughput::Elements(50 * u64::from(SERIES)));
    group.bench_function("read 50 bodies back from the log", |bencher| {
        let copied = || {
            let copy = tempfile::tempdir().expect("a folder");
            for file in std::fs::read_dir(logged.path()).expect("a folder") {
                let file = file.expect("a file");
                std::fs::copy(file.path(), copy.path().join(file.file_name())).expect("copied");
            }
            copy
        };
        // Drop the head before its folder.
        let read = |copy: tempfile::TempDir| (runtime.block_on(open(copy.path())), copy);
        bencher.iter_batched(copied, read, BatchSize::PerIteration);
    });
    group.finish();
}

fn sum(chunks: &[Chunk]) -> f64 {
    let mut sum = 0.0;
    for chunk in chunks {
        chunk.visit_floats(|_, value| sum += value).expect("a good chunk");
    }
    sum
}

fn chunk(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("chunk");
    for (kind, number) in [("counter", 0), ("gauge", 1), ("constant", 2)] {
        let chunks = chunks(number, HOUR);
        group.throughput(Throughput::Elements(HOUR as u64));
        group.bench_function(format!("decode XOR, {kind}"), |bencher| {
            bencher.iter(|| sum(black_box(&chunks)));
        });
        let floats = Floats::of(&chunks).expect("good chunks");
        let packed = [pack(&floats, 0..HOUR as usize).expect("decimal numbers")];
        group.bench_function(format!("decode packed, {kind}"), |bencher| {
            bencher.iter(|| sum(black_box(&packed)));
        });
        group.bench_function(format!("pack, {kind}"), |bencher| {
            bencher.iter(|| pack(black_box(&floats), 0..HOUR as usize));
        });
    }
    group.finish();
}

fn index(criterion: &mut Criterion) {
    let all = when_timed(1_000_000, 8_000);
    let sets: Vec<Labels> = (0..all).map(labels_of_many).collect();
    let mut index = MemoryIndex::default();
    (0..).zip(&sets).for_each(|(id, set)| index.add(id, set.as_ref()));
    let mut group = criterion.benchmark_group("index");
    group.sample_size(20);
    let matcher = |op, name, value| Matcher::new(op, name, value).expect("a valid pattern");
    let middle = format!("metric_{:05}_total", all / 400 / 2);
    let metric = || matcher(MatchOp::Equal, "__name__", &middle);
    let cluster = || matcher(MatchOp::Equal, "cluster", "cluster-3");
    let names = matcher(MatchOp::Regex, "__name__", ".*_0.*3.*_total");
    for (name, matchers) in [
        ("equal matchers, 1 M series", vec![cluster(), metric()]),
        (
            "regex on 200 k values, 400 series left",
            vec![matcher(MatchOp::Regex, "instance", "10.*7:9100|x.*"), metric()],
        ),
        (
            "regex not on 200 k values, 400 series left",
            vec![matcher(MatchOp::NotRegex, "instance", ".*[13579]:9100"), metric()],
        ),
        ("regex on 2,500 names, 143 k series left", vec![names, cluster()]),
    ] {
        let index = index.with_values(|id, name| sets[id as usize].get(name));
        group.bench_function(name, |bencher| {
            bencher.iter(|| evaluate(&index, black_box(&matchers)).expect("no I/O"));
        });
    }
    group.bench_function("names of 2,500 metrics", |bencher| {
        bencher.iter(|| black_box(&index).values("__name__", None).len());
    });
    group.finish();
}

fn query(criterion: &mut Criterion) {
    let (runtime, dir) =
        (Runtime::new().expect("a runtime"), tempfile::tempdir().expect("a folder"));
    let head = Arc::new(runtime.block_on(open(&dir.path().join("head"))));
    let maintained = embedded::Options { maintenance: None, ..embedded::Options::default() };
    let parts = Parts::open(&dir.path().join("parts"), maintained, StoreMetrics::default());
    let parts: SharedStore = Arc::new(parts.expect("it opens"));
    let above = options(&dir.path().join("above"));
    let above = runtime.block_on(Head::open(above, parts.clone(), HeadMetrics::default()));
    let above = above.expect("it opens");
    let scrapes = when_timed(HOUR, 24);
    for scrape in 0..scrapes {
        let block = body(Protocol::V1, &series(), scrape);
        for store in [&*head, &above] {
            runtime.block_on(write(store, Protocol::V1, &block, &mut Scratch::default()));
        }
    }
    runtime.block_on(above.flush()).expect("flushed");
    drop(above);
    let engine = Engine::new(Settings::default());
    let end = BEGIN + (scrapes - 1) * SCRAPE;
    let mut group = criterion.benchmark_group("query");
    group.sample_size(20).throughput(Throughput::Elements(scrapes as u64 * u64::from(SERIES)));
    let stores: [(&str, SharedStore); 2] = [("", head), (", part files", parts)];
    for (name, text, interval) in [
        ("evenly spaced rates", "sum(rate({job=\"node\"}[1m]))", SCRAPE),
        ("rates", "sum(rate({job=\"node\"}[1m]))", SCRAPE + 1),
        ("fold", "sum by (cluster) ({job=\"node\"})", SCRAPE),
    ] {
        let expr = parse(text, Features::Stable).expect("a query");
        let steps = Steps { start: BEGIN, end, interval };
        for (place, store) in &stores {
            let ask = || {
                let (store, options) = (store.clone(), QueryOptions::default());
                runtime.block_on(engine.range(store, &expr, steps, &options)).expect("an answer")
            };
            assert!(matches!(ask().value, QueryValue::Matrix(series) if !series.is_empty()));
            group.bench_function(format!("{name}{place}"), |bencher| bencher.iter(ask));
        }
    }
    group.finish();
}

criterion_group!(hot_paths, decode, look_up, log, append, head, chunk, index, query);
criterion_main!(hot_paths);
