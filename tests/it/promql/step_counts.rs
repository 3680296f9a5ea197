//! The number of samples that each step of a query sees, and that are read for it, as in Prometheus 3.16. Counting in
//! all or by step gives the same sums.
//!
//! Numbers over `DATA` are expected by Prometheus' own tests, or follow from its rules as the
//! comment beside them explains.

use std::sync::Arc;

use promkairos::promql::{Counting, Engine, Features, QueryOptions, Settings, Steps, parse};
use promkairos::storage::Store;
use promkairos::storage::memory::MemoryStore;

use super::data::{add, counters};
use super::script::{self, Command};

/// A histogram here counts for 13 samples.
const DATA: &str = r#"
load 10s
  one 1+1x100
  three{a="1",b="1"} 1+1x100
  three{a="2",b="2"} 1+1x100
  three{a="3",b="2"} 1+1x100
  native {{schema:1 count:5 sum:20 buckets:[1 2 1 1]}}+{{schema:1 count:10 sum:5 buckets:[1 2 3 4]}}x100
"#;

/// A query, its start, end and step in seconds, and the samples that each step sees and reads.
type Case = (&'static str, [i64; 3], &'static [u64], &'static [u64]);

const INSTANT: &[Case] = &[
    ("\"text\"", [21, 21, 0], &[0], &[0]),
    ("1", [21, 21, 0], &[0], &[0]),
    ("one", [21, 21, 0], &[1], &[1]),
    ("native", [21, 21, 0], &[13], &[13]),
    ("timestamp(native)", [21, 21, 0], &[1], &[1]),
    // Without the buckets, which the query does not use.
    ("histogram_sum(native)", [21, 21, 0], &[11], &[11]),
    ("native[60s]", [201, 201, 0], &[78], &[78]),
    ("one[60s] @ 30", [201, 201, 0], &[4], &[4]),
    ("max_over_time(one[61s])[20s:5s]", [201, 201, 0], &[26], &[8]),
    ("one[60s:5s] offset 10s", [201, 201, 0], &[12], &[12]),
    ("max_over_time(one[30s:2m])", [240, 240, 0], &[1], &[1]),
    ("sum_over_time(three[1m:10s] @ 200 offset 1m)", [300, 300, 0], &[18], &[18]),
    ("rate(sum_over_time(one[30s])[1m:30s])", [240, 240, 0], &[6], &[6]),
    (
        "sum_over_time(max_over_time(three[60s] @ 300)[5m:1m] @ 600)[10m:2m]",
        [800, 800, 0],
        &[450],
        &[18],
    ),
];

const RANGE: &[Case] = &[
    ("1", [201, 220, 5], &[0; 4], &[0; 4]),
    ("three", [201, 220, 5], &[3; 4], &[3; 4]),
    ("native", [204, 223, 5], &[13; 4], &[13; 4]),
    ("timestamp(native)", [201, 220, 5], &[1; 4], &[1; 4]),
    ("max_over_time(three{a=\"1\"}[10s])", [991, 1021, 10], &[1, 1, 0, 0], &[1, 1, 0, 0]),
    ("max_over_time(three[60s])", [201, 220, 5], &[18; 4], &[18, 0, 3, 0]),
    ("histogram_count(rate(native[20s]))", [201, 221, 10], &[22; 3], &[22, 11, 11]),
    // The same samples at all steps: read once, seen at each.
    ("max_over_time(three[60s] @ 30)", [201, 220, 5], &[12; 4], &[12, 0, 0, 0]),
    ("sum(three) + sum(three @ 100)", [201, 221, 10], &[6; 3], &[6, 3, 3]),
    // The window is the same at all steps, but its evaluation is not.
    ("predict_linear(one[60s] @ 100, 60)", [100, 300, 100], &[6; 3], &[6, 0, 0]),
    ("predict_linear(one[60s:10s] @ 100, 60)", [100, 300, 100], &[6; 3], &[6, 0, 0]),
    // Each step sees the inner steps in its window; each is read for the first step that sees it.
    ("max_over_time(three[60s:5s])", [201, 220, 5], &[36; 4], &[36, 3, 3, 3]),
    ("max_over_time(one[20s:10s])", [201, 261, 10], &[2; 7], &[2, 1, 1, 1, 1, 1, 1]),
    ("avg_over_time(native[2m:1m])", [120, 240, 60], &[26; 3], &[26, 13, 13]),
    ("max_over_time(three[60s:10s])", [200, 400, 30], &[18; 7], &[18, 9, 9, 9, 9, 9, 9]),
    // Inner steps between two windows are not read.
    ("max_over_time(one[30s:10s])", [201, 261, 60], &[3; 2], &[3; 2]),
    // At 170 and 180 for the first step, at 190 and 200 for the second, at 210 and 220 for the third.
    ("sum_over_time(one[20s:10s] offset 15s)", [200, 240, 20], &[2; 3], &[2; 3]),
    // Evaluated at 150, the first inner step, and seen at six inner steps in each window.
    ("sum_over_time(sum(three @ 100)[1m:10s])", [200, 300, 50], &[18; 3], &[3, 0, 0]),
    // Each of the inner steps 160, 180 … 320 reads two; 220, 240 and 260 are in no window.
    ("sum_over_time(max_over_time(one[20s:10s])[1m:20s])", [200, 320, 120], &[6; 2], &[6; 2]),
];

/// The samples that each step sees and reads; panics when their sums differ from the totals.
async fn count(
    store: &Arc<dyn Store>,
    (query, [start, end, interval], ..): Case,
) -> (Vec<u64>, Vec<u64>) {
    let expr = parse(query, Features::Experimental).expect(query);
    let engine = Engine::new(Settings::default());
    let ask = async |counting| {
        let options = QueryOptions { counting, ..QueryOptions::default() };
        let store = Arc::clone(store);
        let steps = Steps { start: start * 1000, end: end * 1000, interval: interval * 1000 };
        let result = match interval {
            0 => engine.instant(store, &expr, steps.start, &options).await,
            _ => engine.range(store, &expr, steps, &options).await,
        };
        let stats = result.expect(query).stats;
        ([stats.total_queryable_samples, stats.samples_read], stats.by_step)
    };
    let (totals, none) = ask(Counting::Total).await;
    assert_eq!(none, None, "{query}");
    let (same, by_step) = ask(Counting::ByStep).await;
    let by_step = by_step.expect("asked for");
    let sums = [by_step.queryable.iter().sum(), by_step.read.iter().sum()];
    assert_eq!((totals, same), (sums, sums), "{query}");
    assert_eq!(by_step.steps.start, start * 1000);
    (by_step.queryable, by_step.read)
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_count_as_in_prometheus() {
    let store = Arc::new(MemoryStore::new());
    for command in script::parse(DATA).expect("a script") {
        if let Command::Load(load) = command {
            add(&store, &load.series).await;
        }
    }
    let store: Arc<dyn Store> = store;
    for case in INSTANT.iter().chain(RANGE) {
        let (queryable, read) = count(&store, *case).await;
        assert_eq!((&queryable[..], &read[..]), (case.2, case.3), "{}", case.0);
    }
}

/// Each selector counts the series that it reads, whether or not another reads them too.
#[tokio::test(flavor = "multi_thread")]
async fn series_are_counted_for_each_selector() {
    let store = Arc::new(MemoryStore::new());
    let data = "load 10s\n  m{job=\"a\",instance=\"1\"} 1x9\n  m{job=\"a\",instance=\"2\"} 1x9\n  \
                target_info{job=\"a\",instance=\"1\",v=\"2\"} 1x9\n  \
                target_info{job=\"b\",instance=\"1\",v=\"2\"} 1x9";
    for command in script::parse(data).expect("a script") {
        if let Command::Load(load) = command {
            add(&store, &load.series).await;
        }
    }
    for (query, series) in [
        ("1", 0),
        ("m", 2),
        ("m + m", 4),
        ("sum(m) + sum(rate(m{instance=\"1\"}[1m]))", 3),
        ("m @ 60 or max_over_time(m[1m:10s])", 4),
        ("limitk(0, m)", 2),
        // Only series that may describe one of them are read.
        ("info(m)", 3),
        ("info(m{instance=\"2\"})", 1),
        ("info(sum(m))", 2),
    ] {
        let expr = parse(query, Features::Experimental).expect(query);
        let (engine, options) = (Engine::new(Settings::default()), QueryOptions::default());
        let store: Arc<dyn Store> = Arc::clone(&store) as _;
        let result = engine.instant(store, &expr, 60_000, &options).await.expect(query);
        assert_eq!(result.stats.series_touched, series, "{query}");
        assert_eq!(options.cost.series_touched(), series, "{query}");
    }
}

/// Samples of series that several threads evaluate are counted as if one thread had.
#[tokio::test(flavor = "multi_thread")]
async fn steps_of_many_series_come_together() {
    let store = counters(300, 41).await;
    let (queryable, read) = count(&store, ("m", [0, 600, 15], &[], &[])).await;
    assert_eq!((queryable, read), (vec![300; 41], vec![300; 41]));
    let (queryable, read) = count(&store, ("sum(rate(m[1m]))", [0, 600, 15], &[], &[])).await;
    let seen: Vec<u64> = (1..=41).map(|points: u64| points.min(4) * 300).collect();
    assert_eq!((queryable, read), (seen, vec![300; 41]));
}
