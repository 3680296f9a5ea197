//! `rate`, `increase` and `delta` over an `anchored` or `smoothed` window: from the value at its
//! start to the value at its end, nothing extrapolated.
//!
//! Anchored, the value at an end is that of the last sample before it; at the start, if there is
//! none before, that of the first one inside. Smoothed, it lies on the line between the samples
//! around the end; a counter that falls there came from zero. The window holds the samples around
//! it that this needs.

use std::ops::Range;
use std::sync::Arc;

use super::growth::Growth;
use super::histogram_rate::{add_noted, sub_noted};
use super::interpolate::{float_between, histogram_between};
use super::window::{FloatPoint, HistogramPoint, Notes, Window};
use crate::model::ResetHint;
use crate::promql::annotations::Note;
use crate::promql::ast::Edges;
use crate::promql::histogram::FloatHistogram;
use crate::promql::points::Value;

/// How much the series grew in a window with samples of one kind.
pub(super) fn growth(
    growth: Growth,
    edges: Edges,
    window: &Window<'_>,
    notes: &mut Notes<'_>,
) -> Option<Value> {
    if window.histograms.is_empty() {
        floats(growth, edges, window).map(Value::Float)
    } else {
        let grown = histograms(growth, edges, window, notes)?;
        Some(Value::Histogram(Arc::new(grown)))
    }
}

/// Which samples give the values: from the last at or before the start to the last one, smoothed
/// to the first at or after the end. `None` if all lie on one side of the window.
fn used<T>(
    samples: &[T],
    time: impl Fn(&T) -> i64,
    edges: Edges,
    window: &Window<'_>,
) -> Option<Range<usize>> {
    let mut last = samples.len().checked_sub(1)?;
    let after_start = samples[..last].partition_point(|sample| time(sample) <= window.start);
    let first = after_start.saturating_sub(1);
    if edges == Edges::Smoothed {
        last = samples[..last].partition_point(|sample| time(sample) < window.end);
    }
    let before = time(&samples[last]) <= window.start;
    let behind = edges == Edges::Smoothed && time(&samples[first]) > window.end;
    (!before && !behind).then_some(first..last + 1)
}

fn floats(growth: Growth, edges: Edges, window: &Window<'_>) -> Option<f64> {
    let used = used(window.floats, |point| point.time, edges, window)?;
    let points = &window.floats[used.clone()];
    let (first, last) = (points.first()?, points.last()?);
    let smoothed = edges == Edges::Smoothed;
    let left = match points.get(1) {
        Some(next) if smoothed && first.time < window.start => {
            float_between(*first, *next, window.start, growth.metric())
        }
        _ => first.value,
    };
    let right = match used.end.checked_sub(2).map(|i| window.floats[i]) {
        Some(before) if smoothed && last.time > window.end => {
            float_between(before, *last, window.end, growth.metric())
        }
        _ => last.value,
    };
    let mut grown = right - left;
    if growth.is_counter() {
        let inside = |point: &&FloatPoint| point.time > window.start && point.time < window.end;
        let values = points.iter().filter(inside).map(|point| point.value).chain([right]);
        let (mut previous, mut lost) = (left, 0.0);
        for value in values {
            if value < previous {
                lost += previous;
            }
            previous = value;
        }
        grown += lost;
    }
    if growth == Growth::Rate {
        grown /= window.seconds();
    }
    Some(grown)
}

fn histograms(
    growth: Growth,
    edges: Edges,
    window: &Window<'_>,
    notes: &mut Notes<'_>,
) -> Option<FloatHistogram> {
    let used = used(window.histograms, |point| point.time, edges, window)?;
    let points = &window.histograms[used.clone()];
    let (first, last) = (points.first()?, points.last()?);
    let counter = growth.is_counter();
    let custom = first.value.has_custom_buckets();
    for point in points {
        if point.value.has_custom_buckets() != custom {
            notes.add_named(|metric| Note::MixedExponentialCustom { metric });
            return None;
        }
        if counter && point.value.reset_hint == ResetHint::Gauge {
            notes.add_named(|metric| Note::NotCounterHistogram { metric });
        }
    }
    let smoothed = edges == Edges::Smoothed;
    let left = match points.get(1) {
        Some(next) if smoothed && first.time < window.start => {
            histogram_between(first, next, window.start, growth.metric(), notes)?
        }
        _ => (*first.value).clone(),
    };
    let right = match used.end.checked_sub(2).map(|i| &window.histograms[i]) {
        Some(before) if smoothed && last.time > window.end => {
            histogram_between(before, last, window.end, growth.metric(), notes)?
        }
        _ => (*last.value).clone(),
    };
    let is_gauge = |h: &FloatHistogram| h.reset_hint == ResetHint::Gauge;
    if !counter && (!is_gauge(&left) || !is_gauge(&right)) {
        notes.add_named(|metric| Note::NotGaugeHistogram { metric });
    }
    let mut grown = right.clone();
    sub_noted(&mut grown, &left, notes)?;
    if counter {
        let cut = smoothed
            && first.time < window.start
            && points.get(1).is_some_and(|next| next.value.is_reset_after(&first.value));
        if let Some(lost) = lost_in_resets(points, cut, &left, &right, notes)? {
            add_noted(&mut grown, &lost, notes)?;
        }
    }
    if growth == Growth::Rate {
        grown.div(window.seconds());
    }
    grown.reset_hint = ResetHint::Gauge;
    grown.compact();
    Some(grown)
}

