//! Counts the samples of a query as Prometheus does: the samples that its steps see, and the samples
//! that are read from the store; in total and, on request, for each step of the query. Also counts
//! what a query costs: the series of its selectors, and all samples that it takes from the store.
//!
//! An evaluation may count at steps of its own: in a subquery, or once for all steps. Its
//! [`Destination`] maps these to steps of the query. A step of the query sees all samples that a
//! subquery looked at in the step's window, so a sample in several windows is seen several times
//! and read once. Samples between two windows are read for no step of the query, but they are part
//! of its cost. Totals are sums over the steps of the query. Results of a subquery are not counted.
//! Nothing is read or evaluated here.

mod levels;
mod windows;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use levels::{Counted, Level, Seen, Weights};
pub(crate) use windows::Windows;

use super::plan::ResetHints;
use super::points::{Points, ValueRef};
use super::steps::Steps;

/// How samples are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Counting {
    /// Only the totals.
    #[default]
    Total,
    /// The totals and the samples of each step.
    ByStep,
}

/// Samples by step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepCounts {
    /// The steps of the query.
    pub steps: Steps,
    /// Points that each step saw.
    pub queryable: Vec<u64>,
    /// Points that were read from the store for each step, and not for an earlier step.
    pub read: Vec<u64>,
}

/// The samples of one query.
#[derive(Debug)]
pub(crate) struct SampleCounts {
    queryable: AtomicU64,
    read: AtomicU64,
    taken: AtomicU64,
    series: AtomicU64,
    steps: Steps,
    by_step: Option<ByStep>,
    /// The steps of the query.
    own: Arc<Level>,
}

/// What is counted by step.
#[derive(Debug)]
struct ByStep {
    read: Mutex<Vec<u64>>,
    /// The steps of all evaluations. A subquery comes after the evaluation that contains it.
    levels: Mutex<Vec<Arc<Level>>>,
}

impl SampleCounts {
    /// Zero counts, for a query with these steps.
    pub(crate) fn new(counting: Counting, steps: Steps) -> Self {
        let own = Arc::new(Level::new(steps, None));
        let by_step = || ByStep {
            read: Mutex::new(vec![0; steps.count()]),
            levels: Mutex::new(vec![Arc::clone(&own)]),
        };
        Self {
            queryable: AtomicU64::new(0),
            read: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            series: AtomicU64::new(0),
            steps,
            by_step: (counting == Counting::ByStep).then(by_step),
            own,
        }
    }

    /// The destination of samples that are counted at the steps of the query.
    pub(crate) fn destination(&self) -> Destination {
        let seen = Some(Seen { level: Arc::clone(&self.own), each_step: false });
        let by_step = self.by_step.is_some();
        Destination { seen, read: Read::AtStep, taken: true, by_step }
    }

    /// The destination for the inside of a subquery whose results are seen in windows of `outer`.
    pub(crate) fn inside(&self, outer: &Destination, windows: Windows) -> Destination {
        let read = if windows.outer.count() == 1 || windows.fixed {
            Read::At(outer.read.step(0))
        } else if outer.tells_reads() || windows.leave_gaps() {
            let (onward, steps) = (outer.read.clone(), OnceLock::new());
            Read::Windows(Arc::new(FirstWindows { windows, onward, steps }))
        } else {
            outer.read.clone()
        };
        let seen = outer.seen.clone().map(|seen| self.level(windows, seen));
        Destination { seen, read, ..outer.clone() }
    }

    /// The destination for the inside of a subquery that is the whole query, which has one step.
    pub(crate) fn of_result(&self, outer: &Destination, inner: Steps) -> Destination {
        let all = Windows { outer: self.steps.first(), inner, offset: 0, range: 0, fixed: true };
        self.inside(outer, all)
    }

    /// Makes the level of a subquery whose results are seen in windows.
    fn level(&self, windows: Windows, seen: Seen) -> Seen {
        let level = Arc::new(Level::new(windows.inner, Some((windows, seen))));
        if let Some(by_step) = &self.by_step {
            by_step.levels.lock().push(Arc::clone(&level));
        }
        Seen { level, each_step: false }
    }

    /// Adds the counts of one series.
    pub(crate) fn add(&self, tally: &Tally<'_>) {
        let Destination { seen, read, .. } = tally.destination;
        let total = if matches!(read, Read::At(None)) { 0 } else { tally.read };
        self.queryable.fetch_add(tally.queryable, Relaxed);
        self.read.fetch_add(total, Relaxed);
        if tally.destination.taken {
            self.taken.fetch_add(tally.taken, Relaxed);
        }
        let Some(by_step) = &self.by_step else { return };
        if let Some(seen) = seen {
            seen.add(tally.by_step.iter().flatten());
        }
        let mut sums = by_step.read.lock();
        for counted in tally.by_step.iter().flatten() {
            if let Some(step) = read.step(counted.step) {
                sums[step] += counted.read;
            }
        }
    }

    /// Adds the series of a selector.
    pub(crate) fn add_series(&self, series: u64) {
        self.series.fetch_add(series, Relaxed);
    }

