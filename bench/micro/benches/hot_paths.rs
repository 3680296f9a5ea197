//! Decoding a body; finding its series and appending to them; reading the log back; decoding chunks; windows of
//! `rate` and folds. `cargo bench -p micro` times them, and compares with the run before.

#![allow(missing_docs, reason = "criterion's macros make functions without")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use micro::{BEGIN, SCRAPE, SERIES, Unsynced, body, chunks};
use promkairos::chunk::{Chunk, Floats, pack};
use promkairos::model::{Body, Protocol};
use promkairos::promql::{Engine, Features, QueryOptions, Settings, Steps, parse};
use promkairos::storage::head::{Head, Options};
use promkairos::storage::memory::MemoryStore;
use promkairos::storage::{SharedStore, Store};
use promkairos::telemetry::HeadMetrics;
use promkairos::wire::{self, Policy, Scratch};
use tokio::runtime::Runtime;

/// Scrapes of an hour.
const HOUR: i64 = 240;

fn decode(criterion: &mut Criterion) {
    let (block, mut scratch) = (body(0), Scratch::default());
    let mut group = criterion.benchmark_group("decode");
    group.throughput(Throughput::Elements(SERIES.into()));
    group.bench_function("remote write 1.0, 2,000 samples", |bencher| {
        bencher.iter(|| {
            let body = Body { protocol: Protocol::V1, compressed: &block };
            let batch = wire::decode(body, &mut scratch, Policy::Accept).expect("a good body");
            black_box(batch.samples.len())
        });
    });
    group.finish();
}

async fn write(store: &dyn Store, block: &[u8], scratch: &mut Scratch) {
    let body = Body { protocol: Protocol::V1, compressed: block };
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

fn head(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut group = criterion.benchmark_group("head");
    group.throughput(Throughput::Elements(SERIES.into()));
    let (dir, mut scratch) = (tempfile::tempdir().expect("a folder"), Scratch::default());
    let head = runtime.block_on(open(dir.path()));
    let mut scrape = 0;
    let mut next = || {
        scrape += 1;
        body(scrape)
    };
    group.bench_function("decode, log and append 2,000 samples of known series", |bencher| {
        let write = |block: Vec<u8>| runtime.block_on(write(&head, &block, &mut scratch));
        bencher.iter_batched(&mut next, write, BatchSize::PerIteration);
    });
    drop(head);

    let logged = tempfile::tempdir().expect("a folder");
    let head = runtime.block_on(open(logged.path()));
    for scrape in 0..50 {
        runtime.block_on(write(&head, &body(scrape), &mut Scratch::default()));
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
        // The head goes before its folder.
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
    for (kind, number) in [("counter", 0), ("gauge", 1)] {
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

fn query(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let store = Arc::new(MemoryStore::new());
    for scrape in 0..HOUR {
        runtime.block_on(write(&*store, &body(scrape), &mut Scratch::default()));
    }
    let engine = Engine::new(Settings::default());
    let end = BEGIN + (HOUR - 1) * SCRAPE;
    let mut group = criterion.benchmark_group("query");
    group.sample_size(20).throughput(Throughput::Elements(HOUR as u64 * u64::from(SERIES)));
    for (name, text, interval) in [
        ("evenly spaced rates", "sum(rate(http_server_requests_total[1m]))", SCRAPE),
        ("rates", "sum(rate(http_server_requests_total[1m]))", SCRAPE + 1),
        ("fold", "sum by (cluster) (http_server_requests_total)", SCRAPE),
    ] {
        let expr = parse(text, Features::Stable).expect("a query");
        let steps = Steps { start: BEGIN, end, interval };
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let (store, options) = (store.clone(), QueryOptions::default());
                runtime.block_on(engine.range(store, &expr, steps, &options)).expect("an answer")
            });
        });
    }
    group.finish();
}

criterion_group!(hot_paths, decode, head, chunk, query);
criterion_main!(hot_paths);
