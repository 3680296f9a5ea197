//! Aggregators that give a point for a point, or drop it.

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::stream::{Context, Input, Peeked, Stream};
use crate::error::QueryError;
use crate::java_text;
use crate::plan::{
    Boundary, Filter, FilterOperation, Score, ScoreOrder, Threshold, ThresholdValue, Trim,
};
use crate::point::{Point, Value};

/// The first points.
pub(super) struct Limited<'a> {
    input: Input<'a>,
    left: u64,
}

impl<'a> Limited<'a> {
    pub(super) fn new(input: Input<'a>, left: u64) -> Self {
        Self { input, left }
    }
}

impl Stream for Limited<'_> {
    fn next(&mut self, context: &mut Context<'_>) -> Result<Option<Point>, QueryError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.input.next(context)
    }

    fn read_rest(&mut self, context: &mut Context<'_>) -> Result<(), QueryError> {
        self.input.read_rest(context)
    }
}

/// How a value changes.
pub(super) enum Change<'a> {
    Divide(f64),
    Scale(f64),
    Score(&'a Score),
}

/// Each value changed.
pub(super) struct Mapped<'a> {
    input: Input<'a>,
    change: Change<'a>,
}

impl<'a> Mapped<'a> {
    pub(super) fn new(input: Input<'a>, change: Change<'a>) -> Self {
        Self { input, change }
    }
}

impl Stream for Mapped<'_> {
    fn next(&mut self, context: &mut Context<'_>) -> Result<Option<Point>, QueryError> {
        let Some(point) = self.input.next(context)? else { return Ok(None) };
        let value = point.value.double()?;
        let value = match self.change {
            Change::Divide(divisor) => value / divisor,
            Change::Scale(factor) => value * factor,
            Change::Score(score) => passed(score, value),
        };
        Ok(Some(Point { time: point.time, value: Value::Double(value) }))
    }

    fn read_rest(&mut self, context: &mut Context<'_>) -> Result<(), QueryError> {
        self.input.read_rest(context)
    }
}

fn passed(score: &Score, value: f64) -> f64 {
    let stops = |threshold: &Threshold| match threshold.boundary {
        // At a threshold that is NaN too.
        Boundary::Superior => value.partial_cmp(&threshold.value) != Some(Ordering::Greater),
        Boundary::Inferior => value < threshold.value,
    };
    let all = score.thresholds.len();
    let passed = score.thresholds.iter().position(stops).unwrap_or(all);
    match score.order {
        ScoreOrder::Ascending => passed as f64,
        ScoreOrder::Descending => (all - passed) as f64,
    }
}

/// Points that do not match a filter.
pub(super) struct Filtered<'a> {
    input: Input<'a>,
    filter: &'a Filter,
}

impl<'a> Filtered<'a> {
    pub(super) fn new(input: Input<'a>, filter: &'a Filter) -> Self {
        Self { input, filter }
    }
}

impl Stream for Filtered<'_> {
    fn next(&mut self, context: &mut Context<'_>) -> Result<Option<Point>, QueryError> {
        loop {
            match self.input.next(context)? {
                Some(point) if matches(self.filter, &point.value)? => {}
                point => return Ok(point),
            }
        }
    }

    fn read_rest(&mut self, context: &mut Context<'_>) -> Result<(), QueryError> {
        self.input.read_rest(context)
    }
}

/// A value of another type than the threshold matches.
fn matches(filter: &Filter, value: &Value) -> Result<bool, QueryError> {
    let order = match (&filter.threshold, value) {
        (ThresholdValue::Text(threshold), Value::Text(value)) => {
            java_text::compare(value, threshold)
        }
        (ThresholdValue::Number(_), Value::Text(_)) => return Ok(true),
        (ThresholdValue::Number(threshold), value) => {
            java_text::compare_doubles(value.double()?, *threshold)
        }
        _ => return Ok(true),
    };
    Ok(match filter.operation {
        FilterOperation::Lte => order != Ordering::Greater,
        FilterOperation::Lt => order == Ordering::Less,
        FilterOperation::Gte => order != Ordering::Less,
        FilterOperation::Gt => order == Ordering::Greater,
        FilterOperation::Equal => order == Ordering::Equal,
        FilterOperation::Ne => order != Ordering::Equal,
    })
}

/// Averages of the last points. The sum is made anew each time, as in KairosDB: another order of additions would
/// change the last bits.
pub(super) struct Sma<'a> {
    input: Input<'a>,
    size: usize,
    last: VecDeque<Value>,
    is_started: bool,
}

impl<'a> Sma<'a> {
    pub(super) fn new(input: Input<'a>, size: u32) -> Self {
        Self { input, size: size as usize, last: VecDeque::new(), is_started: false }
    }
}

impl Stream for Sma<'_> {
    fn next(&mut self, context: &mut Context<'_>) -> Result<Option<Point>, QueryError> {
        while !self.is_started && self.last.len() + 1 < self.size {
            let Some(point) = self.input.next(context)? else { return Ok(None) };
            self.last.push_back(point.value);
        }
        self.is_started = true;
        let Some(point) = self.input.next(context)? else { return Ok(None) };
        self.last.push_back(point.value);
        if self.last.len() > self.size {
            self.last.pop_front();
        }
        let mut sum = 0.0;
        for value in &self.last {
            sum += value.double()?;
        }
        let value = Value::Double(sum / self.last.len() as f64);
        Ok(Some(Point { time: point.time, value }))
    }

    fn read_rest(&mut self, context: &mut Context<'_>) -> Result<(), QueryError> {
        self.input.read_rest(context)
    }
}

/// Points without the first or last.
pub(super) struct Trimmed<'a> {
    input: Peeked<'a>,
    trim: Trim,
    is_started: bool,
}

impl<'a> Trimmed<'a> {
    pub(super) fn new(input: Input<'a>, trim: Trim) -> Self {
        Self { input: Peeked::new(input), trim, is_started: false }
    }
}

impl Stream for Trimmed<'_> {
    fn next(&mut self, context: &mut Context<'_>) -> Result<Option<Point>, QueryError> {
        if !self.is_started && self.trim != Trim::Last {
            self.input.next(context)?;
        }
        self.is_started = true;
        let point = self.input.next(context)?;
        match self.trim != Trim::First && self.input.peek(context)?.is_none() {
            true => Ok(None),
            false => Ok(point),
        }
    }

    fn read_rest(&mut self, context: &mut Context<'_>) -> Result<(), QueryError> {
        self.input.read_rest(context)
    }
}

/// Points that go on and are saved.
pub(super) struct Saving<'a> {
    input: Input<'a>,
    place: usize,
}

impl<'a> Saving<'a> {
    pub(super) fn new(input: Input<'a>, place: usize) -> Self {
        Self { input, place }
    }
}

impl Stream for Saving<'_> {
    fn next(&mut self, context: &mut Context<'_>) -> Result<Option<Point>, QueryError> {
        let point = self.input.next(context)?;
        if let Some(point) = point.as_ref().filter(|point| point.value != Value::Null) {
            context.hold()?;
            context.saved[self.place].points.push(point.clone());
        }
        Ok(point)
    }

    fn read_rest(&mut self, context: &mut Context<'_>) -> Result<(), QueryError> {
        self.input.read_rest(context)
    }
}
