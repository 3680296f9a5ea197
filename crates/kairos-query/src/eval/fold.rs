//! What is computed of the points of a range, with the same operations in the same order as in KairosDB, so that the
//! last bit is the same too.

use super::stream::Context;
use crate::error::QueryError;
use crate::java_text;
use crate::plan::{Deviation, Fold};
use crate::point::{Point, Value};

/// What is known of the points so far.
pub(super) enum State {
    Avg { sum: f64, count: u32 },
    Count(i64),
    Dev { mean: f64, squares: f64, count: u32 },
    First(Option<Point>),
    Last(Option<Point>),
    Line(Box<Line>),
    Max(f64),
    Min(f64),
    Values(Vec<f64>),
    Sum(f64),
}

impl State {
    pub(super) fn new(fold: &Fold) -> Self {
        match fold {
            Fold::Avg => Self::Avg { sum: 0.0, count: 0 },
            Fold::Count => Self::Count(0),
            Fold::Dev { .. } => Self::Dev { mean: 0.0, squares: 0.0, count: 0 },
            Fold::First => Self::First(None),
            Fold::Last | Fold::Gaps => Self::Last(None),
            Fold::LeastSquares => Self::Line(Box::default()),
            Fold::Max => Self::Max(-f64::MAX),
            Fold::Min => Self::Min(f64::MAX),
            Fold::Percentile(_) => Self::Values(Vec::new()),
            Fold::Sum => Self::Sum(0.0),
        }
    }

    pub(super) fn add(
        &mut self,
        point: Point,
        context: &mut Context<'_>,
    ) -> Result<(), QueryError> {
        match self {
            Self::Avg { sum, count } => {
                if matches!(point.value, Value::Long(_) | Value::Double(_)) {
                    *sum += point.value.double()?;
                    *count += 1;
                }
            }
            Self::Count(count) => *count += 1,
            Self::Dev { mean, squares, count } => {
                let value = point.value.double()?;
                *count += 1;
                let number = f64::from(*count);
                *mean += (value - *mean) / number;
                *squares += (value * value - *squares) / number;
            }
            Self::First(first) => {
                first.get_or_insert(point);
            }
            Self::Last(last) => *last = Some(point),
            Self::Line(line) => line.add(point)?,
            Self::Max(max) => *max = java_text::max(*max, point.value.double()?),
            Self::Min(min) => *min = java_text::min(*min, point.value.double()?),
            Self::Values(values) => {
                context.hold()?;
                values.push(point.value.double()?);
            }
            Self::Sum(sum) => *sum += point.value.double()?,
        }
        Ok(())
    }

    /// The result, or two. Results have the given time, but `last` only if times are aligned.
    pub(super) fn finish(
        self,
        fold: &Fold,
        time: i64,
        is_aligned: bool,
        context: &mut Context<'_>,
    ) -> (Point, Option<Point>) {
        let value = match self {
            Self::Avg { sum, count } => Value::Double(sum / f64::from(count)),
            Self::Count(count) => Value::Long(count),
            Self::Dev { mean, squares, count } => {
                Value::Double(deviation(fold, mean, squares, f64::from(count)))
            }
            Self::First(first) => first.map_or(Value::Null, |point| point.value),
            Self::Last(Some(point)) if !is_aligned => return (point, None),
            Self::Last(last) => last.map_or(Value::Null, |point| point.value),
            Self::Line(line) => return line.finish(time),
            Self::Max(value) | Self::Min(value) | Self::Sum(value) => Value::Double(value),
            Self::Values(values) => {
                context.release(values.len());
                let quantile = if let Fold::Percentile(quantile) = fold { *quantile } else { 0.0 };
                Value::Double(percentile(values, quantile))
            }
        };
        (Point { time, value }, None)
    }
}

fn deviation(fold: &Fold, mean: f64, squares: f64, count: f64) -> f64 {
    let variance = (squares * count - count * mean * mean) / (count - 1.0);
    let root = variance.sqrt();
    let deviation = if root.is_nan() { 0.0 } else { root };
    match fold {
        Fold::Dev { deviation: Deviation::Above, count } => mean + deviation * f64::from(*count),
        Fold::Dev { deviation: Deviation::Below, count } => mean - deviation * f64::from(*count),
        _ => deviation,
    }
}

fn percentile(mut values: Vec<f64>, quantile: f64) -> f64 {
    values.sort_unstable_by(|a, b| java_text::compare_doubles(*a, *b));
    let (Some(first), Some(last)) = (values.first(), values.last()) else { return 0.0 };
    let position = quantile * (values.len() + 1) as f64;
    if position < 1.0 {
        return *first;
    }
    if position >= values.len() as f64 {
        return *last;
    }
    let (lower, upper) = (values[position as usize - 1], values[position as usize]);
    lower + (position - position.floor()) * (upper - lower)
}

/// A regression line, as `SimpleRegression` of commons-math computes it.
#[derive(Default)]
pub(super) struct Line {
    first: Option<Point>,
    second: Option<Point>,
    stop: i64,
    count: f64,
    sum_x: f64,
    sum_y: f64,
    mean_x: f64,
    mean_y: f64,
    sum_xx: f64,
    sum_xy: f64,
}

impl Line {
    fn add(&mut self, point: Point) -> Result<(), QueryError> {
        let (x, y) = (point.time as f64, point.value.double()?);
        self.stop = point.time;
        if self.first.is_none() {
            self.first = Some(point);
        } else if self.second.is_none() {
            self.second = Some(point);
        }
        if self.count == 0.0 {
            (self.mean_x, self.mean_y) = (x, y);
        } else {
            let next = 1.0 + self.count;
            let weight = self.count / next;
            let (dx, dy) = (x - self.mean_x, y - self.mean_y);
            self.sum_xx += dx * dx * weight;
            self.sum_xy += dx * dy * weight;
            self.mean_x += dx / next;
            self.mean_y += dy / next;
        }
        self.sum_x += x;
        self.sum_y += y;
        self.count += 1.0;
        Ok(())
    }

    /// Up to two points are their own line.
    fn finish(self, time: i64) -> (Point, Option<Point>) {
        let start = self.first.as_ref().map_or(time, |first| first.time);
        match (self.first, self.second) {
            (Some(first), second) if self.count <= 2.0 => (first, second),
            _ => {
                let is_flat = self.sum_xx.abs() < 10.0 * f64::from_bits(1);
                let slope = if is_flat { f64::NAN } else { self.sum_xy / self.sum_xx };
                let intercept = (self.sum_y - slope * self.sum_x) / self.count;
                let at = |time: i64| Point {
                    time,
                    value: Value::Double(intercept + slope * time as f64),
                };
                (at(start), Some(at(self.stop)))
            }
        }
    }
}
