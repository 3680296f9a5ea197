//! Merges series with the same label set into one series.
//!
//! Dropping or replacing labels can make label sets equal. This is allowed if the series never have
//! points at the same step; otherwise the query fails.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{BoxOperator, Operator, Series};
use crate::budget::{Budget, Held};
use crate::error::QueryError;
use crate::points::{KeptPoints, Points};
use crate::series_list::SeriesList;
use promkairos_model::Labels;

/// Merges series with the same label set at the position of the first one, with its flags.
pub(crate) struct Merged {
    input: BoxOperator,
    series: SeriesList,
    /// For each series of the input, the position of its result.
    target: Vec<usize>,
    /// Results of which a part is not read yet, by position.
    waiting: HashMap<usize, KeptPoints>,
    /// For each result, the position of the last series of the input that is part of it.
    last: Vec<usize>,
    next_input: usize,
    next_result: usize,
    scratch: Points,
    budget: Arc<Budget>,
    /// The memory of `target` and `last`.
    _held: Held,
}

/// Bytes of an entry in a map of label sets, and of the positions of a series.
const PLACE_BYTES: usize = 64;

impl Merged {
    /// Returns `input` itself if all its label sets are different.
    pub(crate) fn of(input: BoxOperator, budget: &Arc<Budget>) -> Result<BoxOperator, QueryError> {
        if input.named().is_some() {
            return Ok(input);
        }
        let held = budget.hold(0, input.series().len() * PLACE_BYTES)?;
        let mut series = SeriesList::new(0, budget)?;
        let mut known: HashMap<&Labels, usize> = HashMap::with_capacity(input.series().len());
        let (mut target, mut last) = (Vec::new(), Vec::new());
        for (position, one) in input.series().iter().enumerate() {
            let at = *known.entry(&one.labels).or_insert(series.len());
            if at == series.len() {
                series.push_shared(one.clone())?;
                last.push(position);
            }
            last[at] = position;
            target.push(at);
        }
        drop(known);
        if series.len() == target.len() {
            return Ok(input);
        }
        Ok(Box::new(Self {
            input,
            series,
            target,
            waiting: HashMap::new(),
            last,
            next_input: 0,
            next_result: 0,
            scratch: Points::default(),
            budget: Arc::clone(budget),
            _held: held,
        }))
    }

    fn take_one(&mut self) -> Result<(), QueryError> {
        self.input.next(&mut self.scratch)?;
        let at = self.target[self.next_input];
        self.next_input += 1;
        let Some(known) = self.waiting.get_mut(&at) else {
            let kept = KeptPoints::new(std::mem::take(&mut self.scratch), &self.budget)?;
            self.waiting.insert(at, kept);
            return Ok(());
        };
        known.merge(&self.scratch, &self.budget)
    }
}

impl Operator for Merged {
    fn series(&self) -> &[Series] {
        &self.series
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        let at = self.next_result;
        while self.next_input <= self.last[at] {
            self.take_one()?;
        }
        *points = self.waiting.remove(&at).map(KeptPoints::into_points).unwrap_or_default();
        self.next_result += 1;
        Ok(())
    }

    fn order(&self) -> Option<Vec<usize>> {
        let mut order: Vec<usize> =
            self.input.order()?.into_iter().map(|position| self.target[position]).collect();
        let mut known = vec![false; self.series.len()];
        order.retain(|&at| !std::mem::replace(&mut known[at], true));
        Some(order)
    }
}
