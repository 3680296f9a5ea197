//! A position in the order of a copy.
//!
//! The form is stored in files, as that of the [progress](super::Progress): a field never gets another meaning.

use serde::{Deserialize, Serialize};

use super::error::CopyError;
use crate::model::Labels;

/// A position in the order of a copy: days, in each the selectors, in each the series.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// Number of the day since 1970-01-01; none = the first.
    pub(super) day: Option<i64>,
    /// Index of the selector.
    pub(super) selector: usize,
    /// The last series that is done on that day, by names and values; none = no series yet.
    after: Option<Vec<(String, String)>>,
}

impl Position {
    /// The series after which the day resumes.
    pub(super) fn after(&self) -> Result<Option<Labels>, CopyError> {
        let after = self.after.as_ref();
        let after = after.map(|pairs| Labels::from_pairs(pairs.iter().cloned())).transpose();
        after.map_err(|error| CopyError::State(error.to_string()))
    }

    /// Marks a series, and all before it, as done.
    pub(super) fn done(&mut self, last: &Labels) {
        let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        self.after = Some(last.iter().map(pair).collect());
    }

    /// Marks the selector as done.
    pub(super) fn next_selector(&mut self) {
        self.selector = self.selector.saturating_add(1);
        self.after = None;
    }

    /// Moves to this day; does nothing if the day has begun.
    pub(super) fn enter_day(&mut self, day: i64) {
        if self.day != Some(day) {
            *self = Self { day: Some(day), ..Self::default() };
        }
    }

    /// Marks the day as done.
    pub(super) fn end_day(&mut self) {
        *self = Self { day: self.day.map(|day| day.saturating_add(1)), ..Self::default() };
    }
}
