//! `quantile`: keeps the floats of a group at each step.

use super::fold::{Fold, Origin, tell_ignored};
use crate::context::Context;
use crate::error::QueryError;
use crate::functions::quantile;
use crate::operator::Aggregator;
use crate::points::Points;
use crate::position::Span;
use promkairos_model::is_stale;

/// Bytes of the list of a step, including its first floats.
const LIST_BYTES: usize = size_of::<Vec<f64>>() + 32;

pub(super) struct Quantile {
    pub(super) span: Span,
    /// The quantiles, by step.
    pub(super) quantiles: Vec<f64>,
}

impl Fold for Quantile {
    type State = Vec<Vec<f64>>;

    fn begin(&self, steps: usize) -> Self::State {
        vec![Vec::new(); steps]
    }

    fn add_floats(&self, state: &mut Self::State, floats: &[f64]) -> usize {
        let mut grown = 0;
        for (values, value) in state.iter_mut().zip(floats) {
            if !is_stale(*value) {
                values.push(*value);
                grown += 1;
            }
        }
        grown
    }

    fn add_histograms(
        &self,
        _: &mut Self::State,
        _: &Origin<'_>,
        points: &Points,
        context: &Context,
    ) -> Result<(), QueryError> {
        tell_ignored(points, Aggregator::Quantile, self.span, context);
        Ok(())
    }

    fn bytes(&self, steps: usize) -> usize {
        steps.saturating_mul(LIST_BYTES)
    }

    fn finish(
        &self,
        state: Self::State,
        points: &mut Points,
        _: &Context,
    ) -> Result<(), QueryError> {
        for (step, mut values) in state.into_iter().enumerate() {
            if !values.is_empty() {
                points.set_float(step, quantile(self.quantiles[step], &mut values));
            }
        }
        Ok(())
    }
}
