//! Values between two samples.

use super::growth::Metric;
use super::histogram_rate::{add_noted, sub_noted};
use super::window::{FloatPoint, HistogramPoint, Notes};
use crate::annotations::Note;
use crate::histogram::FloatHistogram;

/// The value at `time` on the line between two floats. A counter that falls rose from zero.
pub fn float_between(a: FloatPoint, b: FloatPoint, time: i64, metric: Metric) -> f64 {
    let from = if metric == Metric::Counter && b.value < a.value { 0.0 } else { a.value };
    from + (b.value - from) * (time - a.time) as f64 / (b.time - a.time) as f64
}

/// The histogram at `time` on the line between two. A counter that was reset rose from zero.
pub fn histogram_between(
    a: &HistogramPoint,
    b: &HistogramPoint,
    time: i64,
    metric: Metric,
    notes: &mut Notes<'_>,
) -> Option<FloatHistogram> {
    if time == a.time {
        return Some((*a.value).clone());
    }
    let mut value = (*b.value).clone();
    if time == b.time {
        return Some(value);
    }
    if a.value.has_custom_buckets() != b.value.has_custom_buckets() {
        return notes.no_result(|metric| Note::MixedExponentialCustom { metric });
    }
    let share = (time - a.time) as f64 / (b.time - a.time) as f64;
    if metric == Metric::Counter && b.value.is_reset_after(&a.value) {
        value.mul(share);
        return Some(value);
    }
    sub_noted(&mut value, &a.value, notes)?;
    value.mul(share);
    add_noted(&mut value, &a.value, notes)?;
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::super::cases::{floats, histograms, noted};
    use super::Metric::{Counter, Gauge};
    use super::*;
    use crate::histogram::cases::{custom, positive};

    #[test]
    fn lies_on_the_line() {
        let f = floats(&[10.0, 40.0, 30.0]);
        assert_eq!(float_between(f[0], f[1], 5_000, Counter), 20.0);
        assert_eq!(float_between(f[1], f[2], 20_000, Counter), 10.0);
        assert_eq!(float_between(f[1], f[2], 22_500, Gauge), 35.0);
    }

    #[test]
    fn histograms_too() {
        let h = histograms(&[positive(1, 0, &[1.0], 2.0), positive(0, 0, &[4.0], 8.0)]);
        let between = |a: usize, b: usize, time, metric| {
            noted(|notes| histogram_between(&h[a], &h[b], time, metric, notes)).0
        };
        let got = between(0, 1, 5_000, Counter).expect("both are exponential");
        assert_eq!((got.count, got.sum, got.schema), (2.0, 4.0, 0));
        let mixed = histograms(&[custom(&[1.0], &[1.0], 1.0), positive(0, 0, &[4.0], 8.0)]);
        let (got, notes) =
            noted(|notes| histogram_between(&mixed[0], &mixed[1], 5_000, Counter, notes));
        assert_eq!((got, notes.len()), (None, 1));
        assert_eq!(between(0, 1, 0, Counter).map(|h| h.schema), Some(1));
        assert_eq!(between(0, 1, 15_000, Counter).map(|h| h.count), Some(4.0));
    }
}
