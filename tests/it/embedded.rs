//! Tests: the part files of the embedded store, over a disk that fails and loses data on purpose.
//!
//! The content of the store is compared with a naive model: a map of points by series and time.

mod clock;
mod disk;
mod failing;
mod many_days;
mod model;
mod old_parts;
mod sizes;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use promkairos::model::{Labels, MatchOp, Matcher, Point, TimeRange, Value, WriteBatch};
use promkairos::storage::embedded::{Options, Parts};
use promkairos::storage::{
    DayCounts, Flush, ListSize, RatePacer, SelectHints, SeriesQuery, SeriesRun, Store, StoreError,
};
use promkairos::telemetry::StoreMetrics;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::long;
use crate::tidy::root;

use disk::{Fault, Forget, SimulatedDisk};
use model::{DAY, Model, Step, labels, point, run_of};

const DIR: &str = "/data/parts";
/// A time long after all points, at which every day is closed.
const LATER: i64 = 300 * DAY;

fn options() -> Options {
    Options { cache_bytes: 1 << 20, maintenance: None, ..Options::default() }
}

fn open(disk: &SimulatedDisk) -> Result<Parts, StoreError> {
    let files = Arc::new(disk.clone());
    Parts::open_with(files, Path::new(DIR), options(), StoreMetrics::default())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime starts").block_on(future)
}

/// The whole content that can be read from a store.
async fn content(store: &Parts) -> Result<Model, StoreError> {
    let selection = store.select(&[], TimeRange::ALL, &SelectHints::default()).await?;
    let mut model = Model::default();
    assert!(selection.series.is_sorted_by(|a, b| a < b), "unique and sorted");
    let count = selection.series.len();
    let (first, second) = (0..count / 2, count / 2..count);
    let mut lists = selection.reader.read(first).await?;
    lists.extend(selection.reader.read(second).await?);
    for (labels, chunks) in selection.series.iter().zip(lists) {
        assert!(chunks.windows(2).all(|pair| pair[0].max_time < pair[1].min_time));
        for point in chunks.iter().flat_map(|chunk| chunk.points()) {
            model.insert(labels, point.expect("chunks are well-formed"));
        }
    }
    for (labels, exemplars) in store.exemplars(&[], TimeRange::ALL, usize::MAX).await? {
        exemplars.into_iter().for_each(|exemplar| model.insert_exemplar(&labels, exemplar));
    }
    model.metadata = store.metadata(None, usize::MAX).await?.into_iter().collect();
    model.flushed_through = store.stats().await?.flushed_through;
    Ok(model)
}

/// The number of points of the runs by day.
fn days_of(runs: &[SeriesRun]) -> DayCounts {
    let mut days = DayCounts::default();
    for chunk in runs.iter().flat_map(|run| &run.chunks) {
        days.add(chunk.min_time, chunk.max_time, chunk.count.into());
    }
    days
}

/// Does a step; returns the result of the store.
async fn apply(store: &Parts, step: &Step) -> Result<(), StoreError> {
    match step {
        Step::Absorb { through, runs, exemplars, metadata } => {
            let runs: Vec<_> = runs.iter().map(|(labels, lists)| run_of(labels, lists)).collect();
            let flush = Flush {
                through: *through,
                days: days_of(&runs),
                runs: Box::new(runs.into_iter()),
                exemplars: exemplars.clone(),
                metadata: metadata.clone(),
                pace: RatePacer::default(),
            };
            store.ingest_flush(flush).await.map(drop)
        }
        Step::Delete { matchers, range } => store.delete(matchers, *range).await,
        Step::Compact => store.maintain(LATER),
    }
}

#[test]
fn random_histories_read_as_the_model_says() {
    for seed in 0..if long() { 40 } else { 12 } {
        let mut random = StdRng::seed_from_u64(seed);
        let mut disk = SimulatedDisk::default();
        let mut model = Model::default();
        block_on(async {
            let mut store = open(&disk).expect("a new store opens");
            for number in 0..30 {
                let step = match random.random_bool(0.2) {
                    true => Step::random_many_days(&mut random, number),
                    false => Step::random(&mut random, number),
                };
                apply(&store, &step).await.expect("nothing fails");
                model.apply(&step);
                if random.random_bool(0.2) {
                    drop(store);
                    disk = disk.after_crash(Forget::Everything);
                    store = open(&disk).expect("it opens again");
                }
                let found = content(&store).await.expect("it can be read");
                let difference = found.difference(&model);
                assert_eq!(difference, None, "seed {seed}, step {number}: {step:?}");
                check_queries(&store, &model, &mut random).await;
            }
        });
    }
}

