//! Test: part files of version 2, which an old program wrote, are read and merged.
//!
//! `tests/data/embedded-2` has 40 series with values of up to 110 bytes, postings of both kinds, labels that only one
//! series has, and native histograms, over three days.

use promkairos::model::{TimeRange, Value};
use promkairos::storage::Store;
use promkairos::storage::embedded::Parts;
use promkairos::telemetry::StoreMetrics;

use super::model::{DAY, Model, Step, float, labels, point};
use super::sizes::check_labels;
use super::{LATER, apply, block_on, content, options};
use crate::tidy::root;

const START: i64 = 1_700_000_000_000;

/// The floats that the old program wrote.
fn floats() -> Model {
    let mut model = Model { flushed_through: 3, ..Model::default() };
    for i in 0..40i64 {
        let (name, pod) = (format!("old_{}", i % 3), format!("pod-{i:02}"));
        let pad = format!("{}{i}", "p".repeat(70 + i as usize));
        let (zone, only) = (format!("z{}", i % 2), format!("only_{i:02}"));
        let pairs =
            [("__name__", &*name), ("pod", &pod), ("zone", &zone), ("pad", &pad), (&only, "x")];
        let labels = labels(&pairs);
        let first = (0..200).map(|k| (START + k * 60_000, ((i * k) % 97) as f64 / 4.0));
        let second = (0..20).map(|k| (START + DAY + k * 600_000, (k + i) as f64));
        for (timestamp, value) in first.chain(second) {
            let mut point = point(timestamp);
            point.value = float(value);
            model.insert(&labels, point);
        }
    }
    model
}

#[test]
fn parts_of_version_2_are_read_and_merged() {
    let dir = tempfile::tempdir().expect("a folder");
    for file in std::fs::read_dir(root().join("tests/data/embedded-2")).expect("it is there") {
        let file = file.expect("it can be listed");
        std::fs::copy(file.path(), dir.path().join(file.file_name())).expect("it can be copied");
    }
    let open = || Parts::open(dir.path(), options(), StoreMetrics::default()).expect("it opens");
    let (histograms, model) = (labels(&[("__name__", "hist"), ("pod", "h")]), floats());
    let check = async |store: &Parts, model: &Model| {
        let mut found = content(store).await.expect("it can be read");
        check_labels(store, &found).await;
        let own = found.series.remove(&histograms).expect("it was written");
        assert!(own.len() == 30 && own.values().all(|p| matches!(p.value, Value::Histogram(_))));
        found.flushed_through = model.flushed_through;
        assert_eq!(found.difference(model), None);
    };
    let mut store = open();
    block_on(async {
        check(&store, &model).await;
        // The same data again, so that there is something to merge.
        let lists = model.series.iter().map(|(labels, points)| {
            (labels.clone(), vec![points.values().cloned().collect::<Vec<_>>()])
        });
        let (runs, exemplars, metadata) = (lists.collect(), Vec::new(), Vec::new());
        apply(&store, &Step::Absorb { through: 9, runs, exemplars, metadata })
            .await
            .expect("taken");
        check(&store, &model).await;
        store.maintain(START + LATER).expect("it can be merged");
        assert_eq!(
            store.stats().await.expect("no I/O").time_range.map(|range| range.start),
            Some(START)
        );
        drop(store);
        store = open();
        check(&store, &model).await;
        let cut = TimeRange::new(i64::MIN, START + DAY);
        apply(&store, &Step::Delete { matchers: vec![], range: cut }).await.expect("deleted");
        store.maintain(START + LATER).expect("it can be merged");
        let found = content(&store).await.expect("it can be read");
        assert!(found.series.values().flat_map(|points| points.keys()).all(|at| *at > cut.end));
    });
    let head =
        |file: std::fs::DirEntry| std::fs::read(file.path()).expect("it is there")[..7].to_vec();
    let files =
        std::fs::read_dir(dir.path()).expect("it is there").map(|file| file.expect("listed"));
    let parts = files.filter(|file| file.path().extension().is_some_and(|end| end == "part"));
    assert!(parts.map(head).all(|head| head == b"pkpart\x03"), "written anew");
}
