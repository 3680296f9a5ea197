//! Instant selectors: at each step the newest point of a series within the lookback.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::hints::HistogramReader;
use super::runs::{Runs, SeriesWork};
use super::scope::Scope;
use super::{Operator, PieceFolder, Series};
use crate::budget::Budget;
use crate::context::Context;
use crate::counts::Destination;
use crate::error::QueryError;
use crate::histogram::FloatHistogram;
use crate::plan::{Lookup, ResetHints};
use crate::points::Points;
use crate::series_list::SeriesList;
use crate::source::{Selected, Visitor, visit};
use crate::steps::Steps;
use promkairos_chunk::Chunk;
use promkairos_model::{Point, TimeRange, Value, is_stale};

/// What is returned of the newest point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Its value.
    Value,
    /// Its time in seconds.
    Timestamp,
    /// Its start timestamp in seconds.
    StartTimestamp,
    /// Its time in milliseconds; a histogram is an error.
    InfoTimestamp,
}

/// The newest points of all series of a selection.
pub(crate) struct Selector {
    selected: Arc<Selected>,
    /// The series of the result; `None` if they are the selected series.
    series: Option<SeriesList>,
    runs: Runs<Newest>,
}

impl Selector {
    /// Selects at the steps of `scope`.
    pub(crate) fn new(
        selected: &Arc<Selected>,
        lookup: Lookup,
        wanted: Wanted,
        hints: ResetHints,
        scope: &Scope,
        context: &Arc<Context>,
        runtime: &Handle,
    ) -> Result<Self, QueryError> {
        let Scope { steps, counted } = scope.clone();
        let nameless = |series: &Series| series.nameless(context);
        let series = match wanted {
            Wanted::Value | Wanted::InfoTimestamp => None,
            Wanted::Timestamp | Wanted::StartTimestamp => {
                Some(SeriesList::of(&selected.series, &context.budget, nameless)?)
            }
        };
        let work = Newest { lookup, wanted, hints, steps, counted, context: Arc::clone(context) };
        let (selected, context) = (Arc::clone(selected), Arc::clone(context));
        let shared = Arc::clone(&selected);
        let runs = Runs::new(shared, work, context, runtime.clone(), steps.count());
        Ok(Self { selected, series, runs })
    }
}

impl Operator for Selector {
    fn series(&self) -> &[Series] {
        self.series.as_deref().unwrap_or(&self.selected.series)
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        self.runs.next(points)
    }

    fn fold_pieces(&mut self, folder: Arc<dyn PieceFolder>) -> bool {
        self.runs.fold_pieces(folder)
    }

    fn next_folded(&mut self) -> Result<bool, QueryError> {
        self.runs.next_folded()
    }
}

struct Newest {
    lookup: Lookup,
    wanted: Wanted,
    hints: ResetHints,
    steps: Steps,
    counted: Destination,
    context: Arc<Context>,
}

impl SeriesWork for Newest {
    type Scratch = ();

    fn work(
        &self,
        _: usize,
        chunks: &[Chunk],
        (): &mut (),
        points: &mut Points,
    ) -> Result<(), QueryError> {
        let looks = self.lookup.steps(self.steps);
        let lookback = self.context.lookback;
        points.clear(self.steps.count());
        let mut filler = Filler {
            looks,
            lookback,
            wanted: self.wanted,
            step: 0,
            count: looks.count(),
            newest: None,
            histograms: HistogramReader::new(self.hints),
            hints: self.hints,
            points,
            budget: &self.context.budget,
            samples: 0,
            refused: None,
        };
        let before = looks.start.saturating_sub(lookback.saturating_sub(1));
        visit(chunks, TimeRange::new(before, looks.last()), &mut filler)?;
        filler.fill_until(i64::MAX);
        let (samples, refused) = (filler.samples, filler.refused);
        if let Some(error) = refused {
            return Err(error);
        }
        if self.lookup.at.is_some() {
            repeat_first(points, &self.context.budget)?;
        }
        self.count(samples, points);
        Ok(())
    }
}