/// Asks one random query of each kind.
async fn check_queries(store: &Parts, model: &Model, random: &mut StdRng) {
    let matchers = model::random_matchers(random);
    let range = model::random_range(random);
    let limit = ListSize::items(random.random_range(1..4));
    let query = SeriesQuery { matchers: matchers.clone(), range, limit };
    let unlimited = SeriesQuery { limit: ListSize::UNLIMITED, ..query.clone() };

    let hints = SelectHints::default();
    let selection = store.select(&matchers, range, &hints).await.expect("it can be read");
    let lists = selection.reader.read(0..selection.series.len()).await.expect("it can be read");
    let mut found = Model::default();
    for (labels, chunks) in selection.series.iter().zip(lists) {
        for point in chunks.iter().flat_map(|chunk| chunk.points()) {
            let point = point.expect("chunks are well-formed");
            if range.contains(point.timestamp) {
                found.insert(labels, point);
            }
        }
    }
    let expected = model.selected(&matchers, range);
    assert_eq!(found.series, expected, "{matchers:?} {range:?}");
    let exemplars = store.exemplars(&matchers, range, usize::MAX).await.expect("it can be read");
    assert_eq!(exemplars, model.selected_exemplars(&matchers, range));

    let all = store.series(&unlimited).await.expect("it can be read");
    assert!(all.items.is_sorted_by(|a, b| a < b) && !all.truncated);
    assert!(all.items.iter().all(|set| model::passes(&matchers, set)));
    assert!(expected.keys().all(|labels| all.items.contains(labels)));
    let some = store.series(&query).await.expect("it can be read");
    check_limit(&some.items, some.truncated, &all.items, limit.items);

    let all = store.label_names(&unlimited).await.expect("it can be read");
    let names = expected.keys().flat_map(Labels::iter).map(|(name, _)| name);
    assert!(names.into_iter().all(|name| all.items.iter().any(|item| item == name)));
    let some = store.label_names(&query).await.expect("it can be read");
    check_limit(&some.items, some.truncated, &all.items, limit.items);

    let all = store.label_values("job", &unlimited).await.expect("it can be read");
    let mut values = expected.keys().map(|labels| labels.get("job")).filter(|v| !v.is_empty());
    assert!(values.all(|value| all.items.iter().any(|item| item == value)));
    assert!(all.items.iter().all(|value| !value.is_empty()));
    let some = store.label_values("job", &query).await.expect("it can be read");
    check_limit(&some.items, some.truncated, &all.items, limit.items);
}

fn check_limit<T: PartialEq + std::fmt::Debug>(some: &[T], cut: bool, all: &[T], limit: usize) {
    assert_eq!(some, &all[..all.len().min(limit)]);
    assert_eq!(cut, all.len() > limit);
}

/// Steps of every kind: overlapping flushes over two days, metadata, exemplars, deletes that leave
/// some data, compaction.
fn scenario() -> Vec<Step> {
    let mut random = StdRng::seed_from_u64(7);
    let mut steps: Vec<Step> = (0..4).map(|n| Step::random_absorb(&mut random, n)).collect();
    let some = Matcher::new(MatchOp::Regex, "job", "a|b").expect("valid");
    steps.insert(2, Step::Delete { matchers: vec![some], range: TimeRange::new(10, DAY) });
    steps.push(Step::Compact);
    steps.push(Step::random_absorb(&mut random, 9));
    steps.push(Step::Delete { matchers: vec![], range: TimeRange::new(DAY, 3 * DAY) });
    steps.push(Step::Compact);
    steps
}

/// The model before the first step and after each.
fn models(steps: &[Step]) -> Vec<Model> {
    let mut all = vec![Model::default()];
    for step in steps {
        let mut next = all[all.len() - 1].clone();
        next.apply(step);
        all.push(next);
    }
    all
}

