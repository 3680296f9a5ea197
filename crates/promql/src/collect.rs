//! Collects the results of the operators into the value of a query: points get their times,
//! delayed removals of the metric name are applied, and equal label sets are merged or refused.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::ast::Edges;
use super::budget::Held;
use super::context::Context;
use super::error::QueryError;
use super::functions::{Metric, Window, float_between};
use super::labelset::without_metadata;
use super::operators::build::Builder;
use super::operators::sliding::{Frame, Sliding, Tracks};
use super::operators::{BoxOperator, Scope, Series};
use super::plan::{Range, Source};
use super::points::{Points, ValueRef};
use super::source::visit;
use super::steps::Steps;
use super::value::{Sample, SeriesPoints};
use promkairos_chunk::Chunk;
use promkairos_model::limits::READ_RUN_BYTES;
use promkairos_model::{Labels, is_stale};
use promkairos_storage::{RunLength, chunk_bytes};

/// Most series of a range vector that are read at a time.
const SERIES_PER_READ: usize = 64;

/// Collects results and holds their memory.
pub(crate) struct Collector<'a> {
    context: &'a Context,
    held: Held,
}

/// Collects results for a query.
pub(crate) fn collect(context: &Context) -> Collector<'_> {
    Collector { context, held: context.budget.nothing() }
}

impl Collector<'_> {
    /// The labels of a series at the end of the query.
    fn final_labels(&self, series: &Series) -> Labels {
        if series.drop_name { without_metadata(&series.labels) } else { series.labels.clone() }
    }

    /// The memory of the results.
    pub(crate) fn into_held(self) -> Held {
        self.held
    }

    /// A scalar.
    pub(crate) fn scalar(&mut self, mut operator: BoxOperator) -> Result<f64, QueryError> {
        let mut points = Points::default();
        operator.next(&mut points)?;
        Ok(points.float(0).unwrap_or(f64::NAN))
    }

    /// A vector at one step, in the order of the operator.
    pub(crate) fn vector(
        &mut self,
        mut operator: BoxOperator,
        time: i64,
    ) -> Result<Vec<Sample>, QueryError> {
        let mut points = Points::default();
        let mut samples = Vec::new();
        for position in 0..operator.series().len() {
            self.context.check()?;
            operator.next(&mut points)?;
            let Some(value) = points.get(0).map(ValueRef::to_owned) else {
                samples.push(None);
                continue;
            };
            let labels = self.final_labels(&operator.series()[position]);
            let sample = Sample { labels, time, value };
            self.held.take(sample.value.samples(), sample.bytes())?;
            samples.push(Some(sample));
        }
        let mut known = HashSet::new();
        if !samples.iter().flatten().all(|sample| known.insert(&sample.labels)) {
            return Err(QueryError::same_labels());
        }
        drop(known);
        Ok(match operator.order() {
            Some(order) => order.into_iter().filter_map(|at| samples[at].take()).collect(),
            None => samples.into_iter().flatten().collect(),
        })
    }

    /// Series over all steps, in any order.
    pub(crate) fn matrix(
        &mut self,
        mut operator: BoxOperator,
        steps: Steps,
    ) -> Result<Vec<SeriesPoints>, QueryError> {
        let mut points = Points::default();
        let mut results = Vec::new();
        for position in 0..operator.series().len() {
            self.context.check()?;
            operator.next(&mut points)?;
            let samples = points.samples();
            if samples == 0 {
                continue;
            }
            let labels = self.final_labels(&operator.series()[position]);
            let mut series = SeriesPoints { labels, floats: Vec::new(), histograms: Vec::new() };
            let floats = points.floats().iter().filter(|value| !is_stale(**value)).count();
            let bytes = series.bytes() + floats * size_of::<(i64, f64)>();
            self.held.take(samples, bytes)?;
            series.floats.reserve_exact(floats);
            for (step, value) in points.iter() {
                let time = steps.time(step);
                match value {
                    ValueRef::Float(value) => series.floats.push((time, value)),
                    ValueRef::Histogram(value) => series.histograms.push((time, Arc::clone(value))),
                }
            }
            // Until here `points` counted the histograms.
            self.held.take(0, series.bytes().saturating_sub(bytes))?;
            results.push(series);
        }
        merge_equal(results)
    }

    /// The points of a window, from the store or a subquery.
    pub(crate) fn range(
        &mut self,
        builder: &Builder,
        range: &Range,
        scope: &Scope,
    ) -> Result<Vec<SeriesPoints>, QueryError> {
        let mut results = match &range.source {
            Source::Subquery { node, steps } => {
                let counted = self.context.counts.of_result(&scope.counted, *steps);
                let inner = Scope { steps: *steps, counted };
                let operator = builder.build(node, &inner)?;
                self.matrix(operator, *steps)?
            }
            Source::Selection { selection, .. } => {
                let frame = builder.frame(range, scope.steps, false);
                let selected = &builder.selections[*selection];
                let (mut results, total) = (Vec::new(), selected.series.len());
                let mut length = RunLength::new(SERIES_PER_READ, READ_RUN_BYTES, 1);
                let mut first = 0;
                while first < total {
                    let run = length.run(&*selected.reader, first, total);
                    let chunks = builder.runtime.block_on(selected.reader.read(run.clone()))?;
                    let bytes = chunk_bytes(&chunks);
                    length.note(run.len(), bytes);
                    let _held = self.context.budget.hold(0, bytes)?;
                    for (series, chunks) in selected.series[first..].iter().zip(&chunks) {
                        let found = self.one_range(&series.labels, chunks, frame)?;
                        if let Some(found) = &found {
                            let samples = found.samples() as u64;
                            let mut tally = scope.counted.tally();
                            tally.add(0, samples, samples);
                            self.context.counts.add(&tally);
                        }
                        results.extend(found);
                    }
                    first = run.end;
                }
                results
            }
        };
        results.sort_by(|a, b| a.labels.cmp(&b.labels));
        Ok(results)
    }

    /// The points of one series in a window.
    fn one_range(
        &mut self,
        labels: &Labels,
        chunks: &[Chunk],
        frame: Frame,
    ) -> Result<Option<SeriesPoints>, QueryError> {
        self.context.check()?;
        let (mut tracks, mut found) = (Tracks::default(), Ok(None));
        let each = |_: usize, window: &Window<'_>| {
            found = in_window(labels.clone(), window);
        };
        let mut sliding = Sliding::new(frame, &mut tracks, &self.context.budget, each);
        visit(chunks, frame.reach(), &mut sliding)?;
        sliding.finish()?;
        let Some(series) = found? else { return Ok(None) };
        self.held.take(series.samples(), series.bytes())?;
        Ok(Some(series))
    }
}

