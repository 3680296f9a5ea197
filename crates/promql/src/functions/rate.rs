//! `rate`, `increase` and `delta`: the growth of a series in a window.
//!
//! The growth from the first to the last sample is extrapolated to the ends of the window. If an
//! end is not farther away than about the average distance of samples, the growth is extrapolated
//! to that end; otherwise by half the average distance. A counter is not extrapolated beyond the
//! time at which it was zero. A counter that falls was reset, so it also grew by its value before.

use std::sync::Arc;

use super::extended;
use super::growth::Growth;
use super::histogram_rate::{self, add_noted};
use super::start_time::Begun;
use super::window::{FloatPoint, Notes, Window};
use crate::annotations::Note;
use crate::histogram::FloatHistogram;
use crate::points::Value;

/// The growth of the series.
pub(super) fn growth(growth: Growth, window: &Window<'_>, notes: &mut Notes<'_>) -> Option<Value> {
    if window.is_mixed() {
        return notes.no_result(|metric| Note::MixedFloatsHistograms { metric });
    }
    if let Some(edges) = window.edges {
        return extended::growth(growth, edges, window, notes);
    }
    if window.histograms.is_empty() {
        floats(growth, window, notes)
    } else {
        histograms(growth, window, notes)
    }
}

fn floats(growth: Growth, window: &Window<'_>, notes: &mut Notes<'_>) -> Option<Value> {
    let points = window.floats;
    let (first, last) = (points.first()?, points.last()?);
    let mut grown = last.value - first.value;
    if growth.is_counter() {
        grown = with_resets(grown, window, notes);
    }
    let mut sampled = Sampled::new(points.len(), first.time, last.time, window.start, window.end);
    if sampled.began_inside(growth, window.float_starts, window) {
        grown += first.value;
    } else if points.len() < 2 {
        return None;
    } else if growth.is_counter() && grown > 0.0 && first.value >= 0.0 {
        sampled.limit_to_zero(first.value / grown);
    }
    Some(Value::Float(grown * sampled.factor(growth, window.seconds())))
}

/// `grown` plus the value of the counter before each reset.
fn with_resets(mut grown: f64, window: &Window<'_>, notes: &mut Notes<'_>) -> f64 {
    let (points, starts) = (window.floats, window.float_starts);
    if starts.is_empty() {
        // Without a branch, which is not predictable for a gauge. Adding -0 changes no float.
        return points.windows(2).fold(grown, |grown, pair| {
            let [previous, next] = [pair[0].value, pair[1].value];
            grown + if next < previous { previous } else { -0.0 }
        });
    }
    let mut overlap_noted = false;
    for i in 1..points.len() {
        let (previous, next): (&FloatPoint, &FloatPoint) = (&points[i - 1], &points[i]);
        let mut reset = next.value < previous.value;
        if i < starts.len() {
            let before = Begun { time: previous.time, start: starts[i - 1] };
            let after = Begun { time: next.time, start: starts[i] };
            if !overlap_noted && after.overlaps(before) {
                notes.add_named(|metric| Note::OverlappingStartTime { metric });
                overlap_noted = true;
            }
            reset |= after.is_reset_after(before);
        }
        if reset {
            grown += previous.value;
        }
    }
    grown
}

#[inline(never)]
fn histograms(growth: Growth, window: &Window<'_>, notes: &mut Notes<'_>) -> Option<Value> {
    let points = window.histograms;
    let (first, last) = (points.first()?, points.last()?);
    let grown = match points.len() {
        1 => None,
        _ => Some(histogram_rate::growth(growth, window, notes)?),
    };
    let mut sampled = Sampled::new(points.len(), first.time, last.time, window.start, window.end);
    let mut grown: FloatHistogram = if sampled.began_inside(growth, window.histogram_starts, window)
    {
        match grown {
            None => (*first.value).clone(),
            Some(mut grown) => {
                add_noted(&mut grown, &first.value, notes)?;
                grown
            }
        }
    } else {
        let grown = grown?;
        if growth.is_counter() && grown.count > 0.0 && first.value.count >= 0.0 {
            sampled.limit_to_zero(first.value.count / grown.count);
        }
        grown
    };
    grown.mul(sampled.factor(growth, window.seconds()));
    Some(Value::Histogram(Arc::new(grown)))
}

/// The growth of floats in consecutive windows. In all of them the points of a regular series have
/// the same layout, and what depends on the layout alone is computed once.
#[derive(Debug)]
pub struct Extrapolation {
    growth: Growth,
    layout: Layout,
    sampled: Sampled,
    /// The length of the window, in seconds.
    seconds: f64,
    factor: f64,
}

/// Where the samples of a window lie: the time from the first to the last, from the start to the
/// first, from the last to the end, in milliseconds, and the number of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout(i64, i64, i64, usize);

