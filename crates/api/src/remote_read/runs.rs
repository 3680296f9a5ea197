//! Reads the series of a selection in runs, a few runs ahead of the consumer.
//!
//! The length of a run adapts to the bytes of its series ([`RunLength`]), and so does the number of runs ahead. Memory
//! stays near `READ_AHEAD_RUNS` × `READ_RUN_BYTES`, whether a series has one sample or a million. A single series is
//! never split; its bytes have a limit of their own.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesOrdered;

use promkairos_chunk::Chunk;
use promkairos_model::limits::{READ_AHEAD_RUNS, READ_RUN_BYTES, READ_RUN_SERIES};
use promkairos_model::{Labels, ShownSize};
use promkairos_storage::{RunLength, Selection, SeriesReader, StoreError, chunk_bytes};

type Pending = Pin<Box<dyn Future<Output = (Range<usize>, ReadResult)> + Send>>;
type ReadResult = Result<Vec<Vec<Chunk>>, StoreError>;

/// The runs of one selection.
pub(super) struct Runs {
    series: Arc<Vec<Labels>>,
    reader: Arc<dyn SeriesReader>,
    next: usize,
    length: RunLength,
    /// Most runs that are read concurrently.
    ahead: usize,
    /// Most bytes of one series.
    most_bytes: usize,
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
    /// Starts no read yet. Each series may have at most `most_bytes`.
    pub(super) fn new(selection: Selection, most_bytes: usize) -> Self {
        let Selection { series, reader } = selection;
        let (series, reader): (_, Arc<dyn SeriesReader>) = (Arc::new(series), Arc::from(reader));
        let length = RunLength::new(READ_RUN_SERIES, READ_RUN_BYTES, 1);
        // If the reader does not know sizes, the first series is read alone to measure them.
        let knows = series.is_empty() || reader.expected_bytes(0).is_some();
        let (next, ahead) = (0, if knows { READ_AHEAD_RUNS } else { 1 });
        let pending = FuturesOrdered::new();
        Self { series, reader, next, length, ahead, most_bytes, pending }
    }

    /// The next run, in order; `None` after the last one.
    pub(super) async fn next(&mut self) -> Option<Result<Run, StoreError>> {
        while self.pending.len() < self.ahead && self.next < self.series.len() {
            let run = self.length.run(&*self.reader, self.next, self.series.len());
            self.next = run.end;
            let expected = self.check(&run);
            let reader = self.reader.clone();
            self.pending.push_back(Box::pin(async move {
                let chunks = match expected {
                    Ok(()) => reader.read(run.clone()).await,
                    Err(error) => Err(error),
                };
                (run, chunks)
            }));
        }
        let (run, chunks) = self.pending.next().await?;
        Some(chunks.map(|chunks| {
            let bytes = chunk_bytes(&chunks);
            self.length.note(run.len(), bytes);
            self.ahead =
                (READ_AHEAD_RUNS * READ_RUN_BYTES / bytes.max(1)).clamp(1, READ_AHEAD_RUNS);
            Run { series: self.series.clone(), first: run.start, chunks }
        }))
    }

    /// Fails if a series of the run is known to exceed `most_bytes`.
    fn check(&self, run: &Range<usize>) -> Result<(), StoreError> {
        let too_large = |at: &usize| {
            self.reader.expected_bytes(*at).is_some_and(|bytes| bytes > self.most_bytes)
        };
        match run.clone().find(too_large) {
            Some(at) => Err(StoreError::Limit(format!(
                "{} has points of more than {} in this range",
                self.series[at],
                ShownSize::of(self.most_bytes)
            ))),
            None => Ok(()),
        }
    }
}

impl Run {
    /// The labels and the chunks of each series.
    pub(super) fn series(&self) -> impl Iterator<Item = (&Labels, &[Chunk])> {
        self.series[self.first..].iter().zip(self.chunks.iter().map(Vec::as_slice))
    }
}
