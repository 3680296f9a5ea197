//! How many samples a query looks at, as Prometheus counts them: those that its steps see, and those
//! read from the store; in all, and if asked for at each step of the query. And what it costs: the series
//! of its selectors, and all samples that its evaluation takes from the store.
//!
//! What a subquery takes between two windows is read for no step of the query and costs all the same.
//! What an evaluation counts at steps of its own, in a subquery or once for all steps, belongs to
//! steps of the query: its [`Destination`] says to which. Totals are the sums over these steps.
//! Nothing is read or evaluated here.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::plan::ResetHints;
use super::points::{Points, ValueRef};
use super::steps::Steps;

/// How samples are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Counting {
    /// Only all of them.
    #[default]
    Total,
    /// Also those of each step.
    ByStep,
}

/// Samples by step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepCounts {
    /// The steps of the query.
    pub steps: Steps,
    /// Points that each step saw.
    pub queryable: Vec<u64>,
    /// Points that were read from the store for each step, and not for one before.
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
    by_step: Option<Mutex<StepCounts>>,
}

impl SampleCounts {
    /// Nothing yet, for a query with these steps.
    pub(crate) fn new(counting: Counting, steps: Steps) -> Self {
        let empty = || {
            let none = vec![0; steps.count()];
            Mutex::new(StepCounts { steps, queryable: none.clone(), read: none })
        };
        Self {
            queryable: AtomicU64::new(0),
            read: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            series: AtomicU64::new(0),
            steps,
            by_step: (counting == Counting::ByStep).then(empty),
        }
    }

    /// Where the samples belong that the query counts at its own steps.
    pub(crate) fn destination(&self) -> Destination {
        let by_step = self.by_step.is_some();
        Destination { seen: Seen::AtStep, read: Read::AtStep, taken: Taken::Counted, by_step }
    }

    /// Adds what was counted.
    pub(crate) fn add(&self, tally: &Tally<'_>) {
        let Destination { seen, read, .. } = tally.destination;
        let queryable = match seen {
            Seen::Not => 0,
            Seen::AtStep => tally.queryable,
            Seen::AtAll { times } => tally.queryable * times * self.steps.count() as u64,
        };
        let read = if matches!(read, Read::At(None)) { 0 } else { tally.read };
        self.queryable.fetch_add(queryable, Relaxed);
        self.read.fetch_add(read, Relaxed);
        if tally.destination.taken == Taken::Counted {
            self.taken.fetch_add(tally.taken, Relaxed);
        }
        if let Some(by_step) = &self.by_step {
            by_step.lock().add(tally);
        }
    }

    /// Adds the series of a selector.
    pub(crate) fn add_series(&self, series: u64) {
        self.series.fetch_add(series, Relaxed);
    }

    /// The series of all selectors; those of several are counted for each.
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

    /// Those of each step, if they were asked for.
    pub(crate) fn by_step(&self) -> Option<StepCounts> {
        self.by_step.as_ref().map(|by_step| by_step.lock().clone())
    }
}

impl StepCounts {
    fn add(&mut self, tally: &Tally<'_>) {
        let Destination { seen, read, .. } = tally.destination;
        for counted in tally.by_step.iter().flatten() {
            if *seen == Seen::AtStep {
                self.queryable[counted.step] += counted.queryable;
            }
            if let Some(step) = read.step(counted.step) {
                self.read[step] += counted.read;
            }
        }
        if let Seen::AtAll { times } = seen {
            self.queryable.iter_mut().for_each(|sum| *sum += tally.queryable * times);
        }
    }
}

/// To which steps of the query belongs what is counted at the steps of an evaluation.
#[derive(Debug, Clone)]
pub(crate) struct Destination {
    seen: Seen,
    read: Read,
    taken: Taken,
    /// Whether the query counts by step.
    by_step: bool,
}

/// At which steps of the query points are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// At none: they are inside a subquery whose results are seen in their place.
    Not,
    /// At the same step.
    AtStep,
    /// At each, so many times.
    AtAll { times: u64 },
}

/// Whether points count as taken from the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Counted,
    /// Somebody else counts them.
    Elsewhere,
}

/// For which step of the query points are read.
#[derive(Debug, Clone)]
enum Read {
    /// For the same.
    AtStep,
    /// For this one, if any.
    At(Option<usize>),
    /// For the step of the window in which they are first, if any.
    Windows(Arc<FirstWindows>),
}

