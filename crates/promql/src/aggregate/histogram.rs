//! `sum` and `avg`: the folds of floats and of histograms. A group may not mix the two.

use std::marker::PhantomData;
use std::sync::Arc;

use super::cells::{FloatCells, FloatSums};
use super::fold::{Fold, Joins, Origin};
use crate::annotations::{HistogramOperation, Note};
use crate::budget::Held;
use crate::context::Context;
use crate::error::QueryError;
use crate::functions;
use crate::histogram::{Accumulator, FloatHistogram, HistogramAverage, IncompatibleSchemas, Kahan};
use crate::points::Points;
use crate::position::Span;
use promkairos_model::ResetHint;

/// `sum`, compensated.
pub(super) type Sum = Total<FloatSums, FloatHistogram<Kahan>>;

/// `avg`: the compensated sum divided by the count; a running mean once the sum would overflow.
pub(super) type Average = Total<Vec<functions::Average>, HistogramAverage>;

/// Folds floats into one kind of cell and histograms into another.
pub(super) struct Total<F, H> {
    span: Span,
    cells: PhantomData<(F, H)>,
}

/// Reserves the memory of the histograms of a group.
fn cover(held: &mut Option<Held>, bytes: usize, context: &Context) -> Result<(), QueryError> {
    held.get_or_insert_with(|| context.budget.nothing()).cover(bytes)
}

/// A group at all steps.
pub(super) struct State<F, H> {
    floats: F,
    /// Empty, or one entry for each step.
    histograms: Vec<Option<Box<Histograms<H>>>>,
    /// Bytes of the histograms.
    bytes: usize,
    /// The memory that the histograms take from the budget.
    held: Option<Held>,
}

/// The histograms of a group at a step.
struct Histograms<H> {
    /// `None` once histograms cannot be combined, or if a float came first.
    cell: Option<H>,
    incompatible: bool,
    reset: bool,
    not_reset: bool,
}

impl<F: FloatCells, H: Accumulator> State<F, H> {
    fn add_histogram(
        &mut self,
        step: usize,
        histogram: &FloatHistogram,
        origin: &Origin<'_>,
        span: Span,
        context: &Context,
    ) -> Result<(), QueryError> {
        let Some(held) = &mut self.histograms[step] else {
            let is_first = self.floats.result(step).is_none();
            // An amount is a sum and its rounding error.
            let bytes = size_of::<Histograms<H>>() + 2 * histogram.heap_bytes();
            self.bytes += if is_first { bytes } else { size_of::<Histograms<H>>() };
            cover(&mut self.held, self.bytes, context)?;
            if let Some(counted) = &mut self.held {
                counted.take(2 * histogram.samples(), 0)?;
            }
            let cell = is_first.then(|| H::new(histogram));
            let mut first =
                Histograms { cell, incompatible: false, reset: false, not_reset: false };
            first.note_hint(histogram.reset_hint);
            self.histograms[step] = Some(Box::new(first));
            return Ok(());
        };
        let Some(cell) = &mut held.cell else { return Ok(()) };
        let before = cell.heap_bytes();
        match cell.add(histogram) {
            Ok(combined) => {
                self.bytes += cell.heap_bytes().saturating_sub(before);
                cover(&mut self.held, self.bytes, context)?;
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
        Ok(())
    }

    fn finish(self, points: &mut Points, span: Span, context: &Context) -> Result<(), QueryError> {
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
                points.set_histogram(step, Arc::new(result), &context.budget)?;
            }
        }
        Ok(())
    }
}

impl<H> Histograms<H> {
    fn note_hint(&mut self, hint: ResetHint) {
        self.reset |= hint == ResetHint::Reset;
        self.not_reset |= hint == ResetHint::NotReset;
    }
}

impl<F, H> Total<F, H> {
    pub(super) fn new(span: Span) -> Self {
        Self { span, cells: PhantomData }
    }
}

impl<F: FloatCells, H: Accumulator> Fold for Total<F, H> {
    type State = State<F, H>;

    fn begin(&self, steps: usize) -> Self::State {
        State { floats: F::new(steps), histograms: Vec::new(), bytes: 0, held: None }
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
    ) -> Result<(), QueryError> {
        if state.histograms.is_empty() {
            state.bytes += points.steps() * size_of::<Option<Box<Histograms<H>>>>();
            cover(&mut state.held, state.bytes, context)?;
            state.histograms.resize_with(points.steps(), || None);
        }
        for (step, histogram) in points.histograms() {
            state.add_histogram(step, histogram, origin, self.span, context)?;
        }
        Ok(())
    }

    fn joins(&self) -> Option<Joins<Self::State>> {
        Some(|state, later| state.floats.join(later.floats))
    }

    fn finish(
        &self,
        state: Self::State,
        points: &mut Points,
        context: &Context,
    ) -> Result<(), QueryError> {
        state.finish(points, self.span, context)
    }
}
