//! Errors of queries. The variant decides the error type of the answer. Texts are as in Prometheus where it has the
//! same error.

use std::time::Duration;

use tokio::task::JoinError;

use super::duration::DurationError;
use super::setting_names::MAX_BYTES;
use promkairos_storage::StoreError;

/// Why a query failed.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// Not a query, or not valid for this kind of request.
    #[error("{0}")]
    Invalid(String),
    /// The query cannot be evaluated over this data.
    #[error("{0}")]
    Execution(String),
    /// More samples in memory than allowed.
    #[error(
        "query processing would load too many samples into memory in query execution: \
         more than {limit}, which is the setting {setting}"
    )]
    TooManySamples {
        /// The limit.
        limit: usize,
        /// The setting of the limit.
        setting: &'static str,
    },
    /// The query costs more than allowed.
    #[error("{}", too_costly(*what, *limit, *of))]
    TooCostly {
        /// What there is too much of.
        what: Costly,
        /// The limit.
        limit: u64,
        /// The source of the limit.
        of: LimitSource,
    },
    /// Another limit was exceeded.
    #[error("{what}")]
    Limit {
        /// The text, which names the setting.
        what: String,
        /// The setting of the limit.
        setting: &'static str,
    },
    /// A queue or the memory is full now; the client may retry.
    #[error("{what}")]
    Busy {
        /// The text, which names the setting.
        what: String,
        /// The setting of the limit.
        setting: &'static str,
    },
    /// It took too long.
    #[error("query timed out in {place}: longer than {limit:?}, which is the {}", of.name())]
    TimedOut {
        /// The phase that the query was in.
        place: &'static str,
        /// The limit.
        limit: Duration,
        /// The source of the limit.
        of: LimitSource,
    },
    /// The client no longer waits for the answer.
    #[error("query was canceled in expression evaluation")]
    Canceled,
    /// The store failed.
    #[error("expanding series: {0}")]
    Store(#[from] StoreError),
}

/// The phase of a query that waits for a permit, as Prometheus names it.
pub(crate) const QUEUE: &str = "query queue";
/// The phase after that.
pub(crate) const EVALUATION: &str = "expression evaluation";

/// The phase before the query is parsed.
pub(crate) const COMPILING: &str = "compiling of regular expressions";

/// What a query has too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Costly {
    /// Series of its selectors.
    Series,
    /// Samples that it takes from the store.
    Samples,
}

/// Where a limit of a query comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitSource {
    /// The setting of this name.
    Setting(&'static str),
    /// This parameter of the request, which can only lower a limit.
    Request(&'static str),
}

impl LimitSource {
    fn name(self) -> String {
        match self {
            Self::Setting(name) => format!("setting {name}"),
            Self::Request(name) => format!("parameter {name} of the request"),
        }
    }
}

fn too_costly(what: Costly, limit: u64, of: LimitSource) -> String {
    let (much, of) = (
        match what {
            Costly::Series => "load too many series into memory",
            Costly::Samples => "read too many samples",
        },
        of.name(),
    );
    format!("query would {much} in query execution: more than {limit}, which is the {of}")
}

/// The result of work on another thread. A panic of that work is resumed in this thread.
pub(crate) fn joined<T>(done: Result<Result<T, QueryError>, JoinError>) -> Result<T, QueryError> {
    done.unwrap_or_else(|failed| match failed.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Err(QueryError::Canceled),
    })
}

impl QueryError {
    /// The setting of the exceeded limit, if there is one.
    pub fn setting(&self) -> Option<&'static str> {
        match self {
            Self::TooManySamples { setting, .. }
            | Self::Limit { setting, .. }
            | Self::Busy { setting, .. } => Some(*setting),
            Self::TimedOut { of, .. } | Self::TooCostly { of, .. } => match of {
                LimitSource::Setting(setting) => Some(*setting),
                LimitSource::Request(_) => None,
            },
            Self::Invalid(_) | Self::Execution(_) | Self::Canceled | Self::Store(_) => None,
        }
    }

    /// The error of a query that was in the queue for this time. If that is at least 90 % of its limit, the time-out
    /// is reported for the queue: a permit becomes free at last when queries that began at the same time run out of
    /// theirs.
    pub(crate) fn after_waiting(self, queued: Duration) -> Self {
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

    /// The error of a selection whose labels may take the whole memory limit of a query.
    pub fn of_selection(error: StoreError) -> Self {
        match error {
            StoreError::Limit(what) => {
                let what = format!("{what}, which is the setting {MAX_BYTES}");
                Self::Limit { what, setting: MAX_BYTES }
            }
            other => other.into(),
        }
    }

    /// Two series with the same labels have a point at the same time.
    pub(crate) fn same_labels() -> Self {
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
        let of = LimitSource::Setting("query-timeout");
        let late = || QueryError::TimedOut { place: EVALUATION, limit, of };
        let text = |waited: u64| late().after_waiting(Duration::from_millis(waited)).to_string();
        for waited in [0, 1_799] {
            let why = text(waited);
            assert!(why.starts_with("query timed out in expression evaluation: "), "{why}");
        }
        for waited in [1_800, 2_001] {
            let why = text(waited);
            assert!(why.starts_with("query timed out in query queue: longer than 2s"), "{why}");
        }
        let other = QueryError::Canceled.after_waiting(limit);
        assert!(matches!(other, QueryError::Canceled), "{other}");
    }
}
