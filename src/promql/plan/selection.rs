//! What a query reads from the store. Two selectors with the same conditions whose times touch
//! share one selection.

use crate::model::{Matcher, TimeRange};

/// The position of a selection in a plan.
pub(crate) type SelectionId = usize;

/// The selections of a plan, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Selections {
    all: Vec<(Vec<Matcher>, TimeRange)>,
}

impl Selections {
    /// The selection of these series that covers the range.
    pub(super) fn request(&mut self, matchers: &[Matcher], range: TimeRange) -> SelectionId {
        let same = |(known, at): &(Vec<Matcher>, TimeRange)| {
            known == matchers && (at.overlaps(&range) || at.is_empty() || range.is_empty())
        };
        if let Some(id) = self.all.iter().position(same) {
            let known = &mut self.all[id].1;
            if known.is_empty() {
                *known = range;
            } else if !range.is_empty() {
                *known = TimeRange::new(known.start.min(range.start), known.end.max(range.end));
            }
            return id;
        }
        self.all.push((matchers.to_vec(), range));
        self.all.len() - 1
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[Matcher], TimeRange)> {
        self.all.iter().map(|(matchers, range)| (matchers.as_slice(), *range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_selectors_that_touch_are_read_once() {
        let (a, b) = (vec![Matcher::equal("a", "1")], vec![Matcher::equal("b", "1")]);
        let mut selections = Selections::default();
        assert_eq!(selections.request(&a, TimeRange::new(0, 10)), 0);
        assert_eq!(selections.request(&b, TimeRange::new(0, 10)), 1);
        assert_eq!(selections.request(&a, TimeRange::new(5, 20)), 0);
        assert_eq!(selections.request(&a, TimeRange::new(100, 200)), 2);
        let ranges: Vec<_> = selections.iter().map(|(_, range)| range).collect();
        assert_eq!(ranges[0], TimeRange::new(0, 20));
    }
}
