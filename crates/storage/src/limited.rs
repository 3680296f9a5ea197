//! Lists that are cut at a number of items and at a number of bytes.
//!
//! A cut list is a prefix of the whole sorted list: no smaller item is missing. Every store and all
//! code that merges lists uses this module.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use promkairos_model::Labels;

/// A result that may have been cut at a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limited<T> {
    /// The results, sorted, each once. If there are more, these are the first ones.
    pub items: Vec<T>,
    /// Whether there are more results.
    pub truncated: bool,
}

/// The maximum size of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListSize {
    /// Number of items.
    pub items: usize,
    /// Bytes of all items.
    pub bytes: usize,
}

impl ListSize {
    /// No limit.
    pub const UNLIMITED: Self = Self { items: usize::MAX, bytes: usize::MAX };

    /// At most `items` items, of any size.
    pub const fn items(items: usize) -> Self {
        Self { items, ..Self::UNLIMITED }
    }
}

/// An item of a list.
pub trait Listed: Ord {
    /// Bytes that count towards the limit.
    fn bytes(&self) -> usize;
}

impl Listed for String {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl Listed for Labels {
    fn bytes(&self) -> usize {
        self.as_bytes().len()
    }
}

impl<T: Listed> Limited<T> {
    /// The first of some sorted items, each once, within the limit.
    pub fn first(sorted: impl IntoIterator<Item = T>, limit: ListSize) -> Self {
        let mut list = ListBuilder::new(limit);
        let _ = sorted.into_iter().try_for_each(|item| list.push(item));
        list.list
    }

    /// Merges several lists into one within the limit. The union ends where the first cut list
    /// ends, because items behind that end may be missing. If the same limit cut the lists, and a
    /// cut union has fewer items than the limit, the limit of bytes was reached.
    pub fn union(lists: Vec<Self>, limit: ListSize) -> Self
    where
        T: Clone,
    {
        let cut = lists.iter().filter(|list| list.truncated);
        // If a cut list is empty, not even the first item is known: `None` is the smallest end.
        let end: Option<Option<T>> = cut.map(|list| list.items.last().cloned()).min();
        let several = lists.iter().filter(|list| !list.items.is_empty()).count() > 1;
        let mut items: Vec<T> = lists.into_iter().flat_map(|list| list.items).collect();
        if several {
            // Each list is sorted, so a stable sort merges them.
            items.sort();
            items.dedup();
        }
        if let Some(end) = &end {
            items.truncate(items.partition_point(|item| Some(item) <= end.as_ref()));
        }
        let mut union = Self::first(items, limit);
        union.truncated |= end.is_some();
        union
    }
}

impl Limited<String> {
    /// The union with the texts that `walk` passes, in order and each once, within the limit. Copies only texts that
    /// are not in the list yet. `Break` means that `walk` can stop: greater texts are not needed.
    pub fn merged<E>(
        self,
        limit: ListSize,
        walk: impl FnOnce(&mut dyn FnMut(&str) -> ControlFlow<()>) -> Result<(), E>,
    ) -> Result<Self, E> {
        // Items behind the end of a cut list may be missing.
        let end = self.truncated.then(|| self.items.last().cloned());
        let mut known = self.items.into_iter().peekable();
        let mut all = ListBuilder::new(limit);
        walk(&mut |text| {
            if end.as_ref().is_some_and(|end| Some(text) > end.as_deref()) {
                return ControlFlow::Break(());
            }
            while let Some(smaller) = known.next_if(|known| known.as_str() < text) {
                all.push(smaller)?;
            }
            let same = known.next_if(|known| known == text);
            all.push(same.unwrap_or_else(|| text.to_owned()))
        })?;
        if !all.list.truncated {
            let _ = known.try_for_each(|item| all.push(item));
        }
        all.list.truncated |= end.is_some();
        Ok(all.list)
    }
}

/// A list that grows in order, each item once, until it is cut.
struct ListBuilder<T> {
    list: Limited<T>,
    bytes: usize,
    limit: ListSize,
}

impl<T: Listed> ListBuilder<T> {
    fn new(limit: ListSize) -> Self {
        let list = Limited { items: Vec::new(), truncated: false };
        Self { list, bytes: 0, limit }
    }

