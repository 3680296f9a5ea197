//! Tests: a flush that begins only because of the interval is spread over time, until it becomes urgent.

use super::*;

/// A store below that takes flushes at the given pace.
#[derive(Default)]
struct Paced {
    store: MemoryStore,
    /// The number of flushes that came.
    flushes: AtomicU64,
}

#[async_trait]
impl Front for Paced {
    fn behind(&self) -> Result<&dyn Store, StoreError> {
        Ok(&self.store)
    }

    async fn ingest_flush(&self, flush: Flush<'_>) -> Result<FlushOutcome, StoreError> {
        let Flush { through, runs, exemplars, days, metadata, pace } = flush;
        let runs: Vec<_> = runs.collect();
        self.flushes.fetch_add(1, Ordering::SeqCst);
        pace.wait(runs.len().saturating_sub(1)).await;
        let runs = Box::new(runs.into_iter());
        self.store.ingest_flush(Flush { through, runs, exemplars, days, metadata, pace }).await
    }
}

/// The reason why a flush becomes urgent.
#[derive(Debug, Clone, Copy)]
enum Urgent {
    /// A caller waits for the flush.
    Flush,
    /// A delete waits for the end of the flush.
    Delete,
    /// The log is half full.
    Log,
    /// Memory is full, including the points of the flush.
    Memory,
    /// The process ends.
    Close,
    /// The head was dropped; the flush holds its log.
    Drop,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_at_the_interval_takes_its_time_until_something_is_urgent() {
    for urgent in
        [Urgent::Flush, Urgent::Delete, Urgent::Log, Urgent::Memory, Urgent::Close, Urgent::Drop]
    {
        let dir = tempfile::tempdir().expect("a folder");
        let (below, metrics) = (Arc::new(Paced::default()), HeadMetrics::default());
        let mut options = options(&dir);
        options.flush_interval = Duration::from_millis(1);
        // Far longer than this test waits.
        options.flush_spread = Duration::from_secs(24 * 3600);
        match urgent {
            Urgent::Log => options.wal_limit = 200_000,
            Urgent::Memory => options.flush_memory = 1_000,
            _ => {}
        }
        let front = Arc::new(Fronted(below.clone()));
        let head = open_over(options, front, metrics.clone()).await.expect("the head opens");
        let two = one("a", T, 1.0).series(&[("__name__", "b")]).sample(T, 2.0);
        put(&head, &two).await;
        eventually("a flush comes", async || match below.flushes.load(Ordering::SeqCst) {
            0 => Err("none".into()),
            _ => Ok(()),
        })
        .await;
        assert!(values(&below.store, "a").await.expect("readable").is_empty());
        assert_eq!(values(&head, "a").await.expect("readable"), [(T, 1.0)]);
        match urgent {
            Urgent::Flush => head.flush().await.expect("flushed"),
            Urgent::Delete => {
                let other = [Matcher::equal("__name__", "other")];
                head.delete(&other, TimeRange::ALL).await.expect("deleted");
            }
            Urgent::Log => {
                for written in 0.. {
                    if metrics.wal_bytes.get() > 100_000 {
                        break;
                    }
                    let mut batch = Batch::new();
                    for series in 0..40 {
                        let i = format!("{written}-{series}");
                        batch = batch.series(&[("__name__", "m"), ("i", &i)]).sample(T, 1.0);
                    }
                    put(&head, &batch).await;
                }
            }
            Urgent::Memory => {
                let samples = (1..=600).fold(one("a", T, 1.0), |batch, n| batch.sample(T + n, 1.0));
                put(&head, &samples).await;
            }
            Urgent::Close => head.close().await.expect("closed"),
            Urgent::Drop => drop(head),
        }
        eventually("the flush is done", async || {
            let points = values(&below.store, "a").await.expect("readable");
            match points.first() == Some(&(T, 1.0)) {
                true => Ok(()),
                false => Err(format!("{urgent:?}: {points:?}")),
            }
        })
        .await;
    }
}
