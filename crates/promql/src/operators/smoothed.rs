//! Smoothed instant selectors: at each step the value interpolated from the points around it.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::runs::{Runs, SeriesWork};
use super::scope::Scope;
use super::sliding::{Frame, Sliding, Tracks};
use super::windows::{Counter, Read};
use super::{BoxOperator, Operator, Series};
use crate::annotations::{Annotations, Note};
use crate::ast::Edges;
use crate::context::Context;
use crate::counts::Destination;
use crate::error::QueryError;
use crate::functions::{Metric, Notes, Window, float_between, histogram_between};
use crate::plan;
use crate::points::{Points, Value};
use crate::position::Span;
use crate::source::{Selected, visit};
use crate::steps::Steps;
use promkairos_chunk::Chunk;
use promkairos_model::ResetHint;

/// The interpolated values of all series of a selection.
pub(crate) fn smoothed(
    selected: &Arc<Selected>,
    selector: &plan::Selector,
    scope: &Scope,
    context: &Arc<Context>,
    runtime: &Handle,
) -> BoxOperator {
    let Scope { steps, counted } = scope.clone();
    let frame = Frame {
        looks: selector.lookup.steps(steps),
        range: 0,
        edges: Some(Edges::Smoothed),
        hints: selector.hints,
        lookback: context.lookback,
        starts: false,
    };
    let (shared, span) = (Arc::clone(selected), selector.span);
    let context_of_work = Arc::clone(context);
    let work = Smooth { frame, steps, span, selected: shared, counted, context: context_of_work };
    let count = steps.count();
    let runs = Runs::new(Arc::clone(selected), work, Arc::clone(context), runtime.clone(), count);
    Box::new(Smoothed { runs })
}

struct Smoothed {
    runs: Runs<Smooth>,
}

impl Operator for Smoothed {
    fn series(&self) -> &[Series] {
        &self.runs.work().selected.series
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        self.runs.next(points)
    }
}

struct Smooth {
    frame: Frame,
    steps: Steps,
    span: Span,
    selected: Arc<Selected>,
    counted: Destination,
    context: Arc<Context>,
}

impl SeriesWork for Smooth {
    type Scratch = Tracks;

    fn work(
        &self,
        position: usize,
        chunks: &[Chunk],
        tracks: &mut Tracks,
        points: &mut Points,
    ) -> Result<(), QueryError> {
        let frame = self.frame;
        points.clear(self.steps.count());
        let mut annotations = Annotations::default();
        let metric = self.selected.series[position].labels.as_ref().metric_name();
        let fixed = self.steps.count() != frame.looks.count();
        let (budget, mut refused) = (&self.context.budget, Ok(()));
        let mut tally = self.counted.tally();
        let mut counter = Counter::new(Read::FromStore, frame.hints);
        let each = |step: usize, window: &Window<'_>| {
            tally.take(counter.count(window).1);
            if refused.is_err() {
                return;
            }
            let (span, annotations) = (self.span, &mut annotations);
            let mut notes = Notes { metric, span, last_argument: span, annotations };
            let Some(value) = between(window, &mut notes) else { return };
            let mut steps = if fixed { 0..points.steps() } else { step..step + 1 };
            refused = steps.try_for_each(|step| points.set(step, value.clone(), budget));
        };
        let mut sliding = Sliding::new(frame, tracks, budget, each);
        visit(chunks, frame.reach(), &mut sliding)?;
        sliding.finish()?;
        refused?;
        self.context.counts.add(&tally);
        if !annotations.is_empty() {
            self.context.annotate_all(annotations);
        }
        Ok(())
    }
}

/// The value at the end of a window that reaches beyond its end.
fn between(window: &Window<'_>, notes: &mut Notes<'_>) -> Option<Value> {
    if window.is_mixed() {
        notes.add_named(|metric| Note::MixedFloatsHistograms { metric });
        return None;
    }
    let time = window.end;
    if window.histograms.is_empty() {
        let next = window.floats.partition_point(|point| point.time < time);
        let exact = window.floats.get(next).filter(|point| point.time == time);
        return match (next.checked_sub(1).map(|at| window.floats[at]), exact) {
            (_, Some(point)) => Some(Value::Float(point.value)),
            (None, None) => None,
            (Some(before), None) => Some(Value::Float(match window.floats.get(next) {
                Some(after) => float_between(before, *after, time, Metric::Gauge),
                None => before.value,
            })),
        };
    }
    let next = window.histograms.partition_point(|point| point.time < time);
    let exact = window.histograms.get(next).filter(|point| point.time == time);
    match (next.checked_sub(1).map(|at| &window.histograms[at]), exact) {
        (_, Some(point)) => Some(Value::Histogram(Arc::clone(&point.value))),
        (None, None) => None,
        (Some(before), None) => match window.histograms.get(next) {
            Some(after)
                if before.value.has_custom_buckets() != after.value.has_custom_buckets() =>
            {
                notes.add_named(|metric| Note::MixedExponentialCustom { metric });
                None
            }
            Some(after) => {
                let gauge = |hint| hint == ResetHint::Gauge;
                let gauges = gauge(before.value.reset_hint) && gauge(after.value.reset_hint);
                let metric = if gauges { Metric::Gauge } else { Metric::Counter };
                let value = histogram_between(before, after, time, metric, notes)?;
                Some(Value::Histogram(Arc::new(value)))
            }
            None => {
                // The hint is about the previous point, not about this value.
                let mut value = (*before.value).clone();
                value.reset_hint = ResetHint::Unknown;
                Some(Value::Histogram(Arc::new(value)))
            }
        },
    }
}