#[test]
fn a_crash_between_any_two_file_operations_leaves_before_or_after() {
    let steps = scenario();
    let models = models(&steps);
    let mut crashes = 0;
    for stop_at in 0.. {
        let disk = SimulatedDisk::with_fault(stop_at, Fault::Stop);
        let mut done = 0;
        block_on(async {
            let Ok(store) = open(&disk) else { return };
            for step in &steps {
                if apply(&store, step).await.is_err() {
                    return;
                }
                done += 1;
            }
        });
        if done == steps.len() && !disk.has_failed() {
            break;
        }
        crashes += 1;
        for forget in [Forget::Everything, Forget::Data, Forget::Nothing] {
            let disk = disk.after_crash(forget);
            let store = open(&disk).unwrap_or_else(|e| panic!("{stop_at} {forget:?}: {e}"));
            let found = block_on(content(&store)).expect("it can be read");
            let after = models.get(done + 1).unwrap_or(&models[done]);
            assert!(
                found == models[done] || found == *after,
                "stopped at operation {stop_at}, {forget:?}, {done} steps done"
            );
            // The files that the crash left over are gone.
            let parts = disk.names().iter().filter(|name| name.ends_with(".part")).count();
            let listed = block_on(store.stats()).expect("no I/O").disk_bytes;
            assert_eq!(disk.bytes_of(".part"), listed.expect("known"), "{parts} parts");
            assert_eq!(disk.bytes_of(".tmp"), 0);
        }
    }
    assert!(crashes > 50, "only {crashes} operations");
}

#[test]
fn a_failed_operation_changes_nothing_and_can_be_repeated() {
    let steps = scenario();
    let models = models(&steps);
    for fault in [Fault::Once, Fault::NoSpace, Fault::ShortWrite] {
        for fail_at in 0.. {
            let disk = SimulatedDisk::with_fault(fail_at, fault);
            let finished = block_on(async {
                let store = match open(&disk) {
                    Ok(store) => store,
                    Err(_) => open(&disk).expect("the fault is over"),
                };
                for (number, step) in steps.iter().enumerate() {
                    if apply(&store, step).await.is_err() {
                        let found = content(&store).await.expect("it can be read");
                        assert_eq!(found, models[number], "{fault:?} at {fail_at}");
                        apply(&store, step).await.expect("the fault is over");
                    }
                    // Other tests check the steps without a fault.
                    if disk.has_failed() {
                        let found = content(&store).await.expect("it can be read");
                        assert_eq!(found, models[number + 1], "{fault:?} at {fail_at}");
                    }
                }
                drop(store);
                assert!(disk.bytes_of(".tmp") == 0 || disk.failed_to_remove());
                let disk = disk.after_crash(Forget::Everything);
                let store = open(&disk).expect("it opens again");
                let found = content(&store).await.expect("it can be read");
                assert_eq!(&found, models.last().expect("steps"), "{fault:?} at {fail_at}");
                !disk.has_failed()
            });
            if finished && !disk.has_failed() {
                break;
            }
        }
    }
}

#[test]
fn a_full_disk_is_named_by_its_folder() {
    let first = &scenario()[0];
    let mut seen = 0;
    for fail_at in 0.. {
        let disk = SimulatedDisk::with_fault(fail_at, Fault::NoSpace);
        let flushed = block_on(async { apply(&open(&disk)?, first).await });
        if !disk.has_failed() {
            break;
        }
        // An error of removing a file is not returned.
        let Err(error) = flushed else { continue };
        let error = error.to_string();
        let full = |of: &str| format!("the file system of {of} is full, make room there: {DIR}");
        assert!(error.starts_with(&full(DIR)) || error.starts_with(&full("/data")), "{error}");
        seen += 1;
    }
    assert!(seen > 5, "only {seen} operations");
}

