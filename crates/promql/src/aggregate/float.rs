//! Folds of floats that keep a small state for each step: count, group, min, max, variance.

use std::marker::PhantomData;

use super::fold::{Fold, Joins, Origin, tell_ignored};
use crate::context::Context;
use crate::error::QueryError;
use crate::operator::Aggregator;
use crate::points::{ABSENT, Points};
use crate::position::Span;
use promkairos_model::is_stale;

/// `count`: the number of points.
pub(super) type Count = Floats<u64>;
/// `group`: 1 where there is any point.
pub(super) type Group = Floats<bool>;
/// `min`: NaN only if there is no other value.
pub(super) type Min = Floats<Least>;
/// `max`: NaN only if there is no other value.
pub(super) type Max = Floats<Greatest>;
/// `stdvar` and `stddev`, by Welford's method.
pub(super) type Variance = Floats<Moments>;

/// Folds floats into one cell for each step.
pub(super) struct Floats<C> {
    op: Aggregator,
    span: Span,
    cell: PhantomData<C>,
}

/// The state of a group at a step.
pub(super) trait Cell: Copy + Send + Sync + 'static {
    /// Nothing was added.
    const EMPTY: Self;
    /// The number of samples that it counts as in the budget.
    const SAMPLES: usize = 1;
    /// Adds a histogram; `None` if histograms are ignored, with a note.
    const ADD_HISTOGRAM: Option<fn(&mut Self)> = None;
    /// Adds what a later state holds; `None` if the result depends on the order of the values.
    const JOIN: Option<fn(&mut Self, Self)> = None;
    /// Adds a float; [`ABSENT`] changes nothing.
    fn add(&mut self, value: f64);
    /// The result of `op`; [`ABSENT`] if nothing was added.
    fn result(self, op: Aggregator) -> f64;
}

impl<C> Floats<C> {
    pub(super) fn new(op: Aggregator, span: Span) -> Self {
        Self { op, span, cell: PhantomData }
    }
}

impl<C: Cell> Fold for Floats<C> {
    type State = Vec<C>;

    fn begin(&self, steps: usize) -> Self::State {
        vec![C::EMPTY; steps]
    }

    fn samples(&self, steps: usize) -> usize {
        steps * C::SAMPLES
    }

    fn add_floats(&self, state: &mut Self::State, floats: &[f64]) -> usize {
        state.iter_mut().zip(floats).for_each(|(cell, value)| cell.add(*value));
        0
    }

    fn add_histograms(
        &self,
        state: &mut Self::State,
        _: &Origin<'_>,
        points: &Points,
        context: &Context,
    ) -> Result<(), QueryError> {
        match C::ADD_HISTOGRAM {
            Some(add) => points.histograms().for_each(|(step, _)| add(&mut state[step])),
            None => tell_ignored(points, self.op, self.span, context),
        }
        Ok(())
    }

    fn joins(&self) -> Option<Joins<Self::State>> {
        C::JOIN?;
        Some(|state, later| {
            let Some(join) = C::JOIN else { return };
            state.iter_mut().zip(later).for_each(|(cell, later)| join(cell, later));
        })
    }

    fn finish(
        &self,
        state: Self::State,
        points: &mut Points,
        _: &Context,
    ) -> Result<(), QueryError> {
        for (value, cell) in points.floats_mut().iter_mut().zip(state) {
            *value = cell.result(self.op);
        }
        Ok(())
    }
}

impl Cell for u64 {
    const EMPTY: Self = 0;
    const ADD_HISTOGRAM: Option<fn(&mut Self)> = Some(|count| *count += 1);
    const JOIN: Option<fn(&mut Self, Self)> = Some(|count, later| *count += later);

    fn add(&mut self, value: f64) {
        *self += Self::from(!is_stale(value));
    }

    fn result(self, _: Aggregator) -> f64 {
        if self > 0 { self as f64 } else { ABSENT }
    }
}

impl Cell for bool {
    const EMPTY: Self = false;
    const ADD_HISTOGRAM: Option<fn(&mut Self)> = Some(|seen| *seen = true);
    const JOIN: Option<fn(&mut Self, Self)> = Some(|seen, later| *seen |= later);

    fn add(&mut self, value: f64) {
        *self |= !is_stale(value);
    }

    fn result(self, _: Aggregator) -> f64 {
        if self { 1.0 } else { ABSENT }
    }
}

/// The least value.
#[derive(Clone, Copy)]
pub(super) struct Least(f64);

impl Cell for Least {
    const EMPTY: Self = Self(ABSENT);
    const JOIN: Option<fn(&mut Self, Self)> = Some(|least, later| least.add(later.0));

    fn add(&mut self, value: f64) {
        // An absent value is a NaN too, so the first value is taken.
        if value < self.0 || (self.0.is_nan() && !is_stale(value)) {
            self.0 = value;
        }
    }

    fn result(self, _: Aggregator) -> f64 {
        self.0
    }
}

/// The greatest value.
#[derive(Clone, Copy)]
pub(super) struct Greatest(f64);

impl Cell for Greatest {
    const EMPTY: Self = Self(ABSENT);
    const JOIN: Option<fn(&mut Self, Self)> = Some(|greatest, later| greatest.add(later.0));

    fn add(&mut self, value: f64) {
        if value > self.0 || (self.0.is_nan() && !is_stale(value)) {
            self.0 = value;
        }
    }

    fn result(self, _: Aggregator) -> f64 {
        self.0
    }
}

/// The running state of the variance.
#[derive(Clone, Copy)]
pub(super) struct Moments {
    count: f64,
    mean: f64,
    /// Sum of the squared distances from the mean.
    squares: f64,
}

impl Cell for Moments {
    const EMPTY: Self = Self { count: 0.0, mean: 0.0, squares: 0.0 };
    const SAMPLES: usize = 2;

    fn add(&mut self, value: f64) {
        if is_stale(value) {
            return;
        }
        self.count += 1.0;
        if self.count == 1.0 {
            self.mean = value;
            self.squares = if value.is_finite() { 0.0 } else { f64::NAN };
        } else {
            let delta = value - self.mean;
            self.mean += delta / self.count;
            self.squares += delta * (value - self.mean);
        }
    }

    fn result(self, op: Aggregator) -> f64 {
        let variance = self.squares / self.count;
        match op {
            _ if self.count == 0.0 => ABSENT,
            Aggregator::Stddev => variance.sqrt(),
            _ => variance,
        }
    }
}