/// The windows of a subquery.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Windows {
    /// The steps at which windows end.
    pub outer: Steps,
    /// The steps of the subquery.
    pub inner: Steps,
    /// Milliseconds by which the windows end before their steps.
    pub offset: i64,
    /// How long they are, in milliseconds.
    pub range: i64,
}

impl Destination {
    /// For what is evaluated at the first of `steps` and seen at all of them.
    pub(crate) fn once(&self, steps: Steps) -> Self {
        let seen = match self.seen {
            Seen::Not => Seen::Not,
            Seen::AtStep => Seen::AtAll { times: 1 },
            Seen::AtAll { times } => Seen::AtAll { times: times * steps.count() as u64 },
        };
        Self { seen, read: Read::At(self.read.step(0)), ..self.clone() }
    }

    /// For what is counted by somebody else.
    pub(crate) fn nowhere() -> Self {
        let (read, taken) = (Read::At(None), Taken::Elsewhere);
        Self { seen: Seen::Not, read, taken, by_step: false }
    }

    /// For the inside of a subquery whose results are the query's: all is seen at its one step.
    pub(crate) fn of_result(&self) -> Self {
        let seen = Seen::AtAll { times: 1 };
        Self { seen, read: Read::At(self.read.step(0)), ..self.clone() }
    }

    /// For the inside of a subquery whose results are seen in windows.
    pub(crate) fn inside(&self, windows: Windows) -> Self {
        let read = if windows.outer.count() == 1 {
            Read::At(self.read.step(0))
        } else if self.tells_steps() || windows.leave_gaps() {
            let (onward, steps) = (self.read.clone(), OnceLock::new());
            Read::Windows(Arc::new(FirstWindows { windows, onward, steps }))
        } else {
            self.read.clone()
        };
        Self { seen: Seen::Not, read, ..self.clone() }
    }

    /// Counts the samples of one series.
    pub(crate) fn tally(&self) -> Tally<'_> {
        let by_step = self.by_step.then(Vec::new);
        Tally { destination: self, queryable: 0, read: 0, taken: 0, by_step }
    }

    /// Whether it matters at which steps something is counted.
    fn tells_steps(&self) -> bool {
        self.by_step || matches!(self.read, Read::Windows(_))
    }
}

impl Read {
    /// The step of the query for which is read what is read for this one.
    fn step(&self, step: usize) -> Option<usize> {
        match self {
            Self::AtStep => Some(step),
            Self::At(step) => *step,
            Self::Windows(windows) => windows.step(step),
        }
    }
}

/// For which step of the query is read what is read at each step of a subquery.
#[derive(Debug)]
struct FirstWindows {
    windows: Windows,
    /// The same for the steps at which the windows end.
    onward: Read,
    /// Made when the first point is read: there may be very many steps and nothing at them.
    steps: OnceLock<Vec<Option<u32>>>,
}

impl FirstWindows {
    fn step(&self, step: usize) -> Option<usize> {
        let of = |inner: usize| self.onward.step(self.windows.first(inner)?)?.try_into().ok();
        let steps = || (0..self.windows.inner.count()).map(of).collect();
        self.steps.get_or_init(steps)[step].map(|step| step as usize)
    }
}

impl Windows {
    /// Whether a step of the subquery may be in no window.
    fn leave_gaps(&self) -> bool {
        let first = self.inner.start.saturating_add(self.offset);
        self.outer.interval > self.range || self.is_before(first, self.outer.start)
    }

    /// The first window with this step of the subquery; as in Prometheus the first and the last one
    /// also stand for those before and after.
    fn first(&self, step: usize) -> Option<usize> {
        let time = self.inner.time(step).saturating_add(self.offset);
        let after = time.saturating_sub(self.outer.start).max(0) as u64;
        let at = after.div_ceil(self.outer.interval as u64) as usize;
        let at = at.min(self.outer.count() - 1);
        (!self.is_before(time, self.outer.time(at))).then_some(at)
    }

    /// Whether a time is before the window of a step.
    fn is_before(&self, time: i64, step: i64) -> bool {
        time <= step.saturating_sub(self.range)
    }
}

/// The samples of one series.
#[derive(Debug)]
pub(crate) struct Tally<'a> {
    destination: &'a Destination,
    queryable: u64,
    read: u64,
    taken: u64,
    /// Those of each step, if the query asks for them.
    by_step: Option<Vec<Counted>>,
}

