//! The running state that `sum` and `avg` keep for the floats of a group, at all steps.
//!
//! A series is added to all steps at once. An absent value changes nothing.

use crate::functions::Average;
use crate::histogram::{Amount, Kahan};
use promkairos_model::is_stale;

/// The floats of a group at all steps.
pub(super) trait FloatCells: Send + Sync + 'static {
    /// The number of samples that the state of one step counts as in the budget.
    const SAMPLES: usize;
    /// An empty state for `steps` steps.
    fn new(steps: usize) -> Self;
    /// Adds a series: for each step its float, or [`ABSENT`](crate::points::ABSENT).
    fn add(&mut self, floats: &[f64]);
    /// Adds the state `later`, whose series come after the series of `self`.
    fn join(&mut self, later: Self);
    /// The result at a step; `None` if nothing was added there.
    fn result(&self, step: usize) -> Option<f64>;
}

/// A sum of fewer than 2^60 values, each below 2^900, is far from overflow.
const TAME: f64 = 8.452712498170644e270;

/// Compensated sums of floats. The fields of [`Kahan`] are columns here, so that neighbouring
/// steps are added together.
pub(super) struct FloatSums {
    /// Starts at -0: adding a number to -0 gives that number unchanged.
    sums: Vec<f64>,
    errors: Vec<f64>,
    /// Whether anything was added, by step.
    seen: Vec<bool>,
    /// Whether `seen` is true at all steps.
    all_seen: bool,
    /// Whether all values that were added are below [`TAME`].
    tame: bool,
}

impl FloatCells for FloatSums {
    const SAMPLES: usize = 1;

    fn new(steps: usize) -> Self {
        let (sums, errors, seen) = (vec![-0.0; steps], vec![0.0; steps], vec![false; steps]);
        Self { sums, errors, seen, all_seen: false, tame: true }
    }

    fn add(&mut self, floats: &[f64]) {
        debug_assert_eq!(floats.len(), self.sums.len());
        let cells = self.sums.iter_mut().zip(&mut self.errors).zip(floats);
        // `tame` implies that no value is NaN, so no value is absent.
        let tame = floats.iter().fold(self.tame, |all, value| all & (value.abs() < TAME));
        if !tame {
            for (((sum, error), value), seen) in cells.zip(&mut self.seen) {
                if !is_stale(*value) {
                    let mut added = Kahan { sum: *sum, error: *error };
                    added.add(*value);
                    (*sum, *error) = (added.sum, added.error);
                    *seen = true;
                    self.tame &= value.abs() < TAME;
                }
            }
            return;
        }
        for ((sum, error), value) in cells {
            // The rounding error of the addition, as in [`Kahan::add`] but without a branch (Knuth,
            // The Art of Computer Programming 2, 4.2.2, theorem B).
            let total = *sum + value;
            let value_part = total - *sum;
            *error += (*sum - (total - value_part)) + (value - value_part);
            *sum = total;
        }
        if !self.all_seen {
            self.all_seen = true;
            self.seen.fill(true);
        }
    }

    fn join(&mut self, later: Self) {
        self.tame &= later.tame;
        for at in (0..self.sums.len()).filter(|at| later.seen[*at]) {
            let of = |sums: &Self| Kahan { sum: sums.sums[at], error: sums.errors[at] };
            let joined = of(self).plus(of(&later));
            (self.sums[at], self.errors[at]) = (joined.sum, joined.error);
            self.seen[at] = true;
        }
    }

    fn result(&self, step: usize) -> Option<f64> {
        self.seen[step].then(|| self.sums[step] + self.errors[step])
    }
}

impl FloatCells for Vec<Average> {
    const SAMPLES: usize = 2;

    fn new(steps: usize) -> Self {
        vec![Average::default(); steps]
    }

    fn add(&mut self, floats: &[f64]) {
        for (mean, value) in self.iter_mut().zip(floats).filter(|(_, value)| !is_stale(**value)) {
            mean.add(*value);
        }
    }

    fn join(&mut self, later: Self) {
        self.iter_mut().zip(later).for_each(|(mean, later)| mean.join(later));
    }

    fn result(&self, step: usize) -> Option<f64> {
        self[step].any().then(|| self[step].mean())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::points::ABSENT;

    const SPECIAL: [f64; 13] = [
        0.0,
        -0.0,
        1e308,
        -1e308,
        3e307,
        -3e307,
        f64::MAX,
        f64::MIN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        5e-324,
        -5e-324,
    ];

    fn any_float() -> impl Strategy<Value = f64> {
        prop_oneof![
            4 => (-1_000i32..1_000).prop_map(|value| f64::from(value) / 7.0),
            2 => any::<u64>().prop_map(f64::from_bits),
            1 => prop::sample::select(SPECIAL.to_vec()),
            1 => Just(ABSENT),
        ]
    }

    fn one_by_one(values: &[f64]) -> Option<f64> {
        let mut values = values.iter().filter(|value| !is_stale(**value));
        let mut sum = Kahan::exactly(*values.next()?);
        values.for_each(|value| sum.add(*value));
        Some(sum.value())
    }

    fn bits(value: Option<f64>) -> Option<u64> {
        // Which of two NaNs an addition returns depends on the machine.
        value.map(|value| if value.is_nan() { f64::NAN } else { value }).map(f64::to_bits)
    }

    proptest! {
        #[test]
        fn sums_are_those_of_one_value_after_the_other(
            series in prop::collection::vec(prop::collection::vec(any_float(), 5), 0..20),
        ) {
            let mut sums = FloatSums::new(5);
            series.iter().for_each(|floats| sums.add(floats));
            for step in 0..5 {
                let values: Vec<f64> = series.iter().map(|floats| floats[step]).collect();
                prop_assert_eq!(bits(sums.result(step)), bits(one_by_one(&values)), "{:?}", values);
            }
        }

        #[test]
        fn parts_are_joined(
            values in prop::collection::vec(prop_oneof![9 => -1e9..1e9, 1 => Just(ABSENT)], 0..40),
            cut in 0usize..40,
        ) {
            let cut = cut.min(values.len());
            let of = |values: &[f64]| {
                let mut sums = FloatSums::new(1);
                values.iter().for_each(|value| sums.add(&[*value]));
                sums
            };
            let mut joined = of(&values[..cut]);
            joined.join(of(&values[cut..]));
            let (joined, whole) = (joined.result(0), one_by_one(&values));
            let near = |a: f64, b: f64| (a - b).abs() <= b.abs() * f64::EPSILON;
            prop_assert!(joined.zip(whole).map_or(joined == whole, |(a, b)| near(a, b)), "{:?} {:?}", joined, whole);
        }
    }
}
