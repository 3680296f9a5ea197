//! Functions of one value: each point of the result is computed from the point of the same series
//! at the same step.

use std::sync::Arc;

use super::merged::Merged;
use super::{BoxOperator, Map, Operator, Series, dates};
use crate::budget::Budget;
use crate::context::Context;
use crate::error::QueryError;
use crate::go_math;
use crate::histogram::FloatHistogram;
use crate::points::Points;
use crate::series_list::SeriesList;
use crate::signature::Function;
use promkairos_model::is_stale;

/// Changes the points of each series in place.
pub(crate) struct Mapped {
    input: BoxOperator,
    /// The series of the result; `None` if they are the series of the input.
    series: Option<SeriesList>,
    map: Map,
}

impl Mapped {
    /// For values that no longer mean the metric: drops its name.
    pub(crate) fn nameless(
        input: BoxOperator,
        context: &Context,
        map: Map,
    ) -> Result<BoxOperator, QueryError> {
        if input.named().is_some() {
            // The series have lost their names already, and differ without them.
            return Ok(Self::labeled(input, map));
        }
        let (budget, nameless) = (&context.budget, |series: &Series| series.nameless(context));
        let series = Some(SeriesList::of(input.series(), budget, nameless)?);
        Merged::of(Box::new(Self { input, series, map }), budget)
    }

    /// Keeps the labels.
    pub(crate) fn labeled(input: BoxOperator, map: Map) -> BoxOperator {
        Box::new(Self { input, series: None, map })
    }

    /// Keeps the points, with these labels.
    pub(crate) fn relabeled(input: BoxOperator, series: SeriesList) -> BoxOperator {
        Box::new(Self { input, series: Some(series), map: Box::new(|_| Ok(())) })
    }

    /// Repeats the points of the only step of `input` at `steps` steps.
    pub(crate) fn repeated(input: BoxOperator, steps: usize, budget: &Arc<Budget>) -> BoxOperator {
        let (mut first, budget) = (Points::default(), Arc::clone(budget));
        let repeat = move |points: &mut Points| {
            std::mem::swap(points, &mut first);
            points.clear(steps);
            if let Some(value) = first.get(0) {
                points.set(0, value.to_owned(), &budget)?;
            }
            points.repeat_first(&budget)
        };
        Self::labeled(input, Box::new(repeat))
    }
}

impl Operator for Mapped {
    fn series(&self) -> &[Series] {
        self.series.as_deref().unwrap_or_else(|| self.input.series())
    }

    fn named(&self) -> Option<&[Series]> {
        if self.series.is_none() { self.input.named() } else { None }
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        self.input.next(points)?;
        (self.map)(points)
    }

    fn order(&self) -> Option<Vec<usize>> {
        self.input.order()
    }
}

/// Applies `f` to every step and its float, and drops histograms.
pub(crate) fn map_floats(f: impl Fn(usize, f64) -> f64 + Send + 'static) -> Map {
    Box::new(move |points| {
        points.drop_histograms();
        for (step, value) in points.floats_mut().iter_mut().enumerate() {
            if !is_stale(*value) {
                *value = f(step, *value);
            }
        }
        Ok(())
    })
}

/// Turns every histogram into a float and drops floats.
pub(crate) fn map_histograms(f: impl Fn(&FloatHistogram) -> f64 + Send + 'static) -> Map {
    Box::new(move |points| {
        for step in 0..points.steps() {
            match points.histogram(step).map(|histogram| f(histogram)) {
                Some(value) => points.set_float(step, value),
                None => points.remove(step),
            }
        }
        points.drop_histograms();
        Ok(())
    })
}

/// Degrees of a radian: 180/π, rounded once.
const DEGREES: f64 = 57.295_779_513_082_32;
/// Radians of a degree: π/180, rounded once.
const RADIANS: f64 = 0.017_453_292_519_943_295;

/// The function of one float, if `function` is one.
pub(crate) fn float_function(function: Function) -> Option<fn(f64) -> f64> {
    Some(match function {
        Function::Abs => f64::abs,
        Function::Acos => f64::acos,
        Function::Acosh => go_math::acosh,
        Function::Asin => f64::asin,
        Function::Asinh => go_math::asinh,
        Function::Atan => f64::atan,
        Function::Atanh => go_math::atanh,
        Function::Ceil => f64::ceil,
        Function::Cos => f64::cos,
        Function::Cosh => f64::cosh,
        Function::Deg => |v| v * DEGREES,
        Function::Exp => f64::exp,
        Function::Floor => f64::floor,
        Function::Ln => go_math::ln,
        // With the factor that Go uses.
        Function::Log10 => |v| go_math::ln(v) * std::f64::consts::LOG10_E,
        Function::Log2 => go_math::log2,
        Function::Rad => |v| v * RADIANS,
        Function::Sgn => sign,
        Function::Sin => f64::sin,
        Function::Sinh => f64::sinh,
        Function::Sqrt => f64::sqrt,
        Function::Tan => f64::tan,
        Function::Tanh => f64::tanh,
        _ => return dates::date_function(function),
    })
}

/// 1 or -1; zeros and NaN are unchanged.
fn sign(value: f64) -> f64 {
    if value < 0.0 {
        -1.0
    } else if value > 0.0 {
        1.0
    } else {
        value
    }
}

/// The function of one histogram, if `function` is one.
pub(crate) fn histogram_function(function: Function) -> Option<fn(&FloatHistogram) -> f64> {
    Some(match function {
        Function::HistogramAvg => |h| h.sum / h.count,
        Function::HistogramCount => |h| h.count,
        Function::HistogramSum => |h| h.sum,
        Function::HistogramStddev => |h| h.variance().sqrt(),
        Function::HistogramStdvar => |h| h.variance(),
        _ => return None,
    })
}

/// `value` limited to two bounds as with Go's `math.Min` and `math.Max`: NaN wins, but not over
/// −Inf in a minimum and +Inf in a maximum.
pub(crate) fn clamp(value: f64, min: f64, max: f64) -> f64 {
    greater(min, smaller(max, value))
}

/// The smaller of two numbers, for `min_of`.
pub(crate) fn smaller(a: f64, b: f64) -> f64 {
    if a == f64::NEG_INFINITY || b == f64::NEG_INFINITY {
        f64::NEG_INFINITY
    } else if a.is_nan() || b.is_nan() {
        f64::NAN
    } else {
        a.min(b)
    }
}

/// The greater of two numbers, for `max_of`.
pub(crate) fn greater(a: f64, b: f64) -> f64 {
    if a == f64::INFINITY || b == f64::INFINITY {
        f64::INFINITY
    } else if a.is_nan() || b.is_nan() {
        f64::NAN
    } else {
        a.max(b)
    }
}

/// `value` rounded to a multiple of `to`; halves go up.
pub(crate) fn round(value: f64, to: f64) -> f64 {
    let inverse = 1.0 / to;
    (value * inverse + 0.5).floor() / inverse
}
