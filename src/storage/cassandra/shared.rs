//! What reading, writing and deleting have in common: one keyspace, opened.

use tokio::sync::RwLock;

use super::clock::Skew;
use super::executor::Executor;
use super::index_memory::IndexMemory;
use super::options::Options;
use super::schema::NameColumn;
use super::stamp::Stamps;
use super::statements::Statements;
use crate::kairos::RowSpec;

/// An opened keyspace.
pub(super) struct Shared {
    pub(super) executor: Executor,
    pub(super) statements: Statements,
    pub(super) options: Options,
    pub(super) spec: RowSpec,
    pub(super) names: NameColumn,
    pub(super) stamps: Stamps,
    pub(super) memory: IndexMemory,
    pub(super) skew: Skew,
    /// Writes hold it to read, a delete of index rows to write: it must not take away what a write
    /// has just relied on.
    pub(super) index_gate: RwLock<()>,
}
