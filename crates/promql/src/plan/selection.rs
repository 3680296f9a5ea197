//! What a query reads from the store. Two selectors with equal matchers whose times overlap share
//! one selection.

use std::sync::Arc;

use promkairos_model::{Matcher, TimeRange};
use promkairos_storage::QueryHints;

/// The position of a selection in a plan.
pub(crate) type SelectionId = usize;

/// The selections of a plan, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Selections {
    all: Vec<Requested>,
}

/// What is to be selected.
#[derive(Debug)]
pub(crate) struct Requested {
    /// All of them have to match.
    pub matchers: Vec<Matcher>,
    /// The times of all its users.
    pub range: TimeRange,
    /// What its users do with the points; `None` if they differ in anything.
    pub hints: Option<Arc<QueryHints>>,
    /// How many parts of the query use it.
    pub users: usize,
}

impl Selections {
    /// The selection of these series that covers the range.
    pub(super) fn request(
        &mut self,
        matchers: &[Matcher],
        range: TimeRange,
        hints: QueryHints,
    ) -> SelectionId {
        let same = |known: &Requested| {
            let touches =
                known.range.overlaps(&range) || known.range.is_empty() || range.is_empty();
            known.matchers == matchers && touches
        };
        if let Some(id) = self.all.iter().position(same) {
            let Requested { range: known, users, hints: of_users, .. } = &mut self.all[id];
            *users += 1;
            if of_users.as_deref() != Some(&hints) {
                *of_users = None;
            }
            if known.is_empty() {
                *known = range;
            } else if !range.is_empty() {
                *known = known.hull(range);
            }
            return id;
        }
        let hints = Some(Arc::new(hints));
        self.all.push(Requested { matchers: matchers.to_vec(), range, hints, users: 1 });
        self.all.len() - 1
    }

    /// All selections.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Requested> {
        self.all.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_selectors_that_touch_are_read_once() {
        let (a, b) = (vec![Matcher::equal("a", "1")], vec![Matcher::equal("b", "1")]);
        let mut selections = Selections::default();
        let mut request = |matchers, start, end| {
            selections.request(matchers, TimeRange::new(start, end), QueryHints::default())
        };
        assert_eq!(request(&a, 0, 10), 0);
        assert_eq!(request(&b, 0, 10), 1);
        assert_eq!(request(&a, 5, 20), 0);
        assert_eq!(request(&a, 100, 200), 2);
        let all: Vec<_> = selections.iter().map(|one| (one.range, one.users)).collect();
        assert_eq!(all[0], (TimeRange::new(0, 20), 2));
        assert_eq!(all[2], (TimeRange::new(100, 200), 1));
    }
}
