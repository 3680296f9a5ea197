//! A store in memory with given series.

use std::sync::Arc;

use promkairos::chunk::encode_points;
use promkairos::model::{Labels, Point};
use promkairos::storage::memory::MemoryStore;
use promkairos::storage::{Flush, SeriesRun, Store};

/// Adds series to a store; later points replace earlier ones of the same time.
pub(super) async fn add(store: &MemoryStore, series: &[(Labels, Vec<Point>)]) {
    let run = |(labels, points): &(Labels, Vec<Point>)| SeriesRun {
        labels: labels.clone(),
        chunks: encode_points(points),
    };
    let runs = series.iter().filter(|(_, points)| !points.is_empty()).map(run);
    let runs = Box::new(runs.collect::<Vec<_>>().into_iter());
    let (exemplars, days, metadata, pace) = Default::default();
    let flush = Flush { through: 0, runs, exemplars, days, metadata, pace };
    store.ingest_flush(flush).await.expect("chunks that were just encoded");
}

/// A store of `series` series named `m`, each with `points` points at intervals of 15 seconds.
pub(super) async fn counters(series: usize, points: i64) -> Arc<dyn Store> {
    let store = MemoryStore::new();
    let one = |number: usize| {
        let value = number.to_string();
        let labels = Labels::from_pairs([("__name__", "m"), ("i", &value)]).expect("valid");
        let sample = |at: i64| promkairos::model::Sample {
            timestamp: at * 15_000,
            start_timestamp: 0,
            value: at as f64,
        };
        (labels, (0..points).map(|at| sample(at).into()).collect())
    };
    add(&store, &(0..series).map(one).collect::<Vec<_>>()).await;
    Arc::new(store)
}
