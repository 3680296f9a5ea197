//! `deriv`, `predict_linear` and `double_exponential_smoothing`: the trend of floats.
//!
//! Histograms are ignored, with a note if there are floats too.

use super::window::{FloatPoint, Notes, Window};
use crate::format::fixed_places;
use crate::histogram::{Amount, Kahan};

/// `deriv`: the slope per second of the line of least squares.
pub(super) fn deriv(window: &Window<'_>, notes: &mut Notes<'_>) -> Option<f64> {
    let floats = two_floats(window, notes)?;
    Some(regression(floats, floats[0].time).slope)
}

/// `predict_linear`: the value of that line `seconds` seconds after `time`.
pub(super) fn predict_linear(
    seconds: f64,
    time: i64,
    window: &Window<'_>,
    notes: &mut Notes<'_>,
) -> Option<f64> {
    let Line { slope, intercept } = regression(two_floats(window, notes)?, time);
    Some(slope * seconds + intercept)
}

/// `double_exponential_smoothing`: the last smoothed value. One factor smooths the level, the
/// other the trend.
pub(super) fn double_exponential_smoothing(
    level: f64,
    trend: f64,
    window: &Window<'_>,
    notes: &mut Notes<'_>,
) -> Option<f64> {
    let floats = two_floats(window, notes)?;
    let (mut before, mut smooth) = (0.0, floats[0].value);
    let mut slope = floats[1].value - floats[0].value;
    for (i, point) in floats.iter().enumerate().skip(1) {
        if i > 1 {
            slope = trend * (smooth - before) + (1.0 - trend) * slope;
        }
        let next = level * point.value + (1.0 - level) * (smooth + slope);
        (before, smooth) = (smooth, next);
    }
    Some(smooth)
}

/// The error if a factor is not between 0 and 1.
pub fn check_smoothing(level: f64, trend: f64) -> Result<(), String> {
    let invalid = |name: &str, short: &str, got: f64| {
        let got = fixed_places(got, 6);
        Err(format!("invalid {name} factor. Expected: 0 < {short} < 1, got: {got}"))
    };
    if level <= 0.0 || level >= 1.0 {
        return invalid("smoothing", "sf", level);
    }
    if trend <= 0.0 || trend >= 1.0 {
        return invalid("trend", "tf", trend);
    }
    Ok(())
}

/// The floats, if there are at least two.
fn two_floats<'a>(window: &Window<'a>, notes: &mut Notes<'_>) -> Option<&'a [FloatPoint]> {
    window.note_ignored(notes);
    (window.floats.len() >= 2).then_some(window.floats)
}

/// `slope`·x + `intercept`, with x in seconds.
struct Line {
    slope: f64,
    intercept: f64,
}

/// The line of least squares, where x is 0 at `origin`. If all floats are equal, the line is
/// exact; if they are all infinite, it is NaN.
fn regression(points: &[FloatPoint], origin: i64) -> Line {
    let first = points[0].value;
    if points.iter().all(|point| point.value == first) {
        return match first.is_infinite() {
            true => Line { slope: f64::NAN, intercept: f64::NAN },
            false => Line { slope: 0.0, intercept: first },
        };
    }
    let [mut x_sum, mut y_sum, mut xy_sum, mut xx_sum] = [Kahan::default(); 4];
    for point in points {
        let (x, y) = ((point.time - origin) as f64 / 1000.0, point.value);
        x_sum.add(x);
        y_sum.add(y);
        xy_sum.add(x * y);
        xx_sum.add(x * x);
    }
    let n = points.len() as f64;
    let [x, y, xy, xx] = [x_sum, y_sum, xy_sum, xx_sum].map(Kahan::value);
    let covariance = xy - x * y / n;
    let variance = xx - x * x / n;
    let slope = covariance / variance;
    Line { slope, intercept: y / n - slope * x / n }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{floats, histograms, noted, window};
    use super::*;
    use crate::histogram::cases::positive;

    fn with<T>(values: &[f64], kernel: impl Fn(&Window<'_>, &mut Notes<'_>) -> T) -> T {
        let points = floats(values);
        noted(|notes| kernel(&window(0, 60_000, &points, &[]), notes)).0
    }

    #[test]
    fn lines_through_points() {
        assert_eq!(with(&[10.0, 40.0, 70.0], deriv), Some(2.0));
        assert_eq!(
            with(&[10.0, 40.0, 70.0], |w, n| predict_linear(10.0, 30_000, w, n)),
            Some(90.0)
        );
        assert_eq!(with(&[5.0, 5.0], deriv), Some(0.0));
        assert!(with(&[f64::INFINITY, f64::INFINITY], deriv).is_some_and(f64::is_nan));
        assert!(with(&[f64::NAN, f64::NAN], deriv).is_some_and(f64::is_nan));
        assert_eq!(with(&[5.0], deriv), None);
    }

    #[test]
    fn smoothing() {
        let smooth =
            |w: &Window<'_>, n: &mut Notes<'_>| double_exponential_smoothing(0.5, 0.1, w, n);
        // Level 10, trend 10: a line stays the same line.
        assert_eq!(with(&[10.0, 20.0, 30.0, 40.0], smooth), Some(40.0));
        // 0, then 0.5·8 + 0.5·(0+8) = 8; trend 0.1·8 + 0.9·8 = 8; 0.5·0 + 0.5·(8+8) = 8.
        assert_eq!(with(&[0.0, 8.0, 0.0], smooth), Some(8.0));
        assert_eq!(check_smoothing(0.5, 0.5), Ok(()));
        let error = "invalid trend factor. Expected: 0 < tf < 1, got: 1.500000";
        assert_eq!(check_smoothing(0.5, 1.5), Err(error.to_owned()));
    }

    #[test]
    fn histograms_are_left_out() {
        let h = histograms(&[positive(0, 0, &[1.0], 1.0)]);
        for (values, expected) in [(&[1.0, 2.0][..], 1), (&[1.0], 1), (&[], 0)] {
            let f = floats(values);
            let (value, notes) = noted(|notes| deriv(&window(0, 60_000, &f, &h), notes));
            assert_eq!((value.is_some(), notes.len()), (values.len() > 1, expected));
        }
    }
}
