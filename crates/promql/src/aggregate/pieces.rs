//! Folds of pieces. A piece is a fixed number of consecutive series; the thread that makes their
//! points folds them.
//!
//! Which series form a piece, and which pieces are folded separately, depends only on the series
//! that the store lists, their points and the number of steps. So a result does not depend on the
//! number of cores, nor on how the series were read.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::fold::{Fold, Joins};
use super::grouping::Groups;
use crate::operators::{PIECE, PieceFolder};
use crate::points::Points;

/// A piece of more groups is not folded: its states would be as large as its points. A piece of at
/// most this many series is not folded either.
const MOST_GROUPS: usize = 4;

/// Folds pieces, and keeps the states until they are taken.
pub(super) struct GroupFolder<F: Fold> {
    fold: Arc<F>,
    joins: Joins<F::State>,
    groups: Arc<Groups>,
    steps: usize,
    states: Mutex<HashMap<usize, States<F>>>,
}

/// The groups that a piece has series of, and their states.
type States<F> = Vec<(usize, <F as Fold>::State)>;

impl<F: Fold> GroupFolder<F> {
    /// `None` for a fold whose states cannot be joined.
    pub(super) fn new(fold: &Arc<F>, groups: &Arc<Groups>, steps: usize) -> Option<Arc<Self>> {
        let joins = fold.joins()?;
        let (fold, groups) = (Arc::clone(fold), Arc::clone(groups));
        Some(Arc::new(Self { fold, joins, groups, steps, states: Mutex::default() }))
    }

    /// Joins the state of a piece, which comes later, into the state of its group.
    pub(super) fn join(&self, state: &mut F::State, later: F::State) {
        (self.joins)(state, later);
    }

    /// The states of a piece that was folded. May be called once for each piece.
    pub(super) fn take(&self, piece: usize) -> States<F> {
        self.states.lock().remove(&piece).expect("it was folded")
    }

    fn groups_of(&self, piece: usize) -> &[usize] {
        let of_series = &self.groups.of_series;
        let first = piece * PIECE;
        &of_series[first..of_series.len().min(first + PIECE)]
    }
}

impl<F: Fold> PieceFolder for GroupFolder<F> {
    fn wants(&self, piece: usize) -> bool {
        let mut found = [usize::MAX; MOST_GROUPS];
        let groups = self.groups_of(piece);
        groups.len() > MOST_GROUPS
            && groups.iter().all(|group| {
                let place = found.iter_mut().find(|known| [*group, usize::MAX].contains(known));
                place.map(|place| *place = *group).is_some()
            })
    }

    fn fold(&self, piece: usize, series: &[Points]) -> bool {
        if series.iter().any(Points::has_histograms) {
            return false;
        }
        let mut states: States<F> = Vec::with_capacity(MOST_GROUPS);
        for (&group, points) in self.groups_of(piece).iter().zip(series) {
            let at = states.iter().position(|(known, _)| *known == group).unwrap_or_else(|| {
                states.push((group, self.fold.begin(self.steps)));
                states.len() - 1
            });
            self.fold.add_floats(&mut states[at].1, points.floats());
        }
        self.states.lock().insert(piece, states);
        true
    }
}
