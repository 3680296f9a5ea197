//! `sum_over_time` and `avg_over_time`, compensated, of floats or of histograms.

use std::sync::Arc;

use super::window::{FloatPoint, Notes, Window};
use crate::annotations::{HistogramOperation, Note};
use crate::histogram::{
    Accumulator, Amount, FloatHistogram, HistogramAverage, IncompatibleSchemas, Kahan,
};
use crate::points::Value;
use promkairos_model::ResetHint;

pub(super) fn sum_over_time(window: &Window<'_>, notes: &mut Notes<'_>) -> Option<Value> {
    over_time::<FloatHistogram<Kahan>>(window, notes, |floats| {
        let mut sum = Kahan::default();
        floats.iter().for_each(|point| sum.add(point.value));
        sum.value()
    })
}

pub(super) fn avg_over_time(window: &Window<'_>, notes: &mut Notes<'_>) -> Option<Value> {
    over_time::<HistogramAverage>(window, notes, |floats| {
        let mut average = Average::default();
        floats.iter().for_each(|point| average.add(point.value));
        average.mean()
    })
}

/// Folds the floats or the histograms. `None` if there are no points, or both kinds, which adds a note.
fn over_time<H: Accumulator>(
    window: &Window<'_>,
    notes: &mut Notes<'_>,
    of_floats: impl FnOnce(&[FloatPoint]) -> f64,
) -> Option<Value> {
    if window.is_mixed() {
        return notes.no_result(|metric| Note::MixedFloatsHistograms { metric });
    }
    let [first, rest @ ..] = window.histograms else {
        return (!window.floats.is_empty()).then(|| Value::Float(of_floats(window.floats)));
    };
    let mut all = H::new(&first.value);
    let operation = HistogramOperation::Aggregation;
    let mut reconciled = false;
    for point in rest {
        match all.add(&point.value) {
            Ok(combined) => reconciled |= combined.bounds_reconciled,
            Err(IncompatibleSchemas) => {
                return notes.no_result(|metric| Note::MixedExponentialCustom { metric });
            }
        }
    }
    let says = |hint| window.histograms.iter().any(|point| point.value.reset_hint == hint);
    if says(ResetHint::Reset) && says(ResetHint::NotReset) {
        notes.add(Note::CollidingResets { operation });
    }
    if reconciled {
        notes.add(Note::ReconciledBounds { operation });
    }
    Some(Value::Histogram(Arc::new(all.result())))
}

/// The mean of floats: the compensated sum divided at the end. If the sum would overflow, a
/// running mean from there on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Average {
    /// The sum; the mean once `running` is set.
    held: Kahan,
    count: f64,
    running: bool,
}

