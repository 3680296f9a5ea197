//! Which series of two vectors match: groups of series with the same labels of the match, and
//! the label sets of the results of a group. No point is read.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use crate::ast::{Cardinality, MatchLabels, Matching};
use crate::budget::Held;
use crate::error::QueryError;
use crate::labelset::{LabelChoice, METADATA_LABELS};
use crate::operators::Series;
use crate::series_list::LABELS_BYTES;
use promkairos_model::Labels;

/// Series with the same labels of the match.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Positions on the left side.
    pub left: Vec<usize>,
    /// Positions on the right side.
    pub right: Vec<usize>,
}

/// The labels that matching series have in common.
fn agreed(matching: &MatchLabels) -> LabelChoice<'_> {
    match matching {
        MatchLabels::On(names) => LabelChoice::only(names.iter().map(String::as_str)),
        MatchLabels::Ignoring(names) => {
            LabelChoice::without_and_metadata(names.iter().map(String::as_str))
        }
    }
}

/// Bytes of a group and of its entry in a map, and of each series in it.
const GROUP_BYTES: usize = size_of::<Group>() + 96;
const MEMBER_BYTES: usize = 2 * size_of::<usize>();

/// All groups, in the order of their first series. `held` keeps the memory of the groups.
pub(crate) fn groups(
    left: &[Series],
    right: &[Series],
    matching: &MatchLabels,
    held: &mut Held,
) -> Result<Vec<Group>, QueryError> {
    held.take(0, (left.len() + right.len()) * MEMBER_BYTES)?;
    let mut of_labels = held.another();
    let mut bytes = 0;
    let mut groups: Vec<Group> = Vec::new();
    let mut known: HashMap<Labels, usize> = HashMap::new();
    let (choice, mut buffer) = (agreed(matching), Vec::new());
    let mut group_of = |labels: &Labels, groups: &mut Vec<Group>| {
        let labels = choice.of(labels, &mut buffer);
        Ok::<_, QueryError>(match known.get(&labels) {
            Some(at) => *at,
            None => {
                bytes += labels.as_bytes().len() + LABELS_BYTES;
                of_labels.cover(bytes)?;
                held.take(0, GROUP_BYTES)?;
                known.insert(labels.to_owned(), groups.len());
                groups.push(Group::default());
                groups.len() - 1
            }
        })
    };
    for (position, series) in left.iter().enumerate() {
        let at = group_of(&series.labels, &mut groups)?;
        groups[at].left.push(position);
    }
    for (position, series) in right.iter().enumerate() {
        let at = group_of(&series.labels, &mut groups)?;
        groups[at].right.push(position);
    }
    Ok(groups)
}

/// The label set of a missing series: the labels of the match alone.
pub(crate) fn match_labels(labels: &Labels, matching: &MatchLabels) -> Labels {
    agreed(matching).of(labels, &mut Vec::new()).to_owned()
}

/// The labels of the result for a series of the side of many and a series of the side of one. With `drops_name`, the
/// labels that describe the metric are dropped.
pub(crate) fn result_labels(
    many: &Labels,
    one: &Labels,
    matching: &Matching,
    drops_name: bool,
) -> Labels {
    let mut labels: BTreeMap<&str, &str> = many.iter().collect();
    if drops_name {
        labels.retain(|label, _| !METADATA_LABELS.contains(label));
    }
    if matching.cardinality == Cardinality::OneToOne {
        match &matching.labels {
            MatchLabels::On(names) => labels.retain(|label, _| names.iter().any(|n| n == label)),
            MatchLabels::Ignoring(names) => {
                labels.retain(|label, _| names.iter().all(|n| n != label))
            }
        }
    }
    labels.extend(matching.include.iter().map(|label| (label.as_str(), one.get(label))));
    // Names come from label sets or from the parser. Only a query can name an empty one, and no
    // series has a label with an empty name.
    Labels::from_pairs(labels).unwrap_or_default()
}
