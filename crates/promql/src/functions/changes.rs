//! `changes` and `resets`: how often a series changed, or its counter was reset.
//!
//! A switch between floats and histograms is a change and a reset. An anchored window begins with
//! the last sample at or before its start.

use super::window::{TimedPoint, Window};
use crate::ast::Edges;
use crate::points::ValueRef;

/// How often the value changed; from NaN to NaN is no change.
pub(super) fn changes(window: &Window<'_>) -> Option<f64> {
    count(window, |a, b| match (a.value, b.value) {
        (ValueRef::Float(a), ValueRef::Float(b)) => a != b && !(a.is_nan() && b.is_nan()),
        (ValueRef::Histogram(a), ValueRef::Histogram(b)) => !b.same_data(a),
        _ => true,
    })
}

/// How often the counter was reset.
pub(super) fn resets(window: &Window<'_>) -> Option<f64> {
    count(window, |a, b| match (a.value, b.value) {
        _ if b.begun.is_reset_after(a.begun) => true,
        (ValueRef::Float(a), ValueRef::Float(b)) => b < a,
        (ValueRef::Histogram(a), ValueRef::Histogram(b)) => b.is_reset_after(a),
        _ => true,
    })
}

fn count(
    window: &Window<'_>,
    differ: impl Fn(TimedPoint<'_>, TimedPoint<'_>) -> bool,
) -> Option<f64> {
    let mut points = window.points();
    let mut previous = points.next()?;
    if window.edges == Some(Edges::Anchored) {
        let mut rest = points.clone();
        // The last point at or before the start. Without a later point, the window is empty.
        while previous.begun.time <= window.start {
            let next = rest.next()?;
            if next.begun.time > window.start {
                break;
            }
            previous = next;
            points = rest.clone();
        }
    }
    let mut count = 0u32;
    for point in points {
        count += u32::from(differ(previous, point));
        previous = point;
    }
    Some(f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::super::cases::{floats, histograms, window};
    use super::*;
    use crate::histogram::cases::positive;

    #[test]
    fn counts_between_neighbours() {
        let points = floats(&[1.0, f64::NAN, f64::NAN, 2.0, 2.0, 1.0]);
        let w = window(-1, 90_000, &points, &[]);
        assert_eq!((changes(&w), resets(&w)), (Some(3.0), Some(1.0)));
        assert_eq!(changes(&window(-1, 90_000, &[], &[])), None);
    }

    #[test]
    fn a_switch_of_kind_is_both() {
        let (f, mut h) = (floats(&[1.0, 1.0]), histograms(&[positive(0, 0, &[3.0], 2.0)]));
        h[0].time = 10_000;
        let w = window(-1, 90_000, &f, &h);
        assert_eq!((changes(&w), resets(&w)), (Some(2.0), Some(2.0)));
    }

    #[test]
    fn start_timestamps_are_resets() {
        let points = floats(&[1.0, 2.0, 3.0]);
        let mut w = window(-1, 90_000, &points, &[]);
        w.float_starts = &[0, 10_000, 10_000];
        assert_eq!(resets(&w), Some(1.0));
    }

    #[test]
    fn anchored_windows_begin_before_their_start() {
        let points = floats(&[1.0, 2.0, 3.0, 4.0]); // at 0, 15, 30, 45 s
        let anchored = |start, end| {
            changes(&Window { edges: Some(Edges::Anchored), ..window(start, end, &points, &[]) })
        };
        assert_eq!(anchored(20_000, 45_000), Some(2.0));
        assert_eq!(anchored(15_000, 45_000), Some(2.0));
        assert_eq!(anchored(-5_000, 45_000), Some(3.0));
        assert_eq!(anchored(45_000, 60_000), None);
    }
}
