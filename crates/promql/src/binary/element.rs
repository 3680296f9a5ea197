//! An operator applied to two values.

use std::sync::Arc;

use crate::annotations::{HistogramOperation, Note};
use crate::ast::Comparison;
use crate::context::Context;
use crate::histogram::{Combined, FloatHistogram, IncompatibleSchemas, Keep};
use crate::operator::BinaryOp;
use crate::points::Value;
use crate::position::Span;

/// An operator and its place in the query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    /// The operator.
    pub op: BinaryOp,
    /// What a comparison returns.
    pub comparison: Comparison,
    /// Its place.
    pub span: Span,
}

/// Whether the operator keeps a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The operator is no comparison.
    Always,
    /// The operator is a comparison, which holds or does not; the result is the left value.
    Compared(bool),
}

/// Applies an operator to two floats.
#[inline]
pub(crate) fn float_operation(op: BinaryOp, a: f64, b: f64) -> (f64, Kept) {
    let compared = |holds| (a, Kept::Compared(holds));
    let value = match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        BinaryOp::Mod => a % b,
        BinaryOp::Pow => a.powf(b),
        BinaryOp::Atan2 => a.atan2(b),
        BinaryOp::Equal => return compared(a == b),
        BinaryOp::NotEqual => return compared(a != b),
        BinaryOp::Less => return compared(a < b),
        BinaryOp::LessOrEqual => return compared(a <= b),
        BinaryOp::Greater => return compared(a > b),
        BinaryOp::GreaterOrEqual => return compared(a >= b),
        // Trims need a histogram; set operators ignore values.
        BinaryOp::TrimUpper
        | BinaryOp::TrimLower
        | BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Unless => return compared(false),
    };
    (value, Kept::Always)
}

impl Operation {
    /// Whether the result no longer means the metric.
    pub(crate) fn drops_name(&self) -> bool {
        !(self.op.is_comparison() || self.op.is_trim() || self.op.is_set())
    }

    /// The result; `None`, with a note, if the operator is not defined for the types of the values.
    pub(crate) fn apply(
        &self,
        lhs: &Value,
        rhs: &Value,
        context: &Context,
    ) -> Option<(Value, Kept)> {
        let (left, right) = match (lhs, rhs) {
            (Value::Float(_), Value::Float(_)) if self.op.is_trim() => ("float", "float"),
            (Value::Float(a), Value::Float(b)) => {
                let (value, kept) = float_operation(self.op, *a, *b);
                return Some((Value::Float(value), kept));
            }
            (Value::Float(a), Value::Histogram(b)) => {
                if self.op == BinaryOp::Mul {
                    return changed(b, |histogram| histogram.mul(*a));
                }
                ("float", "histogram")
            }
            (Value::Histogram(a), Value::Float(b)) => match self.op {
                BinaryOp::Mul => return changed(a, |histogram| histogram.mul(*b)),
                BinaryOp::Div => return changed(a, |histogram| histogram.div(*b)),
                BinaryOp::TrimUpper => return trimmed(a, *b, Keep::Below),
                BinaryOp::TrimLower => return trimmed(a, *b, Keep::Above),
                _ => ("histogram", "float"),
            },
            (Value::Histogram(a), Value::Histogram(b)) => {
                let compared = |holds| Some((lhs.clone(), Kept::Compared(holds)));
                match self.op {
                    BinaryOp::Add | BinaryOp::Sub => return self.combined(a, b, context),
                    BinaryOp::Equal => return compared(a.same_data(b)),
                    BinaryOp::NotEqual => return compared(!a.same_data(b)),
                    _ => ("histogram", "histogram"),
                }
            }
        };
        let operator = self.op.name();
        context.annotate(Note::IncompatibleTypes { left, operator, right }.at(self.span));
        None
    }

    /// The sum or the difference of two histograms.
    fn combined(
        &self,
        a: &FloatHistogram,
        b: &FloatHistogram,
        context: &Context,
    ) -> Option<(Value, Kept)> {
        let mut result = a.clone();
        let (combined, operation) = if self.op == BinaryOp::Sub {
            (result.sub(b), HistogramOperation::Subtraction)
        } else {
            (result.add(b), HistogramOperation::Addition)
        };
        let Combined { hints_collided, bounds_reconciled } = match combined {
            Ok(combined) => combined,
            Err(IncompatibleSchemas) => {
                let operator = self.op.name();
                context.annotate(Note::IncompatibleBucketLayout { operator }.at(self.span));
                return None;
            }
        };
        if self.op == BinaryOp::Sub {
            result.reset_hint = promkairos_model::ResetHint::Gauge;
        }
        if hints_collided {
            context.annotate(Note::CollidingResets { operation }.at(self.span));
        }
        if bounds_reconciled {
            context.annotate(Note::ReconciledBounds { operation }.at(self.span));
        }
        result.compact();
        Some((Value::Histogram(Arc::new(result)), Kept::Always))
    }
}

fn changed(
    histogram: &FloatHistogram,
    change: impl FnOnce(&mut FloatHistogram),
) -> Option<(Value, Kept)> {
    let mut result = histogram.clone();
    change(&mut result);
    result.compact();
    Some((Value::Histogram(Arc::new(result)), Kept::Always))
}

fn trimmed(histogram: &FloatHistogram, cut: f64, keep: Keep) -> Option<(Value, Kept)> {
    let mut result = histogram.clone();
    result.trim(cut, keep);
    Some((Value::Histogram(Arc::new(result)), Kept::Always))
}

/// The value of the result; `None` if a comparison drops it.
pub(super) fn outcome(operation: &Operation, value: Value, kept: Kept) -> Option<Value> {
    match (operation.comparison, kept) {
        (Comparison::Bool, Kept::Compared(holds)) => Some(Value::Float(f64::from(holds))),
        (Comparison::Bool, Kept::Always) => Some(Value::Float(1.0)),
        (Comparison::Filter, Kept::Compared(false)) => None,
        (Comparison::Filter, _) => Some(value),
    }
}
