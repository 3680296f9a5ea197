//! Decides what an error of the driver means: retry, report the store as away, or give the row up.
//!
//! Pure: errors in, a verdict out. Every statement is idempotent, so a retry is always safe. The driver itself
//! retries nothing; the executor paces retries.
//!
//! Cassandra returns one code, `Invalid`, for a faulty row and for a table that was dropped or altered; older
//! versions return a server error for a row that is too large. An error counts as the row's only where its text
//! certainly says so; no row is given up for any other error.

use std::time::Duration;

use scylla::errors::{BadQuery, DbError, ExecutionError, RequestAttemptError};

/// What to do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// May pass by itself: retry while there is time; then the store is away.
    Again,
    /// No node can be reached: retry for a moment only.
    Unreached,
    /// These rows or keys can never be accepted together; other rows, or each row alone, may be.
    Refused,
    /// The login lacks a permission, until an operator grants it.
    Denied,
    /// A server gave up on a read, usually because of dead cells and rows on its way: a smaller read may succeed.
    Unread,
    /// Neither time nor other values help.
    Broken,
}

/// Judges an error.
pub(crate) fn judge(error: &ExecutionError) -> Verdict {
    match error {
        ExecutionError::EmptyPlan | ExecutionError::ConnectionPoolError(_) => Verdict::Unreached,
        ExecutionError::RequestTimeout(_)
        | ExecutionError::SchemaAgreementError(_)
        | ExecutionError::MetadataError(_)
        | ExecutionError::PrepareError(_) => Verdict::Again,
        ExecutionError::BadQuery(BadQuery::ValuesTooLongForKey(..)) => Verdict::Refused,
        ExecutionError::LastAttemptError(error) => judge_attempt(error),
        _ => Verdict::Broken,
    }
}

/// Whether an error says that servers are overloaded, not that they are away.
pub(crate) fn is_overload(error: &ExecutionError) -> bool {
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::UnableToAllocStreamId) => true,
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _)) => matches!(
            error,
            DbError::Overloaded | DbError::WriteTimeout { .. } | DbError::RateLimitReached { .. }
        ),
        _ => false,
    }
}

fn judge_attempt(error: &RequestAttemptError) -> Verdict {
    match error {
        RequestAttemptError::UnableToAllocStreamId
        | RequestAttemptError::BrokenConnectionError(_)
        | RequestAttemptError::RepreparedIdChanged { .. }
        | RequestAttemptError::RepreparedIdMissingInBatch => Verdict::Again,
        RequestAttemptError::DbError(DbError::Invalid, why) => judge_invalid(why),
        RequestAttemptError::DbError(DbError::ServerError, why) if is_oversized(why) => {
            Verdict::Refused
        }
        RequestAttemptError::DbError(error, _) => judge_answer(error),
        _ => Verdict::Broken,
    }
}

fn judge_answer(error: &DbError) -> Verdict {
    match error {
        DbError::Unavailable { .. }
        | DbError::Overloaded
        | DbError::IsBootstrapping
        | DbError::TruncateError
        | DbError::ReadTimeout { .. }
        | DbError::WriteTimeout { .. }
        | DbError::WriteFailure { .. }
        | DbError::Unprepared { .. }
        | DbError::RateLimitReached { .. }
        | DbError::ServerError => Verdict::Again,
        DbError::ReadFailure { .. } => Verdict::Unread,
        DbError::Unauthorized => Verdict::Denied,
        _ => Verdict::Broken,
    }
}

/// The beginnings of Cassandra's errors about the size of rows; all but the first two also occur for the
/// size of a batch.
const TOO_LARGE: [&str; 5] = [
    "Key length of ",
    // The operator's limit on one cell.
    "Guardrail column_value_size violated",
    "Request is too big",
    "Batch too large",
    OVERSIZED,
];
/// The error about the size of a mutation, which is all that a request writes to one partition.
const OVERSIZED: &str = "Rejected an oversized mutation (";
/// The same error as a server error: of Cassandra 4, and of versions before it.
const OVERSIZED_OF_OLD: [&str; 2] = ["Encountered an oversized mutation (", "Mutation of "];

/// The beginnings of errors about the number of keys in a SELECT.
const TOO_MANY_KEYS: [&str; 2] = [
    "Guardrail partition_keys_in_select violated",
    "Guardrail in_select_cartesian_product violated",
];

/// The beginning of the error about the rows of a page.
const TOO_LARGE_PAGE: &str = "Guardrail page_size violated";

/// The allowed rows of a page, from the text of an error about it: its last number.
pub(crate) fn rows_of_page(why: &str) -> Option<i32> {
    let about_pages = why.find(TOO_LARGE_PAGE).map(|at| &why[at..])?;
    let number = about_pages.rsplit(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty());
    number?.parse().ok().filter(|rows| *rows > 0)
}

fn judge_invalid(why: &str) -> Verdict {
    let refusals = TOO_LARGE.iter().chain(&TOO_MANY_KEYS).chain([&TOO_LARGE_PAGE]);
    if refusals.into_iter().any(|beginning| why.starts_with(beginning)) {
        Verdict::Refused
    } else {
        Verdict::Broken
    }
}

/// Whether a server error is about the size of a mutation; its text begins with the class.
fn is_oversized(why: &str) -> bool {
    let text = why.split_once("Exception: ").map_or(why, |(_, text)| text);
    let [four, before] = OVERSIZED_OF_OLD;
    text.starts_with(four)
        || text.starts_with(before) && text.contains(" is too large for the maximum size of ")
}

