//! Deletes as tasks: points first, with the epochs of their metrics raised before and after, then index rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::Mutex;

use crate::cql::concurrent::all;
use crate::cql::stamp::{now_ms, pause};
use crate::delete::affected::{Affected, Windows, closed};
use crate::index::series_index::SeriesIndex;
use crate::points::epochs::EpochLog;
use crate::points::point_store::PointStore;
use promkairos_model::{Matcher, TimeRange};
use promkairos_storage::{Result, StoreError};

/// Delete statements that run at the same time.
const DELETES_AT_ONCE: usize = 64;

/// What happens to index rows that lead to no data any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IndexRows {
    Stay,
    Go,
}

/// Deletes series of a keyspace.
#[derive(Clone)]
pub(crate) struct Deletes {
    pub(super) index: Arc<SeriesIndex>,
    points: Arc<PointStore>,
    epochs: Arc<EpochLog>,
    /// Held by the task of a delete; one delete of index rows runs at a time.
    queue: Arc<Mutex<()>>,
}

impl Deletes {
    pub(crate) fn new(
        index: &Arc<SeriesIndex>,
        points: &Arc<PointStore>,
        epochs: &Arc<EpochLog>,
    ) -> Self {
        let (index, points, epochs) = (Arc::clone(index), Arc::clone(points), Arc::clone(epochs));
        Self { index, points, epochs, queue: Arc::default() }
    }

    /// Waits for the delete in progress.
    pub(crate) async fn wait(&self) {
        drop(self.queue.lock().await);
    }

    /// [`Store::delete`](promkairos_storage::Store::delete)
    pub(crate) async fn delete(&self, matchers: &[Matcher], range: TimeRange) -> Result<()> {
        self.index.cql.skew.check()?;
        let alone = Arc::clone(&self.queue).lock_owned().await;
        let (deletes, matchers) = (self.clone(), matchers.to_vec());
        let task = tokio::spawn(async move {
            let _alone = alone;
            let (stamp, wait) = deletes.index.cql.stamps.for_delete(now_ms());
            deletes.delete_by(&matchers, range, stamp, IndexRows::Go).await?;
            pause(wait).await;
            Ok(())
        });
        task.await.map_err(|error| StoreError::backend("a delete", error))?
    }

    /// Deletes points with a stamp, and raises the epochs for read caches. Index rows stay.
    pub(crate) async fn delete_points(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        stamp: i64,
    ) -> Result<()> {
        self.delete_by(matchers, range, stamp, IndexRows::Stay).await
    }

    async fn delete_by(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        stamp: i64,
        index_rows: IndexRows,
    ) -> Result<()> {
        let mut metrics = BTreeSet::new();
        let mut affected = Affected::find(&self.index, matchers, range).await?;
        while let Some((_, windows)) = affected.next().await? {
            self.delete_windows(windows, range, (stamp, index_rows), &mut metrics).await?;
        }
        Ok(())
    }

    /// Deletes the points of rows, and index rows where due. `metrics` are those whose epochs were raised.
    async fn delete_windows(
        &self,
        mut windows: Windows,
        range: TimeRange,
        (stamp, index_rows): (i64, IndexRows),
        metrics: &mut BTreeSet<String>,
    ) -> Result<()> {
        let of_windows: BTreeSet<&str> = windows.keys().map(|window| &*window.metric).collect();
        let of_windows: Vec<&str> = of_windows.into_iter().collect();
        let new = of_windows.iter().copied().filter(|metric| !metrics.contains(*metric));
        let new: Vec<&str> = new.collect();
        self.epochs.raise(&new, self.index.cql.executor.deadline()).await?;
        let deletes = windows.values().flat_map(|rows| self.points.remove(rows, range, stamp));
        let deleted = all(DELETES_AT_ONCE, Box::new(deletes)).await;
        // A failed delete may be done in part.
        let raised = self.epochs.raise(&of_windows, self.index.cql.executor.deadline()).await;
        metrics.extend(new.into_iter().map(str::to_owned));
        deleted?;
        raised?;
        // Only index rows of closed windows are deleted.
        let closed = closed();
        windows.retain(|window, _| self.index.spec.covers(window.row_time, closed));
        if windows.is_empty() || index_rows == IndexRows::Stay {
            return Ok(());
        }
        self.delete_index_rows(windows).await
    }

    /// Deletes our part of the rows of `row_keys` that lead to rows without data, and of the time
    /// index where no row of the window is left.
    async fn delete_index_rows(&self, windows: Windows) -> Result<()> {
        for (window, rows) in windows {
            let is_alone = self.index.is_alone().await?;
            let forgetting = self.index.begin_forget(window.key()).await;
            let dead = self.points.without_cells(rows).await;
            let wait = self.index.end_forget(forgetting, dead, is_alone).await?;
            pause(wait).await;
        }
        Ok(())
    }
}
