//! Which series are in one group, and the labels of the groups.

use hashbrown::HashMap;

use crate::model::Labels;
use crate::promql::ast::Grouping;
use crate::promql::labelset;
use crate::promql::operators::Series;

/// Groups of series, in the order in which they are complete.
pub(super) struct Groups {
    /// The group of each series.
    pub(super) of_series: Vec<usize>,
    /// What each group becomes.
    pub(super) series: Vec<Series>,
    /// For each group the position of its last series.
    pub(super) last: Vec<usize>,
}

impl Groups {
    pub(super) fn new(input: &[Series], grouping: &Grouping) -> Self {
        Self::by(input, |labels| group_labels(labels, grouping))
    }

    /// Series whose `key` is the same are a group, which has the key for labels.
    pub(super) fn by(input: &[Series], key: impl Fn(&Labels) -> Labels) -> Self {
        let mut known: HashMap<Labels, usize> = HashMap::new();
        let (mut found, mut last, mut drops) = (Vec::new(), Vec::new(), Vec::new());
        for (position, series) in input.iter().enumerate() {
            let count = known.len();
            let group = *known.entry(key(&series.labels)).or_insert(count);
            if group == count {
                last.push(position);
                drops.push(false);
            }
            last[group] = position;
            drops[group] |= series.drop_name;
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
        Self { of_series: found.into_iter().map(|group| rank[group]).collect(), series, last }
    }

    pub(super) fn len(&self) -> usize {
        self.series.len()
    }
}

/// The labels of the group that a series with `labels` is in.
pub(super) fn group_labels(labels: &Labels, grouping: &Grouping) -> Labels {
    match grouping {
        Grouping::By(names) if names.is_empty() => Labels::default(),
        Grouping::By(names) => labelset::keep(labels, names),
        Grouping::Without(names) => labelset::without_and_name(labels, names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_in_the_order_of_their_last_series() {
        let series = ["a", "b", "a", "c"].map(|value| {
            Series::new(Labels::from_pairs([("__name__", "m"), ("l", value)]).expect("valid"))
        });
        let groups = Groups::new(&series, &Grouping::By(vec!["l".into()]));
        assert_eq!(groups.of_series, [1, 0, 1, 2]);
        assert_eq!(groups.last, [1, 2, 3]);
        assert_eq!(groups.series[0].labels.get("l"), "b");
        let all = Groups::new(&series, &Grouping::Without(vec!["l".into()]));
        assert_eq!((all.len(), all.last), (1, vec![3]));
    }
}
