//! Operators with a scalar on at least one side.

use std::sync::Arc;

use super::element::{Kept, Operation, float_operation, outcome};
use crate::ast::Comparison;
use crate::context::Context;
use crate::error::QueryError;
use crate::operator::BinaryOp;
use crate::operators::elementwise::Mapped;
use crate::operators::merged::Merged;
use crate::operators::{BoxOperator, Map};
use crate::points::{ABSENT, Points, Value, ValueRef};
use promkairos_model::is_stale;

/// The side of the operator on which the scalar is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScalarSide {
    /// Left of the operator.
    Left,
    /// Right of the operator.
    Right,
}

/// An operator between two scalars. A comparison gives 1 or 0.
pub(crate) fn scalars(op: BinaryOp, lhs: BoxOperator, mut rhs: BoxOperator) -> BoxOperator {
    let mut right = Points::default();
    let map = move |points: &mut Points| {
        rhs.next(&mut right)?;
        for (left, right) in points.floats_mut().iter_mut().zip(right.floats()) {
            *left = match float_operation(op, *left, *right) {
                (_, Kept::Compared(holds)) => f64::from(holds),
                (value, Kept::Always) => value,
            };
        }
        Ok(())
    };
    Mapped::labeled(lhs, Box::new(map))
}

/// An operator between a vector and a scalar.
pub(crate) fn vector_and_scalar(
    vector: BoxOperator,
    mut scalar: BoxOperator,
    side: ScalarSide,
    operation: Operation,
    context: &Arc<Context>,
) -> Result<BoxOperator, QueryError> {
    let mut number = Points::default();
    scalar.next(&mut number)?;
    let shared = Arc::clone(context);
    let nameless = operation.drops_name() || operation.comparison == Comparison::Bool;
    let map: Map = Box::new(move |points| {
        if !points.has_histograms() && !operation.op.is_trim() {
            with_scalars(&operation, points.floats_mut(), number.floats(), side);
            return Ok(());
        }
        for step in 0..points.steps() {
            let number = number.floats()[step];
            let Some(value) = points.get(step).map(ValueRef::to_owned) else { continue };
            let result = with_scalar(&operation, &value, number, side, &shared);
            // Frees the old value before the budget is asked for the result.
            drop(value);
            match result {
                Some(result) => points.set(step, result, &shared.budget)?,
                None => points.remove(step),
            }
        }
        Ok(())
    });
    match nameless {
        true => Mapped::nameless(vector, context, map),
        false => Merged::of(Mapped::labeled(vector, map), &context.budget),
    }
}

/// Applies the operator to a series that has only floats.
fn with_scalars(operation: &Operation, values: &mut [f64], numbers: &[f64], side: ScalarSide) {
    for (value, number) in values.iter_mut().zip(numbers) {
        if is_stale(*value) {
            continue;
        }
        let (lhs, rhs) = match side {
            ScalarSide::Left => (*number, *value),
            ScalarSide::Right => (*value, *number),
        };
        match (float_operation(operation.op, lhs, rhs), operation.comparison) {
            ((result, Kept::Always), _) => *value = result,
            ((_, Kept::Compared(holds)), Comparison::Bool) => *value = f64::from(holds),
            ((_, Kept::Compared(true)), Comparison::Filter) => {}
            ((_, Kept::Compared(false)), Comparison::Filter) => *value = ABSENT,
        }
    }
}

fn with_scalar(
    operation: &Operation,
    value: &Value,
    number: f64,
    side: ScalarSide,
    context: &Context,
) -> Option<Value> {
    let scalar = Value::Float(number);
    let (lhs, rhs) = match side {
        ScalarSide::Left => (&scalar, value),
        ScalarSide::Right => (value, &scalar),
    };
    let (result, kept) = operation.apply(lhs, rhs, context)?;
    // A comparison gives the value of the vector, also if the vector is on the right.
    let result = if kept == Kept::Always { result } else { value.clone() };
    outcome(operation, result, kept)
}