    /// `Break` if there is no room for this item, and so for no greater one.
    fn push(&mut self, item: T) -> ControlFlow<()> {
        self.bytes = self.bytes.saturating_add(item.bytes());
        if self.bytes > self.limit.bytes || self.list.items.len() == self.limit.items {
            self.list.truncated = true;
            return ControlFlow::Break(());
        }
        self.list.items.push(item);
        ControlFlow::Continue(())
    }
}

/// Keeps the smallest of the items that are added in any order, within a limit. Never holds more
/// than the limit.
pub struct Smallest<T> {
    items: BTreeSet<T>,
    bytes: usize,
    limit: ListSize,
    /// The smallest item that was removed. It and greater items are not added again: one may be
    /// small enough for the free room, and would hide that items before it are missing.
    end: Option<T>,
}

impl<T: Listed> Smallest<T> {
    /// An empty list.
    pub fn new(limit: ListSize) -> Self {
        Self { items: BTreeSet::new(), bytes: 0, limit, end: None }
    }

    /// Adds an item. `Break` means that greater items are not needed.
    pub fn add(&mut self, item: T) -> ControlFlow<()> {
        if self.end.as_ref().is_some_and(|end| *end <= item) {
            return ControlFlow::Break(());
        }
        let bytes = item.bytes();
        if self.items.insert(item) {
            self.bytes += bytes;
        }
        while self.items.len() > self.limit.items || self.bytes > self.limit.bytes {
            let Some(last) = self.items.pop_last() else { break };
            self.bytes -= last.bytes();
            self.end = Some(last);
        }
        ControlFlow::Continue(())
    }

