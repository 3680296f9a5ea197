//! Operators without input: a number at every step, the time of each step, no series.

use super::{BoxOperator, Operator, Series};
use crate::error::QueryError;
use crate::points::Points;
use crate::steps::Steps;
use promkairos_model::Labels;

/// One series without labels with a number at every step.
pub(crate) struct Constant {
    series: [Series; 1],
    value: f64,
    steps: usize,
}

impl Constant {
    /// The number `value` at all steps.
    pub(crate) fn new(value: f64, steps: Steps) -> Self {
        Self { series: [Series::new(Labels::default())], value, steps: steps.count() }
    }
}

impl Operator for Constant {
    fn series(&self) -> &[Series] {
        &self.series
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        points.clear(self.steps);
        points.floats_mut().fill(self.value);
        Ok(())
    }
}

/// One series without labels with the time of each step in seconds.
pub(crate) struct Time {
    series: [Series; 1],
    steps: Steps,
}

impl Time {
    /// The times of `steps`.
    pub(crate) fn new(steps: Steps) -> Self {
        Self { series: [Series::new(Labels::default())], steps }
    }
}

impl Operator for Time {
    fn series(&self) -> &[Series] {
        &self.series
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        points.clear(self.steps.count());
        for (value, time) in points.floats_mut().iter_mut().zip(self.steps.times()) {
            *value = time as f64 / 1000.0;
        }
        Ok(())
    }
}

/// No series.
pub(crate) struct Nothing;

impl Operator for Nothing {
    fn series(&self) -> &[Series] {
        &[]
    }

    fn next(&mut self, _: &mut Points) -> Result<(), QueryError> {
        Ok(())
    }
}

/// Reads all series, for their notes and errors.
pub(crate) fn drain(mut input: BoxOperator) -> Result<(), QueryError> {
    let mut points = Points::default();
    for _ in 0..input.series().len() {
        input.next(&mut points)?;
    }
    Ok(())
}
