//! `sum` and `avg`: the folds that take floats and histograms, though not both in one group.

use std::marker::PhantomData;
use std::sync::Arc;

use super::cells::{FloatAverages, FloatCells, FloatSums};
use super::fold::{Fold, Joins, Origin};
use crate::model::ResetHint;
use crate::promql::annotations::{HistogramOperation, Note};
use crate::promql::context::Context;
use crate::promql::histogram::{
    Amount, Combined, FloatHistogram, HistogramAverage, IncompatibleSchemas, Kahan,
};
use crate::promql::points::Points;
use crate::promql::position::Span;

/// `sum`, compensated.
pub(super) type Sum = Total<FloatSums, FloatHistogram<Kahan>>;

/// `avg`: the compensated sum divided; a running mean once the sum would overflow.
pub(super) type Average = Total<FloatAverages, HistogramAverage>;

/// Folds floats into one kind of cell and histograms into another.
pub(super) struct Total<F, H> {
    span: Span,
    cells: PhantomData<(F, H)>,
}

/// The histograms of a group at a step.
pub(super) trait HistogramCell: Sized + Send + Sync + 'static {
    fn first(histogram: &FloatHistogram) -> Self;
    fn add(&mut self, histogram: &FloatHistogram) -> Result<Combined, IncompatibleSchemas>;
    fn result(self) -> FloatHistogram;
}

/// A group at all steps.
pub(super) struct State<F, H> {
    floats: F,
    /// Empty, or one a step.
    histograms: Vec<Option<Box<Histograms<H>>>>,
}

/// The histograms of a group at a step.
struct Histograms<H> {
    /// None once they cannot be combined, or if a float came first.
    cell: Option<H>,
    incompatible: bool,
    reset: bool,
    not_reset: bool,
}

impl<F: FloatCells, H: HistogramCell> State<F, H> {
    fn add_histogram(
        &mut self,
        step: usize,
        histogram: &FloatHistogram,
        origin: &Origin<'_>,
        span: Span,
        context: &Context,
    ) -> usize {
        let Some(held) = &mut self.histograms[step] else {
            let cell = self.floats.result(step).is_none().then(|| H::first(histogram));
            let mut first =
                Histograms { cell, incompatible: false, reset: false, not_reset: false };
            first.note_hint(histogram.reset_hint);
            self.histograms[step] = Some(Box::new(first));
            return 2 * histogram.samples();
        };
        let Some(cell) = &mut held.cell else { return 0 };
        match cell.add(histogram) {
            Ok(combined) => {
                held.note_hint(histogram.reset_hint);
                if combined.bounds_reconciled {
                    let operation = HistogramOperation::Aggregation;
                    context.annotate(Note::ReconciledBounds { operation }.at(span));
                }
            }
            Err(IncompatibleSchemas) => {
                let metric = origin.metric_name().to_owned();
                context.annotate(Note::MixedExponentialCustom { metric }.at(span));
                held.cell = None;
                held.incompatible = true;
            }
        }
        0
    }

    fn finish(self, points: &mut Points, span: Span, context: &Context) {
        for step in 0..points.steps() {
            if let Some(result) = self.floats.result(step) {
                points.set_float(step, result);
            }
        }
        for (step, held) in self.histograms.into_iter().enumerate() {
            let Some(held) = held else { continue };
            if points.float(step).is_some() {
                points.remove(step);
                context.annotate(Note::MixedFloatsHistogramsInAggregation.at(span));
                continue;
            }
            if held.incompatible {
                continue;
            }
            if held.reset && held.not_reset {
                let operation = HistogramOperation::Aggregation;
                context.annotate(Note::CollidingResets { operation }.at(span));
            }
            if let Some(cell) = held.cell {
                let mut result = cell.result();
                result.compact();
                points.set_histogram(step, Arc::new(result));
            }
        }
    }
}

impl<H> Histograms<H> {
    fn note_hint(&mut self, hint: ResetHint) {
        self.reset |= hint == ResetHint::Reset;
        self.not_reset |= hint == ResetHint::NotReset;
    }
}

impl HistogramCell for FloatHistogram<Kahan> {
    fn first(histogram: &FloatHistogram) -> Self {
        histogram.map(Kahan::exactly)
    }

    fn add(&mut self, histogram: &FloatHistogram) -> Result<Combined, IncompatibleSchemas> {
        Self::add(self, histogram)
    }

    fn result(self) -> FloatHistogram {
        self.map(Amount::value)
    }
}

impl HistogramCell for HistogramAverage {
    fn first(histogram: &FloatHistogram) -> Self {
        Self::new(histogram)
    }

    fn add(&mut self, histogram: &FloatHistogram) -> Result<Combined, IncompatibleSchemas> {
        Self::add(self, histogram)
    }

    fn result(self) -> FloatHistogram {
        self.mean()
    }
}

impl<F, H> Total<F, H> {
    pub(super) fn new(span: Span) -> Self {
        Self { span, cells: PhantomData }
    }
}

impl<F: FloatCells, H: HistogramCell> Fold for Total<F, H> {
    type State = State<F, H>;

    fn begin(&self, steps: usize) -> Self::State {
        State { floats: F::new(steps), histograms: Vec::new() }
    }

    fn samples(&self, steps: usize) -> usize {
        steps * F::SAMPLES
    }

    fn add_floats(&self, state: &mut Self::State, floats: &[f64]) -> usize {
        state.floats.add(floats);
        0
    }

    fn add_histograms(
        &self,
        state: &mut Self::State,
        origin: &Origin<'_>,
        points: &Points,
        context: &Context,
    ) -> usize {
        if state.histograms.is_empty() {
            state.histograms.resize_with(points.steps(), || None);
        }
        let mut grown = 0;
        for (step, histogram) in points.histograms() {
            grown += state.add_histogram(step, histogram, origin, self.span, context);
        }
        grown
    }

    fn joins(&self) -> Option<Joins<Self::State>> {
        Some(|state, later| state.floats.join(later.floats))
    }

    fn finish(&self, state: Self::State, points: &mut Points, context: &Context) {
        state.finish(points, self.span, context);
    }
}
