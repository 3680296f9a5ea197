//! Estimates the cost of a query before it is evaluated: the series of its selectors, and the samples that it will
//! take from the store.
//!
//! The plan gives the steps at which each selector is evaluated; the store gives the number of points that it expects
//! there. Nothing is evaluated. An estimate has the time and memory limits of a query and fails when they are
//! exceeded. The limits on cost (`query-max-series`, `query-max-samples-read`) are not checked. With `cost=true` a
//! failed estimate becomes a warning.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::budget::Budget;
use super::error::QueryError;
use super::histogram::FloatHistogram;
use super::plan::{Node, Operand, Range, ResetHints, SelectionId, Selector, Source};
use super::signature::Function;
use super::source::Selected;
use super::steps::Steps;
use crate::ast::Edges;
use promkairos_model::TimeRange;
use promkairos_storage::{Basis, Expected};

/// The estimated cost of a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Series, summed over all selectors.
    pub series_touched: u64,
    /// Samples taken from the store; a native histogram counts for several.
    pub samples_read: u64,
    /// Reasons why the estimate is less certain.
    pub warnings: Vec<String>,
}

/// What a selector reads.
struct Reading {
    selection: SelectionId,
    reach: TimeRange,
    /// The times at which it is evaluated.
    looks: Steps,
    /// Length of its windows in milliseconds; `None` for the newest points.
    window: Option<i64>,
    hints: ResetHints,
}

/// Selectors found in a plan.
struct Readings {
    all: Vec<Reading>,
    lookback: i64,
    /// Whether the plan calls `info`.
    incomplete: bool,
}

/// Estimates the cost of a plan with these opened selections, evaluated at these steps.
pub(crate) async fn estimate(
    root: &Node,
    selections: &[Arc<Selected>],
    steps: Steps,
    lookback: i64,
    budget: &Arc<Budget>,
) -> Result<Estimate, QueryError> {
    let mut readings = Readings { all: Vec::new(), lookback, incomplete: false };
    readings.of_node(root, steps);
    let mut warnings = BTreeSet::new();
    if readings.incomplete {
        warnings.insert(
            "query cost estimate is incomplete: info() selects additional series at runtime",
        );
    }
    let (mut series_touched, mut samples_read) = (0, 0.0);
    for reading in &readings.all {
        let selected = &selections[reading.selection];
        let _held = budget.hold(0, selected.series.len() * size_of::<Expected>())?;
        let forecast = selected.reader.forecast(reading.reach).await?;
        let touched = forecast.series.iter().filter(|expected| expected.points > 0.0);
        series_touched += match selected.range == reading.reach {
            true => selected.series.len() as u64,
            false => touched.count() as u64,
        };
        let samples = forecast.series.iter().map(|expected| reading.samples(expected, lookback));
        samples_read += samples.sum::<f64>();
        if forecast.basis == Basis::Guessed && !selected.series.is_empty() {
            warnings.insert(
                "query cost estimate guesses the interval between samples: the index does not hold it, and this \
                 process has not seen recent samples of all metrics",
            );
        }
    }
    Ok(Estimate {
        series_touched,
        samples_read: samples_read.round() as u64,
        warnings: warnings.into_iter().map(str::to_owned).collect(),
    })
}

impl Readings {
    fn of_node(&mut self, node: &Node, steps: Steps) {
        match node {
            Node::Number(_) | Node::String(_) | Node::Matchers(_) => {}
            Node::Selector(selector) => self.of_selector(selector, steps),
            Node::Range(range) => self.of_range(range, steps),
            Node::Call(call) => {
                self.incomplete |= call.function == Function::Info;
                call.args.iter().for_each(|arg| self.of_node(&arg.node, steps));
            }
            Node::Aggregate(aggregate) => {
                aggregate.param.iter().for_each(|param| self.of_node(&param.node, steps));
                self.of_node(&aggregate.input.node, steps);
            }
            Node::Binary(binary) => {
                let sides: [&Operand; 2] = [&binary.lhs, &binary.rhs];
                sides.into_iter().for_each(|side| self.of_node(&side.node, steps));
            }
            Node::Negate(node) => self.of_node(node, steps),
            Node::Once(node) => self.of_node(node, steps.first()),
        }
    }