impl Newest {
    /// Counts points, which count as `samples` samples.
    fn count(&self, samples: usize, points: &Points) {
        let mut tally = self.counted.tally();
        if tally.tells_steps() {
            tally.add_points(points, self.hints);
        } else {
            tally.add(0, samples as u64, samples as u64);
        }
        self.context.counts.add(&tally);
    }
}

fn repeat_first(points: &mut Points, budget: &Arc<Budget>) -> Result<(), QueryError> {
    if let Some(value) = points.float(0) {
        points.floats_mut().fill(value);
    } else if let Some(histogram) = points.histogram(0).cloned() {
        for step in 1..points.steps() {
            points.set_histogram(step, Arc::clone(&histogram), budget)?;
        }
    }
    Ok(())
}

/// The newest point so far.
struct Newer {
    time: i64,
    start: i64,
    value: NewerValue,
}

enum NewerValue {
    Float(f64),
    Histogram(Arc<FloatHistogram>),
}

struct Filler<'a> {
    looks: Steps,
    lookback: i64,
    wanted: Wanted,
    /// The first step whose point is not decided.
    step: usize,
    count: usize,
    newest: Option<Newer>,
    histograms: HistogramReader,
    hints: ResetHints,
    points: &'a mut Points,
    budget: &'a Arc<Budget>,
    samples: usize,
    /// The error after which no more histograms are added to `points`.
    refused: Option<QueryError>,
}

impl Filler<'_> {
    /// Decides all steps before `time`: their newest point is `newest`.
    #[inline]
    fn fill_until(&mut self, time: i64) {
        if self.step >= self.count || self.looks.time(self.step) >= time {
            return;
        }
        let first = self.step;
        while self.step < self.count && self.looks.time(self.step) < time {
            self.step += 1;
        }
        let Some(newest) = &self.newest else { return };
        let fresh =
            |step: &usize| newest.time > self.looks.time(*step).saturating_sub(self.lookback);
        let steps = (first..self.step).take_while(fresh);
        let seconds = match self.wanted {
            Wanted::Value => None,
            Wanted::Timestamp => Some(newest.time as f64 / 1000.0),
            Wanted::StartTimestamp => Some(newest.start as f64 / 1000.0),
            Wanted::InfoTimestamp => Some(newest.time as f64),
        };
        match (&newest.value, seconds) {
            (NewerValue::Float(value), _) if is_stale(*value) => {}
            (NewerValue::Histogram(histogram), _) if is_stale(histogram.sum) => {}
            (NewerValue::Float(value), seconds) => {
                for step in steps {
                    self.points.set_float(step, seconds.unwrap_or(*value));
                    self.samples += 1;
                }
            }
            (NewerValue::Histogram(_), Some(seconds)) => {
                if self.wanted == Wanted::InfoTimestamp {
                    let text = "this should be an info metric, with float samples";
                    self.refused.get_or_insert_with(|| QueryError::execution(text));
                }
                for step in steps {
                    self.points.set_float(step, seconds);
                    self.samples += 1;
                }
            }
            (NewerValue::Histogram(histogram), None) => {
                if self.refused.is_some() {
                    return;
                }
                for step in steps {
                    let put = self.points.set_histogram(step, Arc::clone(histogram), self.budget);
                    if let Err(error) = put {
                        self.refused = Some(error);
                        return;
                    }
                    self.samples += self.hints.samples(histogram);
                }
            }
        }
    }
}

impl Visitor for Filler<'_> {
    fn wants_starts(&self) -> bool {
        self.wanted == Wanted::StartTimestamp
    }

    #[inline]
    fn float(&mut self, time: i64, start: i64, value: f64) {
        self.fill_until(time);
        self.newest = Some(Newer { time, start, value: NewerValue::Float(value) });
    }

    fn point(&mut self, point: Point) {
        let Value::Histogram(histogram) = point.value else { return };
        self.fill_until(point.timestamp);
        let (time, start) = (point.timestamp, point.start_timestamp);
        if self.step < self.count {
            let oldest = self.looks.time(self.step).saturating_sub(self.lookback);
            if time <= oldest {
                self.histograms.forget();
            }
        }
        let histogram = self.histograms.read(&histogram);
        self.newest = Some(Newer { time, start, value: NewerValue::Histogram(histogram) });
    }
}
