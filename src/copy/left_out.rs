//! Counts what a copy leaves out, by reason: one account for the report and for the exit code.
//!
//! Invariant: data of the source that is not in the target has a reason here, if a retry would not
//! change that. A count is never too large; a count that may be too small says so.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::storage::cassandra::Skipped;

/// Points outside of the years 1 to 9999, which promkairos neither accepts nor returns.
pub const TIME: &str = "time";
/// Start timestamps of floats, if the target cannot store them.
pub const START_TIMESTAMP: &str = "start_timestamp";
/// What the target refuses permanently.
pub const REFUSED: &str = "refused";

/// Each reason, and what it counts. Reasons of a keyspace are also in `promkairos_cassandra_skipped_total`.
pub const REASONS: [(&str, &str); 10] = [
    ("column", "cells whose column is no time"),
    ("data_type", "rows of series with a data type of others"),
    ("labels", "rows of series with tags that are no labels"),
    ("metadata", "families whose metadata cannot be read"),
    ("metric_name", "names of metrics that are no text"),
    (REFUSED, "points, exemplars or families that the target refuses"),
    ("row_key", "rows of an index that lead to no data"),
    (START_TIMESTAMP, "start timestamps of floats, for which the target has no room"),
    (TIME, "points outside of the years 1 to 9999"),
    ("value", "cells whose value cannot be read"),
];

/// What was left out, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeftOut(BTreeMap<String, Skipped>);

impl LeftOut {
    /// Adds items with a reason.
    pub fn add(&mut self, reason: &str, count: u64, first: impl FnOnce() -> String) {
        if count > 0 {
            let new = || Skipped { count: 0, at_least: false, first: first() };
            let of_reason = self.0.entry(reason.to_owned()).or_insert_with(new);
            of_reason.count = of_reason.count.saturating_add(count);
        }
    }

    /// Adds the counts of another run of the same copy. Both may have counted the same items: the sum is unknown.
    pub fn join(&mut self, other: &Self) {
        for (reason, more) in &other.0 {
            match self.0.get_mut(reason) {
                None => {
                    self.0.insert(reason.clone(), more.clone());
                }
                Some(known) => {
                    known.at_least |= more.at_least || known != more;
                    known.count = known.count.max(more.count);
                    known.first.clone_from(&more.first);
                }
            }
        }
    }

    /// The counts by reason.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Skipped)> {
        self.0.iter().map(|(reason, skipped)| (reason.as_str(), skipped))
    }

    /// Whether nothing was left out.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<crate::storage::cassandra::LeftOutByReason> for LeftOut {
    fn from(of_store: crate::storage::cassandra::LeftOutByReason) -> Self {
        Self(of_store.into_iter().map(|(reason, all)| (reason.to_owned(), all)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_two_runs_are_never_too_large() {
        let of = |pairs: &[(&str, u64)]| {
            let mut all = LeftOut::default();
            pairs.iter().for_each(|(reason, count)| all.add(reason, *count, || "x".into()));
            all
        };
        let mut all = of(&[(TIME, 3), ("value", 2), ("column", 0)]);
        all.join(&of(&[(TIME, 3), ("value", 5), ("labels", 1)]));
        let found: Vec<_> = all.iter().map(|(r, all)| (r, all.count, all.at_least)).collect();
        assert_eq!(found, [("labels", 1, false), (TIME, 3, false), ("value", 5, true)]);
        assert!(REASONS.is_sorted());
    }
}
