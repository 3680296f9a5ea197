//! Which series of two vectors meet: groups of series that agree in the labels of the match, and
//! the label sets of what comes out of a group. No point is looked at.

use std::collections::HashMap;

use crate::model::Labels;
use crate::promql::ast::{Cardinality, MatchLabels, Matching};
use crate::promql::labelset::{self, Builder, METADATA_LABELS};
use crate::promql::operators::Series;

/// Series that agree in the labels of the match.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Positions on the left side.
    pub left: Vec<usize>,
    /// Positions on the right side.
    pub right: Vec<usize>,
}

/// The labels in which series must agree, of one series.
pub(crate) fn signature(labels: &Labels, matching: &MatchLabels) -> Labels {
    match matching {
        MatchLabels::On(names) => labelset::keep(labels, names),
        MatchLabels::Ignoring(names) => labelset::without_and_name(labels, names),
    }
}

/// All groups, in the order of their first series.
pub(crate) fn groups(left: &[Series], right: &[Series], matching: &MatchLabels) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut known = HashMap::new();
    for (position, series) in left.iter().enumerate() {
        let at = *known.entry(signature(&series.labels, matching)).or_insert(groups.len());
        if at == groups.len() {
            groups.push(Group::default());
        }
        groups[at].left.push(position);
    }
    for (position, series) in right.iter().enumerate() {
        let at = *known.entry(signature(&series.labels, matching)).or_insert(groups.len());
        if at == groups.len() {
            groups.push(Group::default());
        }
        groups[at].right.push(position);
    }
    groups
}

/// What stands for a series that is not there: the labels of the match alone.
pub(crate) fn match_labels(labels: &Labels, matching: &MatchLabels) -> Labels {
    signature(labels, matching)
}

/// Whether the metric's name goes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    /// It stays.
    Kept,
    /// It goes, with what else describes the metric.
    Dropped,
}

/// The labels of the result for a series of the side of which there may be many and one of the
/// other side.
pub(crate) fn result_labels(
    many: &Labels,
    one: &Labels,
    matching: &Matching,
    name: Name,
) -> Labels {
    let mut builder = Builder::new(many);
    if name == Name::Dropped {
        METADATA_LABELS.iter().for_each(|name| builder.remove(name));
    }
    if matching.cardinality == Cardinality::OneToOne {
        match &matching.labels {
            MatchLabels::On(names) => builder.retain(|label| names.iter().any(|n| n == label)),
            MatchLabels::Ignoring(names) => names.iter().for_each(|name| builder.remove(name)),
        }
    }
    for label in &matching.include {
        builder.set(label, one.get(label));
    }
    // Names come from label sets or from the parser, so none is empty but by a query that asks for
    // it, and such a label no series has.
    builder.build().unwrap_or_default()
}
