//! Pages of answers: their rows, what they cost, and the tombstones that they passed over.

use scylla::client::session::Session;

use crate::cql::once;
use promkairos_storage::Result;

/// This number of rows of a page costs as much as one read.
pub(super) const ROWS_A_READ: usize = 100;

/// The default of `tombstone_failure_threshold`, also where the server does not report it.
const DEFAULT_THRESHOLD: u64 = 100_000;

/// A page of a query has five times the rows of a page of a scan, so it passes over five times the tombstones.
const SHARE: u64 = 5;

/// The most tombstones in the warnings of an answer: "Read 0 live rows and 1234 tombstone cells for query ..."
/// (`ReadCommand` of Cassandra 3 to 5), or "... scanned over 1234 tombstones ..." with read thresholds.
pub(super) fn tombstones<'a>(warnings: impl Iterator<Item = &'a str>) -> u64 {
    let number = |warning: &'a str| {
        let (before, _) = warning.split_once(" tombstone")?;
        before.rsplit(' ').next()?.parse().ok()
    };
    warnings.filter_map(number).max().unwrap_or(0)
}

/// The number of tombstones in a page of a scan from which a query might fail.
pub(super) async fn many_tombstones(session: &Session) -> u64 {
    let cql = "SELECT value FROM system_views.settings WHERE name = 'tombstone_failure_threshold'";
    let said: Result<Vec<(Option<String>,)>> = once::rows(session, cql, ()).await;
    let said = said.ok().and_then(|rows| rows.into_iter().next()?.0?.parse().ok());
    (said.unwrap_or(DEFAULT_THRESHOLD) / SHARE).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_say_how_many_tombstones_there_were() {
        let four = "Read 12 live rows and 3456 tombstone cells for query SELECT a FROM b WHERE c; \
                    token -12 (see tombstone_warn_threshold)";
        let thresholds =
            "1 nodes scanned over 77 tombstones and issued tombstone warnings for query";
        let other = "Aggregation query used without partition key";
        assert_eq!(tombstones([other, thresholds, four].into_iter()), 3456);
        assert_eq!(tombstones([other].into_iter()), 0);
    }
}