impl Extrapolation {
    /// For windows of the same length.
    pub fn new(growth: Growth) -> Self {
        let sampled = Sampled::new(0, 0, 0, 0, 0);
        Self { growth, layout: Layout(0, 0, 0, 0), sampled, seconds: 0.0, factor: 1.0 }
    }

    /// The value of the window from `start` to `end`. It has at least two samples, between which the
    /// series grew by `grown`.
    #[inline]
    pub fn apply(
        &mut self,
        grown: f64,
        (start, end): (i64, i64),
        (first, last): (FloatPoint, FloatPoint),
        samples: usize,
    ) -> f64 {
        let layout = Layout(last.time - first.time, first.time - start, end - last.time, samples);
        if layout != self.layout {
            self.layout = layout;
            self.sampled = Sampled::new(samples, first.time, last.time, start, end);
            self.seconds = (end - start) as f64 / 1000.0;
            self.factor = self.sampled.factor(self.growth, self.seconds);
        }
        self.value(grown, first.value)
    }

    /// The value of a window with the last layout whose first sample is `first`.
    #[inline]
    fn value(&self, grown: f64, first: f64) -> f64 {
        if self.growth.is_counter() && grown > 0.0 && first >= 0.0 {
            let mut limited = self.sampled;
            if limited.limit_to_zero(first / grown) {
                return grown * limited.factor(self.growth, self.seconds);
            }
        }
        grown * self.factor
    }

    /// Turns the growth in each of some windows into their values. All must have the layout of the
    /// last call of `apply`. Their first values are every `stride`-th of `firsts`.
    pub fn apply_to_all(&self, grown: &mut [f64], firsts: &[f64], stride: usize) {
        // If the first sample is above this share of the growth, it is too far from zero for a limit,
        // however the quotient is rounded.
        let share = self.sampled.to_start / self.sampled.interval * (1.0 + 1e-9);
        let mut limited = 0;
        if self.growth.is_counter() {
            each(grown, stride, firsts, firsts, |grown, first, _| {
                let near = (grown > 0.0) & (first >= 0.0) & (first <= grown * share);
                limited += u32::from(near);
                grown
            });
        }
        if limited == 0 {
            grown.iter_mut().for_each(|grown| *grown *= self.factor);
        } else {
            each(grown, stride, firsts, firsts, |grown, first, _| self.value(grown, first));
        }
    }
}

/// Sets each value of `column` to the result of `of` for that value and every `stride`-th value of
/// two others. Adjacent values are computed together.
#[inline]
pub fn each(
    column: &mut [f64],
    stride: usize,
    one: &[f64],
    other: &[f64],
    mut of: impl FnMut(f64, f64, f64) -> f64,
) {
    if stride == 1 {
        for (value, (one, other)) in column.iter_mut().zip(one.iter().zip(other)) {
            *value = of(*value, *one, *other);
        }
        return;
    }
    let others = one.iter().step_by(stride).zip(other.iter().step_by(stride));
    for (value, (one, other)) in column.iter_mut().zip(others) {
        *value = of(*value, *one, *other);
    }
}

/// The part of a window between its first and its last sample, in seconds, and how far it is
/// to be extrapolated.
#[derive(Debug, Clone, Copy)]
struct Sampled {
    interval: f64,
    to_start: f64,
    to_end: f64,
    first: i64,
    last: i64,
}

impl Sampled {
    fn new(samples: usize, first: i64, last: i64, start: i64, end: i64) -> Self {
        let seconds = |milliseconds: i64| milliseconds as f64 / 1000.0;
        let interval = seconds(last - first);
        let average = if samples > 1 { interval / (samples - 1) as f64 } else { 0.0 };
        let near = |distance: f64| if distance >= average * 1.1 { average / 2.0 } else { distance };
        Self {
            interval,
            to_start: near(seconds(first - start)),
            to_end: near(seconds(end - last)),
            first,
            last,
        }
    }

    /// Whether the counter began in the window before its first sample. Then it grew from zero, and
    /// nothing is extrapolated towards the start.
    fn began_inside(&mut self, growth: Growth, starts: &[i64], window: &Window<'_>) -> bool {
        let Some(&start) = starts.first() else { return false };
        if !growth.is_counter() || start == 0 || start <= window.start || start >= self.first {
            return false;
        }
        self.to_start = 0.0;
        self.interval = (self.last - start) as f64 / 1000.0;
        true
    }

    /// Limits the extrapolation to the start to the time at which the counter was zero. `share` is
    /// the first sample divided by the growth. Returns whether the limit applied.
    fn limit_to_zero(&mut self, share: f64) -> bool {
        let to_zero = self.interval * share;
        let nearer = to_zero < self.to_start;
        if nearer {
            self.to_start = to_zero;
        }
        nearer
    }

