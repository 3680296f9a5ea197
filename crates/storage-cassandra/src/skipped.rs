//! Lists what a read skips in a keyspace because promkairos has no use for it (data types of others, invalid
//! labels, unreadable cells), for callers that must account for everything: each thing once, however often
//! it is read. A server only counts what its queries meet.
//!
//! Memory is bounded: beyond [`MOST_KEPT`] things nothing more is counted, and the count says so.

use std::collections::{BTreeMap, HashSet};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::cut::Cut;
use crate::identity::Identity;

/// The most things that are counted: 16 bytes each, and the table.
const MOST_KEPT: usize = 1_000_000;

/// What was skipped so far.
#[derive(Debug, Default)]
pub struct LeftOut(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    all: HashSet<Identity>,
    by_reason: LeftOutByReason,
}

/// What was skipped, by the reason of `promkairos_cassandra_skipped_total`.
pub type LeftOutByReason = BTreeMap<&'static str, Skipped>;

/// What was skipped for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The number of things.
    pub count: u64,
    /// Whether more things were skipped than were counted.
    pub at_least: bool,
    /// The first thing that was met, as text for people.
    pub first: String,
}

impl LeftOut {
    /// What was skipped so far, by reason.
    pub fn so_far(&self) -> LeftOutByReason {
        self.0.lock().by_reason.clone()
    }

    /// Counts a thing; its text identifies it.
    pub(crate) fn note(&self, reason: &'static str, what: &str) {
        let mut seen = self.0.lock();
        let identity = Identity::of(&[reason.as_bytes(), what.as_bytes()]);
        let (is_full, is_known) = (seen.all.len() >= MOST_KEPT, seen.all.contains(&identity));
        if is_known {
            return;
        }
        let first = || Skipped { first: Cut(what).to_string(), ..Skipped::default() };
        let of_reason = seen.by_reason.entry(reason).or_insert_with(first);
        match is_full {
            true => of_reason.at_least = true,
            false => {
                of_reason.count += 1;
                seen.all.insert(identity);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_counts_once_for_a_reason() {
        let left_out = LeftOut::default();
        for what in ["a", "b", "a"] {
            left_out.note("value", what);
        }
        left_out.note("column", &"ä".repeat(1_000));
        let all = left_out.so_far();
        let want = Skipped { count: 2, at_least: false, first: "a".into() };
        assert_eq!(all.get("value"), Some(&want));
        assert!(all["column"].first.ends_with("… (2000 bytes)"), "{all:?}");
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn more_than_memory_holds_is_said_to_be_more() {
        let left_out = LeftOut::default();
        for number in 0..=MOST_KEPT {
            left_out.note("value", &number.to_string());
        }
        let all = left_out.so_far();
        let want = Skipped { count: MOST_KEPT as u64, at_least: true, first: "0".into() };
        assert_eq!(all["value"], want);
        left_out.note("column", "c");
        let want = Skipped { count: 0, at_least: true, first: "c".into() };
        assert_eq!(left_out.so_far()["column"], want);
    }
}
