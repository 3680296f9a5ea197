//! Peak memory of queries over wide data: for every function, aggregation and operator the peak of allocated
//! memory stays within the budget plus a little, or the query is refused with the name of its setting.
//!
//! Another thread samples the allocated memory repeatedly, so a short peak may be missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use promkairos::chunk::encode_points;
use promkairos::model::{Counts, Histogram, Labels, Point, ResetHint, Span, Value};
use promkairos::promql::{
    Aggregator, Engine, Features, Function, QueryError, QueryOptions, Settings, Steps, ValueType,
    parse,
};
use promkairos::storage::memory::MemoryStore;
use promkairos::storage::{Flush, SeriesRun, Store};
use tokio::runtime::Runtime;

use crate::allocations::{COUNTED, alone};

/// Buckets of a histogram: 12 KB in a query.
const BUCKETS: u32 = 1_000;
/// Steps of a query: histograms of 14 MB, if all of them are computed.
const STEPS: Steps = Steps { start: 600_000, end: 4_140_000, interval: 60_000 };
const HISTOGRAM_SERIES: usize = 20;
/// Series with a wide label, and its bytes: 3.3 MB.
const WIDE_SERIES: usize = 400;
const WIDE_BYTES: usize = 8 << 10;
/// Memory budget of a query.
const BUDGET: usize = 4 << 20;
/// Additional memory for text, plan, threads and temporary values.
const SLACK: usize = 4 << 20;

/// Interval of sampling the allocated memory.
const LOOK: Duration = Duration::from_micros(50);

