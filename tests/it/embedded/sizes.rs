//! Tests: data of any size can be flushed, merged and read.
//!
//! Blocks, rows and the memory of a flush are cut after few bytes here. So small data exceeds every size many times,
//! as labels and histograms at their limits do in a server.

use std::collections::BTreeMap;
use std::path::Path;

use promkairos::model::{Exemplar, Labels, Matcher, TimeRange};
use promkairos::storage::embedded::{Options, Parts, Sizes};
use promkairos::storage::{ListSize, SeriesQuery, Store};
use promkairos::telemetry::StoreMetrics;
use proptest::prelude::*;

use super::model::{DAY, Model, Step, point};
use super::{LATER, apply, block_on, content};

/// The labels of a series, and its number of points on each of two days.
type Series = (BTreeMap<String, String>, (usize, usize));

/// A text: short, or long with a prefix that others have too.
fn text(pattern: &'static str) -> impl Strategy<Value = String> {
    (prop_oneof![4 => Just(0), 1 => 62usize..66, 1 => Just(300)], pattern).prop_map(|(len, end)| {
        let mut text = "x".repeat(len);
        text.push_str(&end);
        text
    })
}

fn series() -> impl Strategy<Value = Series> {
    let labels = prop::collection::btree_map(text("[a-d]"), text("[a-z]{1,2}"), 1..8);
    (labels, (0usize..400, prop_oneof![Just(0), 0usize..9]))
}

fn options(block: usize, frame: usize, write_bytes: usize) -> Options {
    let sizes = Sizes { block, frame, wide_frame: frame, whole: 2 * frame };
    Options { cache_bytes: 1 << 16, maintenance: None, sizes, write_bytes, ..Options::default() }
}

fn step(series: &[Series], number: usize) -> Step {
    let mut runs: BTreeMap<Labels, Vec<_>> = BTreeMap::new();
    let mut exemplars: BTreeMap<Labels, Vec<Exemplar>> = BTreeMap::new();
    for (labels, (first, second)) in series {
        let labels = Labels::from_pairs(labels.clone()).expect("valid labels");
        let start = number as i64 * 7_000;
        let points = |day: i64, count: usize| {
            (0..count as i64).map(|at| point(day + start + at * 1_000)).collect::<Vec<_>>()
        };
        let own = [points(0, *first), points(DAY, *second)];
        let lists = own.into_iter().filter(|points| !points.is_empty()).collect::<Vec<_>>();
        for at in 0..*second as i64 {
            let exemplar = Exemplar { labels: labels.clone(), value: 1.0, timestamp: start + at };
            exemplars.entry(labels.clone()).or_default().push(exemplar);
        }
        if !lists.is_empty() {
            runs.insert(labels, lists);
        }
    }
    let (runs, exemplars) = (runs.into_iter().collect(), exemplars.into_iter().collect());
    Step::Absorb { through: number as u64 + 1, runs, exemplars, metadata: Vec::new() }
}

/// Compares the answers of the store about labels with the model.
pub(super) async fn check_labels(store: &Parts, model: &Model) {
    let query =
        |matchers| SeriesQuery { matchers, range: TimeRange::ALL, limit: ListSize::UNLIMITED };
    let mut names: BTreeMap<&str, BTreeMap<&str, Vec<&Labels>>> = BTreeMap::new();
    for labels in model.series.keys() {
        for (name, value) in labels.iter() {
            names.entry(name).or_default().entry(value).or_default().push(labels);
        }
    }
    let found = store.label_names(&query(vec![])).await.expect("it can be read");
    assert!(found.items.iter().eq(names.keys()), "{:?}", found.items);
    for (name, values) in names {
        let found = store.label_values(name, &query(vec![])).await.expect("it can be read");
        assert!(found.items.iter().eq(values.keys()), "{name}: {:?}", found.items);
        for (value, series) in values {
            let matchers = vec![Matcher::equal(name, value)];
            let found = store.series(&query(matchers)).await.expect("it can be read");
            assert!(found.items.iter().eq(series), "{name}={value}: {:?}", found.items);
        }
    }
    let absent = vec![Matcher::equal("absent", "x")];
    assert!(store.series(&query(absent)).await.expect("it can be read").items.is_empty());
}

/// The number of part files in a folder.
fn part_files(dir: &Path) -> usize {
    let files = std::fs::read_dir(dir).expect("it is there");
    let files = files.map(|file| file.expect("it can be listed").path());
    files.filter(|path| path.extension().is_some_and(|end| end == "part")).count()
}

/// Flushes each of these, merges all, and checks the whole content after each.
async fn check(flushes: &[Vec<Series>], options: Options) {
    let dir = tempfile::tempdir().expect("a folder");
    let open = || Parts::open(dir.path(), options.clone(), StoreMetrics::default());
    let mut store = open().expect("a new store opens");
    let mut model = Model::default();
    for (number, series) in flushes.iter().enumerate() {
        let step = step(series, number);
        apply(&store, &step).await.expect("it can be flushed");
        model.apply(&step);
    }
    for merged in [false, true] {
        if merged {
            let before = part_files(dir.path());
            store.maintain(LATER).expect("it can be merged");
            let after = part_files(dir.path());
            // Of 16 parts or more, some have one size and are merged at once.
            assert!(after <= before && (before < 16 || after < before), "{after} of {before}");
        }
        drop(store);
        store = open().expect("it opens again");
        let found = content(&store).await.expect("it can be read");
        assert_eq!(found.difference(&model), None, "merged: {merged}");
        check_labels(&store, &model).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_can_be_written_can_be_flushed_and_merged(
        flushes in prop::collection::vec(prop::collection::vec(series(), 0..24), 1..5),
        block in prop_oneof![Just(1usize), Just(100), Just(8 << 10)],
        frame in prop_oneof![Just(1usize), Just(200), Just(8 << 20)],
        write_bytes in prop_oneof![Just(1usize), Just(20_000), Just(64 << 20)],
    ) {
        block_on(check(&flushes, options(block, frame, write_bytes)));
    }
}

/// Values longer than a block that differ at their end, as long as values may be.
#[test]
fn values_larger_than_a_block_share_a_part() {
    let wide = |n: usize| {
        let value = format!("{}{n:06}", "x".repeat(15_894));
        (
            BTreeMap::from([("__name__".to_owned(), "wide".to_owned()), ("v".to_owned(), value)]),
            (1, 0),
        )
    };
    let flushes = [(0..40).map(wide).collect(), (20..60).map(wide).collect::<Vec<_>>()];
    block_on(check(&flushes, options(8 << 10, 8 << 20, 256 << 10)));
}
