//! `rate`, `increase` and `delta` of the floats of one series at all steps: the fast path of the
//! most common functions.
//!
//! Returns what `functions::rate` returns for each window, bit for bit. The number of falls up to
//! each point is kept, so that a window without a fall is recognized by its ends. If points are
//! evenly spaced and the step is a multiple of that, all windows look alike: they are computed
//! together, a column at a time. There are no histograms, start timestamps or extended edges here.

use super::sliding::Frame;
use crate::context::Context;
use crate::counts::Tally;
use crate::error::QueryError;
use crate::functions::{Extrapolation, FloatPoint, Growth, each};
use crate::points::Points;
use crate::source::damaged;
use promkairos_chunk::Chunk;
use promkairos_model::{TimeRange, is_stale};

/// Number of steps after which the query is checked for cancellation and limits.
const STEPS_PER_CHECK: usize = 256;
/// Minimum number of points that are dropped at a time.
const FORGET: usize = 512;
/// In windows of at most this many points, all points are compared to find falls, in many windows
/// at a time.
const SHORT: usize = 16;

/// The points of one series that windows still need; one column for each field.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    times: Vec<i64>,
    values: Vec<f64>,
    /// The number of falls of the series up to each point.
    falls: Vec<usize>,
}

impl Columns {
    fn len(&self) -> usize {
        self.times.len()
    }

    fn get(&self, at: usize) -> FloatPoint {
        FloatPoint { time: self.times[at], value: self.values[at] }
    }

    fn clear(&mut self) {
        self.forget(self.len());
    }

    /// Appends points; a stale marker is none.
    fn append(&mut self, mut times: &[i64], values: &[f64]) {
        for run in values.split(|value| is_stale(*value)) {
            let (own, others) = times.split_at(run.len());
            times = others.get(1..).unwrap_or_default();
            let mut before = self.values.last().copied().unwrap_or(f64::NAN);
            let mut fallen = self.falls.last().copied().unwrap_or(0);
            self.times.extend_from_slice(own);
            self.values.extend_from_slice(run);
            self.falls.extend(run.iter().map(|&value| {
                fallen += usize::from(value < before);
                before = value;
                fallen
            }));
        }
    }

    fn forget(&mut self, count: usize) {
        self.times.drain(..count);
        self.values.drain(..count);
        self.falls.drain(..count);
    }

    /// `grown` plus the value of the counter before each fall among these points.
    fn with_falls(&self, mut grown: f64, first: usize, last: usize) -> f64 {
        if self.falls[first] != self.falls[last] {
            for at in first + 1..=last {
                if self.falls[at] != self.falls[at - 1] {
                    grown += self.values[at - 1];
                }
            }
        }
        grown
    }
}

/// Consecutive points that are evenly spaced.
#[derive(Debug, Clone, Copy, Default)]
struct Even {
    first: usize,
    last: usize,
    spacing: i64,
}

/// Slides a window over one series.
pub(super) struct RateKernel<'a> {
    frame: Frame,
    counter: bool,
    extrapolation: Extrapolation,
    points: &'a mut Columns,
    /// The next step.
    step: usize,
    /// The first point of the window of `step`.
    first: usize,
    /// The first point after the window of `step`.
    end: usize,
    /// The first point that was in no window yet.
    unseen: usize,
    even: Even,
    /// Number of steps since the last check of the query.
    unchecked: usize,
}

impl<'a> RateKernel<'a> {
    /// Begins a series. `None` for windows with edges or start timestamps.
    pub(super) fn new(growth: Growth, frame: &Frame, points: &'a mut Columns) -> Option<Self> {
        if frame.edges.is_some() || frame.starts {
            return None;
        }
        points.clear();
        Some(Self {
            frame: *frame,
            counter: growth.is_counter(),
            extrapolation: Extrapolation::new(growth),
            points,
            step: 0,
            first: 0,
            end: 0,
            unseen: 0,
            even: Even::default(),
            unchecked: 0,
        })
    }

    /// Checks the query if enough steps were computed; the next `steps` steps follow.
    #[inline]
    fn check(
        &mut self,
        steps: usize,
        tally: &Tally<'_>,
        context: &Context,
    ) -> Result<(), QueryError> {
        self.unchecked += steps;
        if self.unchecked >= STEPS_PER_CHECK {
            self.unchecked = 0;
            context.check_with(tally.taken())?;
        }
        Ok(())
    }