    /// The number of series of all selectors; a series in two selectors counts twice.
    pub(crate) fn series(&self) -> u64 {
        self.series.load(Relaxed)
    }

    /// All samples that the evaluation took from the store.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// All points that the steps saw.
    pub(crate) fn queryable(&self) -> u64 {
        self.queryable.load(Relaxed)
    }

    /// All points read from the store.
    pub(crate) fn read(&self) -> u64 {
        self.read.load(Relaxed)
    }

    /// The counts of each step, if the query counts by step. Call once, at the end.
    pub(crate) fn by_step(&self) -> Option<StepCounts> {
        let by_step = self.by_step.as_ref()?;
        by_step.levels.lock().iter().rev().for_each(|level| level.hand_up());
        let queryable = self.own.sums();
        Some(StepCounts { steps: self.steps, queryable, read: by_step.read.lock().clone() })
    }
}

/// Maps what is counted at the steps of an evaluation to steps of the query.
#[derive(Debug, Clone)]
pub(crate) struct Destination {
    /// `None` if the samples are not counted as seen.
    seen: Option<Seen>,
    read: Read,
    /// Whether points count as taken from the store; if not, other code counts them.
    taken: bool,
    /// Whether the query counts by step.
    by_step: bool,
}

/// The step of the query for which points are read.
#[derive(Debug, Clone)]
enum Read {
    /// The step of the evaluation.
    AtStep,
    /// This step, if any.
    At(Option<usize>),
    /// The step whose window is the first to contain the points, if any.
    Windows(Arc<FirstWindows>),
}

impl Destination {
    /// The destination of an evaluation at the first step whose result is seen at all steps.
    pub(crate) fn once(&self) -> Self {
        let seen = self.seen.as_ref();
        let seen = seen.map(|seen| Seen { level: Arc::clone(&seen.level), each_step: true });
        Self { seen, read: Read::At(self.read.step(0)), ..self.clone() }
    }

    /// The destination of samples that other code counts.
    pub(crate) fn nowhere() -> Self {
        Self { seen: None, read: Read::At(None), taken: false, by_step: false }
    }

    /// Counts the samples of one series.
    pub(crate) fn tally(&self) -> Tally<'_> {
        let by_step = self.by_step.then(Vec::new);
        let weights = self.seen.as_ref().map_or(Weights::Same(0), Seen::weights);
        Tally { destination: self, weights, queryable: 0, read: 0, taken: 0, by_step }
    }

    /// Whether the step at which a sample is read changes the counts.
    fn tells_reads(&self) -> bool {
        self.by_step || matches!(self.read, Read::Windows(_))
    }
}

impl Read {
    /// The step of the query for which the points of this step are read.
    fn step(&self, step: usize) -> Option<usize> {
        match self {
            Self::AtStep => Some(step),
            Self::At(step) => *step,
            Self::Windows(windows) => windows.step(step),
        }
    }
}

/// Maps each step of a subquery to the step of the query for which its points are read.
#[derive(Debug)]
struct FirstWindows {
    windows: Windows,
    /// The same map for the steps at which the windows end.
    onward: Read,
    /// Made when the first point is read: a subquery may have very many steps without points.
    steps: OnceLock<Vec<Option<u32>>>,
}

impl FirstWindows {
    fn step(&self, step: usize) -> Option<usize> {
        let of = |inner: usize| self.onward.step(self.windows.first(inner)?)?.try_into().ok();
        let steps = || (0..self.windows.inner.count()).map(of).collect();
        self.steps.get_or_init(steps)[step].map(|step| step as usize)
    }
}

/// The samples of one series.
#[derive(Debug)]
pub(crate) struct Tally<'a> {
    destination: &'a Destination,
    weights: Weights,
    queryable: u64,
    read: u64,
    taken: u64,
    /// The samples of each step, if the query counts by step.
    by_step: Option<Vec<Counted>>,
}

