//! A head while memory is short: writes to known series work, new series are refused without a trace, and memory that
//! can be spared is released.

use std::sync::Arc;

use promkairos::model::TimeRange;
use promkairos::promql::{Engine, Features, QueryOptions, Settings, parse};
use promkairos::storage::{Level, MEMORY_LIMIT, Pressure, SelectHints, SharedStore, Store};
use promkairos::telemetry::HeadMetrics;

use super::{Batch, Gate, Mode, T, one, open, open_over, options, put, values};
use crate::support::front::Fronted;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn known_series_go_on_and_new_ones_leave_no_trace() {
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    below.set(Mode::NoFlush);
    let pressure = Arc::new(Pressure::new(1_000_000));
    let mut options = options(&dir);
    options.pressure = pressure.clone();
    let head = open(options.clone(), &below).await;
    put(&head, &one("known", T, 1.0)).await;
    pressure.note(950_000);
    assert_eq!(pressure.level(), Level::Full);
    let both = Batch::new()
        .series(&[("__name__", "new")])
        .sample(T, 1.0)
        .series(&[("__name__", "known")])
        .sample(T + 1, 2.0);
    let outcome = head.write(both.build()).await.expect("the known one is taken");
    assert_eq!((outcome.samples, outcome.rejections.len()), (1, 1));
    assert_eq!(outcome.rejections.counts(), [(MEMORY_LIMIT, 1)]);
    let text = outcome.rejections.kept()[0].to_string();
    let want = "the process has 927.7KiB in memory, and the setting memory-limit is 976.6KiB for \
                series {__name__=\"new\"}";
    assert_eq!(text, want);
    let check = async |head: &dyn Store| {
        assert_eq!(values(head, "known").await.expect("read"), [(T, 1.0), (T + 1, 2.0)]);
        assert!(values(head, "new").await.expect("read").is_empty());
    };
    check(&head).await;
    drop(head);
    // Refused writes are not read back, whatever the level is by then.
    pressure.note(0);
    let head = open(options, &below).await;
    check(&head).await;
    put(&head, &one("new", T, 3.0)).await;
    assert_eq!(values(&head, "new").await.expect("read"), [(T, 3.0)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn series_without_points_leave_memory_and_nothing_is_lost() {
    let (dir, metrics) = (tempfile::tempdir().expect("a folder"), HeadMetrics::default());
    let below: SharedStore = Arc::new(Fronted(Arc::new(Gate::default())));
    let head = open_over(options(&dir), below, metrics.clone()).await.expect("the head opens");
    put(&head, &one("m", T, 1.0)).await;
    assert_eq!(metrics.series.get(), 1);
    for _ in 0..3 {
        head.relieve().await.expect("given up");
    }
    assert_eq!((metrics.series.get(), metrics.bytes.get()), (0, 0));
    assert_eq!(values(&head, "m").await.expect("read"), [(T, 1.0)]);
    put(&head, &one("m", T + 1, 2.0)).await;
    assert_eq!(values(&head, "m").await.expect("read"), [(T, 1.0), (T + 1, 2.0)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn points_that_a_query_keeps_in_memory_count_as_its_own() {
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    let head = Arc::new(open(options(&dir), &below).await);
    let names: Vec<String> = (0..200).map(|n| format!("m{n:03}")).collect();
    let mut batch = Batch::new();
    for name in &names {
        batch = batch.series(&[("__name__", name)]);
        for second in 0..100 {
            batch = batch.sample(T - 100_000 + second * 1_000, (second as f64).sqrt());
        }
    }
    put(&head, &batch).await;
    // Label sets and their series may take half of it; points like these take 1 KB a series.
    let engine = Engine::new(Settings { max_bytes: 100_000, ..Settings::default() });
    let expr = parse("sum({__name__=~\"m.*\"})", Features::Stable).expect("valid");
    let ask = async || {
        let store: SharedStore = head.clone();
        engine.instant(store, &expr, T, &QueryOptions::default()).await.map(|_| ())
    };
    let error = ask().await.expect_err("too many").to_string();
    let want = "label sets and what is kept to read their points of more than 100000 bytes selected, which is the \
                setting query-max-memory";
    assert_eq!(error, want);
    // The points of the store below are not in memory before they are read.
    head.flush().await.expect("flushed");
    ask().await.expect("within the limit");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_with_more_series_than_there_is_room_for_is_read_back_in_pieces() {
    const SERIES: usize = 16_000;
    let dir = tempfile::tempdir().expect("a folder");
    let below = Arc::new(Gate::default());
    let head = open(options(&dir), &below).await;
    for first in (0..SERIES).step_by(1_000) {
        let names: Vec<String> = (first..first + 1_000).map(|n| format!("m{n:05}")).collect();
        let with = |batch: Batch, name: &String| {
            batch.series(&[("__name__", name)]).sample(T + first as i64, 1.0)
        };
        put(&head, &names.iter().fold(Batch::new(), with)).await;
    }
    drop(head);
    let (mut options, metrics) = (options(&dir), HeadMetrics::default());
    // Five eighths of the memory are for series.
    options.pressure = Arc::new(Pressure::new(4 << 20));
    let store: SharedStore = Arc::new(Fronted(below.clone()));
    let head = open_over(options, store, metrics.clone()).await.expect("the head opens");
    let left = metrics.series.get();
    // The exact count depends on when the replay continues while series leave.
    assert!(left <= SERIES as i64 / 2 && metrics.flushes.get() > 1, "{left} series are left");
    let all = head.select(&[], TimeRange::ALL, &SelectHints::default()).await.expect("readable");
    assert_eq!(all.series.len(), SERIES);
    for name in ["m00000", "m15999"] {
        assert_eq!(values(&head, name).await.expect("read").len(), 1, "{name}");
    }
}
