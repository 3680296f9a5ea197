//! Assigns series to groups, and makes the labels of the groups.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::ast::Grouping;
use crate::budget::{Budget, Held};
use crate::error::QueryError;
use crate::labelset::{LabelChoice, METADATA_LABELS};
use crate::operators::{Operator, Series};
use promkairos_model::Labels;

/// Bytes of a group in addition to its labels, and of each series in it.
const GROUP_BYTES: usize = 192;
const MEMBER_BYTES: usize = 3 * size_of::<usize>();

/// Groups of series, in the order in which they become complete.
pub(super) struct Groups {
    /// The group of each series.
    pub(super) of_series: Vec<usize>,
    /// The result series of each group.
    pub(super) series: Vec<Series>,
    /// The position of the last series of each group.
    pub(super) last: Vec<usize>,
    _held: Held,
}

impl Groups {
    /// Series with the same labels under `grouping` form a group with these labels. The memory of
    /// the groups is taken from the budget.
    pub(super) fn new(
        input: &dyn Operator,
        grouping: &Grouping,
        budget: &Arc<Budget>,
    ) -> Result<Self, QueryError> {
        let mut held = budget.nothing();
        let mut known: HashMap<Labels, usize> = HashMap::new();
        let (mut found, mut last, mut drops) = (Vec::new(), Vec::new(), Vec::new());
        let named = input.named();
        let choice = group_labels(grouping, named.is_some());
        let mut buffer = Vec::new();
        let all = named.unwrap_or_else(|| input.series());
        held.take(0, all.len() * MEMBER_BYTES)?;
        for (position, series) in all.iter().enumerate() {
            let labels = choice.of(&series.labels, &mut buffer);
            let group = match known.get(&labels) {
                Some(group) => *group,
                None => {
                    held.take(0, labels.as_bytes().len() + GROUP_BYTES)?;
                    last.push(position);
                    drops.push(false);
                    known.insert(labels.to_owned(), known.len());
                    known.len() - 1
                }
            };
            last[group] = position;
            drops[group] |= series.drop_name || named.is_some();
            found.push(group);
        }
        let mut order: Vec<usize> = (0..last.len()).collect();
        order.sort_by_key(|&group| last[group]);
        let mut rank = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, &group)| rank[group] = at);
        let mut series = vec![Series::new(Labels::default()); order.len()];
        for (labels, group) in known {
            series[rank[group]] = Series { labels, drop_name: drops[group] };
        }
        last.sort_unstable();
        let of_series = found.into_iter().map(|group| rank[group]).collect();
        Ok(Self { of_series, series, last, _held: held })
    }

    pub(super) fn len(&self) -> usize {
        self.series.len()
    }
}

/// Which labels of its series a group keeps. With `loses_metadata`, the labels that describe the
/// metric are dropped too.
pub(super) fn group_labels(grouping: &Grouping, loses_metadata: bool) -> LabelChoice<'_> {
    let lost: &[&str] = if loses_metadata { &METADATA_LABELS } else { &[] };
    match grouping {
        Grouping::By(names) => {
            LabelChoice::only(names.iter().map(String::as_str).filter(|name| !lost.contains(name)))
        }
        Grouping::Without(names) => {
            let names = names.iter().map(String::as_str);
            LabelChoice::without_and_metadata(names.chain(lost.iter().copied()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use crate::points::Points;

    /// Series without points.
    struct Listed(Vec<Series>);

    impl Operator for Listed {
        fn series(&self) -> &[Series] {
            &self.0
        }

        fn next(&mut self, _: &mut Points) -> Result<(), QueryError> {
            Ok(())
        }
    }

    #[test]
    fn groups_are_in_the_order_of_their_last_series() {
        let series = ["a", "b", "a", "c"].map(|value| {
            Series::new(Labels::from_pairs([("__name__", "m"), ("l", value)]).expect("valid"))
        });
        let budget = Settings::default().budget();
        let series = Listed(series.to_vec());
        let grouped =
            |grouping| Groups::new(&series, &grouping, &budget).expect("within the budget");
        let groups = grouped(Grouping::By(vec!["l".into()]));
        assert_eq!(groups.of_series, [1, 0, 1, 2]);
        assert_eq!(groups.last, [1, 2, 3]);
        assert_eq!(groups.series[0].labels.get("l"), "b");
        let all = grouped(Grouping::Without(vec!["l".into()]));
        assert_eq!((all.len(), all.last.as_slice()), (1, &[3][..]));
        let held = budget.bytes();
        assert!(held > 0);
        drop((groups, all));
        assert_eq!(budget.bytes(), 0, "given back");
    }
}
