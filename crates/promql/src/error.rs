//! Why a query has no answer. The variant decides what a client is told; texts are Prometheus' own
//! where it has one.

use std::time::Duration;

use tokio::task::JoinError;

use super::duration::DurationError;
use super::settings::MAX_BYTES;
use promkairos_storage::StoreError;

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
    /// It costs more than allowed.
    #[error("{}", too_costly(*what, *limit, *of))]
    TooCostly {
        /// What there is too much of.
        what: Costly,
        /// How much is allowed.
        limit: u64,
        /// Who says so.
        of: LimitSource,
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
        of: LimitSource,
    },
    /// Nobody waits for the answer.
    #[error("query was canceled in expression evaluation")]
    Canceled,
    /// The store failed.
    #[error("expanding series: {0}")]
    Store(#[from] StoreError),
}

/// Where a query is, as Prometheus names it: waiting for its turn.
pub(crate) const QUEUE: &str = "query queue";
/// The same, after that.
pub(crate) const EVALUATION: &str = "expression evaluation";

/// The same before it has a tree.
pub(crate) const COMPILING: &str = "compiling of regular expressions";

/// What a query may have too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Costly {
    /// Series of its selectors.
    Series,
    /// Samples that it takes from the store.
    Samples,
}

/// Who says how much a query may cost, or how long it may take.
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

/// What work of a query on another thread gives; its panic goes on in this one.
pub(crate) fn joined<T>(done: Result<Result<T, QueryError>, JoinError>) -> Result<T, QueryError> {
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
            Self::TimedOut { of, .. } | Self::TooCostly { of, .. } => match of {
                LimitSource::Setting(setting) => Some(*setting),
                LimitSource::Request(_) => None,
            },
            Self::Invalid(_) | Self::Execution(_) | Self::Canceled | Self::Store(_) => None,
        }
    }

    /// The same of a query that waited so long for its turn. Where that was nearly all of its time, its time was
    /// over in the queue: a turn comes at last when others, which began with it, run out of theirs.
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

    /// Why a selection failed whose labels may take as much as a query may hold.
    pub fn of_selection(error: StoreError) -> Self {
        match error {
            StoreError::Limit(what) => {
                let what = format!("{what}, which is the setting {MAX_BYTES}");
                Self::Limit { what, setting: MAX_BYTES }
            }
            other => other.into(),
        }
    }

    /// Two points of one label set at one time.
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