/// What the counter had before each reset, from `left` at the first of `points` to `right` at the
/// last. With a reset `cut` by the start of the window `left` is already of the new counter.
fn lost_in_resets(
    points: &[HistogramPoint],
    cut: bool,
    left: &FloatHistogram,
    right: &FloatHistogram,
    notes: &mut Notes<'_>,
) -> Option<Option<FloatHistogram>> {
    let behind = 1 + usize::from(cut);
    let Some(inner) = points.get(behind..points.len() - 1) else { return Some(None) };
    let mut lost: Option<FloatHistogram> = None;
    let mut previous = if cut { &*points[1].value } else { left };
    for next in inner.iter().map(|point| &*point.value).chain([right]) {
        if next.is_reset_after(previous) {
            match &mut lost {
                None => lost = Some(previous.clone()),
                Some(lost) => add_noted(lost, previous, notes)?,
            }
        }
        previous = next;
    }
    Some(lost)
}

#[cfg(test)]
mod tests {
    use super::super::rate;
    use super::super::window::tests::{floats as points, histograms, noted, window};
    use super::*;
    use crate::promql::histogram::tests::positive;

    fn grown(g: Growth, edges: Edges, start: i64, end: i64, values: &[f64]) -> Option<f64> {
        let points = points(values);
        let w = Window { edges: Some(edges), ..window(start, end, &points, &[]) };
        noted(|notes| rate::growth(g, &w, notes)).0.and_then(|value| value.float())
    }

    #[test]
    fn anchored_takes_the_samples_before_the_ends() {
        let grown = |g, start, end, values: &[f64]| grown(g, Edges::Anchored, start, end, values);
        // Samples at 0, 15, 30, 45 s.
        let rising = [1.0, 2.0, 4.0, 8.0];
        assert_eq!(grown(Growth::Increase, 20_000, 50_000, &rising), Some(6.0));
        assert_eq!(grown(Growth::Rate, 20_000, 50_000, &rising), Some(0.2));
        assert_eq!(grown(Growth::Increase, 15_000, 45_000, &rising), Some(6.0));
        assert_eq!(grown(Growth::Increase, -10_000, 45_000, &rising), Some(7.0));
        assert_eq!(grown(Growth::Increase, 45_000, 60_000, &rising), None);
        assert_eq!(grown(Growth::Increase, -10_000, 10_000, &[3.0]), Some(0.0));
        // Falls inside count, the one before the anchor does not.
        assert_eq!(grown(Growth::Increase, 20_000, 45_000, &[9.0, 5.0, 1.0, 2.0]), Some(2.0));
    }

    #[test]
    fn smoothed_takes_the_line_between_samples() {
        let grown = |g, start, end, values: &[f64]| grown(g, Edges::Smoothed, start, end, values);
        // At 5 s it is 2, at 25 s it is 20.
        assert_eq!(grown(Growth::Increase, 5_000, 25_000, &[1.0, 4.0, 28.0]), Some(18.0));
        // It fell to 3 after 0 s: at 5 s it is 1.
        assert_eq!(grown(Growth::Increase, 5_000, 15_000, &[9.0, 3.0]), Some(2.0));
        assert_eq!(grown(Growth::Delta, 5_000, 15_000, &[9.0, 3.0]), Some(-4.0));
        assert_eq!(grown(Growth::Delta, 50_000, 60_000, &[9.0, 3.0]), None);
        assert_eq!(grown(Growth::Delta, -20_000, -10_000, &[9.0, 3.0]), None);
    }

    #[test]
    fn histograms_do_the_same() {
        let h = |n: f64| positive(0, 0, &[n], n);
        let points = histograms(&[h(1.0), h(4.0), h(28.0), h(2.0), h(3.0)]);
        let grown = |edges, start, end| {
            let w = Window { edges: Some(edges), ..window(start, end, &[], &points) };
            let value = noted(|notes| rate::growth(Growth::Increase, &w, notes)).0;
            value.map(|value| match value {
                Value::Histogram(h) => h.count,
                Value::Float(f) => panic!("{f}"),
            })
        };
        assert_eq!(grown(Edges::Anchored, 20_000, 60_000), Some(27.0));
        assert_eq!(grown(Edges::Smoothed, 5_000, 25_000), Some(18.0));
        // The fall from 28 to 2 is before the start: it is 1 at 37.5 s.
        assert_eq!(grown(Edges::Smoothed, 37_500, 60_000), Some(2.0));
        assert_eq!(grown(Edges::Smoothed, 15_000, 60_000), Some(27.0));
    }
}
