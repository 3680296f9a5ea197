//! A window that slides over the points of one series, step by step.
//!
//! Points must be in order of time. A step is computed when a point after its window shows that the
//! window is complete. Points before all remaining windows are dropped. Several floats are read
//! before the next steps are computed, as reading many and then computing many is faster than
//! alternating. The budget of the query counts histograms while they are kept, so they are dropped
//! sooner.

use std::sync::Arc;

use super::hints::HistogramReader;
use crate::ast::Edges;
use crate::budget::{Budget, Held};
use crate::error::QueryError;
use crate::functions::{FloatPoint, HistogramPoint, Window};
use crate::histogram::FloatHistogram;
use crate::plan::ResetHints;
use crate::points::ValueRef;
use crate::source::Visitor;
use crate::steps::Steps;
use promkairos_model::{Point, TimeRange, Value as Stored, is_stale};

/// Where the windows of all steps lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    /// Where the windows end.
    pub looks: Steps,
    /// The length of the windows, in milliseconds.
    pub range: i64,
    /// How the values at the ends of a window are found.
    pub edges: Option<Edges>,
    /// Which reset hints stored histograms get.
    pub hints: ResetHints,
    /// How far outside of a window points are used for its ends, in milliseconds.
    pub lookback: i64,
    /// Whether start timestamps are needed.
    pub starts: bool,
}

impl Frame {
    /// Milliseconds before the start of a window from which points are needed.
    pub(crate) fn before(&self) -> i64 {
        if self.edges.is_some() { self.lookback } else { 0 }
    }

    /// Milliseconds after the end of a window up to which points are needed.
    pub(crate) fn after(&self) -> i64 {
        if self.edges == Some(Edges::Smoothed) { self.lookback } else { 0 }
    }

    /// The time range of all points that are needed.
    pub(crate) fn reach(&self) -> TimeRange {
        let start = self.looks.start.saturating_sub(self.range).saturating_sub(self.before());
        TimeRange::new(start, self.looks.last().saturating_add(self.after()))
    }

    /// Points at or before this time are not needed for the window that ends at `end`.
    pub(super) fn lower(&self, end: i64) -> i64 {
        end.saturating_sub(self.range).saturating_sub(self.before())
    }

    /// Points after this time are not needed for the window that ends at `end`.
    fn upper(&self, end: i64) -> i64 {
        end.saturating_add(self.after())
    }
}

/// The points of one kind.
#[derive(Debug)]
struct Track<P> {
    points: Vec<P>,
    starts: Vec<i64>,
    /// The first point of the current window, including earlier points that its edges need.
    first: usize,
    /// The first point after the current window.
    end: usize,
}

impl<P> Default for Track<P> {
    fn default() -> Self {
        Self { points: Vec::new(), starts: Vec::new(), first: 0, end: 0 }
    }
}

/// Minimum number of floats that are dropped at a time.
const FORGET: usize = 512;
/// Minimum number of histograms that are dropped at a time.
const FORGET_HISTOGRAMS: usize = 4;
/// Maximum number of floats that are read before steps are computed.
const WAIT: usize = 256;

impl<P> Track<P> {
    fn clear(&mut self) {
        self.points.clear();
        self.starts.clear();
        self.first = 0;
        self.end = 0;
    }

    /// Slides on to the points after `lower` up to `upper`.
    #[inline]
    fn slide(&mut self, lower: i64, upper: i64, time: impl Fn(&P) -> i64) {
        while self.points.get(self.first).is_some_and(|point| time(point) <= lower) {
            self.first += 1;
        }
        self.end = self.end.max(self.first);
        while self.points.get(self.end).is_some_and(|point| time(point) <= upper) {
            self.end += 1;
        }
    }

    /// Whether more than `forget` points, and more than half of all, are before the window.
    #[inline]
    fn is_stale(&self, forget: usize) -> bool {
        self.first > forget && self.first > self.points.len() / 2
    }

    #[cold]
    fn forget(&mut self) {
        self.points.drain(..self.first);
        self.starts.drain(..self.first.min(self.starts.len()));
        self.end -= self.first;
        self.first = 0;
    }

    #[inline]
    fn window(&self) -> (&[P], &[i64]) {
        let window = self.first..self.end;
        let starts = if self.starts.is_empty() { &[][..] } else { &self.starts[window.clone()] };
        (&self.points[window], starts)
    }
}

/// Memory that is reused from one series to the next.
#[derive(Debug, Default)]
pub(crate) struct Tracks {
    floats: Track<FloatPoint>,
    histograms: Track<HistogramPoint>,
    /// Bytes of the histograms.
    bytes: usize,
    /// The memory of the histograms; `None` without any.
    held: Option<Held>,
}

impl Tracks {
    /// Begins another series.
    fn clear(&mut self) {
        self.floats.clear();
        self.histograms.clear();
        self.bytes = 0;
        self.held = None;
    }

    /// Adds a histogram.
    fn push(&mut self, point: HistogramPoint, budget: &Arc<Budget>) -> Result<(), QueryError> {
        let held = self.held.get_or_insert_with(|| budget.nothing());
        // A histogram that a subquery returns at several steps is counted once.
        let last = self.histograms.points.last();
        if !last.is_some_and(|last| Arc::ptr_eq(&last.value, &point.value)) {
            self.bytes += point.value.heap_bytes();
        }
        self.bytes += size_of::<HistogramPoint>();
        held.cover(self.bytes)?;
        self.histograms.points.push(point);
        Ok(())
    }

