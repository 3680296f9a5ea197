//! `limitk` and `limit_ratio`: pass or drop the points of one series after another.

use std::sync::Arc;

use xxhash_rust::xxh64::Xxh64;

use super::grouping::Groups;
use super::param::Param;
use super::top::Top;
use crate::annotations::Note;
use crate::budget::Held;
use crate::context::Context;
use crate::error::QueryError;
use crate::format::general;
use crate::operator::Aggregator;
use crate::operators::literal::{Nothing, drain};
use crate::operators::{BoxOperator, Operator, Series};
use crate::plan::Aggregate;
use crate::points::Points;
use crate::position::Span;
use crate::steps::Steps;
use promkairos_model::Labels;

/// Selects some series of each group.
pub(super) fn select(
    node: &Aggregate,
    input: BoxOperator,
    groups: Groups,
    (param, param_span): (Param, Span),
    steps: Steps,
    context: &Arc<Context>,
) -> Result<BoxOperator, QueryError> {
    let none = |input| drain(input).map(|()| Box::new(Nothing) as BoxOperator);
    if node.op == Aggregator::LimitRatio {
        if param.values.iter().all(|ratio| *ratio == 0.0) {
            return none(input);
        }
        let ratios = checked_ratios(&param, param_span, context)?;
        return Ok(Box::new(LimitRatio { input, ratios, position: 0 }));
    }
    if param.max() < 1.0 {
        return none(input);
    }
    let most = checked_counts(&param, input.series().len())?;
    if node.op == Aggregator::LimitK {
        let taken = vec![Vec::new(); groups.len()];
        let held = context.budget.nothing();
        return Ok(Box::new(LimitK { input, groups, most, taken, held, position: 0 }));
    }
    Ok(Box::new(Top::new(node, input, groups, most, steps, context)?))
}

/// The number of series to select, by step.
fn checked_counts(param: &Param, series: usize) -> Result<Vec<usize>, QueryError> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if param.has_nan() {
        return Err(QueryError::execution("Parameter value is NaN"));
    }
    let value = |value| format!("Scalar value {}", general(value));
    if param.min() <= -LIMIT {
        return Err(QueryError::Execution(value(param.min()) + " underflows int64"));
    }
    if param.max() >= LIMIT {
        return Err(QueryError::Execution(value(param.max()) + " overflows int64"));
    }
    // A negative number selects no series.
    Ok(param.values.iter().map(|count| (*count as usize).min(series)).collect())
}

fn checked_ratios(param: &Param, span: Span, context: &Context) -> Result<Vec<f64>, QueryError> {
    if param.has_nan() {
        return Err(QueryError::execution("Ratio value is NaN"));
    }
    let (min, max) = (param.min(), param.max());
    if max > 1.0 {
        context.annotate(Note::invalid_ratio(max, 1.0).at(span));
    }
    if min < -1.0 {
        context.annotate(Note::invalid_ratio(min, -1.0).at(span));
    }
    Ok(param.values.iter().map(|ratio| ratio.clamp(-1.0, 1.0)).collect())
}

/// The first series of each group.
struct LimitK {
    input: BoxOperator,
    groups: Groups,
    /// The number of series to select, by step.
    most: Vec<usize>,
    /// The number of series selected so far, by group and step.
    taken: Vec<Vec<usize>>,
    held: Held,
    position: usize,
}

impl Operator for LimitK {
    fn series(&self) -> &[Series] {
        self.input.series()
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        self.input.next(points)?;
        let taken = &mut self.taken[self.groups.of_series[self.position]];
        if taken.is_empty() {
            self.held.take(0, self.most.len() * size_of::<usize>())?;
            taken.resize(self.most.len(), 0);
        }
        self.position += 1;
        for (step, (taken, most)) in taken.iter_mut().zip(&self.most).enumerate() {
            if points.get(step).is_none() {
                continue;
            }
            if *taken < *most {
                *taken += 1;
            } else {
                points.remove(step);
            }
        }
        Ok(())
    }
}

/// The series whose hash is within a share of the range of hashes.
struct LimitRatio {
    input: BoxOperator,
    ratios: Vec<f64>,
    position: usize,
}

impl Operator for LimitRatio {
    fn series(&self) -> &[Series] {
        self.input.series()
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        self.input.next(points)?;
        let place = hash(&self.input.series()[self.position].labels) as f64 / u64::MAX as f64;
        self.position += 1;
        for (step, ratio) in self.ratios.iter().enumerate() {
            let passes = if *ratio >= 0.0 { place < *ratio } else { place >= 1.0 + ratio };
            if !passes {
                points.remove(step);
            }
        }
        Ok(())
    }
}

/// The hash of a label set as in Prometheus: XXH64 over names and values with their lengths.
fn hash(labels: &Labels) -> u64 {
    let mut hasher = Xxh64::new(0);
    for (name, value) in labels.iter() {
        for text in [name, value] {
            match u8::try_from(text.len()) {
                Ok(short) if short < 255 => hasher.update(&[short]),
                _ => {
                    hasher.update(&[255]);
                    hasher.update(&(text.len() as u32).to_le_bytes()[..3]);
                }
            }
            hasher.update(text.as_bytes());
        }
    }
    hasher.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_prometheus() {
        let check = |pairs: &[(&str, &str)], want: u64| {
            let labels = Labels::from_pairs(pairs.iter().copied()).expect("valid");
            assert_eq!(hash(&labels), want, "{labels}");
        };
        check(&[("__name__", "up"), ("job", "a")], 12_372_323_049_859_431_179);
        check(&[("a", "b")], 16_273_691_451_497_933_585);
    }
}