/// The samples of one series at one step.
#[derive(Debug)]
struct Counted {
    step: usize,
    queryable: u64,
    read: u64,
}

impl Tally<'_> {
    /// Adds points that a step saw, and those of them that were read for it.
    #[inline]
    pub(crate) fn add(&mut self, step: usize, queryable: u64, read: u64) {
        self.queryable += queryable;
        self.taken += read;
        match &self.destination.read {
            Read::Windows(windows) if windows.step(step).is_none() => {}
            _ => self.read += read,
        }
        if let Some(by_step) = &mut self.by_step {
            by_step.push(Counted { step, queryable, read });
        }
    }

    /// Adds for each of these steps as many.
    pub(crate) fn add_alike(&mut self, steps: Range<usize>, queryable: u64, read: u64) {
        if self.tells_steps() {
            steps.for_each(|step| self.add(step, queryable, read));
        } else {
            self.queryable += queryable * steps.len() as u64;
            self.read += read * steps.len() as u64;
            self.taken += read * steps.len() as u64;
        }
    }

    /// Adds points that are taken from the store and count for no step.
    pub(crate) fn take(&mut self, samples: u64) {
        self.taken += samples;
    }

    /// The samples that were taken from the store.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Adds the points of a selector: each step sees and reads its own.
    pub(crate) fn add_points(&mut self, points: &Points, hints: ResetHints) {
        for (step, value) in points.iter() {
            let samples = match value {
                ValueRef::Float(_) => 1,
                ValueRef::Histogram(histogram) => hints.samples(histogram) as u64,
            };
            self.add(step, samples, samples);
        }
    }

    /// Whether it matters at which steps samples are added.
    pub(crate) fn tells_steps(&self) -> bool {
        self.destination.tells_steps()
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

    /// Queryable and read samples, by step too, after `count` does the same to both ways of counting.
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
        let once = |counts: &SampleCounts| add(counts, &counts.destination().once(query), 1);
        check(query, once, &[1, 1, 1], &[1, 0, 0]);
    }

    #[test]
    fn the_inside_of_a_subquery_that_is_the_result_is_seen() {
        let (query, inner) = (Steps::instant(100), steps(70, 100, 10));
        let inside = |counts: &SampleCounts| {
            let destination = counts.destination().of_result();
            add(counts, &destination, inner.count());
            add(counts, &destination.once(inner), 1);
        };
        check(query, inside, &[8], &[5]);
    }

    #[test]
    fn the_inside_of_a_subquery_is_read_for_its_first_window() {
        let case = |range: i64, offset: i64, read: &[u64]| {
            let query = steps(100, 160, 30);
            let first = (100 - offset - range).div_euclid(10) * 10 + 10;
            let inner = steps(first, query.end - offset, 10);
            let windows = Windows { outer: query, inner, offset, range };
            let inside = |counts: &SampleCounts| {
                add(counts, &counts.destination().inside(windows), inner.count());
            };
            check(query, inside, &[0, 0, 0], read);
        };
        case(60, 0, &[6, 3, 3]);
        case(30, 0, &[3, 3, 3]);
        // What lies between two windows is read for none.
        case(20, 0, &[2, 2, 2]);
        case(20, 7, &[2, 2, 2]);
        case(60, 45, &[6, 3, 3]);
    }

    #[test]
    fn nested_windows_are_followed_to_the_steps_of_the_query() {
        let query = steps(100, 200, 100);
        let outer = Windows { outer: query, inner: steps(60, 200, 20), offset: 0, range: 50 };
        let nested = |range: i64| {
            let inner = steps(60 - range + 5, 200, 5);
            Windows { outer: outer.inner, inner, offset: 0, range }
        };
        let count = |range: i64| {
            let (outer, nested) = (outer, nested(range));
            move |counts: &SampleCounts| {
                let destination = counts.destination().inside(outer);
                let inside = destination.inside(nested);
                add(counts, &inside, nested.inner.count());
                add(counts, &destination.once(outer.inner), 1);
            }
        };
        // Of 60, 80, 100 / 160, 180, 200 each reads ten seconds; of 120 and 140 nothing is seen.
        check(query, count(10), &[0, 0], &[3 * 2 + 1, 3 * 2]);
        // All twenty, and for the first one also what is before.
        check(query, count(40), &[0, 0], &[8 + 2 * 4 + 1, 3 * 4]);
    }
}