    /// Reads the floats of the next chunk.
    pub(super) fn read(&mut self, chunk: &Chunk) -> Result<(), QueryError> {
        if self.first > FORGET && self.first > self.points.len() / 2 {
            self.forget();
        }
        let steps = self.frame.looks;
        if self.step >= steps.count() {
            return Ok(());
        }
        // Other points are not kept: there may be years of them between windows.
        let passed = self.frame.lower(steps.time(self.step));
        let needed = TimeRange { start: passed.saturating_add(1), ..self.frame.reach() };
        let read = chunk.visit_float_columns_in(needed, |times, values| {
            self.points.append(times, values);
        });
        read.map_err(damaged)
    }

    #[cold]
    fn forget(&mut self) {
        self.points.forget(self.first);
        self.end -= self.first;
        self.unseen = self.unseen.saturating_sub(self.first);
        self.even = Even::default();
        self.first = 0;
    }

    /// Computes the steps whose windows are complete.
    pub(super) fn give(
        &mut self,
        tally: &mut Tally<'_>,
        points: &mut Points,
        context: &Context,
    ) -> Result<(), QueryError> {
        match self.points.times.last() {
            Some(&time) => self.give_before(time, tally, points, context),
            None => Ok(()),
        }
    }

    /// Computes all remaining steps.
    pub(super) fn finish(
        mut self,
        tally: &mut Tally<'_>,
        points: &mut Points,
        context: &Context,
    ) -> Result<(), QueryError> {
        self.give_before(i64::MAX, tally, points, context)
    }

