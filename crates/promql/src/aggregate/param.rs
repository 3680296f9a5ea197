//! The parameter of an aggregator.

use crate::annotations::Note;
use crate::context::Context;
use crate::error::QueryError;
use crate::operators::BoxOperator;
use crate::points::Points;
use crate::position::Span;

/// The parameter of an aggregator at all steps.
pub(super) struct Param {
    pub(super) values: Vec<f64>,
}

impl Param {
    pub(super) fn read(mut operator: BoxOperator) -> Result<Self, QueryError> {
        let mut points = Points::default();
        operator.next(&mut points)?;
        Ok(Self { values: points.floats().to_vec() })
    }

    pub(super) fn has_nan(&self) -> bool {
        self.values.iter().any(|value| value.is_nan())
    }

    /// The least value; as in Go, NaN if there is a NaN and no −∞.
    pub(super) fn min(&self) -> f64 {
        let min = self.values.iter().copied().fold(f64::MAX, f64::min);
        if self.has_nan() && min != f64::NEG_INFINITY { f64::NAN } else { min }
    }

    /// The greatest value; as in Go, NaN if there is a NaN and no +∞.
    pub(super) fn max(&self) -> f64 {
        let max = self.values.iter().copied().fold(f64::MIN, f64::max);
        if self.has_nan() && max != f64::INFINITY { f64::NAN } else { max }
    }

    pub(super) fn tell_bad_quantiles(&self, span: Span, context: &Context) {
        if self.has_nan() {
            context.annotate(Note::invalid_quantile(f64::NAN).at(span));
        }
        if self.max() > 1.0 {
            context.annotate(Note::invalid_quantile(self.max()).at(span));
        }
        if self.min() < 0.0 {
            context.annotate(Note::invalid_quantile(self.min()).at(span));
        }
    }
}