    /// The factor by which growth is multiplied, in a window of `seconds` seconds.
    fn factor(&self, growth: Growth, seconds: f64) -> f64 {
        let factor = match self.interval {
            0.0 => 1.0,
            interval => (interval + self.to_start + self.to_end) / interval,
        };
        if growth == Growth::Rate { factor / seconds } else { factor }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{floats, histograms, noted, window};
    use super::*;
    use crate::histogram::cases::positive;
    use promkairos_model::ResetHint;

    fn float(g: Growth, w: &Window<'_>) -> Option<f64> {
        noted(|notes| growth(g, w, notes)).0.and_then(|value| value.float())
    }

    #[test]
    fn is_extrapolated_to_the_ends() {
        // Samples at 0, 15, 30, 45 s.
        let points = floats(&[100.0, 110.0, 120.0, 130.0]);
        let w = window(-10_000, 50_000, &points, &[]);
        assert_eq!(float(Growth::Increase, &w), Some(30.0 * 60.0 / 45.0));
        assert_eq!(float(Growth::Rate, &w), Some(30.0 * (60.0 / 45.0 / 60.0)));
        // Both ends are too far away: half the distance of samples is added at each.
        let w = window(-60_000, 240_000, &points, &[]);
        assert_eq!(float(Growth::Increase, &w), Some(30.0 * (45.0 + 7.5 + 7.5) / 45.0));
    }

    #[test]
    fn a_counter_is_not_extrapolated_below_zero() {
        let points = floats(&[1.0, 11.0, 21.0, 31.0]);
        let w = window(-10_000, 45_000, &points, &[]);
        // The counter was zero 1.5 s before the first sample.
        let increase = float(Growth::Increase, &w).expect("there are samples");
        assert!((increase - 31.0).abs() < 1e-12, "{increase}");
        assert_eq!(float(Growth::Delta, &w), Some(30.0 * (55.0 / 45.0)));
    }

    #[test]
    fn a_fall_is_a_reset_of_counters_only() {
        let points = floats(&[10.0, 20.0, 5.0, 15.0]);
        let w = window(0, 45_000, &points, &[]);
        assert_eq!(float(Growth::Increase, &w), Some(25.0));
        assert_eq!(float(Growth::Delta, &w), Some(5.0));
    }

    #[test]
    fn a_negative_zero_stays() {
        let points = floats(&[0.0, -0.0]);
        let w = window(0, 45_000, &points, &[]);
        assert_eq!(float(Growth::Increase, &w).map(f64::to_bits), Some((-0.0f64).to_bits()));
    }

    #[test]
    fn one_sample_is_not_enough_without_its_start() {
        let points = floats(&[10.0]);
        let mut w = window(-30_000, 30_000, &points, &[]);
        assert_eq!(float(Growth::Increase, &w), None);
        w.float_starts = &[-10_000];
        // The counter grew by 10 in 10 s. The distance of samples is unknown, so none is added.
        assert_eq!(float(Growth::Increase, &w), Some(10.0));
        w.float_starts = &[-40_000];
        assert_eq!(float(Growth::Increase, &w), None);
        assert_eq!(float(Growth::Delta, &w), None);
    }

    #[test]
    fn start_timestamps_tell_resets() {
        let points = floats(&[10.0, 20.0]);
        let mut w = window(0, 15_000, &points, &[]);
        assert_eq!(float(Growth::Increase, &w), Some(10.0));
        w.float_starts = &[0, 5_000];
        assert_eq!(float(Growth::Increase, &w), Some(20.0));
        w.float_starts = &[0, -5_000];
        let (value, notes) = noted(|notes| growth(Growth::Increase, &w, notes));
        assert_eq!((value, notes.len()), (Some(Value::Float(10.0)), 1));
    }

    #[test]
    fn histograms_grow_like_floats() {
        let h = |n: f64| positive(0, 0, &[n, 2.0 * n], n);
        let points = histograms(&[h(10.0), h(20.0), h(5.0), h(15.0)]);
        let w = window(0, 45_000, &[], &points);
        let (value, notes) = noted(|notes| growth(Growth::Increase, &w, notes));
        let Some(Value::Histogram(got)) = value else { panic!("{value:?}") };
        assert_eq!(got.positive.iter().collect::<Vec<_>>(), [(0, 25.0), (1, 50.0)]);
        assert_eq!((got.count, got.sum, got.reset_hint), (75.0, 25.0, ResetHint::Gauge));
        assert!(notes.is_empty(), "{notes:?}");
        let w = window(0, 45_000, &[], &points[..1]);
        assert_eq!(noted(|notes| growth(Growth::Rate, &w, notes)).0, None);
    }

    #[test]
    fn mixed_windows_are_told_and_dropped() {
        let h = histograms(&[positive(0, 0, &[1.0], 1.0)]);
        let f = floats(&[1.0, 2.0]);
        let w = window(0, 45_000, &f, &h);
        let (value, notes) = noted(|notes| growth(Growth::Rate, &w, notes));
        assert_eq!((value, notes.len()), (None, 1));
    }
}
