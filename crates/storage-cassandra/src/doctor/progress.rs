//! The progress of a check: enough to continue in another process. No I/O.

use std::collections::BTreeSet;
use std::iter::successors;

use serde::{Deserialize, Serialize};

use crate::doctor::gathered::Gathered;
use crate::doctor::kind::Kind;
use crate::doctor::part::Part;
use crate::doctor::report::Report;
use crate::doctor::settings::Depth;

/// What is scanned, in this order. Data comes first, so that its missing index rows exist when the
/// index is scanned. The tag index comes before the rows that it should lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Tables, their settings, and `spec`.
    Keyspace,
    /// `data_points`
    Data,
    /// `tag_indexed_row_keys`
    TagIndex,
    /// `row_keys`
    RowKeys,
    /// `row_key_time_index`
    RowTimes,
    /// `row_key_index`
    LegacyIndex,
    /// `string_index`
    Names,
    /// The check has ended.
    Done,
}

impl Stage {
    /// All stages, in order.
    fn all() -> impl Iterator<Item = Self> {
        successors(Some(Self::Keyspace), |stage| (*stage != Self::Done).then(|| stage.next()))
    }

    /// The stage after this one.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Keyspace => Self::Data,
            Self::Data => Self::TagIndex,
            Self::TagIndex => Self::RowKeys,
            Self::RowKeys => Self::RowTimes,
            Self::RowTimes => Self::LegacyIndex,
            Self::LegacyIndex => Self::Names,
            Self::Names | Self::Done => Self::Done,
        }
    }

    /// The name in a progress bar.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keyspace => "keyspace",
            Self::Data => "data_points",
            Self::TagIndex => "tag_indexed_row_keys",
            Self::RowKeys => "row_keys",
            Self::RowTimes => "row_key_time_index",
            Self::LegacyIndex => "row_key_index",
            Self::Names => "string_index",
            Self::Done => "done",
        }
    }

    /// The number of parts.
    fn parts(self, slices: u32) -> u32 {
        match self {
            Self::Keyspace | Self::Names => 1,
            Self::Done => 0,
            _ => slices.max(1),
        }
    }
}

/// The progress of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    keyspace: String,
    fix: BTreeSet<Kind>,
    depth: Depth,
    slices: u32,
    /// The current stage.
    pub stage: Stage,
    /// The next part of the stage.
    pub(super) next: u32,
    pub(super) gathered: Gathered,
    /// What was found so far.
    pub report: Report,
}

impl Progress {
    pub(super) fn start(keyspace: &str, fix: BTreeSet<Kind>, depth: Depth, slices: u32) -> Self {
        Self {
            keyspace: keyspace.to_owned(),
            fix,
            depth,
            slices,
            stage: Stage::Keyspace,
            next: 0,
            gathered: Gathered::default(),
            report: Report::default(),
        }
    }

    /// Whether a check that would begin with `start` can continue from here.
    pub fn continues(&self, start: &Self) -> bool {
        (&self.keyspace, &self.fix, self.depth, self.slices)
            == (&start.keyspace, &start.fix, start.depth, start.slices)
    }

    /// The finished parts, and all parts.
    pub fn done(&self) -> (u64, u64) {
        let parts = |stage: Stage| u64::from(stage.parts(self.slices));
        let before = Stage::all().take_while(|stage| *stage != self.stage);
        let done = before.map(parts).sum::<u64>() + u64::from(self.next);
        (done, Stage::all().map(parts).sum())
    }

    /// Adds the results of the next part of the stage.
    pub(super) fn take(&mut self, part: Part) {
        self.report.merge(part.report);
        self.gathered.merge(part.gathered);
        for (identity, (finding, outcome)) in part.shared {
            if self.gathered.report(identity) {
                self.report.add(finding.kind, &finding.metric, finding.subject, outcome);
            }
        }
        self.next += 1;
    }

    pub(super) fn parts(&self) -> u32 {
        self.stage.parts(self.slices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_counts_its_parts() {
        let mut progress = Progress::start("k", BTreeSet::new(), Depth::Cells, 10);
        assert_eq!(progress.done(), (0, 52));
        progress.stage = Stage::TagIndex;
        progress.next = 3;
        assert_eq!(progress.done(), (14, 52));
        let json = serde_json::to_string(&progress).expect("JSON");
        assert_eq!(serde_json::from_str::<Progress>(&json).expect("the same"), progress);
        assert!(progress.continues(&Progress::start("k", BTreeSet::new(), Depth::Cells, 10)));
        assert!(!progress.continues(&Progress::start("l", BTreeSet::new(), Depth::Cells, 10)));
    }
}