impl Average {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        self.count += 1.0;
        if !self.running {
            let mut sum = self.held;
            sum.add(value);
            if !sum.sum.is_infinite() || self.count == 1.0 {
                self.held = sum;
                return;
            }
            self.running = true;
            self.held = self.held.over(self.count - 1.0);
        }
        self.held = self.held.times((self.count - 1.0) / self.count);
        self.held.add(value / self.count);
    }

    /// Adds the values of `later`.
    pub fn join(&mut self, later: Self) {
        match (self.any(), later.any()) {
            (_, false) => return,
            (false, true) => return *self = later,
            (true, true) => {}
        }
        let count = self.count + later.count;
        let sum = self.held.plus(later.held);
        if !self.running && !later.running && !sum.sum.is_infinite() {
            *self = Self { held: sum, count, running: false };
            return;
        }
        let part = |of: &Self| of.mean_held().times(of.count / count);
        *self = Self { held: part(self).plus(part(&later)), count, running: true };
    }

    /// Whether there was any value.
    pub fn any(&self) -> bool {
        self.count > 0.0
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        self.mean_held().value()
    }

    fn mean_held(&self) -> Kahan {
        if self.running { self.held } else { self.held.over(self.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{floats, histograms, noted, window};
    use super::*;
    use crate::histogram::cases::{custom, positive};

    type Kernel = fn(&Window<'_>, &mut Notes<'_>) -> Option<Value>;

    fn float(kernel: Kernel, values: &[f64]) -> f64 {
        let points = floats(values);
        let value = noted(|notes| kernel(&window(0, 60_000, &points, &[]), notes)).0;
        value.and_then(|value| value.float()).expect("a float")
    }

    fn histogram(kernel: Kernel, values: &[FloatHistogram]) -> (Option<Value>, Vec<String>) {
        let points = histograms(values);
        noted(|notes| kernel(&window(0, 60_000, &[], &points), notes))
    }

    #[test]
    fn sums_and_means_of_floats() {
        assert_eq!(float(sum_over_time, &[1.0, 1e100, 1.0, -1e100]), 2.0);
        assert_eq!(float(sum_over_time, &[f64::INFINITY, 1.0]), f64::INFINITY);
        assert_eq!(float(avg_over_time, &[1.0, 2.0, 6.0]), 3.0);
        assert_eq!(float(avg_over_time, &[f64::INFINITY, 1.0]), f64::INFINITY);
        assert_eq!(float(avg_over_time, &[1.0, f64::INFINITY]), f64::INFINITY);
        assert!(float(avg_over_time, &[f64::NEG_INFINITY, f64::INFINITY]).is_nan());
        let large = float(avg_over_time, &[1e308, 1e308, 1e308]);
        assert!((large / 1e308 - 1.0).abs() < 1e-15, "{large}");
    }

    #[test]
    fn means_that_are_joined_are_those_of_all() {
        let mean = |values: &[f64]| {
            let mut mean = Average::default();
            values.iter().for_each(|value| mean.add(*value));
            mean
        };
        let values = [1e100, 3.0, -1e100, 0.1, 1e308, 1e308, 1e308, -5.0];
        for cut in 0..=values.len() {
            for count in 0..=values.len() {
                let (values, cut) = (&values[..count], cut.min(count));
                let mut joined = mean(&values[..cut]);
                joined.join(mean(&values[cut..]));
                let (joined, whole) = (joined.mean(), mean(values).mean());
                let same = joined == whole || ((joined - whole) / whole).abs() < 1e-15;
                assert!(same || count == 0, "{cut} of {count}: {joined} {whole}");
            }
        }
        let mut infinite = mean(&[1.0, f64::INFINITY]);
        infinite.join(mean(&[2.0]));
        assert_eq!(infinite.mean(), f64::INFINITY);
        infinite.join(mean(&[f64::NEG_INFINITY]));
        assert!(infinite.mean().is_nan());
    }

    #[test]
    fn of_histograms() {
        let values = [positive(0, 0, &[1.0], 1.0), positive(1, 0, &[4.0, 1.0], 6.0)];
        let (value, notes) = histogram(sum_over_time, &values);
        let Some(Value::Histogram(sum)) = value else { panic!("{value:?}") };
        assert_eq!((sum.count, sum.sum, sum.schema), (6.0, 7.0, 0));
        let (value, _) = histogram(avg_over_time, &values);
        let Some(Value::Histogram(mean)) = value else { panic!("{value:?}") };
        assert_eq!((mean.count, mean.sum, notes.len()), (3.0, 3.5, 0));
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let mut values = [positive(0, 0, &[1.0], 1.0), positive(0, 0, &[1.0], 1.0)];
        values[0].reset_hint = ResetHint::NotReset;
        values[1].reset_hint = ResetHint::Reset;
        assert!(histogram(avg_over_time, &values).1[0].contains("conflicting counter resets"));
        let values = [custom(&[1.0], &[1.0], 1.0), custom(&[2.0], &[1.0], 1.0)];
        assert!(histogram(sum_over_time, &values).1[0].contains("reconciled during aggregation"));
        let values = [custom(&[1.0], &[1.0], 1.0), positive(0, 0, &[1.0], 1.0)];
        let (value, notes) = histogram(sum_over_time, &values);
        assert!(value.is_none() && notes[0].contains("exponential and custom"), "{notes:?}");
    }
}
