//! Functions of windows: `rate`, `sum_over_time` and similar functions, over a selector or a
//! subquery.

use std::sync::{Arc, OnceLock};

use super::kernels::Kernel;
use super::merged::Merged;
use super::rate::{Columns, RateKernel};
use super::runs::SeriesWork;
use super::sliding::{Frame, Sliding, Tracks};
use super::{BoxOperator, Operator, Series};
use crate::annotations::{Annotations, Note};
use crate::budget::Held;
use crate::context::Context;
use crate::counts::Destination;
use crate::error::QueryError;
use crate::functions::{FloatPoint, Notes, Window};
use crate::labelset::differ_without_metadata;
use crate::plan::ResetHints;
use crate::points::Points;
use crate::position::Span;
use crate::series_list::SeriesList;
use crate::settings::CounterSign;
use crate::signature::Function;
use crate::source::{Selected, in_range, visit};
use crate::steps::Steps;
use promkairos_chunk::Chunk;
use promkairos_model::{Labels, METRIC_TYPE};

/// Number of steps of a series after which the query is checked for cancellation and limits.
const STEPS_PER_CHECK: usize = 256;

/// Number of chunks of a series after which the query is checked too.
const CHUNKS_PER_CHECK: usize = 16;

/// A function of windows at all steps.
pub(crate) struct WindowFunction {
    /// What it computes.
    pub kernel: Kernel,
    /// Where the windows lie.
    pub frame: Frame,
    /// The steps; more than windows if the windows are at a fixed time.
    pub steps: Steps,
    /// The place of the first argument.
    pub span: Span,
    /// The place of the last argument.
    pub last_argument: Span,
    /// Where the points of the windows are counted.
    pub counted: Destination,
    /// The shared state of the query.
    pub context: Arc<Context>,
}

impl WindowFunction {
    /// Whether the values still mean the metric.
    fn keeps_names(&self) -> bool {
        matches!(self.kernel.function, Function::LastOverTime | Function::FirstOverTime)
    }

    /// The series of the result.
    fn result_series(&self, input: &[Series]) -> Result<SeriesList, QueryError> {
        let keeps = self.keeps_names();
        SeriesList::of(input, &self.context.budget, |series| {
            if keeps && !series.drop_name { series.clone() } else { series.nameless(&self.context) }
        })
    }