/// Reads all of a damaged store: the data is right, or the error names the damaged file.
fn check_damage(disk: &SimulatedDisk, file: &str, model: &Model, what: &str) {
    let read = block_on(async { content(&open(disk)?).await });
    match read {
        Ok(found) => assert_eq!(&found, model, "{what} in {file} went unnoticed"),
        Err(StoreError::Corrupt { path, .. } | StoreError::Io { path, .. }) => {
            assert_eq!(path.file_name().and_then(|name| name.to_str()), Some(file), "{what}");
        }
        Err(error) => panic!("{what} in {file}: {error}"),
    }
}

fn damaged_store() -> (SimulatedDisk, Model) {
    let disk = SimulatedDisk::default();
    let steps = scenario();
    let steps = &steps[..4];
    block_on(async {
        let store = open(&disk).expect("a new store opens");
        for step in steps {
            apply(&store, step).await.expect("nothing fails");
        }
    });
    (disk, models(steps).pop().expect("steps"))
}

#[test]
fn a_flipped_byte_anywhere_is_an_error_that_names_the_file_or_harmless() {
    let (disk, model) = damaged_store();
    let mut checked = 0;
    for file in disk.names() {
        for at in 0..disk.len(&file) {
            let damaged = disk.after_crash(Forget::Nothing);
            damaged.change(&file, |bytes| bytes[at] ^= 1 << (at % 8));
            check_damage(&damaged, &file, &model, &format!("a flip at byte {at}"));
            checked += 1;
        }
    }
    assert!(checked > 1_000, "only {checked} bytes");
}

#[test]
fn a_shortened_or_missing_file_is_an_error_that_names_it() {
    let (disk, _) = damaged_store();
    let fails = |disk: &SimulatedDisk, file: &str| match open(disk).map(drop) {
        Err(StoreError::Corrupt { path, .. } | StoreError::Io { path, .. }) => {
            assert_eq!(path.file_name().and_then(|name| name.to_str()), Some(file));
        }
        other => panic!("{file}: {other:?}"),
    };
    for file in disk.names() {
        for len in (0..disk.len(&file)).step_by(7) {
            let damaged = disk.after_crash(Forget::Nothing);
            damaged.change(&file, |bytes| bytes.truncate(len));
            fails(&damaged, &file);
        }
        let damaged = disk.after_crash(Forget::Nothing);
        damaged.lose(&file);
        fails(&damaged, &file);
    }
}

/// The series, the points and the sum of their bits of `tests/data/embedded-1`, as the program that wrote it read
/// them. It knew version 1 only.
const VERSION_1: (usize, usize, u64) = (20, 6_000, 0x1201_f850_67bd_cd72);

fn fingerprint(model: &Model) -> (usize, usize, u64) {
    let fold = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x100_0000_01b3);
    let (mut sum, mut count) = (0u64, 0);
    for (labels, points) in &model.series {
        let pod = labels.get("pod").bytes().map(u64::from);
        let mut hash = pod.fold(0xcbf2_9ce4_8422_2325, fold);
        for (time, point) in points {
            let Value::Float(value) = point.value else { panic!("floats only") };
            hash = fold(fold(hash, time.cast_unsigned()), value.to_bits());
        }
        sum = sum.wrapping_add(hash);
        count += points.len();
    }
    (model.series.len(), count, sum)
}

#[test]
fn a_store_of_version_1_is_read_and_written_anew() {
    let dir = tempfile::tempdir().expect("a folder");
    let fixture = root().join("tests/data/embedded-1");
    for file in std::fs::read_dir(fixture).expect("it is there") {
        let file = file.expect("it can be listed");
        std::fs::copy(file.path(), dir.path().join(file.file_name())).expect("it can be copied");
    }
    let sizes = || {
        let files = std::fs::read_dir(dir.path()).expect("it is there");
        let files = files.map(|file| file.expect("it can be listed"));
        let parts = files.filter(|file| file.path().extension().is_some_and(|e| e == "part"));
        parts.map(|file| file.metadata().expect("it is there").len()).collect::<Vec<_>>()
    };
    let store = Parts::open(dir.path(), options(), StoreMetrics::default()).expect("it opens");
    let manifest = || std::fs::read(dir.path().join("MANIFEST")).expect("it is there");
    assert!(manifest().starts_with(b"pkmani\x01\n"));
    let before = sizes();
    block_on(async {
        assert_eq!(fingerprint(&content(&store).await.expect("it can be read")), VERSION_1);
        // The same data again, so that there is something to merge.
        let all = content(&store).await.expect("it can be read");
        let again = all
            .series
            .iter()
            .map(|(labels, points)| run_of(labels, &[points.values().cloned().collect()]));
        let runs = Box::new(again.collect::<Vec<_>>().into_iter());
        let (exemplars, days, metadata, pace) = Default::default();
        let flush = Flush { through: 1_000, runs, exemplars, days, metadata, pace };
        store.ingest_flush(flush).await.expect("nothing fails");
        store.maintain(2_000_000_000_000).expect("nothing fails");
        assert_eq!(fingerprint(&content(&store).await.expect("it can be read")), VERSION_1);
    });
    let after = sizes();
    assert_eq!((before.len(), after.len()), (1, 1));
    assert!(after[0] < before[0], "{after:?} {before:?}");
    assert!(manifest().starts_with(b"pkmani\x02\n"));
}

