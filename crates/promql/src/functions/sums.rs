//! `sum_over_time` and `avg_over_time`, compensated, of floats or of histograms.

use std::sync::Arc;

use super::window::{HistogramPoint, Notes, Window};
use crate::annotations::{HistogramOperation, Note};
use crate::histogram::{
    Amount, Combined, FloatHistogram, HistogramAverage, IncompatibleSchemas, Kahan,
};
use crate::points::Value;
use promkairos_model::ResetHint;

pub(super) fn sum_over_time(window: &Window<'_>, notes: &mut Notes<'_>) -> Option<Value> {
    if let Some(first) = histograms_only(window, notes)? {
        let mut sum = first.map(Kahan::exactly);
        fold(window.histograms, notes, |next| sum.add(next))?;
        return Some(Value::Histogram(Arc::new(sum.map(Kahan::value))));
    }
    let mut sum = Kahan::default();
    window.floats.iter().for_each(|point| sum.add(point.value));
    Some(Value::Float(sum.value()))
}

pub(super) fn avg_over_time(window: &Window<'_>, notes: &mut Notes<'_>) -> Option<Value> {
    if let Some(first) = histograms_only(window, notes)? {
        let mut average = HistogramAverage::new(first);
        fold(window.histograms, notes, |next| average.add(next))?;
        return Some(Value::Histogram(Arc::new(average.mean())));
    }
    let mut average = Average::default();
    window.floats.iter().for_each(|point| average.add(point.value));
    Some(Value::Float(average.mean()))
}

/// The first histogram if there are only histograms; `Some(None)` if there are only floats.
/// `None` if there are no points, or both kinds, which adds a note.
fn histograms_only<'a>(
    window: &Window<'a>,
    notes: &mut Notes<'_>,
) -> Option<Option<&'a FloatHistogram>> {
    if window.is_mixed() {
        notes.add_named(|metric| Note::MixedFloatsHistograms { metric });
        return None;
    }
    let first = window.histograms.first().map(|point| &*point.value);
    (first.is_some() || !window.floats.is_empty()).then_some(first)
}

/// Folds all histograms but the first. Adds each note once.
fn fold(
    histograms: &[HistogramPoint],
    notes: &mut Notes<'_>,
    mut add: impl FnMut(&FloatHistogram) -> Result<Combined, IncompatibleSchemas>,
) -> Option<()> {
    let operation = HistogramOperation::Aggregation;
    let mut reconciled = false;
    for point in &histograms[1..] {
        match add(&point.value) {
            Ok(combined) => reconciled |= combined.bounds_reconciled,
            Err(IncompatibleSchemas) => {
                notes.add_named(|metric| Note::MixedExponentialCustom { metric });
                return None;
            }
        }
    }
    let says = |hint| histograms.iter().any(|point| point.value.reset_hint == hint);
    if says(ResetHint::Reset) && says(ResetHint::NotReset) {
        notes.add(Note::CollidingResets { operation });
    }
    if reconciled {
        notes.add(Note::ReconciledBounds { operation });
    }
    Some(())
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
