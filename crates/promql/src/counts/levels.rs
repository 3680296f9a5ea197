//! How often a query sees the samples of a subquery: a step of a subquery counts once for each
//! window of the outer steps that contains it, times the weight of the outer step.
//!
//! Weights are made when the first point is read. Nothing is read or evaluated here.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::windows::Windows;
use crate::steps::Steps;

/// The steps of an evaluation at which points are seen.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) level: Arc<Level>,
    /// Whether a point is seen at each step, not only at its own.
    pub(super) each_step: bool,
}

impl Seen {
    /// How often the query sees a sample that is counted at a step.
    pub(super) fn weights(&self) -> Weights {
        let weights = self.level.weights();
        match self.each_step {
            true => Weights::Same(weights.of(0..self.level.steps.count())),
            false => weights,
        }
    }

    /// Adds what was counted, by step.
    pub(super) fn add<'a>(&self, counted: impl Iterator<Item = &'a Counted>) {
        if self.each_step {
            let all = counted.map(|counted| counted.queryable).sum();
            self.level.at_each.fetch_add(all, Relaxed);
        } else {
            let mut sums = self.level.sums.lock();
            sums.resize(self.level.steps.count(), 0);
            counted.for_each(|counted| sums[counted.step] += counted.queryable);
        }
    }
}

/// The samples of one series at one step.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) step: usize,
    pub(super) queryable: u64,
    pub(super) read: u64,
}

/// How often the query sees a sample of each step of an evaluation.
#[derive(Debug, Clone)]
pub(super) enum Weights {
    /// The same weight at each step.
    Same(u64),
    /// Prefix sums: the sum of the weights of all earlier steps; one entry more than steps.
    Sums(Arc<[u64]>),
}

impl Weights {
    /// The sum of the weights of these steps.
    #[inline]
    pub(super) fn of(&self, steps: Range<usize>) -> u64 {
        match self {
            Self::Same(weight) => weight * steps.len() as u64,
            Self::Sums(sums) => sums[steps.end] - sums[steps.start],
        }
    }
}

/// The steps of the query or of a subquery.
#[derive(Debug)]
pub(super) struct Level {
    steps: Steps,
    /// For a subquery: its windows, and where the windows are seen.
    up: Option<(Windows, Seen)>,
    /// Made when the first point is read: a subquery may have very many steps without points.
    weights: OnceLock<Weights>,
    /// What was seen at each step, if the query counts by step.
    sums: Mutex<Vec<u64>>,
    /// What was seen at every step.
    at_each: AtomicU64,
}

impl Level {
    pub(super) fn new(steps: Steps, up: Option<(Windows, Seen)>) -> Self {
        let (weights, sums, at_each) = Default::default();
        Self { steps, up, weights, sums, at_each }
    }

    pub(super) fn weights(&self) -> Weights {
        self.weights.get_or_init(|| self.make_weights()).clone()
    }

    fn make_weights(&self) -> Weights {
        let Some((windows, seen)) = &self.up else { return Weights::Same(1) };
        let outer = seen.weights();
        let steps = windows.outer.count();
        if windows.see_all() {
            return Weights::Same(outer.of(0..steps));
        }
        // First the differences of the weights of a step and of the step before.
        let count = self.steps.count();
        let mut sums = vec![0u64; count + 1];
        for step in 0..steps {
            let (weight, window) = (outer.of(step..step + 1), windows.of(step));
            sums[window.start] = sums[window.start].wrapping_add(weight);
            sums[window.end] = sums[window.end].wrapping_sub(weight);
        }
        let (mut weight, mut sum) = (0u64, 0u64);
        for change in &mut sums {
            weight = weight.wrapping_add(std::mem::replace(change, sum));
            sum = sum.wrapping_add(weight);
        }
        Weights::Sums(sums.into())
    }

    /// What was seen at each step.
    pub(super) fn sums(&self) -> Vec<u64> {
        let mut sums = std::mem::take(&mut *self.sums.lock());
        sums.resize(self.steps.count(), 0);
        let at_each = self.at_each.load(Relaxed);
        sums.iter_mut().for_each(|sum| *sum += at_each);
        sums
    }

    /// Adds what was seen at each step to the outer steps whose windows contain the step.
    pub(super) fn hand_up(&self) {
        let Some((windows, seen)) = &self.up else { return };
        // Prefix sums: the sum of all earlier steps.
        let (mut before, mut sum) = (vec![0], 0);
        for seen in self.sums() {
            sum += seen;
            before.push(sum);
        }
        let steps = 0..windows.outer.count();
        let counted: Vec<Counted> = steps
            .map(|step| {
                let window = windows.of(step);
                let queryable = before[window.end] - before[window.start];
                Counted { step, queryable, read: 0 }
            })
            .collect();
        seen.add(counted.iter());
    }
}
