//! The label endpoints, from the indexes alone, or the names where no tag is asked for.
//!
//! Both are coarse, as the contract allows: in a window that is not long closed the index outlives a
//! delete of its points (see `delete`), so a deleted metric is listed until the window has closed and
//! is deleted again, or until its index rows expire.
//!
//! An answer is kept for a while (see `label_answers`). With a limit only the smallest results are kept while reading, so memory is bounded by it.

use std::collections::BTreeSet;
use std::time::Instant;

use super::label_answers::Asked;
use super::routing::route;
use super::shared::Shared;
use crate::kairos::DataType;
use crate::model::{Labels, METRIC_NAME};
use crate::storage::{Limited, SeriesQuery, StoreError};

/// The smallest of what is added, up to a limit and one more.
struct Smallest<T> {
    items: BTreeSet<T>,
    /// 0 = none.
    limit: usize,
}

impl<T: Ord> Smallest<T> {
    fn new(limit: usize) -> Self {
        Self { items: BTreeSet::new(), limit }
    }

    fn add(&mut self, item: T) {
        self.items.insert(item);
        if self.limit > 0 && self.items.len() > self.limit.saturating_add(1) {
            self.items.pop_last();
        }
    }

    fn finish(mut self) -> Limited<T> {
        let truncated = self.limit > 0 && self.items.len() > self.limit;
        if truncated {
            self.items.pop_last();
        }
        Limited { items: self.items.into_iter().collect(), truncated }
    }
}

impl Shared {
    /// What `read` gives, or gave not long ago.
    async fn answer(
        &self,
        label: Option<&str>,
        query: &SeriesQuery,
        read: impl Future<Output = Result<Limited<String>, StoreError>>,
    ) -> Result<Limited<String>, StoreError> {
        let (asked, begun) =
            (Asked::new(label, query, self.spec), self.answers.begin(Instant::now()));
        if let Some(answer) = self.answers.get(&asked, begun) {
            self.executor.metrics.label_answer_hits.inc();
            return Ok(answer);
        }
        let answer = read.await?;
        self.answers.keep(asked, begun, &answer);
        Ok(answer)
    }

    /// [`Store::series`](crate::storage::Store::series)
    pub(super) async fn series(&self, query: &SeriesQuery) -> Result<Limited<Labels>, StoreError> {
        let mut all = Smallest::new(query.limit);
        self.scan(&query.matchers, query.range, DataType::holds_points, &mut |row, _| {
            all.add(row.labels.clone());
            Ok(())
        })
        .await?;
        Ok(all.finish())
    }

    /// [`Store::label_names`](crate::storage::Store::label_names)
    pub(super) async fn label_names(
        &self,
        query: &SeriesQuery,
    ) -> Result<Limited<String>, StoreError> {
        self.answer(None, query, self.read_label_names(query)).await
    }

    async fn read_label_names(&self, query: &SeriesQuery) -> Result<Limited<String>, StoreError> {
        let mut all = Smallest::new(query.limit);
        self.scan(&query.matchers, query.range, DataType::holds_points, &mut |row, _| {
            for (name, _) in row.labels.iter() {
                if !all.items.contains(name) {
                    all.add(name.to_owned());
                }
            }
            Ok(())
        })
        .await?;
        Ok(all.finish())
    }

    /// [`Store::label_values`](crate::storage::Store::label_values)
    pub(super) async fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
    ) -> Result<Limited<String>, StoreError> {
        self.answer(Some(name), query, self.read_label_values(name, query)).await
    }

    async fn read_label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
    ) -> Result<Limited<String>, StoreError> {
        let mut all = Smallest::new(query.limit);
        if name == METRIC_NAME && route(&query.matchers).tags.is_empty() {
            for name in self.names_in(&query.matchers, query.range).await? {
                all.add(name);
            }
            return Ok(all.finish());
        }
        self.scan(&query.matchers, query.range, DataType::holds_points, &mut |row, _| {
            let value = row.labels.get(name);
            if !value.is_empty() && !all.items.contains(value) {
                all.add(value.to_owned());
            }
            Ok(())
        })
        .await?;
        Ok(all.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_are_kept() {
        let keep = |limit| {
            let mut all = Smallest::new(limit);
            [5, 3, 9, 1, 3, 7].into_iter().for_each(|n| all.add(n));
            let limited = all.finish();
            (limited.items, limited.truncated)
        };
        assert_eq!(keep(0), (vec![1, 3, 5, 7, 9], false));
        assert_eq!(keep(2), (vec![1, 3], true));
        assert_eq!(keep(4), (vec![1, 3, 5, 7], true));
        assert_eq!(keep(5), (vec![1, 3, 5, 7, 9], false));
    }
}
