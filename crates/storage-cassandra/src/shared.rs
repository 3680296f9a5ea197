//! An opened keyspace: the state that reading, writing and deleting share.

use std::sync::Arc;

use scylla::serialize::row::SerializeRow;
use scylla::value::CqlValue;
use tokio::sync::{Mutex, RwLock};

use super::clock::Skew;
use super::dead_cells::DeadCells;
use super::durability::Durability;
use super::epochs::Epochs;
use super::executor::{Executor, Failure, unreadable};
use super::index_memory::IndexMemory;
use super::index_pages::{IndexCuts, IndexPages, Sliced};
use super::label_answers::LabelAnswers;
use super::legacy_index::LegacyIndex;
use super::lifetime::Lifetimes;
use super::mtime::Mtimes;
use super::options::Options;
use super::quarantine::Quarantine;
use super::read_cache::ReadCache;
use super::series_cache::SeriesCache;
use super::spacing::Spacings;
use super::split_point::SplitPoint;
use super::stamp::Stamps;
use super::statements::{Prepared, Statements};
use super::tables::NameColumn;
use super::tag_index::TagIndex;
use promkairos_kairos::RowSpec;
use promkairos_storage::StoreError;

/// An opened keyspace.
pub(super) struct Shared {
    pub(super) executor: Executor,
    pub(super) statements: Statements,
    pub(super) options: Options,
    pub(super) quarantine: Option<Quarantine>,
    pub(super) spec: RowSpec,
    /// The times to live of data that is written now.
    pub(super) lifetimes: parking_lot::RwLock<Arc<Lifetimes>>,
    pub(super) names: NameColumn,
    pub(super) stamps: Stamps,
    pub(super) memory: IndexMemory,
    pub(super) series: SeriesCache,
    pub(super) answers: LabelAnswers,
    pub(super) mtimes: Mtimes,
    pub(super) legacy: LegacyIndex,
    pub(super) spacings: Spacings,
    pub(super) dead_cells: DeadCells,
    /// Where to cut index partitions that a server does not read in one statement.
    pub(super) index_cuts: IndexCuts,
    pub(super) skew: Skew,
    pub(super) tags: TagIndex,
    /// What survives a kill of a node after Cassandra acknowledged a write.
    pub(super) durability: Durability,
    /// None where the keyspace has no table for epochs.
    pub(super) epochs: Option<Epochs>,
    pub(super) read_cache: Option<Arc<ReadCache>>,
    /// A write holds the read lock. A delete of a window's index rows takes the write lock for a moment, so that
    /// it does not remove rows that a write in progress relies on.
    pub(super) index_gate: RwLock<()>,
    /// Held by the task of a delete; one delete of index rows runs at a time.
    pub(super) index_delete: Arc<Mutex<()>>,
}

impl Shared {
    /// The times to live of data that is written now.
    pub(super) fn lifetimes(&self) -> Arc<Lifetimes> {
        Arc::clone(&self.lifetimes.read())
    }

    /// Frees memory of caches that only save time. Blocks.
    pub(super) fn relieve(&self) {
        self.answers.forget_all();
        self.series.forget_all();
        self.spacings.forget_all();
        self.memory.relieve();
        self.executor.metrics.index_rows_remembered.set(self.memory.len() as i64);
        if let Some(cache) = &self.read_cache {
            cache.relieve();
        }
    }

    /// All rows of an index partition, page by page.
    pub(super) fn index_pages<'a>(
        &'a self,
        sliced: &'a Sliced,
        key: Vec<CqlValue>,
    ) -> IndexPages<'a> {
        self.index_range(sliced, key, [SplitPoint::FIRST, sliced.order.last()])
    }

    /// The rows of an index partition from one split point up to, but excluding, another.
    pub(super) fn index_range<'a>(
        &'a self,
        sliced: &'a Sliced,
        key: Vec<CqlValue>,
        range: [SplitPoint; 2],
    ) -> IndexPages<'a> {
        IndexPages::new((&self.executor, &self.index_cuts), sliced, key, range)
    }

    /// Whether a SELECT of one column finds a row. A read that a server gives up on counts as found.
    pub(super) async fn has_rows(
        &self,
        select: &Prepared,
        values: impl SerializeRow,
    ) -> Result<bool, StoreError> {
        let result = match self.executor.run(select, values, self.executor.deadline()).await {
            Err(Failure::Unread(_)) => return Ok(true),
            result => result?,
        };
        let rows = result.into_rows_result().map_err(|e| unreadable(select.name, e))?;
        // A partition of `row_keys` without rows keeps `mtime`, and returns one row of nulls.
        let first = rows.maybe_first_row::<(Option<CqlValue>,)>();
        let first = first.map_err(|e| unreadable(select.name, e))?;
        Ok(first.is_some_and(|(column,)| column.is_some()))
    }
}
