//! The operator that folds groups. It reads one series after another into the states of their
//! groups, and gives a group when its last series was read.
//!
//! Where the input computes the points of many series at a time, it also folds the
//! [pieces](super::pieces). The states of pieces are joined here in their order.

use std::sync::Arc;

use super::grouping::Groups;
use super::pieces::GroupFolder;
use crate::annotations::Note;
use crate::budget::Held;
use crate::context::Context;
use crate::error::QueryError;
use crate::operator::Aggregator;
use crate::operators::{BoxOperator, Operator, PIECE, PieceFolder, Series};
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

    /// Adds the histograms of a series and counts them in the budget. The default ignores them.
    fn add_histograms(
        &self,
        _state: &mut Self::State,
        _origin: &Origin<'_>,
        points: &Points,
        context: &Context,
    ) -> Result<(), QueryError> {
        if let Some((op, span)) = self.of_floats_alone() {
            tell_ignored(points, op, span, context);
        }
        Ok(())
    }

    /// For a fold that ignores histograms: the aggregator and the place that the note names.
    fn of_floats_alone(&self) -> Option<(Aggregator, Span)> {
        None
    }

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
    input: &'a dyn Operator,
    position: usize,
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

/// Folds the groups of a vector.
pub(super) struct Folded<F: Fold> {
    input: BoxOperator,
    groups: Arc<Groups>,
    fold: Arc<F>,
    /// Set if the input folds pieces.
    pieces: Option<Arc<GroupFolder<F>>>,
    states: Vec<Option<(F::State, Held)>>,
    steps: usize,
    read: usize,
    given: usize,
    context: Arc<Context>,
    scratch: Vec<Points>,
}

impl<F: Fold> Folded<F> {
    pub(super) fn boxed(
        mut input: BoxOperator,
        groups: Groups,
        fold: F,
        steps: usize,
        context: &Arc<Context>,
    ) -> BoxOperator {
        let (fold, groups) = (Arc::new(fold), Arc::new(groups));
        let pieces = GroupFolder::new(&fold, &groups, steps);
        let pieces = pieces.filter(|pieces| input.fold_pieces(Arc::clone(pieces) as _));
        Box::new(Self {
            input,
            fold,
            pieces,
            states: (0..groups.len()).map(|_| None).collect(),
            groups,
            steps,
            read: 0,
            given: 0,
            context: Arc::clone(context),
            scratch: Vec::new(),
        })
    }

    /// Reads one series, or a whole piece.
    fn read_some(&mut self) -> Result<(), QueryError> {
        let pieces = self.pieces.as_ref().filter(|_| self.read.is_multiple_of(PIECE));
        match pieces.filter(|pieces| pieces.wants(self.read / PIECE)) {
            Some(pieces) => self.read_piece(&Arc::clone(pieces)),
            None => self.read_series(0).and_then(|()| self.add(1)),
        }
    }

    fn read_piece(&mut self, pieces: &GroupFolder<F>) -> Result<(), QueryError> {
        let piece = self.read / PIECE;
        let length = PIECE.min(self.groups.of_series.len() - self.read);
        if !self.input.next_folded()? {
            for count in 1..=length {
                self.read_series(count - 1)?;
                if self.scratch[count - 1].has_histograms() {
                    // A piece with histograms is not folded separately, and its points are large.
                    return self.add(count);
                }
            }
            if !pieces.fold(piece, &self.scratch[..length]) {
                return self.add(length);
            }
        }
        for (group, later) in pieces.take(piece) {
            let state = &mut self.states[group];
            let (state, _) = begun(state, &*self.fold, self.steps, &self.context)?;
            pieces.join(state, later);
        }
        self.read += length;
        Ok(())
    }

    /// Reads the next series into `scratch[place]`.
    fn read_series(&mut self, place: usize) -> Result<(), QueryError> {
        self.scratch.resize_with(self.scratch.len().max(place + 1), Points::default);
        self.input.next(&mut self.scratch[place])
    }

    /// Adds the series in the first `count` places of `scratch` to their groups.
    fn add(&mut self, count: usize) -> Result<(), QueryError> {
        for points in &self.scratch[..count] {
            let state = &mut self.states[self.groups.of_series[self.read]];
            let (state, held) = begun(state, &*self.fold, self.steps, &self.context)?;
            let grown = self.fold.add_floats(state, points.floats());
            if points.has_histograms() {
                let origin = Origin { input: &*self.input, position: self.read };
                self.fold.add_histograms(state, &origin, points, &self.context)?;
            }
            if grown > 0 {
                held.take(grown, grown * 16)?;
            }
            self.read += 1;
        }
        Ok(())
    }
}

/// The state of a group; created when its first series is added.
fn begun<'a, F: Fold>(
    state: &'a mut Option<(F::State, Held)>,
    fold: &F,
    steps: usize,
    context: &Context,
) -> Result<&'a mut (F::State, Held), QueryError> {
    match state {
        Some(state) => Ok(state),
        state => {
            let mut held = context.budget.nothing();
            let samples = fold.samples(steps);
            held.take(samples, fold.bytes(steps))?;
            Ok(state.insert((fold.begin(steps), held)))
        }
    }
}

impl<F: Fold> Operator for Folded<F> {
    fn series(&self) -> &[Series] {
        &self.groups.series
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        while self.read <= self.groups.last[self.given] {
            self.read_some()?;
        }
        points.clear(self.steps);
        if let Some((state, _held)) = self.states[self.given].take() {
            self.fold.finish(state, points, &self.context)?;
        }
        self.given += 1;
        Ok(())
    }
}
