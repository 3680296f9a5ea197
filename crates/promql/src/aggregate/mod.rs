//! Aggregations: groups of series folded into one series each, or some series of each group.
//!
//! Folds keep one cell for each group and step, never the points of the series. A group is
//! complete when its last series was read.

mod cells;
mod count_values;
mod float;
mod fold;
mod grouping;
mod histogram;
mod pieces;
mod quantile;
mod select;
mod top;

use std::sync::Arc;

use super::annotations::Note;
use super::ast::Grouping;
use super::context::Context;
use super::error::QueryError;
use super::operator::Aggregator;
use super::operators::BoxOperator;
use super::operators::literal::Nothing;
use super::points::Points;
use super::position::Span;
use super::steps::Steps;

pub(crate) use count_values::count_values;
use float::{Count, Extreme, Group, Max, Min, Spread, Variance};
use fold::Folded;
use grouping::Groups;
use histogram::{Average, Sum};
use quantile::Quantile;

/// An aggregation and its places in the query.
pub(crate) struct Aggregation<'a> {
    /// The aggregator.
    pub op: Aggregator,
    /// Which series form a group; the labels are sorted.
    pub grouping: &'a Grouping,
    /// The place of the argument.
    pub input_span: Span,
    /// The place of the parameter.
    pub param_span: Span,
    /// The place of the whole expression.
    pub span: Span,
}

/// Aggregates `input`. `param` is the parameter of an aggregator with a numeric parameter.
pub(crate) fn aggregate(
    aggregation: &Aggregation<'_>,
    input: BoxOperator,
    param: Option<BoxOperator>,
    steps: Steps,
    context: &Arc<Context>,
) -> Result<BoxOperator, QueryError> {
    let groups = Groups::new(&*input, aggregation.grouping, &context.budget)?;
    let count = steps.count();
    let param = param.map(Param::read).transpose()?;
    let op = aggregation.op;
    let span = aggregation.input_span;
    Ok(match op {
        Aggregator::Sum => Folded::boxed(input, groups, Sum::new(span), count, context),
        Aggregator::Avg => Folded::boxed(input, groups, Average::new(span), count, context),
        Aggregator::Count => Folded::boxed(input, groups, Count, count, context),
        Aggregator::Group => Folded::boxed(input, groups, Group, count, context),
        Aggregator::Min => Folded::boxed(input, groups, Extreme::<Min>::new(span), count, context),
        Aggregator::Max => Folded::boxed(input, groups, Extreme::<Max>::new(span), count, context),
        Aggregator::Stddev | Aggregator::Stdvar => {
            let spread = Spread { op, span };
            Folded::boxed(input, groups, Variance(spread), count, context)
        }
        Aggregator::Quantile => {
            let Some(param) = param else { return Ok(Box::new(Nothing)) };
            param.tell_bad_quantiles(aggregation.param_span, context);
            let quantile = Quantile { span, quantiles: param.values };
            Folded::boxed(input, groups, quantile, count, context)
        }
        Aggregator::TopK | Aggregator::BottomK | Aggregator::LimitK | Aggregator::LimitRatio => {
            let Some(param) = param else { return Ok(Box::new(Nothing)) };
            select::select(aggregation, input, groups, param, steps, context)?
        }
        // Its parameter is a label: see [`count_values`].
        Aggregator::CountValues => Box::new(Nothing),
    })
}

/// The parameter of an aggregator at all steps.
struct Param {
    values: Vec<f64>,
}

impl Param {
    fn read(mut operator: BoxOperator) -> Result<Self, QueryError> {
        let mut points = Points::default();
        operator.next(&mut points)?;
        Ok(Self { values: points.floats().to_vec() })
    }

    fn has_nan(&self) -> bool {
        self.values.iter().any(|value| value.is_nan())
    }

    /// The least value; as in Go, NaN if there is a NaN and no −∞.
    fn min(&self) -> f64 {
        let min = self.values.iter().copied().fold(f64::MAX, f64::min);
        if self.has_nan() && min != f64::NEG_INFINITY { f64::NAN } else { min }
    }

    /// The greatest value; as in Go, NaN if there is a NaN and no +∞.
    fn max(&self) -> f64 {
        let max = self.values.iter().copied().fold(f64::MIN, f64::max);
        if self.has_nan() && max != f64::INFINITY { f64::NAN } else { max }
    }

    fn tell_bad_quantiles(&self, span: Span, context: &Context) {
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
