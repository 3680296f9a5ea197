//! `rate`, `increase` and `delta` over an `anchored` or `smoothed` window: from the value at its
//! start to the value at its end, without extrapolation.
//!
//! Anchored: the value at an end is the value of the last sample before that end. At the start, if
//! there is no earlier sample, it is the value of the first sample inside. Smoothed: the value lies
//! on the line between the samples around the end; a counter that falls there rose from zero. A
//! counter of floats with a start timestamp was 0 at that time. The window contains the samples
//! around it that this needs.

use std::ops::Range;
use std::sync::Arc;

use super::growth::{Growth, Metric};
use super::histogram_rate::{add_noted, sub_noted};
use super::interpolate::{float_between, histogram_between};
use super::start_time::Begun;
use super::window::{FloatPoint, HistogramPoint, Notes, Window};
use crate::annotations::Note;
use crate::ast::Edges;
use crate::histogram::FloatHistogram;
use crate::points::Value;
use promkairos_model::ResetHint;

/// The growth of the series in a window with samples of one kind.
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

/// The samples that give the values: from the last one at or before the start to the last one
/// (anchored) or the first one at or after the end (smoothed). `None` if all are before the start.
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
    (time(&samples[last]) > window.start).then_some(first..last + 1)
}

fn floats(growth: Growth, edges: Edges, window: &Window<'_>) -> Option<f64> {
    let metric = growth.metric();
    let ends = Ends { window, metric, smoothed: edges == Edges::Smoothed };
    let points = window.floats;
    let Range { start: first, end } = used(points, |point| point.time, edges, window)?;
    let last = end - 1;
    if ends.smoothed && points[first].time > window.end && !ends.began_before_end(first) {
        return None;
    }
    let (left, right) = (ends.left(first), ends.right(last));
    let mut grown = right.value - left.value;
    if growth.is_counter() {
        let inside = |at: &usize| points[*at].time > window.start && points[*at].time < window.end;
        let inner = (first..=last).filter(inside).map(|at| (points[at].value, ends.begun(at)));
        let (mut previous, mut begun) = (left.value, Begun { time: window.start, ..left.begun });
        let end = (right.value, Begun { time: window.end, ..right.begun });
        for (value, next) in inner.chain([end]) {
            if value < previous || next.is_reset_after(begun) {
                grown += previous;
            }
            (previous, begun) = (value, next);
        }
    }
    if growth == Growth::Rate {
        grown /= window.seconds();
    }
    Some(grown)
}

/// The value at an end of a window, and when the counter at that end began.
struct End {
    value: f64,
    begun: Begun,
}

/// Finds the values at the ends of a window of floats. A counter is 0 when it begins.
struct Ends<'a> {
    window: &'a Window<'a>,
    metric: Metric,
    smoothed: bool,
}

impl Ends<'_> {
    fn begun(&self, at: usize) -> Begun {
        let start = self.window.float_starts.get(at).copied().unwrap_or(0);
        Begun { time: self.window.floats[at].time, start }
    }

    /// The value at the start; `first` is the last sample not after it, or else the first sample.
    fn left(&self, first: usize) -> End {
        let start = self.window.start;
        let (point, begun) = (self.window.floats[first], self.begun(first));
        if point.time == start {
            return End { value: point.value, begun };
        }
        let mut known = Begun { start: if begun.start > start { 0 } else { begun.start }, ..begun };
        let next = self.window.floats.get(first + 1).filter(|_| point.time < start);
        let Some(next) = next else {
            return End { value: self.before(point, begun, start), begun: known };
        };
        let (mut from, mut to) = (point, *next);
        let next_begun = self.begun(first + 1);
        if self.metric == Metric::Counter {
            if next_begun.began_after(start) {
                to = zero_at(next_begun.start);
            } else if next_begun.is_reset_after(begun) {
                from = zero_at(next_begun.start);
                known.start = next_begun.start;
            }
        }
        End { value: self.between(from, to, start), begun: known }
    }

    /// The value at the end; `last` is the last sample, or (smoothed) the first one at or after it.
    fn right(&self, last: usize) -> End {
        let end = self.window.end;
        let (point, begun) = (self.window.floats[last], self.begun(last));
        let mut known = Begun { start: if begun.start > end { 0 } else { begun.start }, ..begun };
        if point.time <= end {
            return End { value: point.value, begun: known };
        }
        let Some(before) = last.checked_sub(1) else {
            return End { value: self.before(point, begun, end), begun: known };
        };
        let (mut from, mut to) = (self.window.floats[before], point);
        let before = self.begun(before);
        if self.metric == Metric::Counter {
            if begun.began_after(end) {
                to = zero_at(begun.start);
                known.start = before.start;
            } else if begun.is_reset_after(before) {
                from = zero_at(begun.start);
            }
        }
        End { value: self.between(from, to, end), begun: known }
    }

    /// The value at a time before the first known sample: the value of the sample, unless it is of a
    /// counter that began within the lookback.
    fn before(&self, point: FloatPoint, begun: Begun, time: i64) -> f64 {
        if self.metric == Metric::Gauge || !self.began_lately(begun) {
            return point.value;
        }
        match self.smoothed && !begun.began_after(time) {
            true => float_between(zero_at(begun.start), point, time, self.metric),
            false => 0.0,
        }
    }

    fn between(&self, from: FloatPoint, to: FloatPoint, time: i64) -> f64 {
        if self.smoothed { float_between(from, to, time, self.metric) } else { from.value }
    }

    /// Whether a counter began within the lookback before the window, or later.
    fn began_lately(&self, begun: Begun) -> bool {
        begun.began_after(self.window.start.saturating_sub(self.window.lookback))
    }

    /// Whether this is a sample of a counter that began within the lookback and not after the end.
    fn began_before_end(&self, at: usize) -> bool {
        let begun = self.begun(at);
        let counter = self.metric == Metric::Counter;
        counter && self.began_lately(begun) && !begun.began_after(self.window.end)
    }
}

