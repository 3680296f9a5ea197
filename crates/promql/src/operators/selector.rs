//! Instant selectors: at each step the newest point of a series within the lookback.

use std::sync::Arc;

use super::hints::HistogramReader;
use super::runs::SeriesWork;
use super::{Scope, Series};
use crate::budget::Budget;
use crate::context::Context;
use crate::error::QueryError;
use crate::plan::{Lookup, ResetHints};
use crate::points::{Points, Value};
use crate::series_list::SeriesList;
use crate::source::{Selected, Visitor, visit};
use crate::steps::Steps;
use promkairos_chunk::Chunk;
use promkairos_model::{Point, TimeRange, Value as Stored, is_stale};

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

/// Finds the newest points of each series of a selection.
pub(crate) struct Newest {
    selected: Arc<Selected>,
    /// The series of the result; `None` if they are the selected series.
    series: Option<SeriesList>,
    lookup: Lookup,
    wanted: Wanted,
    hints: ResetHints,
    scope: Scope,
    context: Arc<Context>,
}

impl Newest {
    /// Finds the points at the steps of `scope`.
    pub(crate) fn new(
        selected: &Arc<Selected>,
        lookup: Lookup,
        wanted: Wanted,
        hints: ResetHints,
        scope: &Scope,
        context: &Arc<Context>,
    ) -> Result<Self, QueryError> {
        let nameless = |series: &Series| series.nameless(context);
        let series = match wanted {
            Wanted::Value | Wanted::InfoTimestamp => None,
            Wanted::Timestamp | Wanted::StartTimestamp => {
                Some(SeriesList::of(&selected.series, &context.budget, nameless)?)
            }
        };
        let (selected, context, scope) = (Arc::clone(selected), Arc::clone(context), scope.clone());
        Ok(Self { selected, series, lookup, wanted, hints, scope, context })
    }

    /// Counts points, which count as `samples` samples.
    fn count(&self, samples: usize, points: &Points) {
        let mut tally = self.scope.counted.tally();
        if tally.tells_steps() {
            tally.add_points(points, self.hints);
        } else {
            tally.add(0, samples as u64, samples as u64);
        }
        self.context.counts.add(&tally);
    }
}

impl SeriesWork for Newest {
    type Scratch = ();

    fn selected(&self) -> &Arc<Selected> {
        &self.selected
    }

    fn series(&self) -> &[Series] {
        self.series.as_deref().unwrap_or(&self.selected.series)
    }

    fn work(
        &self,
        _: usize,
        chunks: &[Chunk],
        (): &mut (),
        points: &mut Points,
    ) -> Result<(), QueryError> {
        let looks = self.lookup.steps(self.scope.steps);
        let lookback = self.context.lookback;
        points.clear(self.scope.steps.count());
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
            points.repeat_first(&self.context.budget)?;
        }
        self.count(samples, points);
        Ok(())
    }
}

/// The newest point so far.
struct Newer {
    time: i64,
    start: i64,
    value: Value,
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
            (Value::Float(value), _) if is_stale(*value) => {}
            (Value::Histogram(histogram), _) if is_stale(histogram.sum) => {}
            (Value::Float(value), seconds) => {
                for step in steps {
                    self.points.set_float(step, seconds.unwrap_or(*value));
                    self.samples += 1;
                }
            }
            (Value::Histogram(_), Some(seconds)) => {
                if self.wanted == Wanted::InfoTimestamp {
                    let text = "this should be an info metric, with float samples";
                    self.refused.get_or_insert_with(|| QueryError::execution(text));
                }
                for step in steps {
                    self.points.set_float(step, seconds);
                    self.samples += 1;
                }
            }
            (Value::Histogram(histogram), None) => {
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
        self.newest = Some(Newer { time, start, value: Value::Float(value) });
    }

    fn point(&mut self, point: Point) {
        let Stored::Histogram(histogram) = point.value else { return };
        self.fill_until(point.timestamp);
        let (time, start) = (point.timestamp, point.start_timestamp);
        if self.step < self.count {
            let oldest = self.looks.time(self.step).saturating_sub(self.lookback);
            if time <= oldest {
                self.histograms.forget();
            }
        }
        let histogram = self.histograms.read(&histogram);
        self.newest = Some(Newer { time, start, value: Value::Histogram(histogram) });
    }
}
