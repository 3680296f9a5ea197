//! The report: findings by kind and metric, with a few examples, and facts about the keyspace.
//!
//! Bounded for any keyspace: counts are exact, lists are cut. It can be stored and read again, for
//! a run that continues later. No I/O.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::doctor::kind::Kind;
use crate::doctor::survey::{Entry, Largest, MetricCardinality};

/// Metrics listed per kind; further ones are counted together.
const MOST_METRICS: usize = 1_000;
/// Examples of a kind and metric.
const MOST_EXAMPLES: usize = 3;

/// All findings and facts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    /// By kind, then by metric; the metric is empty where a finding is not about one.
    pub findings: BTreeMap<Kind, BTreeMap<String, Group>>,
    /// By kind: findings of metrics beyond the list.
    pub others: BTreeMap<Kind, Group>,
    /// The facts about the keyspace.
    pub facts: Facts,
}

/// Findings of one kind and metric.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Group {
    /// The number of findings.
    pub found: u64,
    /// How many of them were fixed.
    pub fixed: u64,
    /// How many resisted: a tombstone or a cell with a later write time hides the fix.
    pub resisted: u64,
    /// How many `--fix` does not try: they need a fix by hand, or cannot be fixed.
    #[serde(default)]
    pub by_hand: u64,
    /// The first few.
    pub examples: Vec<String>,
}

/// What happened to a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No fix was tried.
    Found,
    /// It is fixed.
    Fixed,
    /// A fix was tried and had no effect.
    Resisted,
    /// No fix is known here.
    ByHand,
}

impl Group {
    fn add(&mut self, example: String, outcome: Outcome) {
        self.found += 1;
        match outcome {
            Outcome::Found => {}
            Outcome::Fixed => self.fixed += 1,
            Outcome::Resisted => self.resisted += 1,
            Outcome::ByHand => self.by_hand += 1,
        }
        if self.examples.len() < MOST_EXAMPLES {
            self.examples.push(example);
        }
    }

    fn merge(&mut self, other: Self) {
        self.found += other.found;
        self.fixed += other.fixed;
        self.resisted += other.resisted;
        self.by_hand += other.by_hand;
        let room = MOST_EXAMPLES - self.examples.len();
        self.examples.extend(other.examples.into_iter().take(room));
    }

    /// How many are not fixed.
    pub fn left(&self) -> u64 {
        self.found - self.fixed
    }
}

/// The facts about a keyspace, right or wrong.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Facts {
    /// Rows of `data_points`: partitions.
    pub rows: u64,
    /// Their cells; 0 when they were not read.
    pub cells: u64,
    /// Rows of `row_keys`.
    pub row_keys: u64,
    /// Rows of `tag_indexed_row_keys`.
    pub tag_index_rows: u64,
    /// Rows of the legacy `row_key_index`.
    pub legacy_rows: u64,
    /// Names of metrics that have no row time: not an error.
    pub names_without_data: u64,
    /// Index rows that should have been deleted and stay, so that no partition gets too many tombstones.
    #[serde(default)]
    pub rows_left: u64,
    /// Plain sentences about tables and settings.
    pub notes: Vec<String>,
    /// Partitions with the most rows, of those above the threshold.
    pub wide: Largest<Partition>,
    /// Partitions of data with the most cells written in the last hour, of those above the threshold.
    #[serde(default)]
    pub hot: Largest<Partition>,
    /// Metrics with the most series in one window.
    pub metrics: Largest<MetricCardinality>,
}

/// A partition, identified by its table and key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Partition {
    /// The table.
    pub table: String,
    /// The key as text for people.
    pub key: String,
}

impl Entry for Partition {
    fn is_same(&self, other: &Self) -> bool {
        self == other
    }
}

impl Facts {
    pub(super) fn merge(&mut self, other: Self) {
        self.rows += other.rows;
        self.cells += other.cells;
        self.row_keys += other.row_keys;
        self.tag_index_rows += other.tag_index_rows;
        self.legacy_rows += other.legacy_rows;
        self.names_without_data += other.names_without_data;
        self.rows_left += other.rows_left;
        self.notes.extend(other.notes);
        self.wide.merge(other.wide);
        self.hot.merge(other.hot);
        self.metrics.merge(other.metrics);
    }
}

impl Report {
    pub(super) fn add(&mut self, kind: Kind, metric: &str, example: String, outcome: Outcome) {
        self.group(kind, metric).add(example, outcome);
    }

    fn group(&mut self, kind: Kind, metric: &str) -> &mut Group {
        let metrics = self.findings.entry(kind).or_default();
        if metrics.len() < MOST_METRICS || metrics.contains_key(metric) {
            metrics.entry(metric.to_owned()).or_default()
        } else {
            self.others.entry(kind).or_default()
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        for (kind, metrics) in other.findings {
            for (metric, group) in metrics {
                self.group(kind, &metric).merge(group);
            }
        }
        for (kind, group) in other.others {
            self.others.entry(kind).or_default().merge(group);
        }
        self.facts.merge(other.facts);
    }

    /// All findings of a kind together; None when there are none.
    pub fn total(&self, kind: Kind) -> Option<Group> {
        let listed = self.findings.get(&kind).into_iter().flat_map(BTreeMap::values);
        let all = listed.chain(self.others.get(&kind));
        all.cloned().reduce(|mut total, group| {
            total.merge(group);
            total
        })
    }

    /// Findings that are not fixed.
    pub fn left(&self) -> u64 {
        Kind::ALL.into_iter().filter_map(|kind| self.total(kind)).map(|total| total.left()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_exact_and_lists_are_cut() {
        let mut report = Report::default();
        for n in 0..MOST_METRICS + 7 {
            let metric = format!("m{n}");
            for at in 0..MOST_EXAMPLES + 1 {
                let outcome = if at == 0 { Outcome::Fixed } else { Outcome::Found };
                report.add(Kind::MissingName, &metric, format!("{metric} {at}"), outcome);
            }
        }
        report.add(Kind::LaterStamp, "m0", "x".into(), Outcome::Resisted);
        assert_eq!(report.findings[&Kind::MissingName].len(), MOST_METRICS);
        let total = report.total(Kind::MissingName).expect("found");
        let metrics = (MOST_METRICS + 7) as u64;
        assert_eq!((total.found, total.fixed), (metrics * 4, metrics));
        assert_eq!(total.examples.len(), MOST_EXAMPLES);
        assert_eq!(report.left(), metrics * 3 + 1);
        let mut twice = report.clone();
        twice.merge(report);
        assert_eq!(twice.left(), metrics * 6 + 2);
        let json = serde_json::to_string(&twice).expect("JSON");
        assert_eq!(serde_json::from_str::<Report>(&json).expect("the same"), twice);
    }
}
