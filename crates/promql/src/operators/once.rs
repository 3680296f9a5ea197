//! Evaluates an expression that does not depend on the step once, and repeats it at all steps.

use std::sync::Arc;

use super::{BoxOperator, Operator, Series};
use crate::budget::Budget;
use crate::error::QueryError;
use crate::points::Points;

/// Repeats the result of an operator with one step.
pub(crate) struct Once {
    input: BoxOperator,
    first: Points,
    steps: usize,
    budget: Arc<Budget>,
}

impl Once {
    /// Repeats `input` at `steps` steps.
    pub(crate) fn new(input: BoxOperator, steps: usize, budget: &Arc<Budget>) -> Self {
        Self { input, first: Points::default(), steps, budget: Arc::clone(budget) }
    }
}

impl Operator for Once {
    fn series(&self) -> &[Series] {
        self.input.series()
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        self.input.next(&mut self.first)?;
        points.clear(self.steps);
        if let Some(value) = self.first.float(0) {
            points.floats_mut().fill(value);
        } else if let Some(histogram) = self.first.histogram(0) {
            for step in 0..self.steps {
                points.set_histogram(step, Arc::clone(histogram), &self.budget)?;
            }
        }
        Ok(())
    }

    fn order(&self) -> Option<Vec<usize>> {
        self.input.order()
    }
}
