//! Opens the selections of a query before it is evaluated, and visits the points of chunks.

use std::sync::Arc;

use futures::future::try_join_all;

use super::budget::{Budget, Held};
use super::error::QueryError;
use super::opening_memory::OpeningMemory;
use super::operators::Series;
use super::plan::{Requested, Selections};
use super::series_list::made_bytes;
use super::shared_reader::SharedReader;
use promkairos_chunk::{Chunk, ChunkError};
use promkairos_model::{Point, TimeRange, Value};
use promkairos_storage::{SelectHints, SeriesReader, Store, StoreError};

/// Series of the store and a reader of their chunks.
pub(crate) struct Selected {
    /// The series, sorted by labels.
    pub series: Vec<Series>,
    /// Reads their chunks by their position.
    pub reader: Box<dyn SeriesReader>,
    /// The times of the wanted points.
    pub range: TimeRange,
    _held: Held,
}

/// Opens all selections of a plan.
pub(crate) async fn select_all(
    store: &dyn Store,
    selections: &Selections,
    budget: &Arc<Budget>,
) -> Result<Vec<Arc<Selected>>, QueryError> {
    try_join_all(selections.iter().map(|one| select(store, one, budget))).await
}

/// Opens one selection.
pub(crate) async fn select(
    store: &dyn Store,
    requested: &Requested,
    budget: &Arc<Budget>,
) -> Result<Arc<Selected>, QueryError> {
    let memory = Arc::new(OpeningMemory::new(budget.nothing()));
    let max_bytes = budget.max_bytes();
    let hints = SelectHints {
        max_label_bytes: max_bytes,
        max_bytes,
        query: requested.hints.clone(),
        memory: Some(memory.clone()),
        ..SelectHints::default()
    };
    let selected = store.select(&requested.matchers, requested.range, &hints).await;
    let selection = selected.map_err(|error| memory.error(error))?;
    let mut held = memory.take_held();
    let bytes = selection.series.iter().map(|labels| made_bytes(labels) + size_of::<Series>());
    held.set(bytes.sum::<usize>().saturating_add(selection.reader.held_bytes()))?;
    let series: Vec<Series> = selection.series.into_iter().map(Series::new).collect();
    let reader = match requested.users {
        0 | 1 => selection.reader,
        users => Box::new(SharedReader::new(selection.reader, series.len(), users, budget)),
    };
    Ok(Arc::new(Selected { series, reader, range: requested.range, _held: held }))
}

/// Receives the points of a series one by one.
pub(crate) trait Visitor {
    /// Whether start timestamps are wanted. Without them floats are read faster, and the start
    /// timestamps given are 0.
    fn wants_starts(&self) -> bool {
        false
    }

    /// Takes a float, which may be a stale marker.
    fn float(&mut self, time: i64, start: i64, value: f64);

    /// Takes any other point.
    fn point(&mut self, point: Point);
}

/// Passes the points of the chunks that overlap `range` to `visitor`. Some of the points may be
/// outside `range`.
pub(crate) fn visit(
    chunks: &[Chunk],
    range: TimeRange,
    visitor: &mut impl Visitor,
) -> Result<(), QueryError> {
    let mut chunks = in_range(chunks, range);
    chunks.try_for_each(|chunk| visit_chunk(chunk, range, visitor).map_err(damaged))
}

/// The chunks that may have points in `range`.
pub(crate) fn in_range(chunks: &[Chunk], range: TimeRange) -> impl Iterator<Item = &Chunk> {
    let has = move |chunk: &&Chunk| chunk.max_time >= range.start && chunk.min_time <= range.end;
    chunks.iter().filter(has)
}

fn visit_chunk(
    chunk: &Chunk,
    range: TimeRange,
    visitor: &mut impl Visitor,
) -> Result<(), ChunkError> {
    let plain = !chunk.has_starts() || !visitor.wants_starts();
    if chunk.kind.is_floats() && plain {
        return chunk.visit_floats_in(range, |time, value| visitor.float(time, 0, value));
    }
    for point in chunk.points() {
        let point = point?;
        match point.value {
            Value::Float(value) => visitor.float(point.timestamp, point.start_timestamp, value),
            Value::Histogram(_) => visitor.point(point),
        }
    }
    Ok(())
}

pub(crate) fn damaged(error: ChunkError) -> QueryError {
    let source = Box::new(error);
    StoreError::Backend { what: "reading a chunk".into(), source }.into()
}
