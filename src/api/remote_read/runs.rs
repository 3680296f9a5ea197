//! The series of a selection, read in runs, a few runs ahead of the consumer.
//!
//! How many series a run has follows the bytes that it brings ([`RunLength`]), so that what is
//! in memory stays near `READ_AHEAD_RUNS` × `READ_RUN_BYTES`, whether a series has one sample or
//! a million; a single series is never cut.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesOrdered;

use crate::chunk::Chunk;
use crate::limits::{READ_AHEAD_RUNS, READ_RUN_BYTES, READ_RUN_SERIES};
use crate::model::Labels;
use crate::storage::{RunLength, Selection, SeriesReader, StoreError, chunk_bytes};

type Pending = Pin<Box<dyn Future<Output = (Range<usize>, ReadResult)> + Send>>;
type ReadResult = Result<Vec<Vec<Chunk>>, StoreError>;

/// The runs of one selection.
pub(super) struct Runs {
    series: Arc<Vec<Labels>>,
    reader: Arc<dyn SeriesReader>,
    next: usize,
    length: RunLength,
    pending: FuturesOrdered<Pending>,
}

/// Neighbouring series and their chunks.
pub(super) struct Run {
    /// All series of the selection.
    series: Arc<Vec<Labels>>,
    /// Position of the first series.
    first: usize,
    /// One list a series.
    chunks: Vec<Vec<Chunk>>,
}

impl Runs {
    /// Reads nothing yet.
    pub(super) fn new(selection: Selection) -> Self {
        let Selection { series, reader } = selection;
        let (series, reader) = (Arc::new(series), Arc::from(reader));
        let length = RunLength::new(READ_RUN_SERIES, READ_RUN_BYTES, 1);
        Self { series, reader, next: 0, length, pending: FuturesOrdered::new() }
    }

    /// The next run, in order; `None` after the last one.
    pub(super) async fn next(&mut self) -> Option<Result<Run, StoreError>> {
        while self.pending.len() < READ_AHEAD_RUNS && self.next < self.series.len() {
            let run = self.length.run(&*self.reader, self.next, self.series.len());
            self.next = run.end;
            let reader = self.reader.clone();
            self.pending.push_back(Box::pin(async move {
                let chunks = reader.read(run.clone()).await;
                (run, chunks)
            }));
        }
        let (run, chunks) = self.pending.next().await?;
        Some(chunks.map(|chunks| {
            self.length.note(run.len(), chunk_bytes(&chunks));
            Run { series: self.series.clone(), first: run.start, chunks }
        }))
    }
}

impl Run {
    /// Labels and chunks of its series.
    pub(super) fn series(&self) -> impl Iterator<Item = (&Labels, &[Chunk])> {
        self.series[self.first..].iter().zip(self.chunks.iter().map(Vec::as_slice))
    }
}
