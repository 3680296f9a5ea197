//! Values computed from a point and the one after it, at the time of the later one.

use super::stream::{Context, Input, Stream};
use crate::error::QueryError;
use crate::point::{Point, Value};
use crate::time::{self, Sampling, Zone};

/// What is computed.
pub(super) enum Change<'a> {
    /// The difference.
    Difference,
    /// The difference in a length of time.
    Rate(Sampling, &'a Zone),
    /// The later value in a length of time.
    Sampler(Sampling, &'a Zone),
}

pub(super) struct Pairs<'a> {
    input: Input<'a>,
    change: Change<'a>,
    before: Option<Point>,
}

impl<'a> Pairs<'a> {
    pub(super) fn new(input: Input<'a>, change: Change<'a>) -> Self {
        Self { input, change, before: None }
    }
}

impl Stream for Pairs<'_> {
    fn next(&mut self, context: &mut Context<'_>) -> Result<Option<Point>, QueryError> {
        let before = match self.before.take() {
            Some(before) => Some(before),
            None => self.input.next(context)?,
        };
        let Some(before) = before else { return Ok(None) };
        let Some(point) = self.input.next(context)? else { return Ok(None) };
        let (from, to) = (before.value.double()?, point.value.double()?);
        let value = match &self.change {
            Change::Difference => to - from,
            Change::Rate(sampling, zone) => {
                let elapsed = elapsed(&before, &point, "rate")?;
                (to - from) / elapsed * time::add_duration(*sampling, zone, before.time) as f64
            }
            Change::Sampler(sampling, zone) => {
                let elapsed = elapsed(&before, &point, "sampler")?;
                to / elapsed * time::add_duration(*sampling, zone, before.time) as f64
            }
        };
        let time = point.time;
        self.before = Some(point);
        Ok(Some(Point { time, value: Value::Double(value) }))
    }

    fn read_rest(&mut self, context: &mut Context<'_>) -> Result<(), QueryError> {
        self.input.read_rest(context)
    }
}

fn elapsed(before: &Point, point: &Point, name: &str) -> Result<f64, QueryError> {
    match point.time.saturating_sub(before.time) {
        0 => Err(QueryError::Evaluation(format!(
            "The {name} aggregator cannot compute rate for data points with the same time stamp.  \
             You must precede {name} with another aggregator."
        ))),
        elapsed => Ok(elapsed as f64),
    }
}