impl Tally<'_> {
    /// Adds the points that a step saw, and how many of them were read for this step.
    #[inline]
    pub(crate) fn add(&mut self, step: usize, queryable: u64, read: u64) {
        self.queryable += queryable * self.weights.of(step..step + 1);
        self.taken += read;
        match &self.destination.read {
            Read::Windows(windows) if windows.step(step).is_none() => {}
            _ => self.read += read,
        }
        if let Some(by_step) = &mut self.by_step {
            by_step.push(Counted { step, queryable, read });
        }
    }

    /// Adds the same counts at each of these steps.
    pub(crate) fn add_alike(&mut self, steps: Range<usize>, queryable: u64, read: u64) {
        if self.destination.tells_reads() {
            steps.for_each(|step| self.add(step, queryable, read));
        } else {
            self.queryable += queryable * self.weights.of(steps.clone());
            self.read += read * steps.len() as u64;
            self.taken += read * steps.len() as u64;
        }
    }

    /// Adds points that are taken from the store but not counted for any step.
    pub(crate) fn take(&mut self, samples: u64) {
        self.taken += samples;
    }

    /// The samples that were taken from the store.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Adds the points of a selector: each step sees and reads its own points.
    pub(crate) fn add_points(&mut self, points: &Points, hints: ResetHints) {
        for (step, value) in points.iter() {
            let samples = match value {
                ValueRef::Float(_) => 1,
                ValueRef::Histogram(histogram) => hints.samples(histogram) as u64,
            };
            self.add(step, samples, samples);
        }
    }

    /// Whether the step at which samples are added changes the counts.
    pub(crate) fn tells_steps(&self) -> bool {
        self.destination.tells_reads() || matches!(self.weights, Weights::Sums(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(start: i64, end: i64, interval: i64) -> Steps {
        Steps { start, end, interval }
    }

    /// One sample at each of the first `count` steps.
    fn add(counts: &SampleCounts, destination: &Destination, count: usize) {
        let mut tally = destination.tally();
        (0..count).for_each(|step| tally.add(step, 1, 1));
        counts.add(&tally);
    }

    /// Checks the seen and the read samples that `count` adds, for both ways of counting.
    fn check(query: Steps, count: impl Fn(&SampleCounts), queryable: &[u64], read: &[u64]) {
        for counting in [Counting::Total, Counting::ByStep] {
            let counts = SampleCounts::new(counting, query);
            count(&counts);
            let sums = (queryable.iter().sum(), read.iter().sum());
            assert_eq!((counts.queryable(), counts.read()), sums, "{counting:?}");
            let by_step = counts.by_step().map(|counts| (counts.queryable, counts.read));
            let asked = counting == Counting::ByStep;
            assert_eq!(by_step, asked.then(|| (queryable.to_vec(), read.to_vec())));
        }
    }

    #[test]
    fn what_is_the_same_at_all_steps_is_read_once_and_seen_at_each() {
        let query = steps(0, 20, 10);
        let own = |counts: &SampleCounts| add(counts, &counts.destination(), 2);
        check(query, own, &[1, 1, 0], &[1, 1, 0]);
        let once = |counts: &SampleCounts| add(counts, &counts.destination().once(), 1);
        check(query, once, &[1, 1, 1], &[1, 0, 0]);
    }

    #[test]
    fn the_inside_of_a_subquery_that_is_the_result_is_seen() {
        let (query, inner) = (Steps::instant(100), steps(70, 100, 10));
        let inside = |counts: &SampleCounts| {
            let destination = counts.of_result(&counts.destination(), inner);
            add(counts, &destination, inner.count());
            add(counts, &destination.once(), 1);
        };
        check(query, inside, &[8], &[5]);
    }

    #[test]
    fn the_inside_of_a_subquery_is_seen_in_each_window_and_read_for_the_first() {
        let case = |range: i64, offset: i64, queryable: &[u64], read: &[u64]| {
            let query = steps(100, 160, 30);
            let first = (100 - offset - range).div_euclid(10) * 10 + 10;
            let inner = steps(first, query.end - offset, 10);
            let windows = Windows { outer: query, inner, offset, range, fixed: false };
            let inside = |counts: &SampleCounts| {
                let destination = counts.inside(&counts.destination(), windows);
                add(counts, &destination, inner.count());
            };
            check(query, inside, queryable, read);
        };
        case(60, 0, &[6; 3], &[6, 3, 3]);
        case(30, 0, &[3; 3], &[3, 3, 3]);
        // Samples between two windows are seen and read for no step.
        case(20, 0, &[2; 3], &[2, 2, 2]);
        case(20, 7, &[2; 3], &[2, 2, 2]);
        case(60, 45, &[6; 3], &[6, 3, 3]);
    }

    #[test]
    fn a_window_that_is_the_same_for_all_steps_is_read_for_the_first() {
        let (query, inner) = (steps(100, 160, 30), steps(10, 40, 10));
        let windows = Windows { outer: query, inner, offset: 7, range: 40, fixed: true };
        let inside = |counts: &SampleCounts| {
            let destination = counts.inside(&counts.destination(), windows);
            add(counts, &destination, inner.count());
            add(counts, &destination.once(), 1);
        };
        check(query, inside, &[8; 3], &[5, 0, 0]);
    }

    #[test]
    fn nested_windows_are_followed_to_the_steps_of_the_query() {
        let query = steps(100, 200, 100);
        let inner = steps(60, 200, 20);
        let outer = Windows { outer: query, inner, offset: 0, range: 50, fixed: false };
        let nested = |range: i64| {
            let inner = steps(60 - range + 5, 200, 5);
            Windows { outer: outer.inner, inner, offset: 0, range, fixed: false }
        };
        let count = |range: i64| {
            let (outer, nested) = (outer, nested(range));
            move |counts: &SampleCounts| {
                let destination = counts.inside(&counts.destination(), outer);
                let inside = counts.inside(&destination, nested);
                add(counts, &inside, nested.inner.count());
                add(counts, &destination.once(), 1);
            }
        };
        // The windows at 60, 80, 100 and 160, 180, 200 read ten seconds each; 120 and 140 see nothing.
        check(query, count(10), &[3 * 2 + 3; 2], &[3 * 2 + 1, 3 * 2]);
        // All windows read; the first also reads the samples before it.
        check(query, count(40), &[3 * 8 + 3; 2], &[8 + 2 * 4 + 1, 3 * 4]);
    }
}
