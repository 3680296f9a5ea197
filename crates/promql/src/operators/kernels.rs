//! A range function with its scalar arguments at all steps.

use crate::ast::Edges;
use crate::error::QueryError;
use crate::functions::{
    Arguments, Growth, Notes, RangeKernel, Window, check_smoothing, range_kernel,
};
use crate::points::Value;
use crate::signature::Function;

/// A range function with its scalar arguments.
pub(crate) struct Kernel {
    /// Which function.
    pub function: Function,
    kernel: RangeKernel,
    /// The scalar arguments in their order, each by step.
    scalars: Vec<Vec<f64>>,
}

impl Kernel {
    /// The kernel of `function`.
    pub(crate) fn new(function: Function, scalars: Vec<Vec<f64>>) -> Result<Self, QueryError> {
        // Absence follows from where series have a point. Series keep their names for this, as two
        // metrics with otherwise the same labels are no error here.
        let present = match function {
            Function::AbsentOverTime => Function::LastOverTime,
            other => other,
        };
        match range_kernel(present) {
            Some(kernel) => Ok(Self { function: present, kernel, scalars }),
            None => Err(QueryError::Execution(format!(
                "function {function} does not take a range vector"
            ))),
        }
    }

    /// Computes the step at `time`.
    #[inline]
    pub(crate) fn apply(
        &self,
        window: &Window<'_>,
        step: usize,
        time: i64,
        notes: &mut Notes<'_>,
    ) -> Option<Value> {
        let mut arguments = Arguments { time, ..Arguments::default() };
        for (argument, values) in arguments.scalars.iter_mut().zip(&self.scalars) {
            *argument = values[step];
        }
        (self.kernel)(window, &arguments, notes)
    }

    /// The growth that the function computes, if it does.
    pub(crate) fn growth(&self) -> Option<Growth> {
        match self.function {
            Function::Rate => Some(Growth::Rate),
            Function::Increase => Some(Growth::Increase),
            Function::Delta => Some(Growth::Delta),
            _ => None,
        }
    }

    /// Whether the function uses start timestamps.
    pub(crate) fn uses_starts(&self) -> bool {
        use Function::{Increase, Irate, Rate, Resets};
        matches!(self.function, Rate | Irate | Increase | Resets)
    }

    /// Fails if the scalar arguments are invalid.
    pub(crate) fn check_arguments(&self) -> Result<(), QueryError> {
        if let (Function::DoubleExponentialSmoothing, [levels, trends]) =
            (self.function, self.scalars.as_slice())
        {
            for (level, trend) in levels.iter().zip(trends) {
                check_smoothing(*level, *trend).map_err(QueryError::Execution)?;
            }
        }
        Ok(())
    }

    /// Fails if the function does not support these edges.
    pub(crate) fn check_edges(&self, edges: Option<Edges>) -> Result<(), QueryError> {
        use Function::{Changes, Delta, Increase, Rate, Resets};
        let (name, allowed): (_, &[Function]) = match edges {
            None => return Ok(()),
            Some(Edges::Anchored) => ("anchored", &[Changes, Delta, Increase, Rate, Resets]),
            Some(Edges::Smoothed) => ("smoothed", &[Delta, Increase, Rate]),
        };
        if allowed.contains(&self.function) {
            return Ok(());
        }
        let list: Vec<&str> = allowed.iter().map(|function| function.name()).collect();
        Err(QueryError::Execution(format!(
            "{name} modifier can only be used with: {} - not with {}",
            list.join(", "),
            self.function
        )))
    }
}