    /// Computes the steps before `time`, or all steps if `time` is the last possible time.
    fn give_before(
        &mut self,
        time: i64,
        tally: &mut Tally<'_>,
        points: &mut Points,
        context: &Context,
    ) -> Result<(), QueryError> {
        let count = self.frame.looks.count();
        while self.step < count {
            let end = self.frame.looks.time(self.step);
            if end >= time && time != i64::MAX {
                return Ok(());
            }
            self.check(1, tally, context)?;
            let start = end.saturating_sub(self.frame.range);
            self.slide(start, end);
            let samples = self.end - self.first;
            if samples > 0 {
                let read = self.end - self.first.max(self.unseen);
                self.unseen = self.end;
                tally.add(self.step, samples as u64, read as u64);
            }
            if samples > 1 {
                let value = self.value(start, end);
                points.set_float(self.step, value);
            }
            self.step += 1;
            if samples > 1 {
                self.give_alike(start, end, tally, points, context)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn slide(&mut self, start: i64, end: i64) {
        let times = &*self.points.times;
        while times.get(self.first).is_some_and(|time| *time <= start) {
            self.first += 1;
        }
        self.end = self.end.max(self.first);
        while times.get(self.end).is_some_and(|time| *time <= end) {
            self.end += 1;
        }
    }

    /// The value of the window, which has at least two points.
    #[inline]
    fn value(&mut self, start: i64, end: i64) -> f64 {
        let (first, last) = (self.points.get(self.first), self.points.get(self.end - 1));
        let mut grown = last.value - first.value;
        if self.counter {
            grown = self.points.with_falls(grown, self.first, self.end - 1);
        }
        self.extrapolation.apply(grown, (start, end), (first, last), self.end - self.first)
    }

    /// Computes the next steps whose windows have the same layout as the current one. The current
    /// window has at least two points and was just computed.
    fn give_alike(
        &mut self,
        start: i64,
        end: i64,
        tally: &mut Tally<'_>,
        points: &mut Points,
        context: &Context,
    ) -> Result<(), QueryError> {
        let (mut left, stride) = self.alike(start, end);
        let samples = self.end - self.first;
        while left > 0 {
            let count = left.min(STEPS_PER_CHECK);
            left -= count;
            self.check(count, tally, context)?;
            let steps = self.step..self.step + count;
            tally.add_alike(steps.clone(), samples as u64, samples.min(stride) as u64);
            let grown = &mut points.floats_mut()[steps];
            let (first, last) = (self.first + stride, self.end - 1 + stride);
            let Columns { values, falls, .. } = &*self.points;
            each(grown, stride, &values[last..], &values[first..], |_, last, first| last - first);
            if self.counter && falls[first] != falls[last + (count - 1) * stride] {
                self.add_falls(grown, stride);
            }
            self.extrapolation.apply_to_all(grown, &values[first..], stride);
            self.first += count * stride;
            self.end += count * stride;
            self.step += count;
        }
        self.unseen = self.unseen.max(self.end);
        Ok(())
    }

    /// Adds to the growth in each of the next windows the value of the counter before each fall.
    fn add_falls(&self, grown: &mut [f64], stride: usize) {
        let (first, last) = (self.first + stride, self.end - 1 + stride);
        let values = &*self.points.values;
        if last - first < SHORT {
            for at in first..last {
                // Without a branch, which is not predictable for a gauge. Adding -0 changes no float.
                each(grown, stride, &values[at + 1..], &values[at..], |grown, next, previous| {
                    grown + if next < previous { previous } else { -0.0 }
                });
            }
            return;
        }
        for (at, grown) in grown.iter_mut().enumerate() {
            *grown = self.points.with_falls(*grown, first + at * stride, last + at * stride);
        }
    }

    /// The number of next windows with the same layout as the current one, and the number of points
    /// from one to the next. A point after each of the windows shows that it is complete.
    fn alike(&mut self, start: i64, end: i64) -> (usize, usize) {
        let times = &*self.points.times;
        let even = &mut self.even;
        if self.first < even.first || self.first >= even.last {
            let spacing = times[self.first + 1] - times[self.first];
            *even = Even { first: self.first, last: self.first + 1, spacing };
        }
        let behind = times[even.last..].windows(2);
        even.last += behind.take_while(|pair| pair[1] - pair[0] == even.spacing).count();
        let interval = self.frame.looks.interval;
        let fits = interval % even.spacing == 0
            && even.last > self.end
            && times[self.first] - even.spacing <= start
            && times[self.end - 1] + even.spacing > end;
        if !fits {
            return (0, 1);
        }
        let stride = (interval / even.spacing) as usize;
        let steps = self.frame.looks.count() - self.step;
        (steps.min((even.last - self.end) / stride), stride)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;
    use crate::annotations::Annotations;
    use crate::cost::{CostLimits, Limits};
    use crate::counts::{Counting, SampleCounts, StepCounts};
    use crate::functions::{Arguments, Notes, range_kernel};
    use crate::operators::sliding::{Sliding, Tracks};
    use crate::operators::windows::Counter;
    use crate::plan::ResetHints;
    use crate::position::Span;
    use crate::settings::Settings;
    use crate::signature::Function;
    use crate::source::visit;
    use crate::steps::Steps;
    use promkairos_chunk::encode_points;
    use promkairos_model::{Point, STALE_NAN_BITS, Value};

    /// The bits of the values at all steps, and the samples of each step.
    type Outcome = (Vec<u64>, Option<StepCounts>);

    /// Computes each window separately.
    fn one_by_one(function: Function, frame: Frame, chunks: &[Chunk]) -> Outcome {
        let kernel = range_kernel(function).expect("a range function");
        let mut points = Points::absent(frame.looks.count());
        let counts = SampleCounts::new(Counting::ByStep, frame.looks);
        let destination = counts.destination();
        let (mut tally, mut counter) = (destination.tally(), Counter::new(frame.hints));
        let (mut annotations, mut tracks) = (Annotations::default(), Tracks::default());
        let budget = Settings::default().budget();
        let mut sliding = Sliding::new(frame, &mut tracks, &budget, |step, window| {
            let (span, annotations) = (Span::default(), &mut annotations);
            let mut notes = Notes { metric: "m", span, last_argument: span, annotations };
            if !window.is_empty() {
                let (queryable, read) = counter.count(window);
                tally.add(step, queryable, read);
            }
            if let Some(value) = kernel(window, &Arguments::default(), &mut notes) {
                points.set(step, value, &budget).expect("there is room");
            }
        });
        visit(chunks, frame.reach(), &mut sliding).expect("readable");
        sliding.finish().expect("there is room");
        counts.add(&tally);
        (points.floats().iter().map(|value| value.to_bits()).collect(), counts.by_step())
    }

    fn minute(settings: &Settings) -> Limits {
        Limits::new(settings, Some(Duration::from_secs(60)), &CostLimits::default())
    }

    fn quickly(growth: Growth, frame: Frame, chunks: &[Chunk]) -> Outcome {
        let counts = SampleCounts::new(Counting::ByStep, frame.looks);
        let destination = counts.destination();
        let mut tally = destination.tally();
        let mut points = Points::absent(frame.looks.count());
        let settings = Settings::default();
        let none = SampleCounts::new(Counting::Total, frame.looks);
        let context = Context::new(&settings, 0, none, minute(&settings), Instant::now());
        let mut columns = Columns::default();
        let mut growing = RateKernel::new(growth, &frame, &mut columns).expect("no edges");
        for chunk in chunks {
            growing.read(chunk).expect("readable");
            growing.give(&mut tally, &mut points, &context).expect("nobody cancels");
        }
        growing.finish(&mut tally, &mut points, &context).expect("nobody cancels");
        counts.add(&tally);
        (points.floats().iter().map(|value| value.to_bits()).collect(), counts.by_step())
    }

    #[test]
    fn what_lies_between_windows_is_not_kept() {
        let looks = Steps { start: 0, end: 100_000_000, interval: 50_000_000 };
        let frame = Frame {
            looks,
            range: 5_000,
            edges: None,
            hints: ResetHints::AsStored,
            lookback: 0,
            starts: false,
        };
        let mut columns = Columns::default();
        let mut growing = RateKernel::new(Growth::Rate, &frame, &mut columns).expect("no edges");
        let counts = SampleCounts::new(Counting::Total, looks);
        let destination = counts.destination();
        let (mut tally, mut values) = (destination.tally(), Points::absent(3));
        let settings = Settings::default();
        let none = SampleCounts::new(Counting::Total, looks);
        let context = Context::new(&settings, 0, none, minute(&settings), Instant::now());
        let point = |time| Point { timestamp: time, start_timestamp: 0, value: Value::Float(1.0) };
        for run in 0..1_000 {
            let points: Vec<Point> = (0..100).map(|at| point((run * 100 + at) * 1_000)).collect();
            for chunk in encode_points(&points) {
                growing.read(&chunk).expect("readable");
                growing.give(&mut tally, &mut values, &context).expect("nobody cancels");
            }
        }
        growing.finish(&mut tally, &mut values, &context).expect("nobody cancels");
        assert!(columns.len() < 500, "{} points are kept", columns.len());
        assert_eq!(values.floats()[1], 0.0);
    }

    #[test]
    fn long_ranges_end_in_time_however_their_chunks_are_cut() {
        let looks = Steps { start: 0, end: 14 * 120 * 15_000, interval: 15_000 };
        let (hints, lookback) = (ResetHints::AsStored, 0);
        let frame = Frame { looks, range: 60_000, edges: None, hints, lookback, starts: false };
        let counts = SampleCounts::new(Counting::Total, looks);
        let settings = Settings::default();
        let limits = Limits::new(&settings, Some(Duration::ZERO), &CostLimits::default());
        let context = Context::new(&settings, 0, counts, limits, Instant::now());
        let destination = context.counts.destination();
        let (mut tally, mut values) = (destination.tally(), Points::absent(looks.count()));
        let mut columns = Columns::default();
        let mut growing = RateKernel::new(Growth::Rate, &frame, &mut columns).expect("no edges");
        let point = |at: i64| Point {
            timestamp: at * 15_000,
            start_timestamp: 0,
            value: Value::Float(at as f64),
        };
        let mut given = 0;
        for chunk in 0..14 {
            let points: Vec<Point> = (chunk * 120..(chunk + 1) * 120).map(point).collect();
            for chunk in encode_points(&points) {
                growing.read(&chunk).expect("readable");
                if growing.give(&mut tally, &mut values, &context).is_err() {
                    assert!(given <= STEPS_PER_CHECK, "{given} steps");
                    return;
                }
                given = growing.step;
            }
        }
        panic!("it went on to its end");
    }

    fn any_value() -> impl Strategy<Value = f64> {
        prop_oneof![
            8 => (0i32..20).prop_map(|value| f64::from(value) / 3.0),
            1 => Just(f64::from_bits(STALE_NAN_BITS)),
            1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, -1.5]),
        ]
    }

    proptest! {
        #[test]
        fn as_window_by_window(
            points in prop::collection::vec((any_value(), prop_oneof![39 => Just(15), 1 => 1i64..90]), 0..1500),
            rising in any::<bool>(),
            cuts in prop::collection::vec(1usize..120, 1..4),
            range in 1i64..200,
            interval in prop_oneof![1i64..120, (1i64..8).prop_map(|strides| 15 * strides)],
            start in -100i64..2_000,
            length in 0i64..30_000,
        ) {
            let (mut time, mut sum) = (0, 0.0);
            let points: Vec<Point> = points.into_iter().map(|(mut value, gap)| {
                time += gap;
                if rising && value.is_finite() {
                    sum += value;
                    value = sum;
                }
                Point { timestamp: time, start_timestamp: 0, value: Value::Float(value) }
            }).collect();
            let (mut rest, mut chunks, mut cut) = (&points[..], Vec::new(), cuts.iter().cycle());
            while !rest.is_empty() {
                let (run, others) = rest.split_at(rest.len().min(*cut.next().expect("some")));
                chunks.extend(encode_points(run));
                rest = others;
            }
            let frame = Frame {
                looks: Steps { start, end: start + length, interval },
                range,
                edges: None,
                hints: ResetHints::AsStored,
                lookback: 0,
                starts: false,
            };
            for (function, growth) in [
                (Function::Rate, Growth::Rate),
                (Function::Increase, Growth::Increase),
                (Function::Delta, Growth::Delta),
            ] {
                prop_assert_eq!(
                    quickly(growth, frame, &chunks),
                    one_by_one(function, frame, &chunks)
                );
            }
        }
    }
}
