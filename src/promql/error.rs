//! Why a query has no answer. The variant decides what a client is told; texts are Prometheus' own
//! where it has one.

use std::time::Duration;

use tokio::task::JoinError;

use super::duration::DurationError;
use super::settings::{MAX_BYTES, TIMEOUT};
use crate::storage::StoreError;

/// Why a query failed.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The text is not a query, or not one that can be asked so.
    #[error("{0}")]
    Invalid(String),
    /// The data do not allow what the query wants.
    #[error("{0}")]
    Execution(String),
    /// More samples in memory than allowed.
    #[error(
        "query processing would load too many samples into memory in query execution: \
         more than {limit}, which is the setting {setting}"
    )]
    TooManySamples {
        /// How many are allowed.
        limit: usize,
        /// The setting that says so.
        setting: &'static str,
    },
    /// Another limit was passed.
    #[error("{what}")]
    Limit {
        /// Which one; names its setting.
        what: String,
        /// The setting that says so.
        setting: &'static str,
    },
    /// There is no room now: it may be asked again.
    #[error("{what}")]
    Busy {
        /// Where; names its setting.
        what: String,
        /// The setting that says so.
        setting: &'static str,
    },
    /// It took too long.
    #[error("query timed out in {place}: longer than {limit:?}, which is the {}", of.name())]
    TimedOut {
        /// What was being done.
        place: &'static str,
        /// How long it may take.
        limit: Duration,
        /// Who says so.
        of: TimeLimit,
    },
    /// Nobody waits for the answer.
    #[error("query was canceled in expression evaluation")]
    Canceled,
    /// The store failed.
    #[error("expanding series: {0}")]
    Store(#[from] StoreError),
}

/// Where a query is, as Prometheus names it: waiting for its turn.
pub(super) const QUEUE: &str = "query queue";
/// The same, after that.
pub(super) const EVALUATION: &str = "expression evaluation";

/// The same before it has a tree.
pub(super) const COMPILING: &str = "compiling of regular expressions";

/// Who says how long a query may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeLimit {
    /// A setting.
    Setting,
    /// The request itself, which can only shorten the time.
    Request,
}

impl TimeLimit {
    fn name(self) -> &'static str {
        match self {
            Self::Setting => "setting query-timeout",
            Self::Request => "parameter timeout of the request",
        }
    }
}

/// What work of a query on another thread gives; its panic goes on in this one.
pub(super) fn joined<T>(done: Result<Result<T, QueryError>, JoinError>) -> Result<T, QueryError> {
    done.unwrap_or_else(|failed| match failed.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Err(QueryError::Canceled),
    })
}

impl QueryError {
    /// The setting whose limit was passed, if it is one.
    pub fn setting(&self) -> Option<&'static str> {
        match self {
            Self::TooManySamples { setting, .. }
            | Self::Limit { setting, .. }
            | Self::Busy { setting, .. } => Some(*setting),
            Self::TimedOut { of: TimeLimit::Setting, .. } => Some(TIMEOUT),
            Self::TimedOut { of: TimeLimit::Request, .. }
            | Self::Invalid(_)
            | Self::Execution(_)
            | Self::Canceled
            | Self::Store(_) => None,
        }
    }

    /// The same of a query that waited so long for its turn. Where that was nearly all of its time, its time was
    /// over in the queue: a turn comes at last when others, which began with it, run out of theirs.
    pub(super) fn after_waiting(self, queued: Duration) -> Self {
        match self {
            Self::TimedOut { limit, of, .. } if queued >= limit - limit / 10 => {
                Self::TimedOut { place: QUEUE, limit, of }
            }
            error => error,
        }
    }

    /// An error of the evaluation with this text.
    pub fn execution(text: impl Into<String>) -> Self {
        Self::Execution(text.into())
    }

    /// Why a selection failed whose labels may take as much as a query may hold.
    pub(crate) fn of_selection(error: StoreError) -> Self {
        match error {
            StoreError::Limit(what) => {
                let what = format!("{what}, which is the setting {MAX_BYTES}");
                Self::Limit { what, setting: MAX_BYTES }
            }
            other => other.into(),
        }
    }

    /// Two points of one label set at one time.
    pub(super) fn same_labels() -> Self {
        Self::execution("vector cannot contain metrics with the same labelset")
    }
}

impl From<DurationError> for QueryError {
    fn from(error: DurationError) -> Self {
        Self::Invalid(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waited_nearly_all_of_its_time_ran_out_of_it_in_the_queue() {
        let limit = Duration::from_secs(2);
        let late = || QueryError::TimedOut { place: EVALUATION, limit, of: TimeLimit::Setting };
        let told = |waited: u64| late().after_waiting(Duration::from_millis(waited)).to_string();
        for waited in [0, 1_799] {
            let why = told(waited);
            assert!(why.starts_with("query timed out in expression evaluation: "), "{why}");
        }
        for waited in [1_800, 2_001] {
            let why = told(waited);
            assert!(why.starts_with("query timed out in query queue: longer than 2s"), "{why}");
        }
        let other = QueryError::Canceled.after_waiting(limit);
        assert!(matches!(other, QueryError::Canceled), "{other}");
    }
}
