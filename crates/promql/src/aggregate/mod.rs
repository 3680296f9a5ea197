//! Aggregations: groups of series folded into one series each, or some series of each group.
//!
//! Folds keep one cell for each group and step, never the points of the series. A group is
//! complete when its last series was read.

mod cells;
mod count_values;
mod float;
mod fold;
mod folded;
mod grouping;
mod histogram;
mod param;
mod pieces;
mod quantile;
mod select;
mod top;

use std::sync::Arc;

use super::context::Context;
use super::error::QueryError;
use super::operator::Aggregator;
use super::operators::BoxOperator;
use super::operators::literal::Nothing;
use super::plan::Aggregate;
use super::steps::Steps;

pub(crate) use count_values::count_values;
use float::{Count, Group, Max, Min, Variance};
use folded::Folded;
use grouping::Groups;
use histogram::{Average, Sum};
use param::Param;
use quantile::Quantile;

/// Aggregates `input`. `param` is the parameter of an aggregator with a numeric parameter.
pub(crate) fn aggregate(
    node: &Aggregate,
    input: BoxOperator,
    param: Option<BoxOperator>,
    steps: Steps,
    context: &Arc<Context>,
) -> Result<BoxOperator, QueryError> {
    let groups = Groups::new(&*input, &node.grouping, &context.budget)?;
    let count = steps.count();
    let param = param.map(Param::read).transpose()?;
    let (op, span) = (node.op, node.input.span);
    let param_span = node.param.as_ref().map_or(node.span, |param| param.span);
    Ok(match op {
        Aggregator::Sum => Folded::boxed(input, groups, Sum::new(span), count, context),
        Aggregator::Avg => Folded::boxed(input, groups, Average::new(span), count, context),
        Aggregator::Count => Folded::boxed(input, groups, Count::new(op, span), count, context),
        Aggregator::Group => Folded::boxed(input, groups, Group::new(op, span), count, context),
        Aggregator::Min => Folded::boxed(input, groups, Min::new(op, span), count, context),
        Aggregator::Max => Folded::boxed(input, groups, Max::new(op, span), count, context),
        Aggregator::Stddev | Aggregator::Stdvar => {
            Folded::boxed(input, groups, Variance::new(op, span), count, context)
        }
        Aggregator::Quantile => {
            let Some(param) = param else { return Ok(Box::new(Nothing)) };
            param.tell_bad_quantiles(param_span, context);
            let quantile = Quantile { span, quantiles: param.values };
            Folded::boxed(input, groups, quantile, count, context)
        }
        Aggregator::TopK | Aggregator::BottomK | Aggregator::LimitK | Aggregator::LimitRatio => {
            let Some(param) = param else { return Ok(Box::new(Nothing)) };
            select::select(node, input, groups, (param, param_span), steps, context)?
        }
        // Its parameter is a label: see [`count_values`].
        Aggregator::CountValues => Box::new(Nothing),
    })
}
