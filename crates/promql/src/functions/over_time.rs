//! The simpler functions of the points in a window: counts, extremes, spread, quantiles, and when
//! something was first, last, least or greatest.
//!
//! Functions that use the values ignore histograms. They add a note if the window has floats too;
//! if it has only histograms, they have no result and add no note.

use super::quantile::quantile;
use super::window::{FloatPoint, Notes, Window};
use crate::annotations::Note;
use crate::histogram::{Amount, Kahan};

pub(super) fn count_over_time(window: &Window<'_>) -> Option<f64> {
    let count = window.floats.len() + window.histograms.len();
    (count > 0).then_some(count as f64)
}

/// When the first point was, in seconds.
pub(super) fn ts_of_first_over_time(window: &Window<'_>) -> Option<f64> {
    window.points().next().map(|point| seconds(point.begun.time))
}

/// When the last point was, in seconds.
pub(super) fn ts_of_last_over_time(window: &Window<'_>) -> Option<f64> {
    let float = window.floats.last().map(|point| point.time);
    let histogram = window.histograms.last().map(|point| point.time);
    float.max(histogram).map(seconds)
}

pub(super) fn seconds(time: i64) -> f64 {
    time as f64 / 1000.0
}

/// The float than which no other is `better`; NaN only if there is no other value.
pub(super) fn best(
    window: &Window<'_>,
    notes: &mut Notes<'_>,
    better: impl Fn(f64, f64) -> bool,
) -> Option<FloatPoint> {
    window.note_ignored(notes);
    let floats = window.floats.iter().copied();
    floats.reduce(
        |best, next| {
            if better(next.value, best.value) || best.value.is_nan() { next } else { best }
        },
    )
}

/// `stdvar_over_time`: Welford's running variance, compensated.
pub(super) fn stdvar_over_time(window: &Window<'_>, notes: &mut Notes<'_>) -> Option<f64> {
    window.note_ignored(notes);
    let (mut mean, mut squares, mut count) = (Kahan::default(), Kahan::default(), 0.0);
    for point in window.floats {
        count += 1.0;
        let delta = point.value - mean.value();
        mean.add(delta / count);
        squares.add(delta * (point.value - mean.value()));
    }
    (count > 0.0).then(|| squares.value() / count)
}

pub(super) fn quantile_over_time(
    q: f64,
    window: &Window<'_>,
    notes: &mut Notes<'_>,
) -> Option<f64> {
    let mut values = values(window, notes)?;
    if !(0.0..=1.0).contains(&q) {
        notes.add(Note::invalid_quantile(q));
    }
    Some(quantile(q, &mut values))
}

/// `mad_over_time`: the median distance from the median; NaN if there is any NaN.
pub(super) fn mad_over_time(window: &Window<'_>, notes: &mut Notes<'_>) -> Option<f64> {
    let mut values = values(window, notes)?;
    if values.iter().any(|value| value.is_nan()) {
        return Some(f64::NAN);
    }
    let median = quantile(0.5, &mut values);
    values.iter_mut().for_each(|value| *value = (*value - median).abs());
    Some(quantile(0.5, &mut values))
}

/// The values of the floats, if there are any.
fn values(window: &Window<'_>, notes: &mut Notes<'_>) -> Option<Vec<f64>> {
    window.note_ignored(notes);
    let values: Vec<f64> = window.floats.iter().map(|point| point.value).collect();
    (!values.is_empty()).then_some(values)
}

#[cfg(test)]
mod tests {
    use super::super::cases::{floats, histograms, noted, window};
    use super::*;
    use crate::histogram::cases::positive;

    type Kernel = fn(&Window<'_>, &mut Notes<'_>) -> Option<f64>;

    fn of(kernel: Kernel, values: &[f64]) -> f64 {
        let points = floats(values);
        noted(|notes| kernel(&window(0, 60_000, &points, &[]), notes)).0.expect("there are floats")
    }

    const MAX: Kernel = |w, n| best(w, n, |value, best| value > best).map(|best| best.value);

    #[test]
    fn extremes_pass_over_nan() {
        let values = [f64::NAN, 2.0, 1.0, f64::NAN, 2.0, 1.0];
        assert_eq!(of(MAX, &values), 2.0);
        let last_min: Kernel =
            |w, n| best(w, n, |value, best| value <= best).map(|best| seconds(best.time));
        assert_eq!(of(last_min, &values), 75.0);
        assert!(of(MAX, &[f64::NAN, f64::NAN]).is_nan());
    }

    #[test]
    fn spread() {
        assert!((of(stdvar_over_time, &[0.0, 8.0, 8.0, 2.0, 3.0]) - 10.56).abs() < 1e-12);
        assert_eq!(of(stdvar_over_time, &[1.5990505637277868; 3]), 0.0);
        assert_eq!(of(mad_over_time, &[4.0, 6.0, 2.0, 1.0, 999.0, 1.0, 2.0]), 1.0);
        assert!(of(mad_over_time, &[1.0, f64::NAN]).is_nan());
    }

    #[test]
    fn points_of_both_kinds_are_counted() {
        let (f, mut h) = (floats(&[1.0, 2.0]), histograms(&[positive(0, 0, &[1.0], 1.0)]));
        h[0].time = 20_000;
        let w = window(-1, 60_000, &f, &h);
        assert_eq!(count_over_time(&w), Some(3.0));
        assert_eq!((ts_of_first_over_time(&w), ts_of_last_over_time(&w)), (Some(0.0), Some(20.0)));
        let empty = window(-1, 60_000, &[], &[]);
        assert_eq!((count_over_time(&empty), ts_of_last_over_time(&empty)), (None, None));
    }

    #[test]
    fn ignored_histograms_are_told_beside_floats_only() {
        let (f, h) = (floats(&[1.0, 2.0]), histograms(&[positive(0, 0, &[1.0], 1.0)]));
        let kernels: [Kernel; 4] =
            [MAX, stdvar_over_time, mad_over_time, |w, n| quantile_over_time(0.5, w, n)];
        for kernel in kernels {
            let (value, notes) = noted(|notes| kernel(&window(0, 60_000, &f, &h), notes));
            assert!(value.is_some() && notes[0].contains("ignored histograms"), "{notes:?}");
            let (value, notes) = noted(|notes| kernel(&window(0, 60_000, &[], &h), notes));
            assert_eq!((value, notes.len()), (None, 0));
        }
    }

    #[test]
    fn quantiles_outside_of_their_range_are_told() {
        let points = floats(&[1.0, 2.0]);
        let w = window(0, 60_000, &points, &[]);
        let (value, notes) = noted(|notes| quantile_over_time(1.5, &w, notes));
        assert_eq!((value, notes.len()), (Some(f64::INFINITY), 1));
    }
}
