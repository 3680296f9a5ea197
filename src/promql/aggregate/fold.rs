//! The operator that folds groups: reads series after series into the cells of their groups and
//! gives a group when its last series was read.

use std::sync::Arc;

use super::grouping::Groups;
use crate::promql::budget::Held;
use crate::promql::context::Context;
use crate::promql::error::QueryError;
use crate::promql::operators::{BoxOperator, Operator, Series};
use crate::promql::points::Points;

/// What a fold does with the series of a group.
pub(super) trait Fold: Send + 'static {
    /// What is kept of a group.
    type State: Send;

    /// A group of no series yet.
    fn begin(&self, steps: usize) -> Self::State;

    /// How many samples a state of so many steps counts for at first.
    fn samples(&self, steps: usize) -> usize {
        steps
    }

    /// Takes in a series. Gives the samples that the state grew by.
    fn add(
        &self,
        state: &mut Self::State,
        origin: &Origin<'_>,
        points: &Points,
        context: &Context,
    ) -> usize;

    /// The result.
    fn finish(&self, state: Self::State, points: &mut Points, context: &Context);
}

/// A series of the input. Its labels are looked at only when they are wanted.
pub(super) struct Origin<'a> {
    input: &'a dyn Operator,
    position: usize,
}

impl Origin<'_> {
    /// The metric that it says it is of.
    pub(super) fn metric_name(&self) -> &str {
        if self.input.named().is_some() {
            // It has lost its name, and need not be made to say so.
            return "";
        }
        self.input.series()[self.position].labels.as_ref().metric_name()
    }
}

/// Folds the groups of a vector.
pub(super) struct Folded<F: Fold> {
    input: BoxOperator,
    groups: Groups,
    fold: F,
    states: Vec<Option<(F::State, Held)>>,
    steps: usize,
    read: usize,
    given: usize,
    context: Arc<Context>,
    scratch: Points,
}

impl<F: Fold> Folded<F> {
    pub(super) fn boxed(
        input: BoxOperator,
        groups: Groups,
        fold: F,
        steps: usize,
        context: &Arc<Context>,
    ) -> BoxOperator {
        let states = (0..groups.len()).map(|_| None).collect();
        Box::new(Self {
            input,
            groups,
            fold,
            states,
            steps,
            read: 0,
            given: 0,
            context: Arc::clone(context),
            scratch: Points::default(),
        })
    }

    fn read_one(&mut self) -> Result<(), QueryError> {
        self.input.next(&mut self.scratch)?;
        let origin = Origin { input: &*self.input, position: self.read };
        let state = &mut self.states[self.groups.of_series[self.read]];
        self.read += 1;
        let (state, held) = match state {
            Some(state) => state,
            None => {
                let mut held = self.context.budget.nothing();
                let samples = self.fold.samples(self.steps);
                held.take(samples, samples * 16)?;
                state.insert((self.fold.begin(self.steps), held))
            }
        };
        let grown = self.fold.add(state, &origin, &self.scratch, &self.context);
        if grown > 0 {
            held.take(grown, grown * 16)?;
        }
        Ok(())
    }
}

impl<F: Fold> Operator for Folded<F> {
    fn series(&self) -> &[Series] {
        &self.groups.series
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        while self.read <= self.groups.last[self.given] {
            self.read_one()?;
        }
        points.clear(self.steps);
        if let Some((state, _held)) = self.states[self.given].take() {
            self.fold.finish(state, points, &self.context);
        }
        self.given += 1;
        Ok(())
    }
}
