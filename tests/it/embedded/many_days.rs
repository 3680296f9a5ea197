//! Tests: points of very many days with few points each are stored in few files, and everything that depends on days
//! is still right: the order of writes, deletes, merges and retention.

use promkairos::model::{Labels, TimeRange};
use promkairos::storage::Store;
use promkairos::storage::embedded::{Options, Parts};
use promkairos::telemetry::StoreMetrics;

use super::disk::{Forget, SimulatedDisk};
use super::model::{DAY, Model, Step, labels, point};
use super::{LATER, apply, block_on, content, open, options};

fn flush(through: u64, runs: Vec<(Labels, Vec<Vec<i64>>)>) -> Step {
    let points = |times: Vec<i64>| times.into_iter().map(point).collect();
    let lists = |lists: Vec<Vec<i64>>| lists.into_iter().map(points).collect();
    let runs = runs.into_iter().map(|(labels, times)| (labels, lists(times))).collect();
    Step::Absorb { through, runs, exemplars: Vec::new(), metadata: Vec::new() }
}

fn days(days: std::ops::Range<i64>) -> Vec<i64> {
    days.map(|day| day * DAY + day % 1_000).collect()
}

async fn check(store: &Parts, model: &Model) {
    let found = content(store).await.expect("it can be read");
    assert_eq!(found.difference(model), None);
}

/// The names of the part files, without their numbers.
fn parts(disk: &SimulatedDisk) -> Vec<String> {
    let names = disk.names().into_iter().filter(|name| name.ends_with(".part"));
    names.filter_map(|name| Some(name.split_once('.')?.0.to_owned())).collect()
}

#[test]
fn a_point_a_day_for_very_long_is_a_few_files() {
    let disk = SimulatedDisk::default();
    let mut model = Model::default();
    block_on(async {
        let store = open(&disk).expect("a new store opens");
        let old = labels(&[("__name__", "days")]);
        for number in 0..5 {
            let times = days(number * 2_000 - 1_000..(number + 1) * 2_000 - 1_000);
            let step = flush(number as u64 + 1, vec![(old.clone(), vec![times])]);
            apply(&store, &step).await.expect("it is taken");
            model.apply(&step);
        }
        check(&store, &model).await;
        assert_eq!(parts(&disk), ["many-days"; 5]);
        store.maintain(LATER).expect("nothing fails");
        assert_eq!(parts(&disk), ["many-days"]);
        drop(store);
        let disk = disk.after_crash(Forget::Everything);
        let store = open(&disk).expect("it opens again");
        check(&store, &model).await;
        let step = Step::Delete { matchers: vec![], range: TimeRange::new(50 * DAY, 7_000 * DAY) };
        apply(&store, &step).await.expect("it is deleted");
        model.apply(&step);
        check(&store, &model).await;
        store.maintain(LATER).expect("nothing fails");
        check(&store, &model).await;
    });
}

#[test]
fn days_with_many_points_have_parts_of_their_own_beside_it() {
    let disk = SimulatedDisk::default();
    let mut model = Model::default();
    block_on(async {
        let store = open(&disk).expect("a new store opens");
        let dense = (0..5_000).map(|at| 40 * DAY + at * 15_000).collect();
        let runs = vec![
            (labels(&[("__name__", "dense")]), vec![dense]),
            (labels(&[("__name__", "sparse")]), vec![days(0..100), vec![39 * DAY, 40 * DAY]]),
        ];
        let step = flush(1, runs);
        apply(&store, &step).await.expect("it is taken");
        model.apply(&step);
        assert_eq!(parts(&disk), ["1970-02-10", "many-days"]);
        check(&store, &model).await;
    });
}

/// A part of many days between two of one day: the later write wins, whatever is merged.
#[test]
fn a_merge_never_passes_a_part_of_the_same_time() {
    let value = |runs: Vec<(Labels, Vec<Vec<i64>>)>, through: u64| {
        let Step::Absorb { mut runs, exemplars, metadata, .. } = flush(through, runs) else {
            panic!("a flush")
        };
        for point in runs.iter_mut().flat_map(|(_, lists)| lists.iter_mut().flatten()) {
            point.value = super::model::float(through as f64);
        }
        Step::Absorb { through, runs, exemplars, metadata }
    };
    let series = labels(&[("__name__", "m")]);
    let day = |through| value(vec![(series.clone(), vec![days(50..51)])], through);
    let many = |through| value(vec![(series.clone(), vec![days(20..80)])], through);
    for wide_at in 0..6u64 {
        for second_wide_at in [wide_at, 3, 5] {
            let disk = SimulatedDisk::default();
            let mut model = Model::default();
            block_on(async {
                let store = open(&disk).expect("a new store opens");
                for number in 0..6 {
                    let is_wide = number == wide_at || number == second_wide_at;
                    let step = if is_wide { many(number + 1) } else { day(number + 1) };
                    apply(&store, &step).await.expect("it is taken");
                    model.apply(&step);
                }
                store.maintain(LATER).expect("nothing fails");
                check(&store, &model).await;
            });
        }
    }
}

#[test]
fn retention_takes_days_out_of_a_part_of_many() {
    let disk = SimulatedDisk::default();
    let mut model = Model::default();
    let retention = std::time::Duration::from_millis(30 * DAY as u64);
    let open = || {
        let files = std::sync::Arc::new(disk.clone());
        let options = Options { retention, ..options() };
        Parts::open_with(files, std::path::Path::new(super::DIR), options, StoreMetrics::default())
    };
    let series = labels(&[("__name__", "m")]);
    let take = async |store: &Parts, model: &mut Model, through, times| {
        let step = flush(through, vec![(series.clone(), vec![times])]);
        apply(store, &step).await.expect("it is taken");
        model.apply(&step);
    };
    block_on(async {
        let store = open().expect("a new store opens");
        take(&store, &mut model, 1, days(0..101)).await;
        drop(store);
        for (through, today) in [(2, 101), (3, 102)] {
            let store = open().expect("it opens again");
            take(&store, &mut model, through, days(today..today + 1)).await;
            drop(store);
            // A new store, since a store does not follow a clock that jumps.
            let (store, now) = (open().expect("it opens again"), (today + 1) * DAY);
            store.maintain(now).expect("nothing fails");
            let end = (today * DAY + today - 30 * DAY).div_euclid(DAY) * DAY - 1;
            let gone = TimeRange::new(i64::MIN, end);
            model.apply(&Step::Delete { matchers: vec![], range: gone });
            check(&store, &model).await;
            let size = async || store.stats().await.expect("no I/O").disk_bytes.expect("known");
            let before = size().await;
            store.maintain(now).expect("nothing fails");
            assert_eq!(size().await, before, "written once");
        }
        let store = open().expect("it opens again");
        take(&store, &mut model, 4, days(200..201)).await;
        drop(store);
        let store = open().expect("it opens again");
        store.maintain(201 * DAY).expect("nothing fails");
        assert_eq!(parts(&disk), ["1970-07-20"], "all others are gone");
    });
}