    /// Computes one series from its points.
    fn compute(
        &self,
        series: &Series,
        input: Input<'_>,
        tracks: &mut Tracks,
        points: &mut Points,
    ) -> Result<(), QueryError> {
        points.clear(self.steps.count());
        let mut annotations = Annotations::default();
        let metric = series.labels.as_ref().metric_name();
        let mut tally = self.counted.tally();
        let mut counter = Counter::new(self.frame.hints);
        let fixed = self.steps.count() != self.frame.looks.count();
        let (budget, mut failed) = (&self.context.budget, None);
        let each = |step: usize, window: &Window<'_>| {
            if step.is_multiple_of(STEPS_PER_CHECK) {
                failed = failed.take().or_else(|| self.context.check_with(tally.taken()).err());
            }
            if window.is_empty() || failed.is_some() {
                return;
            }
            let (queryable, mut read) = match input {
                Input::Chunks(_) => counter.count(window),
                Input::Results(..) => (0, 0),
            };
            let steps = if fixed { 0..self.steps.count() } else { step..step + 1 };
            let (span, last_argument) = (self.span, self.last_argument);
            let annotations = &mut annotations;
            let mut notes = Notes { metric, span, last_argument, annotations };
            for step in steps {
                tally.add(step, queryable, std::mem::take(&mut read));
                let time = self.steps.time(step);
                if let Some(value) = self.kernel.apply(window, step, time, &mut notes)
                    && let Err(error) = points.set(step, value, budget)
                {
                    failed = Some(error);
                    return;
                }
            }
        };
        let mut sliding = Sliding::new(self.frame, tracks, budget, each);
        match input {
            Input::Chunks(chunks) => visit(chunks, self.frame.reach(), &mut sliding)?,
            Input::Results(steps, results) => {
                results.iter().for_each(|(step, value)| sliding.result(steps.time(step), value));
            }
        }
        sliding.finish()?;
        if let Some(error) = failed {
            return Err(error);
        }
        self.context.counts.add(&tally);
        self.tell_non_counter(series, points);
        if !annotations.is_empty() {
            self.context.annotate_all(annotations);
        }
        Ok(())
    }

    /// Computes the growth of one series of floats on the fast path. Returns `false` and does nothing
    /// if the function or the points need the slow path.
    fn grow(
        &self,
        series: &Series,
        chunks: &[Chunk],
        columns: &mut Columns,
        points: &mut Points,
    ) -> Result<bool, QueryError> {
        let floats = chunks.iter().all(|chunk| chunk.kind.is_floats());
        let every_step = self.steps.count() == self.frame.looks.count();
        let Some(growth) = self.kernel.growth().filter(|_| floats && every_step) else {
            return Ok(false);
        };
        let Some(mut growing) = RateKernel::new(growth, &self.frame, columns) else {
            return Ok(false);
        };
        points.clear(self.steps.count());
        let mut tally = self.counted.tally();
        let range = self.frame.reach();
        for (at, chunk) in in_range(chunks, range).enumerate() {
            if at % CHUNKS_PER_CHECK == CHUNKS_PER_CHECK - 1 {
                self.context.check_with(tally.taken())?;
            }
            growing.read(chunk)?;
            growing.give(&mut tally, points, &self.context)?;
        }
        growing.finish(&mut tally, points, &self.context)?;
        self.context.counts.add(&tally);
        self.tell_non_counter(series, points);
        Ok(true)
    }

    /// Adds a note if a function of counters was called on floats that seem to be no counter.
    fn tell_non_counter(&self, series: &Series, points: &Points) {
        if !matches!(self.kernel.function, Function::Rate | Function::Increase) {
            return;
        }
        let Some(note) = non_counter(&series.labels, self.context.counter_sign) else { return };
        if (0..points.steps()).any(|step| points.float(step).is_some()) {
            self.context.annotate(note.at(self.span));
        }
    }
}

/// The note on a metric that seems to be no counter; `None` for a series without a name.
fn non_counter(labels: &Labels, sign: CounterSign) -> Option<Note> {
    const ENDINGS: [&str; 4] = ["_total", "_sum", "_count", "_bucket"];
    const TYPES: [&str; 2] = ["counter", "histogram"];
    let metric = labels.as_ref().metric_name();
    if metric.is_empty() {
        return None;
    }
    let kind = labels.get(METRIC_TYPE);
    let counts = match sign {
        CounterSign::Name => ENDINGS.iter().any(|end| metric.ends_with(end)),
        CounterSign::Type => TYPES.contains(&kind),
    };
    (!counts).then(|| {
        let (metric, kind) = (metric.to_owned(), kind.to_owned());
        match sign {
            CounterSign::Name => Note::PossibleNonCounter { metric },
            CounterSign::Type => Note::PossibleNonCounterType { metric, kind },
        }
    })
}

