//! Builds operators from a plan and its opened selections.

mod calls;

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::elementwise::Mapped;
use super::literal::{Nothing, constant};
use super::runs::{Runs, SeriesWork};
use super::selector::{Newest, Wanted};
use super::smoothed::Smooth;
use super::{BoxOperator, Map, Scope};
use crate::aggregate::{aggregate, count_values};
use crate::binary::{And, Join, Operation, Or, ScalarSide};
use crate::binary::{scalars, vector_and_scalar};
use crate::budget::{Budget, Held};
use crate::context::Context;
use crate::error::QueryError;
use crate::operator::{Aggregator, BinaryOp};
use crate::plan::{self, Aggregate, Binary, Node, Range, Source};
use crate::points::Points;
use crate::source::Selected;
use crate::steps::Steps;
use promkairos_storage::{Expected, Store};

/// Builds the operators of a plan.
pub(crate) struct Builder {
    /// The opened selections of the plan.
    pub selections: Vec<Arc<Selected>>,
    /// For selections that depend on the results of other operators.
    pub store: Arc<dyn Store>,
    /// The shared state of the query.
    pub context: Arc<Context>,
    /// Runs the reads.
    pub runtime: Handle,
    /// The working memory of the operators: one series each, at all steps.
    working: Mutex<Held>,
}

impl Builder {
    /// A builder for a plan with these selections.
    pub(crate) fn new(
        selections: Vec<Arc<Selected>>,
        store: Arc<dyn Store>,
        context: Arc<Context>,
        runtime: Handle,
    ) -> Self {
        let working = Mutex::new(context.budget.nothing());
        Self { selections, store, context, runtime, working }
    }

    /// The operator of a node that is a scalar or an instant vector.
    pub(crate) fn build(&self, node: &Node, scope: &Scope) -> Result<BoxOperator, QueryError> {
        let steps = scope.steps;
        self.touch(node)?;
        self.hold_steps(steps, size_of::<f64>())?;
        if steps.count() == 0 {
            return Ok(Box::new(Nothing));
        }
        Ok(match node {
            Node::Number(value) => constant(*value, steps),
            Node::Selector(selector) if selector.smoothed => {
                let selected = &self.selections[selector.selection];
                self.runs(Smooth::new(selected, selector, scope, &self.context), steps)
            }
            Node::Selector(selector) => self.newest(selector, Wanted::Value, scope)?,
            Node::Call(call) => self.call(call, scope)?,
            Node::Aggregate(node) => self.aggregate(node, scope)?,
            Node::Binary(node) => self.binary(node, scope)?,
            Node::Negate(node) => {
                let budget = Arc::clone(&self.context.budget);
                let map: Map = Box::new(move |points| negate(points, &budget));
                Mapped::nameless(self.build(node, scope)?, &self.context, map)?
            }
            Node::Once(node) => {
                let first = Scope { steps: steps.first(), counted: scope.counted.once() };
                let input = self.build(node, &first)?;
                Mapped::repeated(input, steps.count(), &self.context.budget)
            }
            Node::String(_) | Node::Matchers(_) | Node::Range(_) => {
                return Err(QueryError::execution("expected a scalar or an instant vector"));
            }
        })
    }

    /// Counts the series of a selector that is about to be read.
    pub(crate) fn touch(&self, node: &Node) -> Result<(), QueryError> {
        let (selection, reach) = match node {
            Node::Selector(plan::Selector { selection, reach, .. }) => (*selection, *reach),
            Node::Range(Range { source: Source::Selection { selection, reach, .. }, .. }) => {
                (*selection, *reach)
            }
            _ => return Ok(()),
        };
        let selected = &self.selections[selection];
        if selected.range == reach || selected.series.is_empty() {
            return self.context.add_series(selected.series.len());
        }
        // The selection is shared and covers a longer range, so it may have series without points here.
        let _held = self.context.budget.hold(0, selected.series.len() * size_of::<Expected>())?;
        let forecast = self.runtime.block_on(selected.reader.forecast(reach))?;
        let touched = forecast.series.iter().filter(|expected| expected.points > 0.0);
        self.context.add_series(touched.count())
    }

    /// The newest points of a selector.
    fn newest(
        &self,
        selector: &plan::Selector,
        wanted: Wanted,
        scope: &Scope,
    ) -> Result<BoxOperator, QueryError> {
        let selected = &self.selections[selector.selection];
        let (lookup, hints) = (selector.lookup, selector.hints);
        let work = Newest::new(selected, lookup, wanted, hints, scope, &self.context)?;
        Ok(self.runs(work, scope.steps))
    }

    /// Work on the series of a selection, spread over the cores.
    fn runs(&self, work: impl SeriesWork, steps: Steps) -> BoxOperator {
        Box::new(Runs::new(work, &self.context, &self.runtime, steps.count()))
    }

    /// Reserves memory for each of these steps; a subquery may have any number of steps.
    fn hold_steps(&self, steps: Steps, bytes: usize) -> Result<(), QueryError> {
        self.working.lock().take(0, steps.count().saturating_mul(bytes))
    }

    /// The values of a scalar at all steps.
    fn scalar(&self, node: &Node, scope: &Scope) -> Result<Vec<f64>, QueryError> {
        let mut points = Points::default();
        self.build(node, scope)?.next(&mut points)?;
        Ok(points.floats().to_vec())
    }

    fn aggregate(&self, node: &Aggregate, scope: &Scope) -> Result<BoxOperator, QueryError> {
        let steps = scope.steps;
        if let (Aggregator::CountValues, Some(param)) = (node.op, &node.param)
            && let Node::String(label) = &param.node
        {
            let input = self.build(&node.input.node, scope)?;
            return count_values(input, label, &node.grouping, steps.count(), &self.context);
        }
        let param = node.param.as_ref();
        let param = param.map(|param| self.build(&param.node, scope)).transpose()?;
        let input = self.build(&node.input.node, scope)?;
        aggregate(node, input, param, steps, &self.context)
    }

    fn binary(&self, node: &Binary, scope: &Scope) -> Result<BoxOperator, QueryError> {
        let lhs = self.build(&node.lhs.node, scope)?;
        let rhs = self.build(&node.rhs.node, scope)?;
        let (steps, context) = (scope.steps.count(), &self.context);
        let operation = Operation { op: node.op, comparison: node.comparison, span: node.span };
        let Some(matching) = &node.matching else {
            return match (node.lhs.scalar, node.rhs.scalar) {
                (true, true) => Ok(scalars(node.op, lhs, rhs)),
                (true, false) => vector_and_scalar(rhs, lhs, ScalarSide::Left, operation, context),
                (false, _) => vector_and_scalar(lhs, rhs, ScalarSide::Right, operation, context),
            };
        };
        match node.op {
            BinaryOp::And | BinaryOp::Unless => {
                And::boxed(lhs, rhs, node.op, &matching.labels, steps, context)
            }
            BinaryOp::Or => Or::boxed(lhs, rhs, &matching.labels, steps, context),
            _ => Join::boxed(lhs, rhs, operation, matching, steps, context),
        }
    }
}

fn negate(points: &mut Points, budget: &Arc<Budget>) -> Result<(), QueryError> {
    for value in points.floats_mut() {
        if !promkairos_model::is_stale(*value) {
            *value = -*value;
        }
    }
    if points.has_histograms() {
        for step in 0..points.steps() {
            if let Some(histogram) = points.histogram(step) {
                let mut negated = (**histogram).clone();
                negated.mul(-1.0);
                points.set_histogram(step, Arc::new(negated), budget)?;
            }
        }
    }
    Ok(())
}
