//! The series of an operator's result, whose label sets are counted in the budget of the query.
//!
//! A label set that is shared with the operator below was counted there; here only its entry in the list is counted.
//! Labels are not interpreted here.

use std::sync::Arc;

use super::budget::{Budget, Held};
use super::error::QueryError;
use super::operators::Series;
use promkairos_model::Labels;

/// Bytes of a label set in memory beside its text: reference counts and the overhead of the allocator.
pub(crate) const LABELS_BYTES: usize = 32;

/// Bytes of a new label set.
pub(crate) fn made_bytes(labels: &Labels) -> usize {
    labels.as_bytes().len() + LABELS_BYTES
}

/// Series whose memory is counted.
#[derive(Debug)]
pub(crate) struct SeriesList {
    series: Vec<Series>,
    held: Held,
    /// Bytes that are counted.
    bytes: usize,
}

impl SeriesList {
    /// A list with room for `places` series; it can grow.
    pub(crate) fn new(places: usize, budget: &Arc<Budget>) -> Result<Self, QueryError> {
        let bytes = places.saturating_mul(size_of::<Series>());
        let held = budget.hold(0, bytes)?;
        Ok(Self { series: Vec::with_capacity(places), held, bytes })
    }

    /// The results of `result` for each series of `input`.
    pub(crate) fn of(
        input: &[Series],
        budget: &Arc<Budget>,
        mut result: impl FnMut(&Series) -> Series,
    ) -> Result<Self, QueryError> {
        let mut list = Self::new(input.len(), budget)?;
        input.iter().try_for_each(|one| list.push_of(result(one), one))?;
        Ok(list)
    }

    /// Adds a series that shares its labels with another list.
    pub(crate) fn push_shared(&mut self, series: Series) -> Result<(), QueryError> {
        self.push(series, 0)
    }

    /// Adds a series with new labels.
    pub(crate) fn push_made(&mut self, series: Series) -> Result<(), QueryError> {
        let bytes = made_bytes(&series.labels);
        self.push(series, bytes)
    }

    /// Adds a series made from `origin`, which may share its labels.
    pub(crate) fn push_of(&mut self, series: Series, origin: &Series) -> Result<(), QueryError> {
        let shared = std::ptr::eq(series.labels.as_bytes(), origin.labels.as_bytes());
        if shared { self.push_shared(series) } else { self.push_made(series) }
    }

    fn push(&mut self, series: Series, label_bytes: usize) -> Result<(), QueryError> {
        let mut bytes = label_bytes;
        if self.series.len() == self.series.capacity() {
            bytes += self.series.capacity().max(4) * size_of::<Series>();
        }
        if bytes > 0 {
            self.bytes += bytes;
            self.held.cover(self.bytes)?;
        }
        self.series.push(series);
        Ok(())
    }
}

impl std::ops::Deref for SeriesList {
    type Target = [Series];

    fn deref(&self) -> &[Series] {
        &self.series
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    #[test]
    fn what_is_made_is_counted_and_what_is_shared_is_not() {
        let budget = Settings { max_bytes: 100_000, ..Settings::default() }.budget();
        let labels = |n: usize| Labels::from_pairs([("pad", "p".repeat(10_000 + n))]);
        let input: Vec<Series> = (0..9).map(|n| Series::new(labels(n).expect("valid"))).collect();
        let shared = SeriesList::of(&input, &budget, Series::clone).expect("there is room");
        assert!(budget.bytes() < 1_000);
        let other = |one: &Series| Series::new(one.labels.filtered(|_| true));
        let made = SeriesList::of(&input, &budget, other).expect("there is room");
        assert!(budget.bytes() > 90_000);
        assert!(SeriesList::of(&input, &budget, other).is_err());
        assert_eq!((made.len(), shared.len()), (9, 9));
        drop((made, shared));
        assert_eq!(budget.bytes(), 0);
    }
}