    fn of_selector(&mut self, selector: &Selector, steps: Steps) {
        let Selector { selection, reach, lookup, smoothed, hints, .. } = selector;
        let looks = if steps.count() == 0 { steps } else { lookup.steps(steps) };
        let window = smoothed.then_some(self.lookback.saturating_mul(2));
        let (selection, reach, hints) = (*selection, *reach, *hints);
        self.all.push(Reading { selection, reach, looks, window, hints });
    }

    fn of_range(&mut self, range: &Range, steps: Steps) {
        let (selection, reach) = match &range.source {
            Source::Subquery { node, steps } => return self.of_node(node, *steps),
            Source::Selection { selection, reach, .. } => (*selection, *reach),
        };
        let looks = if steps.count() == 0 { steps } else { range.lookup.steps(steps) };
        let more = match range.edges {
            None => 0,
            Some(Edges::Anchored) => self.lookback,
            Some(Edges::Smoothed) => self.lookback.saturating_mul(2),
        };
        let window = Some(range.range.saturating_add(more));
        self.all.push(Reading { selection, reach, looks, window, hints: range.hints });
    }
}

impl Reading {
    /// The samples taken from one series.
    fn samples(&self, expected: &Expected, lookback: i64) -> f64 {
        let steps = self.looks.count() as f64;
        if expected.points <= 0.0 || steps == 0.0 {
            return 0.0;
        }
        let (interval, lookback) = (self.looks.interval as f64, lookback as f64);
        let points = match self.window {
            // A step sees a point that is no older than the lookback.
            None if steps == 1.0 => 1.0,
            None => {
                let fresh = expected.span + expected.runs * lookback;
                (fresh.min(expected.points * lookback) / interval).min(steps)
            }
            // Each point is read once; points between two windows are not read.
            Some(window) if steps > 1.0 => expected.points * (window as f64 / interval).min(1.0),
            Some(_) => expected.points,
        };
        points * self.weight(expected)
    }

    /// How many samples one point counts for, on average.
    fn weight(&self, expected: &Expected) -> f64 {
        let Expected { points, histograms, words, .. } = *expected;
        let of_histograms = match self.hints {
            ResetHints::AsStored => FloatHistogram::samples_of_many(histograms, words),
            ResetHints::Found => histograms * FloatHistogram::samples_of_totals() as f64,
        };
        (points - histograms + of_histograms) / points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of a series with a point every 10 s in the 1,000 s before the last step.
    fn samples(looks: Steps, window: Option<i64>, reach: i64) -> f64 {
        let hints = ResetHints::AsStored;
        let range = TimeRange::new(0, 0);
        let reading = Reading { selection: 0, reach: range, looks, window, hints };
        let span = reach as f64;
        let expected =
            Expected { points: 1.0 + span / 1e4, span, runs: 1.0, ..Expected::default() };
        reading.samples(&expected, 300_000)
    }

    #[test]
    fn each_step_sees_one_point_and_each_point_is_read_once() {
        let at = Steps::instant(1_000_000);
        let range = |interval| Steps { start: 0, end: 1_000_000, interval };
        assert_eq!(samples(at, None, 300_000), 1.0);
        assert_eq!(samples(at, Some(300_000), 300_000), 31.0);
        assert_eq!(samples(range(100_000), None, 1_000_000), 11.0);
        assert_eq!(samples(range(100_000), Some(100_000), 1_000_000), 101.0);
        assert_eq!(samples(range(100_000), Some(300_000), 1_000_000), 101.0);
        assert_eq!(samples(range(100_000), Some(50_000), 1_000_000), 50.5);
        let none = Steps { start: 1, end: 0, interval: 1 };
        assert_eq!(samples(none, None, 1_000_000), 0.0);
        // A series of one point is seen for the length of the lookback.
        assert_eq!(samples(range(100_000), None, 0), 3.0);
    }
}