/// How long to wait before attempt number `attempt` (the first retry is 1).
pub(crate) fn pause(attempt: u32) -> Duration {
    const FIRST: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_secs(1);
    FIRST.saturating_mul(1 << (attempt.saturating_sub(1)).min(8)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use scylla::errors::{ConnectionPoolError, WriteType};

    use super::*;

    #[test]
    fn a_limit_of_pages_says_how_many_rows() {
        let why = "Guardrail page_size violated: Query for table row_keys with page size 5000 exceeds fail threshold \
                   of 700.";
        assert_eq!(rows_of_page(why), Some(700));
        assert_eq!(rows_of_page("Guardrail page_size violated"), None);
        assert_eq!(rows_of_page("Key length of 70000 is longer than maximum of 65535"), None);
    }

    #[test]
    fn verdicts() {
        let said = |error: DbError, why: &str| {
            judge(&ExecutionError::LastAttemptError(RequestAttemptError::DbError(
                error,
                why.into(),
            )))
        };
        let answer = |error: DbError| said(error, "");
        let invalid = |why: &str| said(DbError::Invalid, why);
        let consistency = scylla::statement::Consistency::LocalQuorum;
        let timeout = DbError::WriteTimeout {
            consistency,
            received: 1,
            required: 2,
            write_type: WriteType::Simple,
        };
        let unavailable = DbError::Unavailable { consistency, required: 2, alive: 1 };
        for (got, want) in [
            (answer(timeout), Verdict::Again),
            (answer(unavailable), Verdict::Again),
            (answer(DbError::Overloaded), Verdict::Again),
            (answer(DbError::IsBootstrapping), Verdict::Again),
            (answer(DbError::ServerError), Verdict::Again),
            (answer(DbError::Invalid), Verdict::Broken),
            (invalid("Key length of 70000 is longer than maximum of 65535"), Verdict::Refused),
            (invalid("Request is too big: length 17825872 exceeds"), Verdict::Refused),
            (invalid("Batch too large"), Verdict::Refused),
            (
                invalid(
                    "Guardrail column_value_size violated: Value of column 'value' has size 3.164KiB, \
                     this exceeds the failure threshold of 1KiB.",
                ),
                Verdict::Refused,
            ),
            (
                invalid(
                    "Rejected an oversized mutation (270045/262144) for keyspace: k. Top keys are: \
                     data_points.7570",
                ),
                Verdict::Refused,
            ),
            (
                said(
                    DbError::ServerError,
                    "org.apache.cassandra.db.MutationExceededMaxSizeException: Encountered an \
                     oversized mutation (270045/262144) for keyspace: k. Top keys are: data_points.75",
                ),
                Verdict::Refused,
            ),
            (
                said(
                    DbError::ServerError,
                    "java.lang.IllegalArgumentException: Mutation of 17.000MiB is too large for the \
                     maximum size of 16.000MiB",
                ),
                Verdict::Refused,
            ),
            (said(DbError::ServerError, "Mutation of a schema failed"), Verdict::Again),
            (
                invalid(
                    "Guardrail user_timestamps violated: User provided timestamps is not allowed",
                ),
                Verdict::Broken,
            ),
            (invalid("table data_points does not exist"), Verdict::Broken),
            (invalid("keyspace k does not exist"), Verdict::Broken),
            (invalid("Undefined column name value in table k.data_points"), Verdict::Broken),
            (invalid("Expected 8 or 0 byte long (9)"), Verdict::Broken),
            (invalid("ttl is too large. requested (7) maximum (6)"), Verdict::Broken),
            (answer(DbError::SyntaxError), Verdict::Broken),
            (answer(DbError::Unauthorized), Verdict::Denied),
            (answer(DbError::AuthenticationError), Verdict::Broken),
            (answer(DbError::ConfigError), Verdict::Broken),
            (answer(DbError::ProtocolError), Verdict::Broken),
            (answer(DbError::Other(0x9999)), Verdict::Broken),
            (judge(&ExecutionError::EmptyPlan), Verdict::Unreached),
            (judge(&ExecutionError::RequestTimeout(Duration::ZERO)), Verdict::Again),
            (
                judge(&ExecutionError::ConnectionPoolError(ConnectionPoolError::Initializing)),
                Verdict::Unreached,
            ),
            (judge(&RequestAttemptError::UnableToAllocStreamId.into()), Verdict::Again),
            (judge(&BadQuery::ValuesTooLongForKey(70_000, 65_535).into()), Verdict::Refused),
        ] {
            assert_eq!(got, want);
        }
    }

    #[test]
    fn what_says_overload() {
        let answer = |error: DbError| {
            is_overload(&RequestAttemptError::DbError(error, String::new()).into())
        };
        let consistency = scylla::statement::Consistency::Quorum;
        let (received, required, write_type) = (1, 2, WriteType::UnloggedBatch);
        assert!(answer(DbError::WriteTimeout { consistency, received, required, write_type }));
        assert!(answer(DbError::Overloaded));
        // One node that hangs is no reason to send less to the others.
        assert!(!is_overload(&ExecutionError::RequestTimeout(Duration::ZERO)));
        assert!(is_overload(&RequestAttemptError::UnableToAllocStreamId.into()));
        assert!(!answer(DbError::Unavailable { consistency, required: 2, alive: 1 }));
        assert!(!answer(DbError::Invalid));
        assert!(!is_overload(&ExecutionError::EmptyPlan));
    }

    #[test]
    fn pauses_double_up_to_a_second() {
        let millis: Vec<_> = (1..=9).map(|n| pause(n).as_millis()).collect();
        assert_eq!(millis, [20, 40, 80, 160, 320, 640, 1000, 1000, 1000]);
        assert_eq!(pause(u32::MAX), Duration::from_secs(1));
    }
}
