//! The kinds of findings: their names, meanings and remedies, as texts for operators;
//! `docs/doctor.md` says more. Nothing is decided here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// No row of `row_keys` leads to the data.
    UnindexedData,
    /// No row of `row_key_time_index` leads to the window of the data.
    MissingTimeIndex,
    /// The metric is not in the list of names.
    MissingName,
    /// An index row leads to nothing.
    IndexWithoutData,
    /// An index row expires before its data.
    IndexExpiresEarly,
    /// An indexed tag does not lead to a series.
    TagIndexGap,
    /// The old index has a row that the new one has too.
    DuplicateIndex,
    /// An index row is where rows of its type do not belong.
    MisplacedIndex,
    /// Rows that promkairos kept of series that are gone.
    Leftover,
    /// Data without `spec`.
    MissingSpec,
    /// Compaction by time takes milliseconds for microseconds.
    CompactionResolution,
    /// Write times that no later write can beat.
    LaterStamp,
    /// A row key that does not decode.
    UnreadableKey,
    /// Reads pass over many tombstones.
    ManyTombstones,
}

impl Kind {
    /// All kinds, in the order of the report.
    pub const ALL: [Self; 14] = [
        Self::UnindexedData,
        Self::MissingTimeIndex,
        Self::MissingName,
        Self::IndexWithoutData,
        Self::IndexExpiresEarly,
        Self::TagIndexGap,
        Self::DuplicateIndex,
        Self::MisplacedIndex,
        Self::Leftover,
        Self::MissingSpec,
        Self::CompactionResolution,
        Self::LaterStamp,
        Self::UnreadableKey,
        Self::ManyTombstones,
    ];

    /// The name in reports and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnindexedData => "unindexed-data",
            Self::MissingTimeIndex => "missing-time-index",
            Self::MissingName => "missing-name",
            Self::IndexWithoutData => "index-without-data",
            Self::IndexExpiresEarly => "index-expires-early",
            Self::TagIndexGap => "tag-index-gap",
            Self::DuplicateIndex => "duplicate-index",
            Self::MisplacedIndex => "misplaced-index",
            Self::Leftover => "leftover",
            Self::MissingSpec => "missing-spec",
            Self::CompactionResolution => "compaction-resolution",
            Self::LaterStamp => "later-stamp",
            Self::UnreadableKey => "unreadable-key",
            Self::ManyTombstones => "many-tombstones",
        }
    }

    /// The meaning of the kind.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::UnindexedData => "data that no query finds: its row in row_keys is missing",
            Self::MissingTimeIndex => {
                "data that no query finds: row_key_time_index does not list its row time"
            }
            Self::MissingName => "the metric has data but is not in the list of metric names",
            Self::IndexWithoutData => {
                "index rows of windows closed long ago that lead to no data, as of series that ended before \
                 their window began: each costs every query"
            }
            Self::IndexExpiresEarly => {
                "index rows that expire before their data, which nobody finds from then on"
            }
            Self::TagIndexGap => {
                "series that KairosDB does not find by a tag: their rows in \
                 tag_indexed_row_keys are missing"
            }
            Self::DuplicateIndex => {
                "rows of the legacy row_key_index that the new index has too: each costs every query"
            }
            Self::MisplacedIndex => {
                "index rows under the table_name of other types: KairosDB answers 500 when it \
                 meets a type of ours"
            }
            Self::Leftover => {
                "stale markers and exemplars of promkairos whose series has no point left: \
                 KairosDB, or its TTL, deleted the points"
            }
            Self::MissingSpec => {
                "there is data but no spec: the next program that starts has to guess the row unit"
            }
            Self::CompactionResolution => {
                "compaction by time without timestamp_resolution = MILLISECONDS: write times are \
                 in milliseconds, so nothing expires in time"
            }
            Self::LaterStamp => {
                "write times far in the future, as of a writer that stamps in microseconds: such \
                 a cell wins over every later write and cannot be deleted"
            }
            Self::UnreadableKey => {
                "row keys that neither KairosDB nor promkairos would have written"
            }
            Self::ManyTombstones => {
                "partitions in which a read passes over many deleted or expired rows: it is slow, and beyond \
                 tombstone_failure_threshold KairosDB answers 500, while promkairos reads in slices"
            }
        }
    }

    /// What `--fix` does; None = nothing, the kind is for information.
    pub fn remedy(self) -> Option<&'static str> {
        match self {
            Self::UnindexedData => {
                Some("writes the row into row_keys, after those of its indexed tags")
            }
            Self::MissingTimeIndex => {
                Some("writes the row into row_key_time_index, after those of indexed tags")
            }
            Self::MissingName => Some("writes the name into string_index"),
            Self::IndexWithoutData => Some("looks once more for data and deletes the index rows"),
            Self::IndexExpiresEarly => {
                Some("writes the index rows again with the time to live of the data and more")
            }
            Self::TagIndexGap => Some("writes the rows into tag_indexed_row_keys"),
            Self::DuplicateIndex => Some("deletes the rows of row_key_index"),
            Self::MisplacedIndex => Some("deletes these rows; the data has its own, or gets them"),
            Self::Leftover => Some("deletes them, and then their index rows"),
            Self::MissingSpec => Some("writes what a KairosDB reads into it: LEGACY"),
            Self::CompactionResolution => Some("alters the table, all other options stay"),
            Self::LaterStamp | Self::UnreadableKey | Self::ManyTombstones => None,
        }
    }

    /// What to do where `--fix` does nothing.
    pub fn advice(self) -> &'static str {
        match self {
            Self::ManyTombstones => {
                "compaction drops tombstones gc_grace_seconds after the delete or the expiry: see Tombstones in \
                 docs/cassandra.md"
            }
            _ => "for information: nothing can mend it",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let fixable = || Self::ALL.into_iter().filter(|kind| kind.remedy().is_some());
        fixable().find(|kind| kind.name() == name).ok_or_else(|| {
            let names: Vec<&str> = fixable().map(Self::name).collect();
            format!("{name:?} is nothing that can be fixed; that can: {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_json_and_of_the_command_line() {
        for kind in Kind::ALL {
            let json = serde_json::to_string(&kind).expect("a name");
            assert_eq!(json, format!("{:?}", kind.name()));
            assert_eq!(kind.name().parse::<Kind>().ok(), kind.remedy().map(|_| kind));
        }
        let error = "leftovers".parse::<Kind>().expect_err("no such kind");
        assert!(error.contains("leftover,") && !error.contains("later-stamp"), "{error}");
    }
}
