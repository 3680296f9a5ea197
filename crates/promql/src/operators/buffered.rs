//! Access out of order to the series of an operator.
//!
//! Series are read up to the one that is asked for. Of those passed by, only the ones that somebody
//! will ask for are kept, and each only until then.

use std::collections::HashMap;
use std::sync::Arc;

use super::{BoxOperator, Series};
use crate::budget::Budget;
use crate::error::QueryError;
use crate::points::{KeptPoints, Points};

/// Reads an operator in any order, each series at most once.
pub(crate) struct Buffered {
    input: BoxOperator,
    /// Whether somebody will ask for a series.
    wanted: Vec<bool>,
    kept: HashMap<usize, KeptPoints>,
    next: usize,
    present: Option<Vec<bool>>,
    budget: Arc<Budget>,
    scratch: Points,
}

impl Buffered {
    /// Of `input`, the series that are `wanted` can be taken.
    pub(crate) fn new(input: BoxOperator, wanted: Vec<bool>, budget: &Arc<Budget>) -> Self {
        Self {
            input,
            wanted,
            kept: HashMap::new(),
            next: 0,
            present: None,
            budget: Arc::clone(budget),
            scratch: Points::default(),
        }
    }

    /// From now on remembers at which of so many steps any series has a point.
    pub(crate) fn watch(&mut self, steps: usize) {
        self.present = Some(vec![false; steps]);
    }

    /// At which steps any series read so far had a point; see [`Buffered::watch`].
    pub(crate) fn present(&self) -> &[bool] {
        self.present.as_deref().unwrap_or_default()
    }

    /// The series.
    pub(crate) fn series(&self) -> &[Series] {
        self.input.series()
    }

    /// The points of the series at `position`, which is wanted and was not taken before. They are counted still.
    pub(crate) fn take(&mut self, position: usize) -> Result<KeptPoints, QueryError> {
        while self.next <= position {
            self.read_one()?;
        }
        match self.kept.remove(&position) {
            Some(kept) => Ok(kept),
            None => KeptPoints::new(Points::default(), &self.budget),
        }
    }

    /// Reads what is left, so that nothing that the input has to say is missed.
    pub(crate) fn finish(&mut self) -> Result<(), QueryError> {
        while self.next < self.input.series().len() {
            self.read_one()?;
        }
        Ok(())
    }

    fn read_one(&mut self) -> Result<(), QueryError> {
        self.input.next(&mut self.scratch)?;
        if let Some(present) = &mut self.present {
            for (step, _) in self.scratch.iter() {
                present[step] = true;
            }
        }
        if self.wanted[self.next] {
            let kept = KeptPoints::new(std::mem::take(&mut self.scratch), &self.budget)?;
            self.kept.insert(self.next, kept);
        }
        self.next += 1;
        Ok(())
    }
}
