//! An opened keyspace: the state that reading, writing and deleting share.

use std::sync::Arc;

use scylla::serialize::row::SerializeRow;
use scylla::value::CqlValue;
use tokio::sync::{Mutex, RwLock};

use crate::cql::clock::Skew;
use crate::cql::durability::Durability;
use crate::cql::executor::Executor;
use crate::cql::failure::{Failure, unreadable};
use crate::cql::prepared::Prepared;
use crate::cql::stamp::Stamps;
use crate::index::label_answers::LabelAnswers;
use crate::index::legacy::LegacyIndex;
use crate::index::memory::IndexMemory;
use crate::index::mtime::Mtimes;
use crate::index::pages::{IndexCuts, IndexPages, Sliced};
use crate::index::series_cache::SeriesCache;
use crate::index::split_point::SplitPoint;
use crate::index::tag_index::state::TagIndex;
use crate::lifetime::Lifetimes;
use crate::options::Options;
use crate::points::dead_cells::DeadCells;
use crate::points::epochs::Epochs;
use crate::points::read_cache::ReadCache;
use crate::points::spacing::Spacings;
use crate::quarantine::Quarantine;
use crate::schema::tables::NameColumn;
use crate::statements::Statements;
use promkairos_kairos::RowSpec;
use promkairos_storage::StoreError;

/// An opened keyspace.
pub(crate) struct Shared {
    pub(crate) executor: Executor,
    pub(crate) statements: Statements,
    pub(crate) options: Options,
    pub(crate) quarantine: Option<Quarantine>,
    pub(crate) spec: RowSpec,
    /// The times to live of data that is written now.
    pub(crate) lifetimes: parking_lot::RwLock<Arc<Lifetimes>>,
    pub(crate) names: NameColumn,
    pub(crate) stamps: Stamps,
    pub(crate) memory: IndexMemory,
    pub(crate) series: SeriesCache,
    pub(crate) answers: LabelAnswers,
    pub(crate) mtimes: Mtimes,
    pub(crate) legacy: LegacyIndex,
    pub(crate) spacings: Spacings,
    pub(crate) dead_cells: DeadCells,
    /// Where to cut index partitions that a server does not read in one statement.
    pub(crate) index_cuts: IndexCuts,
    pub(crate) skew: Skew,
    pub(crate) tags: TagIndex,
    /// What survives a kill of a node after Cassandra acknowledged a write.
    pub(crate) durability: Durability,
    /// None where the keyspace has no table for epochs.
    pub(crate) epochs: Option<Epochs>,
    pub(crate) read_cache: Option<Arc<ReadCache>>,
    /// A write holds the read lock. A delete of a window's index rows takes the write lock for a moment, so that
    /// it does not remove rows that a write in progress relies on.
    pub(crate) index_gate: RwLock<()>,
    /// Held by the task of a delete; one delete of index rows runs at a time.
    pub(crate) index_delete: Arc<Mutex<()>>,
}

impl Shared {
    /// The times to live of data that is written now.
    pub(crate) fn lifetimes(&self) -> Arc<Lifetimes> {
        Arc::clone(&self.lifetimes.read())
    }

    /// Frees memory of caches that only save time. Blocks.
    pub(crate) fn relieve(&self) {
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
    pub(crate) fn index_pages<'a>(
        &'a self,
        sliced: &'a Sliced,
        key: Vec<CqlValue>,
    ) -> IndexPages<'a> {
        self.index_range(sliced, key, [SplitPoint::FIRST, sliced.order.last()])
    }

    /// The rows of an index partition from one split point up to, but excluding, another.
    pub(crate) fn index_range<'a>(
        &'a self,
        sliced: &'a Sliced,
        key: Vec<CqlValue>,
        range: [SplitPoint; 2],
    ) -> IndexPages<'a> {
        IndexPages::new((&self.executor, &self.index_cuts), sliced, key, range)
    }

    /// Whether a SELECT of one column finds a row. A read that a server gives up on counts as found.
    pub(crate) async fn has_rows(
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
