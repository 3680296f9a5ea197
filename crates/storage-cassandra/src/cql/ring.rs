//! Reads a whole table, page by page, over slices of the token ring.
//!
//! Cassandra gives up on a read that passes over more tombstones than `tombstone_failure_threshold`. Such a slice is
//! cut by token, down to a single partition. Invariant: each row is returned at least once, or the read fails. Rows
//! of a slice that was cut may be returned twice.

use scylla::client::session::Session;
use scylla::response::PagingState;

use crate::cql::executor::Executor;
use crate::cql::failure::Failure;
use crate::cql::once;
use crate::cql::prepared::Prepared;
use crate::cql::rows::Rows;
use promkairos_storage::{Result, StoreError};

/// Parts that a slice is cut into.
const PARTS: u32 = 16;

/// The first and the last token of the ring.
pub(crate) const WHOLE_RING: (i64, i64) = (i64::MIN, i64::MAX);

/// A read in progress.
pub(crate) struct RingPages<'a> {
    executor: &'a Executor,
    prepared: &'a Prepared,
    /// The remaining slices, by their first and last token; the last slice is read next.
    left: Vec<(i64, i64)>,
    /// Where the read of the current slice continues.
    state: Option<PagingState>,
}

impl<'a> RingPages<'a> {
    /// `prepared` is bound to the first and the last token.
    pub(crate) fn new(executor: &'a Executor, prepared: &'a Prepared) -> Self {
        Self { executor, prepared, left: vec![WHOLE_RING], state: None }
    }

    /// The next page; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Rows>, Failure> {
        while let Some(&slice) = self.left.last() {
            let state = self.state.take().unwrap_or_else(PagingState::start);
            let (first, last) = slice;
            let (page, next) = match self.executor.page(self.prepared, slice, &state).await {
                Err(Failure::Unread(_)) if first < last => {
                    self.left.pop();
                    self.left.extend(parts(first, last).rev());
                    continue;
                }
                page => page?,
            };
            if next.is_none() {
                self.left.pop();
            }
            self.state = next;
            return Ok(Some(page));
        }
        Ok(None)
    }
}

/// The tokens from `first` to `last`, both included, in [`PARTS`] parts of about equal size.
pub(crate) fn parts(first: i64, last: i64) -> impl DoubleEndedIterator<Item = (i64, i64)> {
    let most = u32::try_from(last.abs_diff(first)).unwrap_or(u32::MAX).saturating_add(1);
    let of = PARTS.min(most);
    (0..of).map(move |number| part((first, last), number, of))
}

/// One of `of` parts of about equal size of the tokens from `first` to `last`, both included.
pub(crate) fn part((first, last): (i64, i64), number: u32, of: u32) -> (i64, i64) {
    let (begin, count) = (i128::from(first), i128::from(last) - i128::from(first) + 1);
    let bound = |number: u32| begin + count * i128::from(number) / i128::from(of.max(1));
    let token = |bound: i128| i64::try_from(bound).expect("it lies between two tokens");
    (token(bound(number)), token(bound(number + 1) - 1))
}

/// Refuses a ring whose tokens are not Murmur3 tokens.
pub(crate) async fn check_partitioner(session: &Session) -> Result<()> {
    let cql = "SELECT partitioner FROM system.local";
    let found: Vec<(String,)> = once::rows(session, cql, ()).await?;
    match found.first() {
        Some((name,)) if !name.ends_with("Murmur3Partitioner") => {
            Err(StoreError::Invalid(format!("the partitioner {name} is none that can be scanned")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_a_slice_without_a_gap() {
        for (first, last) in [WHOLE_RING, (-3, 9), (5, 6), (i64::MAX - 40, i64::MAX)] {
            let mut next = i128::from(first);
            for (begin, end) in parts(first, last) {
                assert!(i128::from(begin) == next && begin <= end, "{begin} {end}");
                next = i128::from(end) + 1;
            }
            assert_eq!(next, i128::from(last) + 1);
        }
    }

    #[test]
    fn slices_cover_the_ring_without_a_gap() {
        for of in [1, 2, 3, 7, 256, 1_000] {
            let mut next = i128::from(i64::MIN);
            for number in 0..of {
                let (first, last) = part(WHOLE_RING, number, of);
                assert_eq!(i128::from(first), next, "{number} of {of}");
                assert!(first <= last);
                next = i128::from(last) + 1;
            }
            assert_eq!(next, i128::from(i64::MAX) + 1);
        }
    }
}
