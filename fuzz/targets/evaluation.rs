//! Queries over a small store: their evaluation never panics, returns series of a range sorted and
//! without duplicates, and holds no more samples than allowed.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use promkairos::api::proto::v1;
use promkairos::model::{Body, Protocol};
use promkairos::promql::{
    Engine, Features, NameRemoval, QueryError, QueryOptions, QueryValue, Settings, StartTimestamps,
    Steps, parse,
};
use promkairos::storage::Store;
use promkairos::storage::memory::MemoryStore;
use promkairos::wire::{Policy, Scratch, decode, snappy};
use prost::Message;
use tokio::runtime::Runtime;

use super::dataset::{self, SAMPLES, START, STEP};
use super::expression::{Words, expression};

/// Low enough that some queries exceed it.
const MAX_SAMPLES: usize = 3_000;

/// The first byte selects the kind of query; the other bytes are the choices that make the expression.
pub(crate) fn check(data: &[u8]) {
    let Some((&how, choices)) = data.split_first() else { return };
    let mut choices = choices.iter();
    let mut choose = |end: usize| usize::from(choices.next().copied().unwrap_or(0)) % end;
    let query = expression(&mut choose, Words::Every);
    let Ok(expr) = parse(&query, Features::Experimental) else { return };
    let (runtime, store) = world();
    let engine = Engine::new(Settings {
        max_samples: MAX_SAMPLES,
        timeout: Duration::from_secs(20),
        name_removal: if how & 1 == 0 { NameRemoval::AtOnce } else { NameRemoval::Delayed },
        start_timestamps: if how & 2 == 0 {
            StartTimestamps::Ignored
        } else {
            StartTimestamps::Used
        },
        ..Settings::default()
    });
    let start = START + i64::from(how >> 3) * STEP - 60_000;
    let options = QueryOptions::default();
    let store = Arc::clone(store);
    let steps = Steps { start, end: start + SAMPLES / 4 * STEP, interval: 31_000 };
    let result = runtime.block_on(async {
        match how & 4 {
            0 => engine.instant(store, &expr, start, &options).await,
            _ => engine.range(store, &expr, steps, &options).await,
        }
    });
    let result = match result {
        Ok(result) => result,
        Err(error) => {
            let expected = !matches!(error, QueryError::Store(_) | QueryError::Canceled);
            assert!(expected, "{query}: {error}");
            return;
        }
    };
    assert!(result.stats.peak_samples <= MAX_SAMPLES as u64, "{query}");
    if let QueryValue::Matrix(series) = &result.value
        && how & 4 != 0
    {
        assert!(series.is_sorted_by(|a, b| a.labels < b.labels), "{query}");
        for one in series {
            assert!(one.floats.is_sorted_by(|a, b| a.0 < b.0), "{query}");
            assert!(one.histograms.is_sorted_by(|a, b| a.0 < b.0), "{query}");
        }
    }
}

/// A runtime, and a store with the series.
fn world() -> &'static (Runtime, Arc<dyn Store>) {
    static WORLD: OnceLock<(Runtime, Arc<dyn Store>)> = OnceLock::new();
    WORLD.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let store = runtime.block_on(store_of(dataset::series(1)));
        (runtime, store)
    })
}

/// A store in memory that holds these series.
pub(super) async fn store_of(timeseries: Vec<v1::TimeSeries>) -> Arc<dyn Store> {
    let store = MemoryStore::new();
    let message = v1::WriteRequest { timeseries, ..v1::WriteRequest::default() };
    let compressed = snappy::compress(&message.encode_to_vec()).expect("small");
    let body = Body { protocol: Protocol::V1, compressed: &compressed };
    let mut scratch = Scratch::default();
    let batch = decode(body, &mut scratch, Policy::Accept).expect("a valid message");
    let refused = store.write(batch).await.expect("memory").rejections;
    assert!(refused.is_empty(), "{refused:?}");
    Arc::new(store)
}
