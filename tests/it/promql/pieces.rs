//! Aggregations that are folded where the points are read: the result is the same as series by series, and has the
//! same bits whatever the number of series that are read at a time.

use std::ops::Range;
use std::sync::Arc;
use std::thread::available_parallelism;

use async_trait::async_trait;
use promkairos::chunk::Chunk;
use promkairos::limits::READ_RUN_BYTES;
use promkairos::model::{Labels, Matcher, Metadata, TimeRange, WriteBatch, WriteOutcome};
use promkairos::promql::{
    Engine, Features, NameRemoval, QueryOptions, QueryResult, QueryValue, Settings, Steps, parse,
};
use promkairos::storage::memory::MemoryStore;
use promkairos::storage::{
    ExemplarList, Flush, FlushOutcome, Forecast, Limited, SelectHints, Selection, SeriesQuery,
    SeriesReader, Stats, Store, StoreError,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::data::add;
use super::script::{self, Command};

/// Folds whose states are merged: sums and means may be rounded differently, the others may not.
const ROUNDED: [&str; 2] = ["sum", "avg"];
const EXACT: [&str; 4] = ["min", "max", "count", "group"];
/// Aggregations that are not folded.
const SERIES_BY_SERIES: [&str; 3] = ["stddev", "stdvar", "quantile"];

/// A script with this number of series. Some begin late, end early or have gaps, and some are histograms.
fn load(random: &mut SmallRng, series: usize, with_histograms: bool) -> String {
    let mut text = "load 15s\n".to_owned();
    for number in 0..series {
        // Sorted by group, as labels often are, then only by the other label.
        let group = number * 6 / series.max(1);
        text += &format!(
            "  m{{a=\"{group}\", b=\"{}\", i=\"{number:04}\"}}",
            random.random_range(0..3)
        );
        let histograms = with_histograms && random.random_ratio(1, 40);
        let mut value: f64 = random.random_range(-1e3..1e3);
        for _ in 0..70 {
            value += random.random_range(-1.0..40.0);
            text += &match random.random_range(0..20) {
                0 => " _".to_owned(),
                1 => " stale".to_owned(),
                2 => [" NaN", " Inf", " -Inf", " 0", " -0"][random.random_range(0..5)].to_owned(),
                _ if histograms => {
                    format!(" {{{{schema:1 count:{} sum:{value} buckets:[1 2]}}}}", 3)
                }
                3..12 => format!(" {value}"),
                _ => format!(" {}", value.round()),
            };
        }
        text.push('\n');
    }
    text
}

async fn store_of(text: &str) -> Arc<dyn Store> {
    let store = MemoryStore::new();
    for command in script::parse(text).expect("a script") {
        if let Command::Load(load) = command {
            add(&store, &load.series).await;
        }
    }
    Arc::new(store)
}

async fn ask(store: &Arc<dyn Store>, query: &str, settings: Settings) -> QueryResult {
    let steps = Steps { start: 0, end: 1_080_000, interval: 60_000 };
    let (engine, options) = (Engine::new(settings), QueryOptions::default());
    let expr = parse(query, Features::Experimental).expect(query);
    engine.range(Arc::clone(store), &expr, steps, &options).await.expect(query)
}

/// Labels, times and the bits of floats; histograms in their debug format.
fn shown(value: &QueryValue) -> Vec<String> {
    let QueryValue::Matrix(series) = value else { panic!("{value:?}") };
    let one = |series: &promkairos::promql::SeriesPoints| {
        let floats: Vec<_> = series.floats.iter().map(|(at, v)| (at, v.to_bits())).collect();
        format!("{:?} {floats:?} {:?}", series.labels, series.histograms)
    };
    series.iter().map(one).collect()
}

/// The annotations without their places in the query.
fn notes(result: &QueryResult) -> String {
    let places = regex::Regex::new("Span [{][^}]*[}]").expect("valid");
    places.replace_all(&format!("{:?}", result.annotations), "").into_owned()
}

/// Asserts that series, times and annotations are equal, and floats except for their last bits.
fn assert_near(one: &QueryResult, other: &QueryResult, what: &str) {
    let (QueryValue::Matrix(a), QueryValue::Matrix(b)) = (&one.value, &other.value) else {
        panic!("{what}")
    };
    assert_eq!(a.len(), b.len(), "{what}");
    for (a, b) in a.iter().zip(b) {
        assert_eq!((&a.labels, a.floats.len()), (&b.labels, b.floats.len()), "{what}");
        assert_eq!(format!("{:?}", a.histograms), format!("{:?}", b.histograms), "{what}");
        for ((at, a), (time, b)) in a.floats.iter().zip(&b.floats) {
            let near = a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= b.abs() * 1e-14;
            assert!(at == time && near, "{what}: {a} and {b} at {at}");
        }
    }
    assert_eq!(notes(one), notes(other), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_are_folded_as_series_by_series() {
    let seed: u64 = rand::random();
    let mut random = SmallRng::seed_from_u64(seed);
    for (series, with_histograms) in
        [(5, false), (17, true), (48, false), (300, false), (300, true)]
    {
        let store = store_of(&load(&mut random, series, with_histograms)).await;
        let short: Arc<dyn Store> = Arc::new(ShortRuns(Arc::clone(&store)));
        for op in ROUNDED.iter().chain(&EXACT).chain(&SERIES_BY_SERIES) {
            let param = if *op == "quantile" { "0.3, " } else { "" };
            for by in ["", "by (a)", "by (b)", "by (a, b)", "without (i)", "without (a)"] {
                for vector in ["m", "rate(m[1m])"] {
                    let what = format!("seed {seed}, {series} series: {op} {by} ({vector})");
                    let query = format!("{op} {by} ({param}{vector})");
                    let folded = ask(&store, &query, Settings::default()).await;
                    let cut = ask(&short, &query, Settings::default()).await;
                    assert_eq!(shown(&folded.value), shown(&cut.value), "{what}");
                    let name_removal = NameRemoval::Delayed;
                    let delayed = Settings { name_removal, ..Settings::default() };
                    let delayed = ask(&store, &query, delayed).await;
                    assert_eq!(shown(&folded.value), shown(&delayed.value), "{what}");
                    // Aggregations over computed values are not folded.
                    let query = format!("{op} {by} ({param}({vector}) * 1)");
                    let by_series = ask(&store, &query, Settings::default()).await;
                    if ROUNDED.contains(op) {
                        assert_near(&folded, &by_series, &what);
                    } else {
                        assert_eq!(shown(&folded.value), shown(&by_series.value), "{what}");
                    }
                }
            }
        }
    }
}

/// The most bytes of the floats of a run.
const RUN_BYTES: usize = 8 << 18;
/// Bytes that the operators hold for each step: selector, sum, subquery and its window.
const STEP_BYTES: usize = 64;

#[tokio::test(flavor = "multi_thread")]
async fn a_sum_at_very_many_steps_holds_few_series() {
    // A run has four series at this number of steps. One run more than there are cores is under way.
    let (steps, runs) = (60_000, available_parallelism().map_or(1, usize::from) + 1);
    let series: Vec<String> =
        (0..20 * runs).map(|i| format!("  m{{i=\"{i}\"}} 1+1x10\n")).collect();
    let store = store_of(&format!("load 15s\n{}", series.concat())).await;
    let query = format!("max_over_time(sum(m)[{steps}s:1s])");
    let max_bytes = runs * RUN_BYTES + steps * STEP_BYTES;
    assert!(2 * max_bytes < series.len() * steps * size_of::<f64>(), "all series are far more");
    let engine = Engine::new(Settings { max_bytes, ..Settings::default() });
    let expr = parse(&query, Features::Experimental).expect("a query");
    let (store, options) = (Arc::clone(&store), QueryOptions::default());
    let result = engine.instant(store, &expr, 150_000, &options).await.expect("within the limit");
    let QueryValue::Vector(samples) = result.value else { panic!("{:?}", result.value) };
    assert_eq!(samples[0].value.float(), Some(11.0 * series.len() as f64));
}

/// A store that reports a large size for each series, so that a query reads a few at a time.
struct ShortRuns(Arc<dyn Store>);

struct ShortReader(Box<dyn SeriesReader>);

#[async_trait]
impl SeriesReader for ShortReader {
    async fn read(&self, series: Range<usize>) -> Result<Vec<Vec<Chunk>>, StoreError> {
        self.0.read(series).await
    }

    async fn forecast(&self, range: TimeRange) -> Result<Forecast, StoreError> {
        self.0.forecast(range).await
    }

    /// Gives runs of some two to twelve series, with any end.
    fn expected_bytes(&self, series: usize) -> Option<usize> {
        Some(READ_RUN_BYTES / (2 + series * 7 % 11))
    }
}

#[async_trait]
impl Store for ShortRuns {
    async fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        hints: &SelectHints,
    ) -> Result<Selection, StoreError> {
        let Selection { series, reader } = self.0.select(matchers, range, hints).await?;
        Ok(Selection { series, reader: Box::new(ShortReader(reader)) })
    }

    async fn write(&self, batch: WriteBatch<'_>) -> Result<WriteOutcome, StoreError> {
        self.0.write(batch).await
    }

    async fn series(&self, query: &SeriesQuery) -> Result<Limited<Labels>, StoreError> {
        self.0.series(query).await
    }

    async fn label_names(&self, query: &SeriesQuery) -> Result<Limited<String>, StoreError> {
        self.0.label_names(query).await
    }

    async fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
    ) -> Result<Limited<String>, StoreError> {
        self.0.label_values(name, query).await
    }

    async fn exemplars(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        max_bytes: usize,
    ) -> Result<ExemplarList, StoreError> {
        self.0.exemplars(matchers, range, max_bytes).await
    }

    async fn metadata(
        &self,
        family: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Metadata)>, StoreError> {
        self.0.metadata(family, limit).await
    }

    async fn delete(&self, matchers: &[Matcher], range: TimeRange) -> Result<(), StoreError> {
        self.0.delete(matchers, range).await
    }

    async fn ingest_flush(&self, flush: Flush<'_>) -> Result<FlushOutcome, StoreError> {
        self.0.ingest_flush(flush).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.0.ready().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.0.close().await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.0.stats().await
    }
}