/// The value of a counter when it begins.
fn zero_at(time: i64) -> FloatPoint {
    FloatPoint { time, value: 0.0 }
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
    let smoothed = edges == Edges::Smoothed;
    if smoothed && first.time > window.end {
        return None;
    }
    let counter = growth.is_counter();
    let custom = first.value.has_custom_buckets();
    for point in points {
        if point.value.has_custom_buckets() != custom {
            return notes.no_result(|metric| Note::MixedExponentialCustom { metric });
        }
        if counter && point.value.reset_hint == ResetHint::Gauge {
            notes.add_named(|metric| Note::NotCounterHistogram { metric });
        }
    }
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

/// The values before each reset, from `left` at the first of `points` to `right` at the last. If
/// the start of the window lies between a reset and the sample before it (`cut`), `left` is already
/// of the new counter.
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
    use super::super::cases::{floats as points, histograms, noted, window};
    use super::super::rate;
    use super::*;
    use crate::histogram::cases::positive;

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
        // Falls inside the window count; a fall before the anchor does not.
        assert_eq!(grown(Growth::Increase, 20_000, 45_000, &[9.0, 5.0, 1.0, 2.0]), Some(2.0));
    }

    #[test]
    fn smoothed_takes_the_line_between_samples() {
        let grown = |g, start, end, values: &[f64]| grown(g, Edges::Smoothed, start, end, values);
        // The value is 2 at 5 s and 20 at 25 s.
        assert_eq!(grown(Growth::Increase, 5_000, 25_000, &[1.0, 4.0, 28.0]), Some(18.0));
        // The counter fell to 3 after 0 s, so its value is 1 at 5 s.
        assert_eq!(grown(Growth::Increase, 5_000, 15_000, &[9.0, 3.0]), Some(2.0));
        assert_eq!(grown(Growth::Delta, 5_000, 15_000, &[9.0, 3.0]), Some(-4.0));
        assert_eq!(grown(Growth::Delta, 50_000, 60_000, &[9.0, 3.0]), None);
        assert_eq!(grown(Growth::Delta, -20_000, -10_000, &[9.0, 3.0]), None);
    }

    #[test]
    fn a_counter_is_zero_when_it_begins() {
        let grown = |edges, (start, end), values: &[f64], starts: &[i64]| {
            let points = points(values);
            let mut w = Window { edges: Some(edges), ..window(start, end, &points, &[]) };
            (w.float_starts, w.lookback) = (starts, 300_000);
            noted(|notes| rate::growth(Growth::Increase, &w, notes))
                .0
                .and_then(|value| value.float())
        };
        use Edges::{Anchored, Smoothed};
        // Samples at 0, 15, 30 s; the second is of a counter that began at 5 s.
        let (values, starts) = ([8.0, 10.0, 12.0], [-20_000, 5_000, 5_000]);
        assert_eq!(grown(Anchored, (0, 30_000), &values, &starts), Some(12.0));
        assert_eq!(grown(Anchored, (0, 30_000), &values, &[0; 3]), Some(4.0));
        // The value at 10 s is half the value at 15 s.
        assert_eq!(grown(Smoothed, (10_000, 30_000), &values, &starts), Some(7.0));
        // Just before the counter began again, its value counts as 0.
        assert_eq!(grown(Smoothed, (3_000, 30_000), &values, &starts), Some(12.0));
        // Before the first sample: 0, or a part of its value.
        assert_eq!(grown(Anchored, (-10_000, 0), &[8.0], &[-20_000]), Some(8.0));
        assert_eq!(grown(Smoothed, (-10_000, 0), &[8.0], &[-20_000]), Some(4.0));
        assert_eq!(grown(Smoothed, (-20_000, -10_000), &[8.0], &[-20_000]), Some(4.0));
        assert_eq!(grown(Smoothed, (-20_000, -10_000), &[8.0], &[0]), None);
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
        // The fall from 28 to 2 is before the start; the value is 1 at 37.5 s.
        assert_eq!(grown(Edges::Smoothed, 37_500, 60_000), Some(2.0));
        assert_eq!(grown(Edges::Smoothed, 15_000, 60_000), Some(27.0));
    }
}
