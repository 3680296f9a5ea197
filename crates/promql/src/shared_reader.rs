//! Reads series that several parts of a query use from the store only once.
//!
//! Series are read in blocks; a block is a run with a limit on series and bytes. A block is kept until every part has
//! read all of it, whatever runs the parts read. Kept blocks count in the budget of the query. If the query would
//! then hold more than a quarter of its limit, each part reads for itself.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::budget::{Budget, Held};
use promkairos_chunk::Chunk;
use promkairos_model::TimeRange;
use promkairos_model::limits::READ_RUN_BYTES;
use promkairos_storage::{Forecast, RunLength, SeriesReader, StoreError, chunk_bytes};

/// Most series of a block.
const BLOCK: usize = 64;

/// A reader that several users share.
pub(crate) struct SharedReader {
    reader: Box<dyn SeriesReader>,
    /// Where blocks begin, and where the last one ends.
    bounds: Vec<usize>,
    users: usize,
    /// Blocks by their first series.
    blocks: Mutex<HashMap<usize, Block>>,
    budget: Arc<Budget>,
}

/// A block that some users have not read completely.
struct Block {
    /// Series left to read, counted once for each user.
    left: usize,
    /// `None` = there is no room to keep it.
    read: Arc<OnceCell<Option<Kept>>>,
}

struct Kept {
    chunks: Vec<Vec<Chunk>>,
    _held: Held,
}

impl SharedReader {
    /// Shares the `reader` of `series` series among `users` users.
    pub(crate) fn new(
        reader: Box<dyn SeriesReader>,
        series: usize,
        users: usize,
        budget: &Arc<Budget>,
    ) -> Self {
        let length = RunLength::new(BLOCK, READ_RUN_BYTES, BLOCK);
        let mut bounds = vec![0];
        while let Some(first) = bounds.last().copied().filter(|first| *first < series) {
            bounds.push(length.run(&*reader, first, series).end);
        }
        Self { reader, bounds, users, blocks: Mutex::default(), budget: Arc::clone(budget) }
    }

    /// The block of a series.
    fn block(&self, series: usize) -> Range<usize> {
        let end = self.bounds.partition_point(|bound| *bound <= series);
        self.bounds[end - 1]..self.bounds[end]
    }

    /// Notes that a user reads `series` series of a block. The last read removes the block.
    fn enter(&self, block: &Range<usize>, series: usize) -> Arc<OnceCell<Option<Kept>>> {
        let mut blocks = self.blocks.lock();
        let (first, all) = (block.start, block.len() * self.users);
        let block =
            blocks.entry(first).or_insert_with(|| Block { left: all, read: Arc::default() });
        block.left = block.left.saturating_sub(series);
        let read = Arc::clone(&block.read);
        if block.left == 0 {
            blocks.remove(&first);
        }
        read
    }

    /// Reads some series of one block.
    async fn read_part(
        &self,
        block: Range<usize>,
        part: Range<usize>,
    ) -> Result<Vec<Vec<Chunk>>, StoreError> {
        let inside = part.start - block.start..part.end - block.start;
        let read = self.enter(&block, part.len());
        let mut own = None;
        let kept = read
            .get_or_try_init(|| async {
                let chunks = self.reader.read(block).await?;
                let Some(held) = self.budget.hold_if_quarter(chunk_bytes(&chunks)) else {
                    own = Some(chunks);
                    return Ok(None);
                };
                Ok::<_, StoreError>(Some(Kept { chunks, _held: held }))
            })
            .await?;
        match (own, kept) {
            (Some(chunks), _) => Ok(chunks[inside].to_vec()),
            (None, Some(kept)) => Ok(kept.chunks[inside].to_vec()),
            (None, None) => self.reader.read(part).await,
        }
    }
}

#[async_trait]
impl SeriesReader for SharedReader {
    async fn read(&self, series: Range<usize>) -> Result<Vec<Vec<Chunk>>, StoreError> {
        let mut all = Vec::with_capacity(series.len());
        let mut from = series.start;
        while from < series.end {
            let block = self.block(from);
            let end = series.end.min(block.end);
            all.extend(self.read_part(block, from..end).await?);
            from = end;
        }
        Ok(all)
    }

    async fn forecast(&self, range: TimeRange) -> Result<Forecast, StoreError> {
        self.reader.forecast(range).await
    }

    fn expected_bytes(&self, series: usize) -> Option<usize> {
        self.reader.expected_bytes(series)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;
    use crate::Settings;
    use promkairos_chunk::encode_points;
    use promkairos_model::{Point, Value};

    /// A hundred series of one point each; counts the reads.
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

        async fn forecast(&self, _: TimeRange) -> Result<Forecast, StoreError> {
            Ok(Forecast::default())
        }
    }

    fn shared(users: usize, max_bytes: usize) -> (SharedReader, Arc<AtomicUsize>, Arc<Budget>) {
        let budget = Settings { max_bytes, ..Settings::default() }.budget();
        let reads = Arc::default();
        let reader = Box::new(Counting(Arc::clone(&reads)));
        let reader = SharedReader::new(reader, 100, users, &budget);
        (reader, reads, budget)
    }

    /// Reads all series, `run` at a time, and checks that each read returns the right series.
    async fn read_all(reader: &SharedReader, run: usize) {
        for first in (0..100).step_by(run) {
            let end = 100.min(first + run);
            let found = reader.read(first..end).await.expect("readable");
            let times: Vec<i64> = found.iter().map(|chunks| chunks[0].min_time).collect();
            let want: Vec<i64> = (first..end).map(|at| at as i64).collect();
            assert_eq!(times, want);
        }
    }

    #[tokio::test]
    async fn a_block_is_read_once_and_forgotten_with_the_last_user() {
        let (reader, reads, budget) = shared(3, 1 << 20);
        tokio::join!(read_all(&reader, 64), read_all(&reader, 64));
        assert_eq!(reads.load(Relaxed), 2);
        assert!(budget.bytes() > 0);
        read_all(&reader, 64).await;
        assert_eq!((reads.load(Relaxed), budget.bytes()), (2, 0));
        assert!(reader.blocks.lock().is_empty());
    }

    #[tokio::test]
    async fn users_may_work_on_other_runs() {
        let (reader, reads, budget) = shared(4, 1 << 20);
        tokio::join!(
            read_all(&reader, 1),
            read_all(&reader, 7),
            read_all(&reader, 64),
            read_all(&reader, 100)
        );
        assert_eq!((reads.load(Relaxed), budget.bytes()), (2, 0));
    }

    #[tokio::test]
    async fn without_room_each_user_reads() {
        let (reader, reads, budget) = shared(2, 40);
        for _ in 0..2 {
            read_all(&reader, 64).await;
        }
        assert_eq!((reads.load(Relaxed), budget.bytes()), (4, 0));
    }
}
