//! `sum` and `avg`: the folds that take floats and histograms, though not both in one group.

use std::marker::PhantomData;
use std::sync::Arc;

use super::fold::{Fold, Origin};
use crate::model::{ResetHint, is_stale};
use crate::promql::annotations::{HistogramOperation, Note};
use crate::promql::context::Context;
use crate::promql::functions::Average as FloatAverage;
use crate::promql::histogram::{
    Amount, Combined, FloatHistogram, HistogramAverage, IncompatibleSchemas, Kahan,
};
use crate::promql::points::Points;
use crate::promql::position::Span;

/// `sum`, compensated.
pub(super) type Sum = Total<FloatSum, FloatHistogram<Kahan>>;

/// `avg`: the compensated sum divided; a running mean once the sum would overflow.
pub(super) type Average = Total<FloatAverage, HistogramAverage>;

/// Folds floats into one kind of cell and histograms into another.
pub(super) struct Total<F, H> {
    span: Span,
    cells: PhantomData<(F, H)>,
}

/// The floats of a group at a step.
pub(super) trait FloatCell: Copy + Default + Send + 'static {
    /// For how many halves of a sample it counts.
    const HALF_SAMPLES: usize;
    fn add(&mut self, value: f64);
    fn any(&self) -> bool;
    fn result(&self) -> f64;
}

/// The histograms of a group at a step.
pub(super) trait HistogramCell: Sized + Send + 'static {
    fn first(histogram: &FloatHistogram) -> Self;
    fn add(&mut self, histogram: &FloatHistogram) -> Result<Combined, IncompatibleSchemas>;
    fn result(self) -> FloatHistogram;
}

/// A group at all steps.
pub(super) struct State<F, H> {
    floats: Vec<F>,
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

impl<F: FloatCell, H: HistogramCell> State<F, H> {
    fn add_histogram(
        &mut self,
        step: usize,
        histogram: &FloatHistogram,
        origin: &Origin<'_>,
        span: Span,
        context: &Context,
    ) -> usize {
        if self.histograms.is_empty() {
            self.histograms.resize_with(self.floats.len(), || None);
        }
        let Some(held) = &mut self.histograms[step] else {
            let cell = (!self.floats[step].any()).then(|| H::first(histogram));
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
        for (step, cell) in self.floats.iter().enumerate().filter(|(_, cell)| cell.any()) {
            points.set_float(step, cell.result());
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

/// A compensated sum of floats.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FloatSum {
    sum: Kahan,
    any: bool,
}

impl FloatCell for FloatSum {
    const HALF_SAMPLES: usize = 3;

    fn add(&mut self, value: f64) {
        if self.any {
            self.sum.add(value);
        } else {
            *self = Self { sum: Kahan::exactly(value), any: true };
        }
    }

    fn any(&self) -> bool {
        self.any
    }

    fn result(&self) -> f64 {
        self.sum.sum + self.sum.error
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

impl FloatCell for FloatAverage {
    const HALF_SAMPLES: usize = 4;

    fn add(&mut self, value: f64) {
        Self::add(self, value);
    }

    fn any(&self) -> bool {
        Self::any(self)
    }

    fn result(&self) -> f64 {
        self.mean()
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

impl<F: FloatCell, H: HistogramCell> Fold for Total<F, H> {
    type State = State<F, H>;

    fn begin(&self, steps: usize) -> Self::State {
        State { floats: vec![F::default(); steps], histograms: Vec::new() }
    }

    fn samples(&self, steps: usize) -> usize {
        steps * F::HALF_SAMPLES / 2
    }

    fn add(
        &self,
        state: &mut Self::State,
        origin: &Origin<'_>,
        points: &Points,
        context: &Context,
    ) -> usize {
        for (cell, value) in state.floats.iter_mut().zip(points.floats()) {
            if !is_stale(*value) {
                cell.add(*value);
            }
        }
        let mut grown = 0;
        if points.has_histograms() {
            for step in 0..points.steps() {
                if let Some(histogram) = points.histogram(step) {
                    grown += state.add_histogram(step, histogram, origin, self.span, context);
                }
            }
        }
        grown
    }

    fn finish(&self, state: Self::State, points: &mut Points, context: &Context) {
        state.finish(points, self.span, context);
    }
}
