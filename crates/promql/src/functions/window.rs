//! The input of a range function: the points of one series in one window.
//!
//! Points are in order of time, floats and histograms separately; no time has both. There are no
//! stale markers. The reader decides which points belong to a window: normally those after its
//! start and up to its end; for `anchored` and `smoothed` also some around it.

use std::sync::Arc;

use super::start_time::Begun;
use crate::annotations::{Annotations, Note};
use crate::ast::Edges;
use crate::histogram::FloatHistogram;
use crate::points::{Value, ValueRef};
use crate::position::Span;

/// A float at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FloatPoint {
    /// Milliseconds since 1970.
    pub time: i64,
    /// The value.
    pub value: f64,
}

/// A histogram at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramPoint {
    /// Milliseconds since 1970.
    pub time: i64,
    /// The histogram.
    pub value: Arc<FloatHistogram>,
}

/// The points of one series in one window.
#[derive(Debug, Clone, Copy)]
pub struct Window<'a> {
    /// The start of the window (exclusive), with the offset applied.
    pub start: i64,
    /// The end of the window (inclusive), with the offset applied.
    pub end: i64,
    /// Floats.
    pub floats: &'a [FloatPoint],
    /// When the counters of the floats began, 0 = unknown; empty if the kernel does not use it.
    pub float_starts: &'a [i64],
    /// Histograms.
    pub histograms: &'a [HistogramPoint],
    /// When the counters of the histograms began, 0 = unknown; empty if the kernel does not use it.
    pub histogram_starts: &'a [i64],
    /// `anchored` or `smoothed`: how the values at both ends are found.
    pub edges: Option<Edges>,
    /// How far outside of the window points are used for its ends, in milliseconds.
    pub lookback: i64,
}

/// Collects notes about a window.
#[derive(Debug)]
pub struct Notes<'a> {
    /// The metric's name, which may be empty.
    pub metric: &'a str,
    /// The place of the first argument.
    pub span: Span,
    /// The place of the last argument.
    pub last_argument: Span,
    /// All notes.
    pub annotations: &'a mut Annotations,
}

impl Notes<'_> {
    /// Adds a note.
    pub fn add(&mut self, note: Note) {
        self.annotations.add(note.at(self.span));
    }

    /// Adds a note about the last argument.
    pub fn add_about_argument(&mut self, note: Note) {
        self.annotations.add(note.at(self.last_argument));
    }

    /// Adds a note about the metric.
    pub fn add_named(&mut self, note: impl FnOnce(String) -> Note) {
        self.add(note(self.metric.to_owned()));
    }

    /// Adds a note that says why the metric has no result.
    pub fn no_result<T>(&mut self, note: impl FnOnce(String) -> Note) -> Option<T> {
        self.add_named(note);
        None
    }
}

/// A point of either kind, and when its counter began.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimedPoint<'a> {
    /// Its time and its start timestamp; 0 = unknown.
    pub(super) begun: Begun,
    /// Its value.
    pub(super) value: ValueRef<'a>,
}

impl<'a> Window<'a> {
    /// The length of the window, in seconds.
    pub fn seconds(&self) -> f64 {
        (self.end - self.start) as f64 / 1000.0
    }

    /// Whether there is no point.
    pub fn is_empty(&self) -> bool {
        self.floats.is_empty() && self.histograms.is_empty()
    }

    /// Whether there are both floats and histograms.
    pub fn is_mixed(&self) -> bool {
        !self.floats.is_empty() && !self.histograms.is_empty()
    }

    /// Adds a note if the window has histograms that are ignored beside floats.
    pub fn note_ignored(&self, notes: &mut Notes<'_>) {
        if self.is_mixed() {
            notes.add_named(|metric| Note::HistogramIgnoredInMixedRange { metric });
        }
    }

    /// The last two points.
    pub(super) fn last_two(&self) -> Option<(TimedPoint<'a>, TimedPoint<'a>)> {
        let tail = |len: usize| len.saturating_sub(2);
        let (f, h) = (tail(self.floats.len()), tail(self.histograms.len()));
        let tails = Window {
            floats: &self.floats[f..],
            float_starts: self.float_starts.get(f..).unwrap_or_default(),
            histograms: &self.histograms[h..],
            histogram_starts: self.histogram_starts.get(h..).unwrap_or_default(),
            ..*self
        };
        let mut last = (None, None);
        tails.points().for_each(|point| last = (last.1, Some(point)));
        Some((last.0?, last.1?))
    }

    /// The last point.
    pub(super) fn last(&self) -> Option<Value> {
        let float = self.floats.last();
        match self.histograms.last() {
            Some(h) if float.is_none_or(|f| f.time <= h.time) => {
                Some(Value::Histogram(Arc::clone(&h.value)))
            }
            _ => float.map(|f| Value::Float(f.value)),
        }
    }

    /// The first point.
    pub(super) fn first(&self) -> Option<Value> {
        self.points().next().map(|point| point.value.to_owned())
    }

    /// All points in order of time.
    pub(super) fn points(&self) -> impl Iterator<Item = TimedPoint<'a>> + Clone + use<'a> {
        let Window { floats, float_starts, histograms, histogram_starts, .. } = *self;
        let (mut f, mut h) = (0, 0);
        let begun = |time: i64, starts: &[i64], at: usize| Begun {
            time,
            start: starts.get(at).copied().unwrap_or(0),
        };
        std::iter::from_fn(move || match (floats.get(f), histograms.get(h)) {
            (Some(point), next) if next.is_none_or(|next| point.time < next.time) => {
                f += 1;
                let begun = begun(point.time, float_starts, f - 1);
                Some(TimedPoint { begun, value: ValueRef::Float(point.value) })
            }
            (_, Some(point)) => {
                h += 1;
                let begun = begun(point.time, histogram_starts, h - 1);
                Some(TimedPoint { begun, value: ValueRef::Histogram(&point.value) })
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{floats, histograms, window};
    use super::*;
    use crate::histogram::cases::positive;

    #[test]
    fn points_are_merged_by_time() {
        let f = floats(&[1.0, 2.0, 3.0]);
        let mut h = histograms(&[positive(0, 0, &[1.0], 1.0)]);
        h[0].time = 20_000;
        let w = window(-1, 30_000, &f, &h);
        let times: Vec<_> = w.points().map(|p| p.begun.time).collect();
        assert_eq!(times, [0, 15_000, 20_000, 30_000]);
        assert_eq!(w.first(), Some(Value::Float(1.0)));
        assert_eq!(w.last(), Some(Value::Float(3.0)));
        let w = window(-1, 30_000, &f[..2], &h);
        assert_eq!(w.last(), Some(Value::Histogram(Arc::clone(&h[0].value))));
    }
}
