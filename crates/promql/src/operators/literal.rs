//! Operators of one series or none: a number at every step, the time of each step, no series.

use super::{BoxOperator, Map, Operator, Series};
use crate::error::QueryError;
use crate::points::Points;
use crate::steps::Steps;
use promkairos_model::Labels;

/// One series whose points are computed.
struct Single {
    series: [Series; 1],
    compute: Map,
}

impl Operator for Single {
    fn series(&self) -> &[Series] {
        &self.series
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        (self.compute)(points)
    }
}

/// One series with these labels, whose points `compute` sets.
pub(crate) fn single(labels: Labels, compute: Map) -> BoxOperator {
    Box::new(Single { series: [Series::new(labels)], compute })
}

/// The number `value` at all steps.
pub(crate) fn constant(value: f64, steps: Steps) -> BoxOperator {
    let compute = move |points: &mut Points| {
        points.clear(steps.count());
        points.floats_mut().fill(value);
        Ok(())
    };
    single(Labels::default(), Box::new(compute))
}

/// The times of `steps`, in seconds.
pub(crate) fn times(steps: Steps) -> BoxOperator {
    let compute = move |points: &mut Points| {
        points.clear(steps.count());
        for (value, time) in points.floats_mut().iter_mut().zip(steps.times()) {
            *value = time as f64 / 1000.0;
        }
        Ok(())
    };
    single(Labels::default(), Box::new(compute))
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

/// Reads all series, and passes their positions and points to `each`.
pub(crate) fn read_all(
    input: &mut BoxOperator,
    mut each: impl FnMut(usize, &Points) -> Result<(), QueryError>,
) -> Result<(), QueryError> {
    let mut points = Points::default();
    for position in 0..input.series().len() {
        input.next(&mut points)?;
        each(position, &points)?;
    }
    Ok(())
}

/// Reads all series, for their notes and errors.
pub(crate) fn drain(mut input: BoxOperator) -> Result<(), QueryError> {
    read_all(&mut input, |_, _| Ok(()))
}
