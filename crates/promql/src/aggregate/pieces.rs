//! Folds of pieces: a fixed number of series that follow each other, folded by the thread that makes their points.
//!
//! Which series are a piece, and which pieces are folded for themselves, follows from the series that the store
//! lists, their points and the number of steps. So a result does not hang on the number of cores, nor on how the series
//! were read.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::fold::{Fold, Joins};
use super::grouping::Groups;
use crate::operators::{PIECE, PieceFolder};
use crate::points::Points;

/// Of more groups no piece is folded: its states would be as large as the points. Nor is one of no more series.
const MOST_GROUPS: usize = 4;

/// Folds pieces, and keeps the states until they are taken.
pub(super) struct Pieces<F: Fold> {
    fold: Arc<F>,
    joins: Joins<F::State>,
    groups: Arc<Groups>,
    steps: usize,
    states: Mutex<HashMap<usize, States<F>>>,
}

/// Groups that a piece has series of, with what they came to.
type States<F> = Vec<(usize, <F as Fold>::State)>;

impl<F: Fold> Pieces<F> {
    /// `None` for a fold whose states cannot be joined.
    pub(super) fn new(fold: &Arc<F>, groups: &Arc<Groups>, steps: usize) -> Option<Arc<Self>> {
        let joins = fold.joins()?;
        let (fold, groups) = (Arc::clone(fold), Arc::clone(groups));
        Some(Arc::new(Self { fold, joins, groups, steps, states: Mutex::default() }))
    }

    /// Puts what a piece came to behind what is there.
    pub(super) fn join(&self, state: &mut F::State, later: F::State) {
        (self.joins)(state, later);
    }

    /// What a piece that was folded came to; once.
    pub(super) fn take(&self, piece: usize) -> States<F> {
        self.states.lock().remove(&piece).expect("it was folded")
    }

    fn groups_of(&self, piece: usize) -> &[usize] {
        let of_series = &self.groups.of_series;
        let first = piece * PIECE;
        &of_series[first..of_series.len().min(first + PIECE)]
    }
}

impl<F: Fold> PieceFolder for Pieces<F> {
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
