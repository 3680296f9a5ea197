//! Selections of series: what is asked for, the limits and memory, and the reader of their points.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;

use super::error::StoreError;
use super::forecast::Forecast;
use super::limited::ListSize;
use promkairos_chunk::Chunk;
use promkairos_model::{Labels, Matcher, ShownSize, TimeRange};

/// Which series a label endpoint asks for.
#[derive(Debug, Clone)]
pub struct SeriesQuery {
    /// All must pass; empty = everything.
    pub matchers: Vec<Matcher>,
    /// Series with points in this range.
    pub range: TimeRange,
    /// Maximum number and bytes of results; if there are more, the first ones are returned.
    pub limit: ListSize,
}

/// The options of [`Store::select`](super::Store::select).
#[derive(Debug, Clone)]
pub struct SelectHints {
    /// Whether series are sorted by labels; otherwise in any order.
    pub sorted: bool,
    /// Maximum bytes that the label sets may have in memory; more is [`StoreError::Limit`].
    pub max_label_bytes: usize,
    /// Maximum bytes of label sets plus [what the reader holds](SeriesReader::held_bytes); more is
    /// [`StoreError::Limit`] too.
    pub max_bytes: usize,
    /// Maximum bytes of points from reading one series. More is [`StoreError::Limit`] if the store does not [know the
    /// size before](SeriesReader::expected_bytes); otherwise the caller has to check.
    pub max_series_bytes: usize,
    /// What is done with the points. `None` = not known, or several things. A store may always ignore it.
    pub query: Option<Arc<QueryHints>>,
    /// Counts the memory of the selection while it is made. `None` = nobody does.
    pub memory: Option<Arc<dyn SelectionMemory>>,
}

/// What a query does with the points of one selector, as Prometheus describes it in its hints.
///
/// Only advice: the points to return are all points of the selected range, whatever the hints say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryHints {
    /// The first time of the points that are evaluated, in milliseconds.
    pub start: i64,
    /// Their last time, in milliseconds.
    pub end: i64,
    /// Milliseconds between two evaluations; of the innermost subquery if there is one. 0 = evaluated once.
    pub step: i64,
    /// Name of the nearest function or aggregation around the selector. Empty if there is none, or if a binary
    /// operator is nearer.
    pub function: Cow<'static, str>,
    /// Length of a range selector in milliseconds; 0 = an instant selector.
    pub range: i64,
    /// The labels of the aggregation directly around the selector, in the order of the text.
    pub grouping: Vec<String>,
    /// Whether the aggregation groups by these labels. `false` = without them, or there is no aggregation.
    pub by: bool,
}

impl SelectHints {
    /// Maximum bytes of label sets if the reader holds nothing.
    fn most_label_bytes(&self) -> usize {
        self.max_label_bytes.min(self.max_bytes)
    }

    /// Fails if a selection with these bytes of label sets, and of what its reader holds, exceeds the limits.
    pub fn check(&self, label_bytes: usize, held_bytes: usize) -> Result<(), StoreError> {
        let most = self.most_label_bytes();
        if label_bytes > most {
            let limit = ShownSize::of(most);
            return Err(StoreError::Limit(format!("label sets of more than {limit} selected")));
        }
        if label_bytes.saturating_add(held_bytes) > self.max_bytes {
            let what = format!(
                "label sets and what is kept to read their points of more than {} selected",
                ShownSize::of(self.max_bytes)
            );
            return Err(StoreError::Limit(what));
        }
        Ok(())
    }
}

/// Memory that selections take from while stores make them.
pub trait SelectionMemory: fmt::Debug + Send + Sync {
    /// Takes `bytes`, or fails. The implementer knows when they are free again.
    fn take(&self, bytes: usize) -> Result<(), StoreError>;
}

/// Counts the bytes of a selection while a store makes it, and takes them from the [memory](SelectHints::memory).
pub struct SelectionSize<'h> {
    hints: &'h SelectHints,
    label_bytes: usize,
    held_bytes: usize,
    /// Bytes taken from the memory.
    taken: usize,
}

impl<'h> SelectionSize<'h> {
    /// Bytes that are not taken from the memory yet, at most: taking costs more than counting.
    const UNTAKEN: usize = 16 << 10;

    /// A selection of nothing.
    pub fn within(hints: &'h SelectHints) -> Self {
        Self { hints, label_bytes: 0, held_bytes: 0, taken: 0 }
    }