#[test]
fn a_selection_sees_the_store_as_it_was() {
    let (disk, model) = damaged_store();
    let store = open(&disk).expect("it opens");
    block_on(async {
        let hints = SelectHints::default();
        let selection = store.select(&[], TimeRange::ALL, &hints).await.expect("it can be read");
        store.delete(&[], TimeRange::ALL).await.expect("nothing fails");
        store.maintain(LATER).expect("nothing fails");
        assert_eq!(content(&store).await.expect("it can be read").series.len(), 0);
        let lists = selection.reader.read(0..selection.series.len()).await;
        let mut found = Model::default();
        for (labels, chunks) in selection.series.iter().zip(lists.expect("files are kept")) {
            for point in chunks.iter().flat_map(|chunk| chunk.points()) {
                found.insert(labels, point.expect("chunks are well-formed"));
            }
        }
        assert_eq!(found.series, model.series);
        assert!(disk.bytes_of(".part") > 0, "kept for the reader");
        drop(selection);
        assert_eq!(disk.bytes_of(".part"), 0);
    });
}

#[test]
fn a_given_up_flush_leaves_nothing() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).expect("a new store opens");
    block_on(async {
        // These runs never end by themselves.
        let runs = (0u64..).map(|n| {
            run_of(&labels(&[("n", &format!("{n:012}"))]), &[(0..50).map(point).collect()])
        });
        let runs = Box::new(runs);
        let (exemplars, days, metadata, pace) = Default::default();
        let flush = Flush { through: 5, runs, exemplars, days, metadata, pace };
        let mut ingest_flush = std::pin::pin!(store.ingest_flush(flush));
        let polled = futures::poll!(&mut ingest_flush);
        assert!(polled.is_pending(), "it is under way");
    });
    // The runtime has ended, and the writing thread with it.
    drop(store);
    assert_eq!(disk.bytes_of(".part") + disk.bytes_of(".tmp"), 0);
    let store = open(&disk).expect("it opens again");
    assert_eq!(block_on(content(&store)).expect("it can be read"), Model::default());
}

