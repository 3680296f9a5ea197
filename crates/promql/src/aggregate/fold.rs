//! What a fold does with the series of a group.

use crate::annotations::Note;
use crate::context::Context;
use crate::error::QueryError;
use crate::operator::Aggregator;
use crate::operators::Operator;
use crate::points::Points;
use crate::position::Span;

/// Joins a state with a later one, whose series come after its own.
pub(super) type Joins<S> = fn(&mut S, S);

/// What a fold does with the series of a group.
pub(super) trait Fold: Send + Sync + 'static {
    /// The state of a group.
    type State: Send;

    /// The state of a group without series.
    fn begin(&self, steps: usize) -> Self::State;

    /// The number of samples that a new state of `steps` steps counts as in the budget.
    fn samples(&self, steps: usize) -> usize {
        steps
    }

    /// The bytes of a new state of `steps` steps.
    fn bytes(&self, steps: usize) -> usize {
        self.samples(steps).saturating_mul(16)
    }

    /// Adds the floats of a series. Returns the number of samples by which the state grew.
    fn add_floats(&self, state: &mut Self::State, floats: &[f64]) -> usize;

    /// Adds the histograms of a series and counts them in the budget, or notes that they are ignored.
    fn add_histograms(
        &self,
        state: &mut Self::State,
        origin: &Origin<'_>,
        points: &Points,
        context: &Context,
    ) -> Result<(), QueryError>;

    /// How to join states of a fixed size that hold only floats; `None` if they cannot be joined.
    fn joins(&self) -> Option<Joins<Self::State>> {
        None
    }

    /// The result.
    fn finish(
        &self,
        state: Self::State,
        points: &mut Points,
        context: &Context,
    ) -> Result<(), QueryError>;
}

/// Adds the note that histograms are ignored, if there are any.
pub(super) fn tell_ignored(points: &Points, op: Aggregator, span: Span, context: &Context) {
    if points.histograms().next().is_some() {
        let aggregation = op.name();
        context.annotate(Note::HistogramIgnoredInAggregation { aggregation }.at(span));
    }
}

/// A series of the input. Its labels are read only when they are needed.
pub(super) struct Origin<'a> {
    pub(super) input: &'a dyn Operator,
    pub(super) position: usize,
}

impl Origin<'_> {
    /// The name of the metric; empty if the series has lost its name.
    pub(super) fn metric_name(&self) -> &str {
        if self.input.named().is_some() {
            // The series has lost its name. Its label set is not made just to find that out.
            return "";
        }
        self.input.series()[self.position].labels.as_ref().metric_name()
    }
}
