//! Access to the series of an operator in any order.
//!
//! Series are read up to the requested one. Of the series before it, only those that will be
//! requested are kept, each until its request.

use std::collections::HashMap;
use std::sync::Arc;

use super::{BoxOperator, Series};
use crate::budget::Budget;
use crate::error::QueryError;
use crate::points::{KeptPoints, Points};

/// Reads an operator in any order, each series at most once.
pub(crate) struct Buffered {
    input: BoxOperator,
    /// Whether a series will be requested.
    wanted: Vec<bool>,
    kept: HashMap<usize, KeptPoints>,
    next: usize,
    present: Option<Vec<bool>>,
    budget: Arc<Budget>,
    scratch: Points,
}

impl Buffered {
    /// Only the series of `input` that are `wanted` may be requested.
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

    /// From now on records at which of `steps` steps any series has a point.
    pub(crate) fn watch(&mut self, steps: usize) {
        self.present = Some(vec![false; steps]);
    }

    /// The steps at which any series so far had a point; see [`Buffered::watch`].
    pub(crate) fn present(&self) -> &[bool] {
        self.present.as_deref().unwrap_or_default()
    }

    /// The series.
    pub(crate) fn series(&self) -> &[Series] {
        self.input.series()
    }

    /// The points of the series at `position`, which must be wanted and not taken before. The budget
    /// still counts them.
    pub(crate) fn take(&mut self, position: usize) -> Result<KeptPoints, QueryError> {
        while self.next <= position {
            self.read_one()?;
        }
        match self.kept.remove(&position) {
            Some(kept) => Ok(kept),
            None => KeptPoints::new(Points::default(), &self.budget),
        }
    }

    /// Reads the remaining series, so that their errors and notes are not missed.
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
