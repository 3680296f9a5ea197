//! Computes a value from the points of each selected series, a run of series at a time.
//!
//! Chunks are read here and decoded by the workers, not by threads that serve requests. Remote read
//! has code of its own, which reads ahead.

use std::sync::Arc;

use super::workers::Caller;
use super::{ApiError, AppState};
use promkairos_chunk::Chunk;
use promkairos_model::limits::{READ_RUN_BYTES, READ_RUN_SERIES};
use promkairos_model::{Labels, Matcher, Point, TimeRange};
use promkairos_promql::{Held, OpeningMemory};
use promkairos_storage::{RunLength, SelectHints, StoreError, chunk_bytes};

/// The points of one series in the range, in time order.
pub(super) type Points<'a> = &'a mut dyn Iterator<Item = Result<Point, ApiError>>;

/// Bytes of a series and its value, without labels.
const SERIES_BYTES: usize = 128;

/// Computes the value of one series; `None` = nothing.
pub(super) type Make<T> = fn(&Labels, Points<'_>) -> Result<Option<T>, ApiError>;

/// A value computed from a series.
pub(super) trait Made: Send + 'static {
    /// Bytes of the value beyond [`SERIES_BYTES`].
    fn more_bytes(&self) -> usize {
        0
    }
}

/// The values of `make` for the matching series, sorted by labels, with the query memory that the values and labels
/// hold.
pub(super) async fn of_each_series<T: Made>(
    state: &AppState,
    matchers: &[Matcher],
    range: TimeRange,
    make: Make<T>,
) -> Result<(Vec<T>, Held), ApiError> {
    // As in a query, half of the memory is for the labels of the selected series.
    let evaluator = state.evaluator();
    let max_bytes = evaluator.engine.settings().max_bytes;
    let memory = Arc::new(OpeningMemory::new(evaluator.engine.nothing()));
    let hints = SelectHints {
        max_label_bytes: max_bytes / 2,
        max_bytes,
        memory: Some(memory.clone()),
        ..SelectHints::default()
    };
    let selected = state.store()?.select(matchers, range, &hints).await;
    let selection = selected.map_err(|error| match error {
        StoreError::Limit(_) => ApiError::Query(memory.error(error)),
        other => other.into(),
    })?;
    let label_bytes = |labels: &Labels| labels.as_bytes().len() + SERIES_BYTES;
    let bytes = selection.series.iter().map(label_bytes).sum::<usize>();
    let mut held = memory.take_held();
    held.set(bytes.saturating_add(selection.reader.held_bytes()))?;
    let mut made = Vec::new();
    let mut length = RunLength::new(READ_RUN_SERIES, READ_RUN_BYTES, 1);
    let (mut start, total) = (0, selection.series.len());
    while start < total {
        let run = length.run(&*selection.reader, start, total);
        start = run.end;
        let chunks = selection.reader.read(run.clone()).await?;
        length.note(run.len(), chunk_bytes(&chunks));
        let series = selection.series[run].iter().cloned().zip(chunks).collect();
        let run = Run { series, range, make, held };
        let (more, held_now) = state.workers.run(|caller: &Caller<'_>| run.make(caller)).await?;
        held = held_now;
        made.extend(more);
    }
    Ok((made, held))
}

/// Series with their chunks, and the memory held so far.
struct Run<T> {
    series: Vec<(Labels, Vec<Chunk>)>,
    range: TimeRange,
    make: Make<T>,
    held: Held,
}

impl<T: Made> Run<T> {
    fn make(mut self, caller: &Caller<'_>) -> Result<(Vec<T>, Held), ApiError> {
        let mut made = Vec::new();
        for (labels, chunks) in &self.series {
            caller.check()?;
            let damaged = |source| ApiError::Chunk { series: labels.clone(), source };
            let points = chunks.iter().flat_map(|chunk| chunk.points());
            let in_range = |point: &Result<Point, ApiError>| {
                point.as_ref().map_or(true, |point| self.range.contains(point.timestamp))
            };
            let mut points = points.map(|point| point.map_err(damaged)).filter(in_range);
            let one = (self.make)(labels, &mut points)?;
            self.held.take(0, one.as_ref().map_or(0, T::more_bytes))?;
            made.extend(one);
        }
        Ok((made, self.held))
    }
}
