//! Reads the series of one selection, a run at a time.
//!
//! The number of series in a run of a store follows from their bytes ([`RunLength`]); a single series
//! is never split. The series are strictly ascending by their labels; else reading ends in an error.

use futures::stream::{self, Stream};
use tokio::sync::mpsc::Receiver;

use super::error::CopyError;
use crate::chunk::Chunk;
use crate::limits::READ_RUN_SERIES;
use crate::model::Labels;
use crate::storage::{RunLength, Selection, SeriesReader, StoreError, chunk_bytes};

/// Approximate bytes of the chunks of a run: 30,000 to 170,000 points.
pub(super) const RUN_BYTES: usize = 256 << 10;

/// Series with their chunks.
pub(super) type Run = Vec<(Labels, Vec<Chunk>)>;

/// An iterator over runs.
pub(super) struct Runs {
    side: String,
    source: Source,
    /// Series up to and including this one are skipped: a server always starts with the first.
    skip: Option<Labels>,
    /// The last series that was read.
    last: Option<Labels>,
}

enum Source {
    Selection { series: Vec<Labels>, reader: Box<dyn SeriesReader>, next: usize, length: RunLength },
    Frames(Receiver<Result<Run, StoreError>>),
}

impl Runs {
    /// The runs of a store; `selection` is sorted.
    pub(super) fn of_selection(side: String, selection: Selection, after: Option<Labels>) -> Self {
        let Selection { series, reader } = selection;
        let next = series.partition_point(|labels| after.as_ref().is_some_and(|a| labels <= a));
        let length = RunLength::new(READ_RUN_SERIES, RUN_BYTES, 1);
        let source = Source::Selection { series, reader, next, length };
        Self { side, source, skip: None, last: None }
    }

    /// The runs that a server sends.
    pub(super) fn of_frames(
        side: String,
        frames: Receiver<Result<Run, StoreError>>,
        after: Option<Labels>,
    ) -> Self {
        Self { side, source: Source::Frames(frames), skip: after, last: None }
    }

    /// The next run; `None` after the last, and after an error.
    pub(super) async fn next(&mut self) -> Result<Option<Run>, CopyError> {
        loop {
            let run = match &mut self.source {
                Source::Frames(frames) => frames.recv().await.transpose(),
                Source::Selection { series, reader, next, length } => {
                    read(series, reader.as_ref(), next, length).await
                }
            };
            let run = run
                .map_err(|source| CopyError::Store { side: self.side.clone(), source })
                .and_then(|run| run.map(|run| self.in_order(run)).transpose())?;
            match run {
                Some(run) if run.is_empty() => {}
                run => return Ok(run),
            }
        }
    }

    /// The runs as a stream, which ends with the first error.
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<Run, CopyError>> {
        stream::unfold(Some(self), |runs| async move {
            let mut runs: Self = runs?;
            match runs.next().await {
                Ok(Some(run)) => Some((Ok(run), Some(runs))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    /// The run without skipped series. Checks that its series follow the previous ones.
    fn in_order(&mut self, mut run: Run) -> Result<Run, CopyError> {
        let first = run.first().map(|(labels, _)| labels);
        let follows = first.is_none() || self.last.as_ref() < first;
        if !follows || !run.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Err(CopyError::Unsorted(self.side.clone()));
        }
        if let Some((last, _)) = run.last() {
            self.last = Some(last.clone());
        }
        if let Some(skip) = &self.skip {
            run.retain(|(labels, _)| labels > skip);
        }
        Ok(run)
    }
}

/// The run that begins at `next`.
async fn read(
    series: &[Labels],
    reader: &dyn SeriesReader,
    next: &mut usize,
    length: &mut RunLength,
) -> Result<Option<Run>, StoreError> {
    let places = length.run(reader, *next, series.len());
    if places.is_empty() {
        return Ok(None);
    }
    let chunks = reader.read(places.clone()).await?;
    length.note(places.len(), chunk_bytes(&chunks));
    *next = places.end;
    Ok(Some(series[places].iter().cloned().zip(chunks).collect()))
}
