//! Checks the hints of histograms about counter resets against the histograms before them.

use promkairos::model::{Histogram, Point, ResetHint, Value};
use promkairos::promql::histogram::FloatHistogram;

/// Panics if a histogram of a series, with points in ascending time, has a wrong hint about its predecessor.
pub(crate) fn assert_true(points: &[Point]) {
    let mut before: Option<&Histogram> = None;
    for point in points {
        let Value::Histogram(histogram) = &point.value else {
            before = None;
            continue;
        };
        let said = histogram.reset_hint;
        let is_reset = before.is_some_and(|before| is_reset(before, histogram));
        let holds = match said {
            ResetHint::Unknown | ResetHint::Gauge => true,
            ResetHint::NotReset => before.is_some() && !is_reset,
            ResetHint::Reset => is_reset,
        };
        assert!(holds, "{said:?} is said of {before:?}\nby {histogram:?}");
        before = Some(histogram);
    }
}

/// Whether the counter was reset between two histograms, by their values alone.
pub(crate) fn is_reset(before: &Histogram, next: &Histogram) -> bool {
    let mut next = FloatHistogram::from(next);
    next.reset_hint = ResetHint::Unknown;
    next.is_reset_after(&FloatHistogram::from(before))
}
