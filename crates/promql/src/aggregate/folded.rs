//! The operator that folds groups. It reads one series after another into the states of their
//! groups, and gives a group when its last series was read.
//!
//! Where the input computes the points of many series at a time, it also folds the
//! [pieces](super::pieces). The states of pieces are joined here in their order.

use std::sync::Arc;

use super::fold::{Fold, Origin};
use super::grouping::Groups;
use super::pieces::GroupFolder;
use crate::budget::Held;
use crate::context::Context;
use crate::error::QueryError;
use crate::operators::{BoxOperator, Operator, PIECE, PieceFolder, Series};
use crate::points::Points;

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