#[test]
fn a_delete_reaches_a_flush_that_is_under_way() {
    let disk = SimulatedDisk::default();
    let store = Arc::new(open(&disk).expect("a new store opens"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
    let runtime = runtime.expect("a runtime starts");
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (go_on, may_go_on) = std::sync::mpsc::channel();
    let runs = ["a", "b"].into_iter().map(move |job| {
        if job == "b" {
            begun.send(()).expect("somebody waits");
            may_go_on.recv().expect("somebody says so");
        }
        run_of(&labels(&[("job", job)]), &[(0..50).map(point).collect()])
    });
    let flushing = store.clone();
    let ingest_flush = runtime.spawn(async move {
        let runs = Box::new(runs);
        let (exemplars, days, metadata, pace) = Default::default();
        flushing.ingest_flush(Flush { through: 5, runs, exemplars, days, metadata, pace }).await
    });
    has_begun.recv().expect("the flush begins");
    let a = [Matcher::equal("job", "a")];
    runtime.block_on(store.delete(&a, TimeRange::new(10, 1_000))).expect("nothing fails");
    // Another change, for which the first delete concerns no existing part.
    let c = [Matcher::equal("job", "c")];
    runtime.block_on(store.delete(&c, TimeRange::ALL)).expect("nothing fails");
    go_on.send(()).expect("the flush waits");
    runtime.block_on(ingest_flush).expect("no panic").expect("nothing fails");
    for _ in 0..2 {
        let found = runtime.block_on(content(&store)).expect("it can be read");
        let counts: Vec<usize> = found.series.values().map(|points| points.len()).collect();
        assert_eq!(counts, [10, 50]);
        store.maintain(LATER).expect("nothing fails");
    }
}

#[test]
fn a_large_part_goes_to_the_disk_in_pieces() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).expect("a new store opens");
    let mut random = StdRng::seed_from_u64(1);
    let runs: Vec<_> = (0..100)
        .map(|n| {
            // Values that cannot be compressed: 8 bytes each.
            let mut noise = |timestamp| {
                let value = model::float(f64::from_bits(random.random()));
                Point { value, ..point(timestamp) }
            };
            (labels(&[("n", &n.to_string())]), vec![(0..16_000).map(&mut noise).collect()])
        })
        .collect();
    for step in [
        Step::Absorb { through: 5, runs: runs.clone(), exemplars: vec![], metadata: vec![] },
        Step::Absorb { through: 6, runs, exemplars: vec![], metadata: vec![] },
    ] {
        block_on(apply(&store, &step)).expect("nothing fails");
    }
    // A merge writes as a flush does.
    store.maintain(LATER).expect("nothing fails");
    let (bytes, most) = (disk.bytes_of(".part"), disk.most_unsynced());
    assert!(bytes > 12 << 20, "{bytes}");
    assert!(most < 10 << 20, "{most} bytes at a time, of {bytes}");
}

#[test]
fn label_sets_beyond_the_budget_are_a_limit_error() {
    let (disk, _) = damaged_store();
    let store = open(&disk).expect("it opens");
    let hints = SelectHints { max_label_bytes: 40, ..SelectHints::default() };
    let selected = block_on(store.select(&[], TimeRange::ALL, &hints)).map(|s| s.series.len());
    assert!(matches!(&selected, Err(StoreError::Limit(what)) if what.contains("40 bytes")));
}

#[test]
fn a_batch_is_stored_as_it_is_without_a_head() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).expect("a new store opens");
    block_on(async {
        let outcome = store.write(WriteBatch::default()).await.expect("nothing fails");
        assert_eq!((outcome.samples, disk.bytes_of(".part")), (0, 0));
        let good = labels(&[("__name__", "up"), ("job", "a")]);
        let batch = model::batch(&[&good, &labels(&[("job", "nameless")]), &good]);
        let outcome = store.write(batch.batch()).await.expect("nothing fails");
        assert_eq!((outcome.samples, outcome.exemplars, outcome.metadata), (4, 2, 1));
        assert_eq!(outcome.rejections.len(), 1);
        let found = content(&store).await.expect("it can be read");
        assert_eq!(found.series.len(), 1);
        let values: Vec<_> =
            found.series[&good].values().map(|point| point.value.clone()).collect();
        assert_eq!(values, [model::float(12.0), model::float(13.0)], "the later entry wins");
    });
}

#[test]
fn parts_on_a_real_disk_with_the_maintenance_thread() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path().join("a/b");
    let options = Options { maintenance: Some(Duration::from_millis(1)), ..Options::default() };
    let mut random = StdRng::seed_from_u64(3);
    let mut model = Model::default();
    block_on(async {
        let store = Parts::open(&dir, options.clone(), StoreMetrics::default()).expect("it opens");
        for number in 0..40 {
            let step = match Step::random(&mut random, number) {
                Step::Compact => continue,
                step => step,
            };
            apply(&store, &step).await.expect("nothing fails");
            model.apply(&step);
            assert_eq!(content(&store).await.expect("it can be read"), model);
        }
        store.close().await.expect("nothing fails");
        drop(store);
        let store = Parts::open(&dir, options, StoreMetrics::default()).expect("it opens again");
        assert_eq!(content(&store).await.expect("it can be read"), model);
    });
}