    /// Returns the list.
    pub fn finish(self) -> Limited<T> {
        Limited { truncated: self.end.is_some(), items: self.items.into_iter().collect() }
    }
}

impl Smallest<String> {
    /// Adds a text; copies it only if it is new. `Break` as for [`Smallest::add`].
    pub fn add_text(&mut self, text: &str) -> ControlFlow<()> {
        if self.end.as_deref().is_some_and(|end| end <= text) {
            return ControlFlow::Break(());
        }
        if self.items.contains(text) {
            return ControlFlow::Continue(());
        }
        self.add(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn smallest(items: usize, bytes: usize, of: &[String]) -> Limited<String> {
        let mut all = Smallest::new(ListSize { items, bytes });
        for item in of {
            let _ = all.add(item.clone());
        }
        all.finish()
    }

    fn texts(of: &str) -> Vec<String> {
        of.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn nothing_is_missing_in_front_of_what_is_there() {
        // The long text does not fit; the short text behind it would.
        let cut = smallest(100, 4, &texts("aa dddd e b"));
        assert_eq!(cut, Limited { items: texts("aa b"), truncated: true });
        let cut = smallest(2, 100, &texts("e c a c d"));
        assert_eq!(cut, Limited { items: texts("a c"), truncated: true });
        let whole = smallest(3, 3, &texts("c a b a"));
        assert_eq!(whole, Limited { items: texts("a b c"), truncated: false });
        assert_eq!(smallest(9, 2, &texts("long")), Limited { items: vec![], truncated: true });
    }

    #[test]
    fn adding_in_order_stops_at_the_limit() {
        let mut all = Smallest::new(ListSize::items(2));
        let added = ["a", "b", "b", "c", "d"].map(|item| all.add(item.to_owned()).is_break());
        assert_eq!(added, [false, false, false, false, true]);
        assert!(all.add_text("d").is_break());
        assert!(all.add_text("aa").is_continue());
        assert_eq!(all.finish(), Limited { items: texts("a aa"), truncated: true });
    }

    #[test]
    fn a_union_ends_where_one_of_its_lists_was_cut() {
        let list = |items: &str, truncated| Limited { items: texts(items), truncated };
        let union = |a, b, most| Limited::union(vec![a, b], ListSize::items(most));
        // The first list may have a "d" behind its end.
        let cut = union(list("a c", true), list("b d", false), 9);
        assert_eq!(cut, list("a b c", true));
        assert_eq!(union(list("a c", true), list("b", true), 9), list("a b", true));
        assert_eq!(union(list("", true), list("b", false), 9), list("", true));
        assert_eq!(union(list("a c", false), list("a b", false), 9), list("a b c", false));
        assert_eq!(union(list("a c", false), list("a b", false), 2), list("a b", true));
        assert_eq!(union(list("a c", false), list("a b", false), 3), list("a b c", false));
    }

    #[test]
    fn a_list_ends_at_either_limit() {
        let first = |items, bytes| Limited::first(texts("aa bb cc dd"), ListSize { items, bytes });
        let list = |items: &str, truncated| Limited { items: texts(items), truncated };
        assert_eq!(first(4, 8), list("aa bb cc dd", false));
        assert_eq!(first(3, 8), list("aa bb cc", true));
        assert_eq!(first(4, 7), list("aa bb cc", true));
        assert_eq!(first(0, 8), list("", true));
        let whole = Limited::first(texts("aa bb cc dd"), ListSize::UNLIMITED);
        assert_eq!(whole, list("aa bb cc dd", false));
    }

    proptest! {
        /// In any order and over any number of sources, a list is a prefix of the sorted whole.
        #[test]
        fn every_cut_list_is_a_beginning(
            sources in prop::collection::vec(prop::collection::vec("[a-d]{1,6}", 0..20), 1..4),
            limit in 1usize..12,
            most_bytes in 0usize..60,
        ) {
            let mut whole: Vec<String> = sources.concat();
            whole.sort();
            whole.dedup();
            let cut = smallest(limit, most_bytes, &sources.concat());
            prop_assert!(whole.starts_with(&cut.items));
            prop_assert_eq!(cut.truncated, cut.items.len() < whole.len());
            let bytes = |items: &[String]| items.iter().map(String::len).sum::<usize>();
            prop_assert!(cut.items.len() <= limit && bytes(&cut.items) <= most_bytes);
            if let Some(next) = whole.get(cut.items.len()) {
                let fits = bytes(&cut.items) + next.len() <= most_bytes;
                prop_assert!(cut.items.len() == limit || !fits, "it ends too early");
            }

            let lists = sources.iter().map(|source| smallest(limit, most_bytes, source));
            let size = ListSize { items: limit, bytes: most_bytes };
            let union = Limited::union(lists.collect(), size);
            prop_assert!(whole.starts_with(&union.items));
            prop_assert_eq!(union.truncated, union.items.len() < whole.len());
            // The result shows which limit was reached.
            if union.truncated && union.items.len() < limit {
                prop_assert!(bytes(&whole) > most_bytes, "nothing but the bytes was in the way");
            }

            let mut merged = Limited::first([], size);
            for source in &sources {
                let mut own = source.clone();
                own.sort();
                own.dedup();
                let walk = |add: &mut dyn FnMut(&str) -> ControlFlow<()>| {
                    let _ = own.iter().try_for_each(|item| add(item));
                    Ok::<(), Infallible>(())
                };
                merged = merged.merged(size, walk).expect("nothing fails");
            }
            prop_assert!(whole.starts_with(&merged.items));
            prop_assert_eq!(merged.truncated, merged.items.len() < whole.len());
            // The limit of bytes may cut a list before a source that would have filled it with small items.
            if bytes(&whole) <= most_bytes {
                prop_assert_eq!(merged, Limited::first(whole, size));
            }
        }
    }
}
