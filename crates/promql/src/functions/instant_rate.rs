//! `irate` and `idelta`: the difference of the last two samples of a window.

use std::sync::Arc;

use super::histogram_rate::sub_noted;
use super::window::{Notes, Window};
use crate::annotations::Note;
use crate::histogram::FloatHistogram;
use crate::points::{Value, ValueRef};
use promkairos_model::ResetHint;

/// `irate`, the increase of a counter per second, if `rate`; else `idelta`, the difference of a gauge.
pub(super) fn last_two(window: &Window<'_>, rate: bool, notes: &mut Notes<'_>) -> Option<Value> {
    let (before, last) = window.last_two()?;
    let millis = last.begun.time - before.begun.time;
    if millis == 0 {
        return None;
    }
    let seconds = millis as f64 / 1000.0;
    let reset = rate && last.begun.is_reset_after(before.begun);
    match (before.value, last.value) {
        (ValueRef::Float(a), ValueRef::Float(b)) => {
            let change = if rate && (reset || b < a) { b } else { b - a };
            Some(Value::Float(if rate { change / seconds } else { change }))
        }
        (ValueRef::Histogram(a), ValueRef::Histogram(b)) => {
            let mut change = histogram_change(a, b, rate, reset, notes)?;
            if rate {
                change.div(seconds);
            }
            Some(Value::Histogram(Arc::new(change)))
        }
        _ => notes.no_result(|metric| Note::MixedFloatsHistograms { metric }),
    }
}

fn histogram_change(
    a: &FloatHistogram,
    b: &FloatHistogram,
    rate: bool,
    reset: bool,
    notes: &mut Notes<'_>,
) -> Option<FloatHistogram> {
    let gauges = [a, b].into_iter().filter(|h| h.reset_hint == ResetHint::Gauge).count();
    if rate && gauges > 0 {
        notes.add_named(|metric| Note::NotCounterHistogram { metric });
    }
    if !rate && gauges < 2 {
        notes.add_named(|metric| Note::NotGaugeHistogram { metric });
    }
    let mut change = b.clone();
    if !(rate && (reset || b.is_reset_after(a))) {
        sub_noted(&mut change, a, notes)?;
    }
    change.reset_hint = ResetHint::Gauge;
    change.compact();
    Some(change)
}

#[cfg(test)]
mod tests {
    use super::super::cases::{floats, histograms, noted, window};
    use super::*;
    use crate::histogram::cases::positive;

    #[test]
    fn the_last_two_floats() {
        let points = floats(&[9.0, 10.0, 40.0]);
        let mut w = window(0, 60_000, &points, &[]);
        assert_eq!(noted(|n| last_two(&w, true, n)).0, Some(Value::Float(2.0)));
        assert_eq!(noted(|n| last_two(&w, false, n)).0, Some(Value::Float(30.0)));
        w.float_starts = &[0, 0, 20_000];
        assert_eq!(noted(|n| last_two(&w, true, n)).0, Some(Value::Float(40.0 / 15.0)));
        let points = floats(&[40.0, 30.0]);
        let w = window(0, 60_000, &points, &[]);
        assert_eq!(noted(|n| last_two(&w, true, n)).0, Some(Value::Float(2.0)));
        assert_eq!(noted(|n| last_two(&w, false, n)).0, Some(Value::Float(-10.0)));
        assert_eq!(noted(|n| last_two(&window(0, 60_000, &points[..1], &[]), true, n)).0, None);
    }

    #[test]
    fn the_last_two_histograms() {
        let h = histograms(&[positive(0, 0, &[3.0, 1.0], 2.0), positive(0, 0, &[33.0, 1.0], 2.0)]);
        let (value, notes) = noted(|n| last_two(&window(0, 60_000, &[], &h), true, n));
        let Some(Value::Histogram(got)) = value else { panic!("{value:?}") };
        assert_eq!(got.positive.iter().collect::<Vec<_>>(), [(0, 2.0)]);
        assert_eq!((got.reset_hint, notes.len()), (ResetHint::Gauge, 0));
        assert_eq!(noted(|n| last_two(&window(0, 60_000, &[], &h), false, n)).1.len(), 1);
    }

    #[test]
    fn one_of_each_is_told() {
        let (f, mut h) = (floats(&[1.0, 2.0]), histograms(&[positive(0, 0, &[3.0], 2.0)]));
        h[0].time = 10_000;
        let (value, notes) = noted(|n| last_two(&window(0, 60_000, &f, &h), true, n));
        assert_eq!((value, notes.len()), (None, 1));
        h[0].time = -10_000;
        let (value, notes) = noted(|n| last_two(&window(0, 60_000, &f, &h), false, n));
        assert_eq!((value, notes.len()), (Some(Value::Float(1.0)), 0));
    }
}
