//! Operators with a scalar on at least one side.

use std::sync::Arc;

use super::element::{Kept, Operation, float_operation};
use crate::promql::ast::Comparison;
use crate::promql::context::Context;
use crate::promql::error::QueryError;
use crate::promql::operator::BinaryOp;
use crate::promql::operators::elementwise::{Map, Mapped};
use crate::promql::operators::merged::{Merged, Refused};
use crate::promql::operators::{BoxOperator, Operator, Series};
use crate::promql::points::{Points, Value, ValueRef};

/// On which side the scalar stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarSide {
    /// Left of the operator.
    Left,
    /// Right of it.
    Right,
}

/// Two scalars. A comparison gives 1 or 0.
pub fn scalars(op: BinaryOp, lhs: BoxOperator, rhs: BoxOperator) -> BoxOperator {
    Box::new(Scalars { op, lhs, rhs, right: Points::default() })
}

struct Scalars {
    op: BinaryOp,
    lhs: BoxOperator,
    rhs: BoxOperator,
    right: Points,
}

impl Operator for Scalars {
    fn series(&self) -> &[Series] {
        self.lhs.series()
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        self.lhs.next(points)?;
        self.rhs.next(&mut self.right)?;
        for (left, right) in points.floats_mut().iter_mut().zip(self.right.floats()) {
            *left = match float_operation(self.op, *left, *right) {
                (_, Kept::Compared(holds)) => f64::from(u8::from(holds)),
                (value, Kept::Always) => value,
            };
        }
        Ok(())
    }
}

/// A vector and a scalar.
pub fn vector_and_scalar(
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
        for step in 0..points.steps() {
            let number = number.floats()[step];
            let Some(value) = points.get(step).map(ValueRef::to_owned) else { continue };
            match with_scalar(&operation, &value, number, side, &shared) {
                Some(result) => points.set(step, result),
                None => points.remove(step),
            }
        }
        Ok(())
    });
    Ok(if nameless {
        Mapped::nameless(vector, context, map)
    } else {
        Merged::new(Mapped::new(vector, map), Refused::SameStep)
    })
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
    let holds = match kept {
        Kept::Always => return Some(result),
        Kept::Compared(holds) => holds,
    };
    match operation.comparison {
        Comparison::Bool => Some(Value::Float(f64::from(u8::from(holds)))),
        // The vector's value, also where it stands on the right.
        Comparison::Filter => holds.then(|| value.clone()),
    }
}
