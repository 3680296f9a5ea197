//! Reads for several parts of a query from the store once.
//!
//! What one part reads is kept until every part has had it. All parts read the same runs of series;
//! one that did not would read for itself. What is kept counts for the budget of the query and has at
//! most a quarter of it; beyond that each part reads for itself too.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::budget::{Budget, Held};
use crate::chunk::Chunk;
use crate::storage::{SeriesReader, StoreError};

/// A reader for so many users.
pub(super) struct SharedReader {
    reader: Box<dyn SeriesReader>,
    users: usize,
    runs: Mutex<HashMap<Range<usize>, Run>>,
    budget: Arc<Budget>,
}

/// A run of series that not every user has read.
struct Run {
    users_left: usize,
    /// `None` = there is no room to keep it.
    read: Arc<OnceCell<Option<Kept>>>,
}

struct Kept {
    chunks: Vec<Vec<Chunk>>,
    _held: Held,
}

impl SharedReader {
    /// Shares `reader` among so many users.
    pub(super) fn new(reader: Box<dyn SeriesReader>, users: usize, budget: &Arc<Budget>) -> Self {
        Self { reader, users, runs: Mutex::default(), budget: Arc::clone(budget) }
    }

    /// One more user has the run; the last one takes it away.
    fn enter(&self, series: &Range<usize>) -> Arc<OnceCell<Option<Kept>>> {
        let mut runs = self.runs.lock();
        let run = runs
            .entry(series.clone())
            .or_insert_with(|| Run { users_left: self.users, read: Arc::default() });
        run.users_left -= 1;
        let read = Arc::clone(&run.read);
        if run.users_left == 0 {
            runs.remove(series);
        }
        read
    }

    /// Room for these chunks, if there is some.
    fn hold(&self, chunks: &[Vec<Chunk>]) -> Option<Held> {
        let bytes = |chunk: &Chunk| {
            size_of::<Chunk>() + chunk.data.len() + chunk.starts.len() + chunk.stamps.len()
        };
        self.budget.hold_if_quarter(chunks.iter().flatten().map(bytes).sum())
    }
}

#[async_trait]
impl SeriesReader for SharedReader {
    async fn read(&self, series: Range<usize>) -> Result<Vec<Vec<Chunk>>, StoreError> {
        let read = self.enter(&series);
        let mut own = None;
        let kept = read
            .get_or_try_init(|| async {
                let chunks = self.reader.read(series.clone()).await?;
                let Some(held) = self.hold(&chunks) else {
                    own = Some(chunks);
                    return Ok(None);
                };
                Ok::<_, StoreError>(Some(Kept { chunks, _held: held }))
            })
            .await?;
        match (own, kept) {
            (Some(chunks), _) => Ok(chunks),
            (None, Some(kept)) => Ok(kept.chunks.clone()),
            (None, None) => self.reader.read(series).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;
    use crate::chunk::encode_points;
    use crate::model::{Point, Value};
    use crate::promql::Settings;

    /// Ten series of a point each; counts how often it is asked.
    #[derive(Default)]
    struct Counting(Arc<AtomicUsize>);

    #[async_trait]
    impl SeriesReader for Counting {
        async fn read(&self, series: Range<usize>) -> Result<Vec<Vec<Chunk>>, StoreError> {
            self.0.fetch_add(1, Relaxed);
            tokio::task::yield_now().await;
            let point = |at: usize| Point {
                timestamp: at as i64,
                start_timestamp: 0,
                value: Value::Float(at as f64),
            };
            Ok(series.map(|at| encode_points(&[point(at)])).collect())
        }
    }

    fn shared(users: usize, max_bytes: usize) -> (SharedReader, Arc<AtomicUsize>, Arc<Budget>) {
        let budget = Budget::new(&Settings { max_bytes, ..Settings::default() });
        let reads = Arc::default();
        let reader = SharedReader::new(Box::new(Counting(Arc::clone(&reads))), users, &budget);
        (reader, reads, budget)
    }

    #[tokio::test]
    async fn a_run_is_read_once_and_forgotten_with_the_last_user() {
        let (reader, reads, budget) = shared(3, 1 << 20);
        let (first, second) = tokio::join!(reader.read(0..4), reader.read(0..4));
        assert_eq!(first.expect("readable"), second.expect("readable"));
        assert_eq!(reads.load(Relaxed), 1);
        assert!(budget.bytes() > 0);
        let third = reader.read(0..4).await.expect("readable");
        assert_eq!(third.iter().map(|chunks| chunks[0].min_time).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!((reads.load(Relaxed), budget.bytes()), (1, 0));
        assert!(reader.runs.lock().is_empty());
    }

    #[tokio::test]
    async fn other_runs_are_read_by_themselves() {
        let (reader, reads, _) = shared(2, 1 << 20);
        assert_eq!(reader.read(0..4).await.expect("readable").len(), 4);
        assert_eq!(reader.read(0..5).await.expect("readable").len(), 5);
        assert_eq!(reads.load(Relaxed), 2);
    }

    #[tokio::test]
    async fn without_room_each_user_reads() {
        let (reader, reads, budget) = shared(2, 40);
        for _ in 0..2 {
            assert_eq!(reader.read(0..4).await.expect("readable").len(), 4);
        }
        assert_eq!((reads.load(Relaxed), budget.bytes()), (2, 0));
    }
}