    /// Adds bytes of label sets, and of what the reader holds. Fails beyond the limits, or without memory.
    pub fn add(&mut self, label_bytes: usize, held_bytes: usize) -> Result<(), StoreError> {
        self.label_bytes += label_bytes;
        self.held_bytes += held_bytes;
        self.hints.check(self.label_bytes, self.held_bytes)?;
        let untaken = self.label_bytes + self.held_bytes - self.taken;
        match &self.hints.memory {
            Some(memory) if untaken > Self::UNTAKEN => {
                self.taken += untaken;
                memory.take(untaken)
            }
            _ => Ok(()),
        }
    }
}

/// Fails if reading a series brings more than `limit` bytes of points, its [`SelectHints::max_series_bytes`].
pub fn check_series_bytes(labels: &Labels, bytes: usize, limit: usize) -> Result<(), StoreError> {
    if bytes > limit {
        let limit = ShownSize::of(limit);
        let what = format!("{labels} has points of more than {limit} in this range");
        return Err(StoreError::Limit(what));
    }
    Ok(())
}

impl Default for SelectHints {
    fn default() -> Self {
        let (max_bytes, max_series_bytes) = (usize::MAX, usize::MAX);
        let (query, memory) = (None, None);
        Self { sorted: true, max_label_bytes: 1 << 30, max_bytes, max_series_bytes, query, memory }
    }
}

/// Selected series. The label sets are unique.
///
/// The reader returns all points of these series that were acknowledged before the selection and
/// not deleted since. Whether it sees writes, deletes and expiry between selection and reading
/// depends on the store: the Cassandra store reads rows in their current state, series by series,
/// and may see a write in one series and not in another.
pub struct Selection {
    /// Label sets.
    pub series: Vec<Labels>,
    /// Reads the points of series by their position in `series`.
    pub reader: Box<dyn SeriesReader>,
}

/// Reads the points of a selection. Several workers may call it at once, each with a run of its own.
#[async_trait]
pub trait SeriesReader: Send + Sync {
    /// The chunks of the series at these positions, one list per series. In a list the points
    /// strictly rise in time from chunk to chunk. A chunk may hold points outside the selected
    /// range; a list may be empty.
    async fn read(&self, series: Range<usize>) -> Result<Vec<Vec<Chunk>>, StoreError>;

    /// The expected points of all series in `range`, a part of the selected range. Reads no points, or few.
    async fn forecast(&self, range: TimeRange) -> Result<Forecast, StoreError>;

    /// Approximate bytes of points that the reader keeps in memory until it is dropped.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Approximate bytes that reading the series at this position adds to what the reader holds; `None` = unknown.
    fn expected_bytes(&self, series: usize) -> Option<usize> {
        let _ = series;
        None
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    /// Memory of 100 KiB.
    #[derive(Debug, Default)]
    struct Small(Mutex<usize>);

    impl SelectionMemory for Small {
        fn take(&self, bytes: usize) -> Result<(), StoreError> {
            let mut taken = self.0.lock();
            *taken += bytes;
            if *taken > 100 << 10 { Err(StoreError::Limit("no memory".to_owned())) } else { Ok(()) }
        }
    }

    #[test]
    fn a_selection_takes_its_memory_while_it_grows() {
        let memory = Arc::new(Small::default());
        let hints = SelectHints { memory: Some(memory.clone()), ..SelectHints::default() };
        let mut size = SelectionSize::within(&hints);
        let mut added = 0;
        let error = loop {
            let before = *memory.0.lock();
            assert!(
                before <= added && added <= before + SelectionSize::UNTAKEN,
                "{before} of {added}"
            );
            added += 1_500;
            if let Err(error) = size.add(1_000, 500) {
                break error;
            }
        };
        assert_eq!(error.to_string(), "no memory");
        // Two selections share it.
        assert!(SelectionSize::within(&hints).add(SelectionSize::UNTAKEN + 1, 0).is_err());
    }

    #[test]
    fn the_limits_of_a_selection() {
        let hints = SelectHints { max_label_bytes: 100, max_bytes: 150, ..SelectHints::default() };
        let of = |labels, held| {
            SelectionSize::within(&hints).add(labels, held).map_err(|e| e.to_string())
        };
        assert_eq!((of(100, 50), of(0, 150)), (Ok(()), Ok(())));
        assert_eq!(of(101, 0), Err("label sets of more than 100 bytes selected".to_owned()));
        let why =
            "label sets and what is kept to read their points of more than 150 bytes selected";
        assert_eq!(of(100, 51), Err(why.to_owned()));
    }
}
