//! Folds of floats: count, group, min, max, variance. All but `count` and `group` ignore
//! histograms, and annotate the query if they ignored any.
//!
//! Variance has no [`Joins`]: its method adds one value after another.

use std::marker::PhantomData;

use super::fold::{Fold, Joins, Origin};
use crate::context::Context;
use crate::error::QueryError;
use crate::operator::Aggregator;
use crate::points::{ABSENT, Points};
use crate::position::Span;
use promkairos_model::is_stale;

/// `count`: the number of points.
pub(super) struct Count;

impl Fold for Count {
    type State = Vec<u64>;

    fn begin(&self, steps: usize) -> Self::State {
        vec![0; steps]
    }

    fn add_floats(&self, state: &mut Self::State, floats: &[f64]) -> usize {
        for (count, value) in state.iter_mut().zip(floats) {
            *count += u64::from(!is_stale(*value));
        }
        0
    }

    fn add_histograms(
        &self,
        state: &mut Self::State,
        _: &Origin<'_>,
        points: &Points,
        _: &Context,
    ) -> Result<(), QueryError> {
        for (step, _) in points.histograms() {
            state[step] += 1;
        }
        Ok(())
    }

    fn joins(&self) -> Option<Joins<Self::State>> {
        Some(|state, later| state.iter_mut().zip(later).for_each(|(count, more)| *count += more))
    }

    fn finish(
        &self,
        state: Self::State,
        points: &mut Points,
        _: &Context,
    ) -> Result<(), QueryError> {
        for (step, count) in state.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            points.set_float(step, count as f64);
        }
        Ok(())
    }
}

/// `group`: 1 where there is any point.
pub(super) struct Group;

impl Fold for Group {
    type State = Vec<bool>;

    fn begin(&self, steps: usize) -> Self::State {
        vec![false; steps]
    }

    fn add_floats(&self, state: &mut Self::State, floats: &[f64]) -> usize {
        for (seen, value) in state.iter_mut().zip(floats) {
            *seen |= !is_stale(*value);
        }
        0
    }

    fn add_histograms(
        &self,
        state: &mut Self::State,
        _: &Origin<'_>,
        points: &Points,
        _: &Context,
    ) -> Result<(), QueryError> {
        for (step, _) in points.histograms() {
            state[step] = true;
        }
        Ok(())
    }

    fn joins(&self) -> Option<Joins<Self::State>> {
        Some(|state, later| state.iter_mut().zip(later).for_each(|(seen, more)| *seen |= more))
    }

    fn finish(
        &self,
        state: Self::State,
        points: &mut Points,
        _: &Context,
    ) -> Result<(), QueryError> {
        for (step, _) in state.into_iter().enumerate().filter(|(_, seen)| *seen) {
            points.set_float(step, 1.0);
        }
        Ok(())
    }
}

/// Which of two floats is kept. NaN is kept only if there is no other value.
pub(super) trait Better: Send + Sync + 'static {
    const OP: Aggregator;
    fn better(new: f64, old: f64) -> bool;
}

/// The least.
pub(super) struct Min;

impl Better for Min {
    const OP: Aggregator = Aggregator::Min;

    fn better(new: f64, old: f64) -> bool {
        new < old
    }
}

/// The greatest.
pub(super) struct Max;

impl Better for Max {
    const OP: Aggregator = Aggregator::Max;

    fn better(new: f64, old: f64) -> bool {
        new > old
    }
}

/// `min` and `max`.
pub(super) struct Extreme<B> {
    span: Span,
    better: PhantomData<B>,
}

impl<B> Extreme<B> {
    pub(super) fn new(span: Span) -> Self {
        Self { span, better: PhantomData }
    }
}

impl<B: Better> Fold for Extreme<B> {
    type State = Vec<f64>;

    fn begin(&self, steps: usize) -> Self::State {
        vec![ABSENT; steps]
    }

    fn add_floats(&self, state: &mut Self::State, floats: &[f64]) -> usize {
        keep_better::<B>(state, floats);
        0
    }

    fn of_floats_alone(&self) -> Option<(Aggregator, Span)> {
        Some((B::OP, self.span))
    }

    fn joins(&self) -> Option<Joins<Self::State>> {
        Some(|state, later| keep_better::<B>(state, &later))
    }

    fn finish(
        &self,
        state: Self::State,
        points: &mut Points,
        _: &Context,
    ) -> Result<(), QueryError> {
        points.floats_mut().copy_from_slice(&state);
        Ok(())
    }
}

fn keep_better<B: Better>(state: &mut [f64], floats: &[f64]) {
    for (old, new) in state.iter_mut().zip(floats) {
        // An absent value is a NaN too, so the first value is taken.
        if B::better(*new, *old) || (old.is_nan() && !is_stale(*new)) {
            *old = *new;
        }
    }
}

/// `stdvar` and `stddev`, by Welford's method.
pub(super) struct Variance {
    pub(super) op: Aggregator,
    pub(super) span: Span,
}

/// The running state at a step.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    count: f64,
    mean: f64,
    /// Sum of the squared distances from the mean.
    squares: f64,
}

impl Fold for Variance {
    type State = Vec<Moments>;

    fn begin(&self, steps: usize) -> Self::State {
        vec![Moments::default(); steps]
    }

    fn samples(&self, steps: usize) -> usize {
        2 * steps
    }

    fn add_floats(&self, state: &mut Self::State, floats: &[f64]) -> usize {
        for (moments, value) in state.iter_mut().zip(floats) {
            if is_stale(*value) {
                continue;
            }
            moments.count += 1.0;
            if moments.count == 1.0 {
                moments.mean = *value;
                moments.squares = if value.is_finite() { 0.0 } else { f64::NAN };
            } else {
                let delta = value - moments.mean;
                moments.mean += delta / moments.count;
                moments.squares += delta * (value - moments.mean);
            }
        }
        0
    }

    fn of_floats_alone(&self) -> Option<(Aggregator, Span)> {
        Some((self.op, self.span))
    }

    fn finish(
        &self,
        state: Self::State,
        points: &mut Points,
        _: &Context,
    ) -> Result<(), QueryError> {
        for (step, moments) in state.into_iter().enumerate().filter(|(_, m)| m.count > 0.0) {
            let variance = moments.squares / moments.count;
            let deviation = self.op == Aggregator::Stddev;
            points.set_float(step, if deviation { variance.sqrt() } else { variance });
        }
        Ok(())
    }
}