/// Merges series with equal labels. Fails if two of them have a point at the same time.
fn merge_equal(series: Vec<SeriesPoints>) -> Result<Vec<SeriesPoints>, QueryError> {
    let mut known = HashSet::new();
    if series.iter().all(|one| known.insert(&one.labels)) {
        drop(known);
        return Ok(series);
    }
    drop(known);
    let mut merged: BTreeMap<Labels, SeriesPoints> = BTreeMap::new();
    for one in series {
        match merged.get_mut(&one.labels) {
            Some(known) => {
                known.floats.extend(one.floats);
                known.histograms.extend(one.histograms);
            }
            None => {
                merged.insert(one.labels.clone(), one);
            }
        }
    }
    for one in merged.values_mut() {
        one.floats.sort_by_key(|(time, _)| *time);
        one.histograms.sort_by_key(|(time, _)| *time);
        let mut times: Vec<i64> = one.floats.iter().map(|(time, _)| *time).collect();
        times.extend(one.histograms.iter().map(|(time, _)| *time));
        times.sort_unstable();
        if times.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(QueryError::same_labels());
        }
    }
    Ok(merged.into_values().collect())
}

/// The points of a window, with values at its edges if the selector asks for them.
fn in_window(labels: Labels, window: &Window<'_>) -> Result<Option<SeriesPoints>, QueryError> {
    if window.is_empty() {
        return Ok(None);
    }
    if let Some(edges) = window.edges.filter(|_| !window.histograms.is_empty()) {
        let text = format!("{edges} modifier is not supported with histograms");
        return Err(QueryError::Execution(text));
    }
    let floats = match window.edges {
        Some(edges) => with_edges(window, edges),
        None => window.floats.iter().map(|p| (p.time, p.value)).collect(),
    };
    let histograms = window.histograms.iter().map(|p| (p.time, Arc::clone(&p.value))).collect();
    let series = SeriesPoints { labels, floats, histograms };
    let empty = series.floats.is_empty() && series.histograms.is_empty();
    Ok((!empty).then_some(series))
}

/// The points inside a window and one at each of its edges.
fn with_edges(window: &Window<'_>, edges: Edges) -> Vec<(i64, f64)> {
    let Window { start, end, floats, .. } = *window;
    let smoothed = edges == Edges::Smoothed;
    let mut last = floats.len() - 1;
    let mut first = floats[..last].partition_point(|point| point.time <= start).saturating_sub(1);
    if smoothed {
        last = floats[..last].partition_point(|point| point.time < end);
    }
    if floats[last].time <= start {
        return Vec::new();
    }
    let between = |a, b, time| float_between(a, b, time, Metric::Gauge);
    let left = match floats.get(first + 1) {
        Some(next) if smoothed && floats[first].time < start => {
            between(floats[first], *next, start)
        }
        _ => floats[first].value,
    };
    let right = if smoothed && last > 0 && floats[last].time > end {
        between(floats[last - 1], floats[last], end)
    } else {
        floats[last].value
    };
    first += usize::from(floats[first].time <= start);
    let inside = if floats[last].time >= end { first..last } else { first..last + 1 };
    let mut all = vec![(start, left)];
    all.extend(floats.get(inside).unwrap_or_default().iter().map(|p| (p.time, p.value)));
    all.push((end, right));
    all
}
