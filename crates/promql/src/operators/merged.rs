//! Series of one label set become one series.
//!
//! Dropping or replacing labels can make label sets equal. That is allowed while the series have no
//! point at one step; else the query fails.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{BoxOperator, Operator, Series};
use crate::budget::{Budget, Held};
use crate::error::QueryError;
use crate::points::{KeptPoints, Points};
use crate::series_list::SeriesList;
use promkairos_model::Labels;

/// Merges series of one label set; the first one's place and flags stay.
pub(crate) struct Merged {
    input: BoxOperator,
    series: SeriesList,
    /// For each series of the input the one of the result that it is part of.
    target: Vec<usize>,
    /// Results of which an input is still to come, by their position.
    waiting: HashMap<usize, KeptPoints>,
    /// For each result the last input that is part of it.
    last: Vec<usize>,
    next_input: usize,
    next_result: usize,
    scratch: Points,
    budget: Arc<Budget>,
    /// What the places take.
    _held: Held,
}

/// Bytes of an entry of a map of label sets, and of the places of a series.
const PLACE_BYTES: usize = 64;

impl Merged {
    /// `input` itself when all its label sets are different.
    pub(crate) fn of(input: BoxOperator, budget: &Arc<Budget>) -> Result<BoxOperator, QueryError> {
        if input.named().is_some() {
            return Ok(input);
        }
        let mut held = budget.nothing();
        held.take(0, input.series().len() * PLACE_BYTES)?;
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
