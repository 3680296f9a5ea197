//! Why a statement failed, as far as callers treat it differently. Which errors of the driver mean what is in `retry`.

use promkairos_storage::{Result, StoreError};

/// Why a statement failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server will never accept these rows, or this number of keys; the text says why.
    Refused(String),
    /// A server gave up on the read that the text names: see [`Verdict::Unread`](crate::cql::retry::Verdict::Unread).
    Unread(String),
    /// Anything else.
    Store(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(why) => StoreError::backend("Cassandra", why),
            Failure::Unread(what) => StoreError::unavailable(what),
            Failure::Store(error) => error,
        }
    }
}

/// The result of a read; `None` where a server gives up on it.
pub(crate) fn if_read<T>(read: Result<T, Failure>) -> Result<Option<T>> {
    match read {
        Err(Failure::Unread(_)) => Ok(None),
        read => Ok(Some(read?)),
    }
}