    /// Drops the histograms before the window.
    #[cold]
    fn forget_histograms(&mut self) {
        self.histograms.forget();
        let points = &self.histograms.points;
        let differs = |at: usize| at == 0 || !Arc::ptr_eq(&points[at - 1].value, &points[at].value);
        let bytes = (0..points.len()).filter(|at| differs(*at));
        self.bytes = bytes.map(|at| points[at].value.heap_bytes()).sum::<usize>()
            + points.len() * size_of::<HistogramPoint>();
    }
}

/// Slides over one series and calls `each` with every step and its window.
pub(crate) struct Sliding<'a, F> {
    frame: Frame,
    tracks: &'a mut Tracks,
    step: usize,
    count: usize,
    /// Points at or before this time are in none of the remaining windows.
    passed: i64,
    reader: HistogramReader,
    budget: &'a Arc<Budget>,
    /// The error after which no more histograms are added.
    failed: Option<QueryError>,
    each: F,
}

impl<'a, F: FnMut(usize, &Window<'_>)> Sliding<'a, F> {
    /// Begins a series.
    pub(crate) fn new(
        frame: Frame,
        tracks: &'a mut Tracks,
        budget: &'a Arc<Budget>,
        each: F,
    ) -> Self {
        tracks.clear();
        let reader = HistogramReader::new(frame.hints);
        let count = frame.looks.count();
        let (step, passed, failed) = (0, i64::MAX, None);
        let mut sliding = Self { frame, tracks, step, count, passed, reader, budget, failed, each };
        sliding.go_to(0);
        sliding
    }

    #[inline]
    fn go_to(&mut self, step: usize) {
        self.step = step;
        self.passed = match step < self.count {
            true => self.frame.lower(self.frame.looks.time(step)),
            false => i64::MAX,
        };
    }

    /// Computes the steps whose windows are complete if the next point is at `time`.
    #[inline]
    fn give_until(&mut self, time: i64) {
        while self.step < self.count {
            let end = self.frame.looks.time(self.step);
            if self.frame.upper(end) >= time {
                return;
            }
            self.give(end);
        }
    }

    #[inline]
    fn give(&mut self, end: i64) {
        let (lower, upper) = (self.passed, self.frame.upper(end));
        self.tracks.floats.slide(lower, upper, |point| point.time);
        self.tracks.histograms.slide(lower, upper, |point| point.time);
        if self.tracks.floats.is_stale(FORGET) {
            self.tracks.floats.forget();
        }
        if self.tracks.histograms.is_stale(FORGET_HISTOGRAMS) {
            self.tracks.forget_histograms();
        }
        let (floats, float_starts) = self.tracks.floats.window();
        let (histograms, histogram_starts) = self.tracks.histograms.window();
        let window = Window {
            start: end.saturating_sub(self.frame.range),
            end,
            edges: self.frame.edges,
            lookback: self.frame.lookback,
            floats,
            float_starts,
            histograms,
            histogram_starts,
        };
        (self.each)(self.step, &window);
        self.go_to(self.step + 1);
    }

    /// Computes all remaining steps. Fails if the budget refused a histogram.
    pub(crate) fn finish(mut self) -> Result<(), QueryError> {
        while self.step < self.count && self.failed.is_none() {
            self.give(self.frame.looks.time(self.step));
        }
        self.failed.map_or(Ok(()), Err)
    }

    /// Adds a histogram.
    pub(crate) fn histogram(&mut self, time: i64, start: i64, value: Arc<FloatHistogram>) {
        self.give_until(time);
        if time <= self.passed || self.failed.is_some() {
            return;
        }
        if let Err(error) = self.tracks.push(HistogramPoint { time, value }, self.budget) {
            self.failed = Some(error);
            return;
        }
        if self.frame.starts {
            self.tracks.histograms.starts.push(start);
        }
    }

    /// Adds the result of a subquery at one of its steps. Its hint on resets is dropped, as it is about
    /// another neighbour.
    pub(crate) fn result(&mut self, time: i64, value: ValueRef<'_>) {
        match value {
            ValueRef::Float(value) => self.float(time, 0, value),
            ValueRef::Histogram(histogram) => {
                let mut histogram = Arc::clone(histogram);
                let alone = histogram.reset_hint.alone();
                if histogram.reset_hint != alone {
                    Arc::make_mut(&mut histogram).reset_hint = alone;
                }
                self.histogram(time, 0, histogram);
            }
        }
    }
}

impl<F: FnMut(usize, &Window<'_>)> Visitor for Sliding<'_, F> {
    fn wants_starts(&self) -> bool {
        self.frame.starts
    }

    #[inline]
    fn float(&mut self, time: i64, start: i64, value: f64) {
        let floats = &mut self.tracks.floats;
        if floats.points.len() - floats.end >= WAIT {
            self.give_until(time);
        }
        if is_stale(value) || time <= self.passed {
            return;
        }
        let floats = &mut self.tracks.floats;
        if self.frame.starts {
            floats.starts.push(start);
        }
        floats.points.push(FloatPoint { time, value });
    }

    fn point(&mut self, point: Point) {
        let Stored::Histogram(histogram) = &point.value else { return };
        self.give_until(point.timestamp);
        if histogram.is_stale() || self.failed.is_some() {
            return;
        }
        if point.timestamp <= self.passed {
            self.reader.forget();
            return;
        }
        let value = self.reader.read(histogram);
        self.histogram(point.timestamp, point.start_timestamp, value);
    }
}
