//! The series index of a keyspace: finds series (`finder`), ensures the index rows of writes (`writer`), and forgets
//! what leads to no data (`forget`). It owns everything that memory holds of the index. Points are not read here.

use std::sync::Arc;

use scylla::value::CqlValue;
use tokio::sync::RwLock;

use crate::cql::connection::Cql;
use crate::cql::prepared::Preparer;
use crate::index::label_answers::LabelAnswers;
use crate::index::legacy_extents::LegacyExtents;
use crate::index::memory::IndexMemory;
use crate::index::mtime::Mtimes;
use crate::index::pages::{IndexCuts, IndexPages, Sliced};
use crate::index::series_cache::SeriesCache;
use crate::index::split_point::SplitPoint;
use crate::index::statements::IndexStatements;
use crate::index::tag_index::state::TagIndex;
use crate::lifetime::Lifetimes;
use crate::options::Options;
use crate::schema::OpenedKeyspace;
use crate::schema::tables::NameColumn;
use promkairos_kairos::RowSpec;
use promkairos_storage::Result;

/// The series index of a keyspace.
pub(crate) struct SeriesIndex {
    pub(crate) cql: Arc<Cql>,
    pub(crate) statements: IndexStatements,
    /// As the keyspace was opened: indexed tags and times to live that were set since are in `tags` and `lifetimes`.
    pub(crate) options: Options,
    pub(crate) spec: RowSpec,
    pub(crate) names: NameColumn,
    /// The times to live of data that is written now.
    lifetimes: parking_lot::RwLock<Arc<Lifetimes>>,
    pub(crate) memory: IndexMemory,
    pub(crate) series: SeriesCache,
    pub(crate) answers: LabelAnswers,
    pub(crate) mtimes: Mtimes,
    pub(crate) legacy: LegacyExtents,
    /// Where to cut index partitions that a server does not read in one statement.
    pub(crate) cuts: IndexCuts,
    pub(crate) tags: TagIndex,
    /// A write holds the read lock. A delete of a window's index rows takes the write lock for a moment, so that
    /// it does not remove rows that a write in progress relies on.
    pub(crate) gate: RwLock<()>,
}

impl SeriesIndex {
    pub(crate) async fn prepare(
        cql: &Arc<Cql>,
        on: &Preparer<'_>,
        found: &OpenedKeyspace,
        lifetimes: Lifetimes,
    ) -> Result<Self> {
        let options = on.options;
        let metrics = cql.executor.metrics.clone();
        Ok(Self {
            cql: Arc::clone(cql),
            statements: IndexStatements::prepare(on, &found.missing, found.names).await?,
            options: options.clone(),
            spec: found.row_spec,
            names: found.names,
            lifetimes: parking_lot::RwLock::new(Arc::new(lifetimes)),
            memory: IndexMemory::new(options.index_memory_rows),
            series: SeriesCache::new(options.series_cache_bytes, metrics),
            answers: LabelAnswers::default(),
            mtimes: Mtimes::default(),
            legacy: LegacyExtents::default(),
            cuts: IndexCuts::default(),
            tags: TagIndex::new(options.tag_index.metrics.clone()),
            gate: RwLock::default(),
        })
    }

    /// The times to live of data that is written now.
    pub(crate) fn lifetimes(&self) -> Arc<Lifetimes> {
        Arc::clone(&self.lifetimes.read())
    }

    /// Replaces the times to live of data that is written from now on.
    pub(crate) fn set_lifetimes(&self, lifetimes: Lifetimes) {
        *self.lifetimes.write() = Arc::new(lifetimes);
    }

    /// Forgets which index rows exist; they are read or written again.
    pub(crate) fn forget_known_rows(&self) {
        self.memory.forget_all();
    }

    /// Forgets everything that may be wrong after the keyspace lost what it had acknowledged.
    pub(crate) fn forget_all(&self) {
        self.memory.forget_all();
        self.series.forget_all();
        self.answers.forget_all();
    }

    /// Frees memory that only saves time.
    pub(crate) fn relieve(&self) {
        self.answers.forget_all();
        self.series.forget_all();
        self.memory.relieve();
        self.cql.executor.metrics.index_rows_remembered.set(self.memory.len() as i64);
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
        IndexPages::new((&self.cql.executor, &self.cuts), sliced, key, range)
    }
}