/// The points of a series.
#[derive(Clone, Copy)]
enum Input<'a> {
    /// From the store.
    Chunks(&'a [Chunk]),
    /// From a subquery at these steps. They are not counted: the inside of the subquery was.
    Results(Steps, &'a Points),
}

/// Counts the points of consecutive windows.
pub(super) struct Counter {
    hints: ResetHints,
    last_end: i64,
}

impl Counter {
    /// A counter before the first window.
    pub(super) fn new(hints: ResetHints) -> Self {
        Self { hints, last_end: i64::MIN }
    }

    /// The number of samples of a window, and how many of them are in no earlier window.
    #[inline]
    pub(super) fn count(&mut self, window: &Window<'_>) -> (u64, u64) {
        let last = |time: Option<i64>| time.unwrap_or(i64::MIN);
        let new = |time: i64| time > self.last_end;
        let floats = window.floats.iter().rev().take_while(|point| new(point.time)).count();
        let newer = window.histograms.iter().rev().take_while(|point| new(point.time));
        let newer: usize = newer.map(|point| self.hints.samples(&point.value)).sum();
        let all = window.histograms.iter().map(|point| self.hints.samples(&point.value));
        let all: usize = all.sum();
        self.last_end = last(window.floats.last().map(|point| point.time))
            .max(last(window.histograms.last().map(|point| point.time)))
            .max(self.last_end);
        ((window.floats.len() + all) as u64, (floats + newer) as u64)
    }
}

/// A function over the windows of a selection.
pub(crate) struct OverSelection {
    function: WindowFunction,
    selected: Arc<Selected>,
    /// Made at the first call; `None` if the budget refused it, and the query fails.
    series: OnceLock<Option<SeriesList>>,
    /// Whether [`Operator::named`] returns the selected series.
    named: bool,
}

impl OverSelection {
    /// Applies `function`.
    pub(crate) fn new(function: WindowFunction, selected: &Arc<Selected>) -> Self {
        let drops = !function.keeps_names() && !function.context.delays_names();
        let named =
            drops && differ_without_metadata(selected.series.iter().map(|series| &series.labels));
        Self { function, selected: Arc::clone(selected), series: OnceLock::new(), named }
    }
}

impl SeriesWork for OverSelection {
    type Scratch = (Tracks, Columns);

    fn selected(&self) -> &Arc<Selected> {
        &self.selected
    }

    fn series(&self) -> &[Series] {
        let made = self.series.get_or_init(|| {
            let made = self.function.result_series(&self.selected.series);
            made.inspect_err(|error| self.function.context.refuse(error)).ok()
        });
        made.as_deref().unwrap_or(&self.selected.series)
    }

    fn named(&self) -> Option<&[Series]> {
        self.named.then_some(&self.selected.series)
    }

    fn work(
        &self,
        position: usize,
        chunks: &[Chunk],
        (tracks, columns): &mut (Tracks, Columns),
        points: &mut Points,
    ) -> Result<(), QueryError> {
        let series = &self.selected.series[position];
        if self.function.grow(series, chunks, columns, points)? {
            return Ok(());
        }
        self.function.compute(series, Input::Chunks(chunks), tracks, points)
    }
}

/// A function over the windows of a subquery.
pub(crate) struct OverSubquery {
    function: WindowFunction,
    input: BoxOperator,
    input_steps: Steps,
    series: SeriesList,
    position: usize,
    tracks: Tracks,
    scratch: Points,
    /// The memory of the floats of a window.
    _held: Held,
}

impl OverSubquery {
    /// Applies `function` to the results of `input` at its own steps.
    pub(crate) fn boxed(
        function: WindowFunction,
        input: BoxOperator,
        input_steps: Steps,
    ) -> Result<BoxOperator, QueryError> {
        let budget = Arc::clone(&function.context.budget);
        let series = function.result_series(input.series())?;
        let held = budget.hold(0, input_steps.count().saturating_mul(size_of::<FloatPoint>()))?;
        let operator = Self {
            function,
            input,
            input_steps,
            series,
            position: 0,
            tracks: Tracks::default(),
            scratch: Points::default(),
            _held: held,
        };
        Merged::of(Box::new(operator), &budget)
    }
}

impl Operator for OverSubquery {
    fn series(&self) -> &[Series] {
        &self.series
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        self.function.context.check()?;
        self.input.next(&mut self.scratch)?;
        let series = &self.input.series()[self.position];
        self.position += 1;
        let input = Input::Results(self.input_steps, &self.scratch);
        self.function.compute(series, input, &mut self.tracks, points)
    }
}
