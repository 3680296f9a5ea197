//! A case of the conformance suite: a selection has limits, and takes its memory while it is made.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use promkairos::model::TimeRange;
use promkairos::storage::{SelectHints, SelectionMemory, StoreError};

use super::{Harness, T, write};
use crate::batch::Batch;

pub(super) async fn the_bytes_of_labels_are_limited(h: Harness) {
    let value = "x".repeat(100);
    let batch = Batch::new().series(&[("__name__", "a"), ("job", &value)]).sample(T, 1.0);
    let batch = batch.series(&[("__name__", "b"), ("job", &value)]).sample(T, 1.0);
    write(&*h.store, &batch).await;
    let select = async |max_label_bytes| {
        let hints = SelectHints { max_label_bytes, ..SelectHints::default() };
        h.store.select(&[], TimeRange::ALL, &hints).await.map(|selection| selection.series.len())
    };
    assert_eq!(select(1_000).await.expect("both fit"), 2);
    let error = select(200).await.expect_err("one of them does not fit");
    assert!(matches!(error, StoreError::Limit(_)), "{error:?}");
    let text = "label sets of more than 200 bytes selected";
    assert_eq!(error.to_string(), text);
    // They are taken from the memory of the selection while it is made.
    let long = |at: usize| [("__name__", "a".to_owned()), ("job", format!("{at:08000}"))];
    let add = |batch: Batch, at| {
        let [name, job] = long(at);
        batch.series(&[(name.0, &name.1), (job.0, &job.1)]).sample(T, 1.0)
    };
    write(&*h.store, &(0..50).fold(Batch::new(), add)).await;
    for (most, fits) in [(100_000, false), (10_000_000, true)] {
        let memory = Arc::new(Memory { most, taken: AtomicUsize::new(0) });
        let hints = SelectHints { memory: Some(memory.clone()), ..SelectHints::default() };
        let selected = h.store.select(&[], TimeRange::ALL, &hints).await.map(drop);
        assert_eq!(selected.is_ok(), fits, "{most}");
        assert!(fits || selected.is_err_and(|error| error.to_string().contains(NO_MEMORY)));
        let taken = memory.taken.load(Ordering::Relaxed);
        // A few bytes are not taken yet, and some stores hold more than the labels.
        let expected = if fits { 380_000..1_000_000 } else { 100_000..140_000 };
        assert!(expected.contains(&taken), "{taken} of {most}");
    }
}

const NO_MEMORY: &str = "no memory is left";

/// Memory of a selection, of `most` bytes.
#[derive(Debug)]
struct Memory {
    most: usize,
    taken: AtomicUsize,
}

impl SelectionMemory for Memory {
    fn take(&self, bytes: usize) -> Result<(), StoreError> {
        let taken = self.taken.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if taken > self.most { Err(StoreError::Limit(NO_MEMORY.to_owned())) } else { Ok(()) }
    }
}
