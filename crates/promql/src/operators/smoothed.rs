//! Smoothed instant selectors: at each step the value interpolated from the points around it.

use std::sync::Arc;

use super::Scope;
use super::runs::SeriesWork;
use super::sliding::{Frame, Sliding, Tracks};
use super::windows::Counter;
use crate::annotations::{Annotations, Note};
use crate::ast::Edges;
use crate::context::Context;
use crate::error::QueryError;
use crate::functions::{Metric, Notes, Window, float_between, histogram_between};
use crate::plan;
use crate::points::{Points, Value};
use crate::position::Span;
use crate::source::{Selected, visit};
use promkairos_chunk::Chunk;
use promkairos_model::ResetHint;

/// Interpolates the values of each series of a selection.
pub(crate) struct Smooth {
    frame: Frame,
    span: Span,
    selected: Arc<Selected>,
    scope: Scope,
    context: Arc<Context>,
}

impl Smooth {
    /// The values of `selector` at the steps of `scope`.
    pub(crate) fn new(
        selected: &Arc<Selected>,
        selector: &plan::Selector,
        scope: &Scope,
        context: &Arc<Context>,
    ) -> Self {
        let frame = Frame {
            looks: selector.lookup.steps(scope.steps),
            range: 0,
            edges: Some(Edges::Smoothed),
            hints: selector.hints,
            lookback: context.lookback,
            starts: false,
        };
        let (selected, context, scope) = (Arc::clone(selected), Arc::clone(context), scope.clone());
        Self { frame, span: selector.span, selected, scope, context }
    }
}

impl SeriesWork for Smooth {
    type Scratch = Tracks;
    const FOLDS: bool = false;

    fn selected(&self) -> &Arc<Selected> {
        &self.selected
    }

    fn work(
        &self,
        position: usize,
        chunks: &[Chunk],
        tracks: &mut Tracks,
        points: &mut Points,
    ) -> Result<(), QueryError> {
        let frame = self.frame;
        points.clear(self.scope.steps.count());
        let mut annotations = Annotations::default();
        let metric = self.selected.series[position].labels.as_ref().metric_name();
        let fixed = points.steps() != frame.looks.count();
        let (budget, mut refused) = (&self.context.budget, Ok(()));
        let mut tally = self.scope.counted.tally();
        let mut counter = Counter::new(frame.hints);
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
        return notes.no_result(|metric| Note::MixedFloatsHistograms { metric });
    }
    let time = window.end;
    if window.histograms.is_empty() {
        let next = window.floats.partition_point(|point| point.time < time);
        let after = window.floats.get(next);
        let before = next.checked_sub(1).map(|at| window.floats[at]);
        return Some(Value::Float(match (before, after) {
            (_, Some(after)) if after.time == time => after.value,
            (Some(before), Some(after)) => float_between(before, *after, time, Metric::Gauge),
            (before, _) => before?.value,
        }));
    }
    let next = window.histograms.partition_point(|point| point.time < time);
    let after = window.histograms.get(next);
    let before = next.checked_sub(1).map(|at| &window.histograms[at]);
    Some(Value::Histogram(match (before, after) {
        (_, Some(after)) if after.time == time => Arc::clone(&after.value),
        (Some(before), Some(after)) => {
            let gauge = |hint| hint == ResetHint::Gauge;
            let gauges = gauge(before.value.reset_hint) && gauge(after.value.reset_hint);
            let metric = if gauges { Metric::Gauge } else { Metric::Counter };
            Arc::new(histogram_between(before, after, time, metric, notes)?)
        }
        (before, _) => {
            // The hint is about the previous point, not about this value.
            let mut value = (*before?.value).clone();
            value.reset_hint = ResetHint::Unknown;
            Arc::new(value)
        }
    }))
}
