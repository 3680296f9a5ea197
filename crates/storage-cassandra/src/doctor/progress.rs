//! The progress of a check: enough to continue in another process. No I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;

use serde::{Deserialize, Serialize};

use crate::doctor::kind::Kind;
use crate::doctor::report::Report;
use crate::doctor::{Depth, Part};
use crate::identity::Identity;
use promkairos_kairos::{RowTime, TableName};

/// The most tags remembered as indexed; beyond that gaps are not looked for.
const MOST_INDEXED: usize = 1_000_000;

/// The most windows and names remembered; see [`Gathered`] for the effect.
const MOST_GATHERED: usize = 1_000_000;

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

/// Results of finished parts that later parts need. Stored with the progress, for a check that
/// continues in another process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Gathered {
    pub(super) indexed: Indexed,
    /// Windows with data that no row of `row_keys` leads to.
    unindexed: BTreeSet<Identity>,
    /// Windows and names in the report: many rows of data may lack one index row. Beyond
    /// [`MOST_GATHERED`] they are counted again.
    reported: BTreeSet<Identity>,
}

impl Gathered {
    /// Notes a window with data that no row of `row_keys` leads to.
    pub(super) fn note_unindexed(&mut self, window: Identity) {
        if self.unindexed.len() < MOST_GATHERED {
            self.unindexed.insert(window);
        }
    }

    /// Whether a window may have data that no row of `row_keys` leads to. Beyond [`MOST_GATHERED`]
    /// each may.
    pub(super) fn may_be_unindexed(&self, window: &Identity) -> bool {
        self.unindexed.len() >= MOST_GATHERED || self.unindexed.contains(window)
    }

    /// Whether this is reported for the first time.
    pub(super) fn report(&mut self, identity: Identity) -> bool {
        self.reported.len() >= MOST_GATHERED || self.reported.insert(identity)
    }

    /// Adds what a part gathered, except what it reported.
    pub(super) fn merge(&mut self, part: Self) {
        self.indexed.merge(part.indexed);
        part.unindexed.into_iter().for_each(|window| self.note_unindexed(window));
    }
}

/// The tags in the tag index, as its rows show: by table name and metric, the last row time of each
/// tag. Windows up to there must be covered; later ones may date from after it was switched off.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Indexed(BTreeMap<String, BTreeMap<String, BTreeMap<String, i64>>>);

impl Indexed {
    /// Notes a row with this pair. A name with `=` in it is cut at the first `=`.
    pub(super) fn note(&mut self, table: TableName, metric: &str, pair: &str, time: RowTime) {
        let (name, _) = pair.split_once('=').unwrap_or((pair, ""));
        self.put(table.as_str(), metric, name, time.millis());
    }

    fn put(&mut self, table: &str, metric: &str, name: &str, time: i64) {
        let tags = self.0.entry(table.to_owned()).or_default().entry(metric.to_owned());
        let last = tags.or_default().entry(name.to_owned()).or_insert(time);
        *last = (*last).max(time);
    }

    pub(super) fn merge(&mut self, other: Self) {
        for (table, metrics) in other.0 {
            for (metric, tags) in metrics {
                if self.0.values().map(BTreeMap::len).sum::<usize>() >= MOST_INDEXED {
                    return;
                }
                for (name, time) in tags {
                    self.put(&table, &metric, &name, time);
                }
            }
        }
    }

    /// The tags by which rows of a window must be found.
    pub(super) fn tags(&self, table: TableName, metric: &str, time: RowTime) -> BTreeSet<Box<str>> {
        let tags = self.0.get(table.as_str()).and_then(|metrics| metrics.get(metric));
        let tags = tags.into_iter().flatten().filter(|(_, last)| time.millis() <= **last);
        tags.map(|(name, _)| name.as_str().into()).collect()
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

    #[test]
    fn tags_are_indexed_up_to_the_last_row_that_shows_it() {
        let (table, time) = (TableName::DataPoints, RowTime::from_stored);
        let mut indexed = Indexed::default();
        indexed.note(table, "m", "host=a=b", time(5));
        let mut other = Indexed::default();
        other.note(table, "m", "host=c", time(9));
        other.note(table, "m", "dc=x", time(3));
        indexed.merge(other);
        let tags = |metric, at| {
            let tags = indexed.tags(table, metric, time(at));
            tags.iter().map(|tag| tag.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(tags("m", 3), ["dc", "host"]);
        assert_eq!(tags("m", 9), ["host"]);
        assert_eq!(tags("m", 10), [""; 0]);
        assert_eq!(tags("n", 3), [""; 0]);
        assert!(indexed.tags(TableName::Prometheus, "m", time(3)).is_empty());
    }
}
