//! The pages of a SELECT, one after the other; each has the request timeout anew.

use scylla::response::PagingState;
use scylla::serialize::row::SerializeRow;

use crate::cql::executor::Executor;
use crate::cql::failure::Failure;
use crate::cql::prepared::Prepared;
use crate::cql::rows::Rows;

/// A read in progress.
pub(crate) struct Pages<'a, V> {
    executor: &'a Executor,
    select: &'a Prepared,
    values: V,
    /// Where the next page begins; none = everything is read.
    next: Option<PagingState>,
}

impl<'a, V: SerializeRow> Pages<'a, V> {
    pub(crate) fn new(executor: &'a Executor, select: &'a Prepared, values: V) -> Self {
        Self { executor, select, values, next: Some(PagingState::start()) }
    }

    /// Whether everything is read.
    pub(crate) fn is_done(&self) -> bool {
        self.next.is_none()
    }

    /// The next page; `None` at the end. A page that is not read, or whose future is dropped, stays the next one.
    pub(crate) async fn next(&mut self) -> Result<Option<Rows>, Failure> {
        let Some(state) = &self.next else { return Ok(None) };
        let (page, next) = self.executor.page(self.select, &self.values, state).await?;
        self.next = next;
        Ok(Some(page))
    }
}
