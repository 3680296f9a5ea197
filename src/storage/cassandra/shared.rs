//! What reading, writing and deleting have in common: one keyspace, opened.

use std::sync::Arc;

use tokio::sync::{Mutex, RwLock};

use super::clock::Skew;
use super::executor::Executor;
use super::index_memory::IndexMemory;
use super::legacy_index::LegacyIndex;
use super::lifetime::Lifetimes;
use super::mtime::Mtimes;
use super::options::Options;
use super::quarantine::Quarantine;
use super::schema::NameColumn;
use super::series_cache::SeriesCache;
use super::stamp::Stamps;
use super::statements::Statements;
use super::tag_index::TagIndex;
use crate::kairos::RowSpec;

/// An opened keyspace.
pub(super) struct Shared {
    pub(super) executor: Executor,
    pub(super) statements: Statements,
    pub(super) options: Options,
    pub(super) quarantine: Option<Quarantine>,
    pub(super) spec: RowSpec,
    pub(super) lifetimes: Lifetimes,
    pub(super) names: NameColumn,
    pub(super) stamps: Stamps,
    pub(super) memory: IndexMemory,
    pub(super) series: SeriesCache,
    pub(super) mtimes: Mtimes,
    pub(super) legacy: LegacyIndex,
    pub(super) skew: Skew,
    pub(super) tags: TagIndex,
    /// Writes hold it to read, the delete of a window's index rows to write: it must not take away
    /// what a write has just relied on.
    pub(super) index_gate: RwLock<()>,
    /// Held by the task that deletes index rows, one at a time.
    pub(super) index_delete: Arc<Mutex<()>>,
}