/// Bytes that are allocated.
fn allocated() -> usize {
    let stats = COUNTED.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

fn histogram(minute: i64) -> Value {
    Value::Histogram(Arc::new(Histogram {
        schema: 3,
        zero_threshold: 0.001,
        sum: minute as f64,
        reset_hint: ResetHint::Unknown,
        positive_spans: vec![Span { offset: 0, length: BUCKETS }],
        negative_spans: Vec::new(),
        custom_values: Vec::new(),
        counts: Counts::Integer {
            count: (minute as u64 + 1) * u64::from(BUCKETS),
            zero_count: 0,
            positive: (0..BUCKETS).map(|at| if at == 0 { minute + 1 } else { 0 }).collect(),
            negative: Vec::new(),
        },
    }))
}

async fn store() -> Arc<dyn Store> {
    let run = |pairs: &[(&str, String)], value: &dyn Fn(i64) -> Value| {
        let point = |minute: i64| Point {
            timestamp: minute * 60_000,
            start_timestamp: 0,
            value: value(minute),
        };
        let points: Vec<Point> = (0..70).map(point).collect();
        let labels = Labels::from_pairs(pairs.iter().map(|(n, v)| (*n, v))).unwrap();
        SeriesRun { labels, chunks: encode_points(&points) }
    };
    let name = |name: &str| ("__name__", name.to_owned());
    let mut runs: Vec<SeriesRun> = (0..HISTOGRAM_SERIES)
        .map(|at| run(&[name("h"), ("i", at.to_string())], &histogram))
        .collect();
    runs.extend((0..WIDE_SERIES).map(|at| {
        let pad = format!("{at:04}{}", "p".repeat(WIDE_BYTES));
        run(&[name("w"), ("i", at.to_string()), ("pad", pad)], &|minute| {
            Value::Float((at as i64 + minute) as f64)
        })
    }));
    runs.sort_by(|a, b| a.labels.cmp(&b.labels));
    let (exemplars, metadata, days, pace) = Default::default();
    let runs = Box::new(runs.into_iter());
    let store = MemoryStore::new();
    store.ingest_flush(Flush { through: 0, runs, exemplars, metadata, days, pace }).await.unwrap();
    Arc::new(store)
}

/// A call of every function, over an instant vector and over windows of it.
fn calls(vector: &str) -> Vec<String> {
    let mut calls = Vec::new();
    for function in Function::ALL {
        let signature = function.signature();
        for window in ["[10m]", "[10m:1m]"] {
            let argument = |kind: &ValueType| match kind {
                ValueType::Vector => vector.to_owned(),
                ValueType::Matrix => format!("{vector}{window}"),
                ValueType::Scalar => "0.5".to_owned(),
                _ => "\"pad\"".to_owned(),
            };
            let takes_window = signature.args.contains(&ValueType::Matrix);
            // The optional argument of `info` can only be a selector.
            let count = if function.name() == "info" { 1 } else { signature.args.len() };
            let arguments: Vec<String> = signature.args[..count].iter().map(argument).collect();
            if takes_window || window == "[10m]" {
                calls.push(format!("{function}({})", arguments.join(", ")));
            }
        }
    }
    calls
}

fn queries(vector: &str) -> Vec<String> {
    let mut queries = calls(vector);
    for op in Aggregator::ALL {
        let param = match op {
            Aggregator::CountValues => "\"v\", ",
            Aggregator::TopK | Aggregator::BottomK | Aggregator::LimitK => "1000, ",
            Aggregator::Quantile | Aggregator::LimitRatio => "0.5, ",
            _ => "",
        };
        for grouping in ["", "by (pad)"] {
            queries.push(format!("{} {grouping} ({param}{vector})", op.name()));
        }
    }
    for op in ["+", "*", "==", "</"] {
        queries.push(format!("{vector} {op} {vector}"));
        queries.push(format!("{vector} {op} on (i) group_left (pad) {vector}"));
        queries.push(format!("{vector} {op} 2"));
        queries.push(format!("-({vector} {op} 2)"));
    }
    for op in ["and", "or", "unless"] {
        for matching in ["", "on (pad)"] {
            queries.push(format!("{vector} {op} {matching} {vector}"));
        }
    }
    for more in [
        "sum by (i) (rate(V[10m]))",
        "sum(rate(V[10m])) / 2",
        "histogram_quantile(0.9, sum by (i, le) (rate(V[10m])))",
        "histogram_quantiles(rate(V[10m]), \"pad\", 0.1, 0.5, 0.9)",
        "label_replace(V, \"pad\", \"$1$1\", \"pad\", \"(.*)\")",
        "label_join(V, \"x\", \"-\", \"pad\", \"pad\")",
        "label_replace(V or V, \"x\", \"$1\", \"pad\", \"(.*)\")",
        "sort_by_label(label_replace(V, \"x\", \"$1\", \"pad\", \"(.*)\"), \"pad\")",
        "V @ 3600 * 2",
        "last_over_time((V * 2)[30m:1m])",
        "avg_over_time(sum by (i) (V)[20m:1m])",
        "V smoothed",
        "rate(V[10m] smoothed)",
        "V",
    ] {
        queries.push(more.replace('V', vector));
    }
    queries
}

/// The peak of allocated memory during a query, minus the memory before; and the query's result.
fn peak(engine: &Engine, store: &Arc<dyn Store>, query: &str) -> (usize, Result<(), QueryError>) {
    let expr =
        parse(query, Features::Experimental).unwrap_or_else(|error| panic!("{query}: {error}"));
    let runtime = Runtime::new().unwrap();
    let (before, done) = (allocated(), AtomicBool::new(false));
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Relaxed) {
                most = most.max(allocated());
                thread::park_timeout(LOOK);
            }
            most
        });
        let (options, store) = (QueryOptions::default(), Arc::clone(store));
        let result = runtime.block_on(engine.range(store, &expr, STEPS, &options));
        let most = allocated();
        done.store(true, Relaxed);
        let most = most.max(watch.join().unwrap()).saturating_sub(before);
        (most, result.map(|_| ()))
    })
}

#[test]
fn no_query_takes_more_than_its_budget_and_a_little() {
    let _alone = alone();
    let store = Runtime::new().unwrap().block_on(store());
    let engine = Engine::new(Settings { max_bytes: BUDGET, ..Settings::default() });
    let (mut wrong, mut refused, mut answered) = (Vec::new(), 0, 0);
    for query in ["h", "w"].into_iter().flat_map(queries) {
        let (most, result) = peak(&engine, &store, &query);
        match result {
            Ok(()) => answered += 1,
            Err(QueryError::Limit { setting: "query-max-memory", .. }) => refused += 1,
            // Some functions do not accept histograms, or the same argument twice.
            Err(QueryError::Execution(_)) => {}
            Err(error) => panic!("{query}: {error}"),
        }
        if most > BUDGET + SLACK {
            wrong.push(format!("{query}: {most}"));
        }
    }
    println!("{answered} answered, {refused} refused");
    assert!(answered > 20 && refused > 20, "{answered} answered, {refused} refused");
    assert!(wrong.is_empty(), "more than {}:\n{}", BUDGET + SLACK, wrong.join("\n"));
}
