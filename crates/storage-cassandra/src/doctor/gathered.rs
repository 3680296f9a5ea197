//! What finished parts of a check gathered and later parts need. Bounded; no I/O.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::identity::Identity;
use promkairos_kairos::{RowTime, TableName};

/// The most tags remembered as indexed; beyond that gaps are not looked for.
const MOST_INDEXED: usize = 1_000_000;

/// The most windows and names remembered; see [`Gathered`] for the effect.
const MOST_GATHERED: usize = 1_000_000;

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
