//! `histogram_quantile`, `histogram_quantiles` and `histogram_fraction`: over native histograms
//! and over classic ones, whose buckets are series that differ only in the label `le`.
//!
//! A classic histogram is computed when the last of its series was read; only the series of
//! incomplete histograms are kept. The points of a series decide at each step what it is: a float is
//! a bucket of a classic histogram, and a native histogram may have a label `le` of its own.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::merged::Merged;
use super::{BoxOperator, Operator, Series};
use crate::annotations::Note;
use crate::budget::Held;
use crate::context::Context;
use crate::error::QueryError;
use crate::format::open_metrics;
use crate::go_float;
use crate::histogram::{
    ClassicBucket, FloatHistogram, NanObservations, classic_fraction, classic_quantile,
};
use crate::labelset::with;
use crate::points::{KeptPoints, Points};
use crate::position::Span;
use crate::series_list::{SeriesList, made_bytes};
use crate::steps::Steps;
use promkairos_model::Labels;

/// The label of the upper bound of a classic bucket.
const BUCKET_LABEL: &str = "le";

/// The measure that is computed of each histogram.
pub(crate) enum Measure {
    /// The quantiles, by step. A label of this name distinguishes them.
    Quantiles(Option<String>, Vec<Vec<f64>>),
    /// The share of observations between two bounds, by step.
    Fraction(Vec<f64>, Vec<f64>),
}

impl Measure {
    /// The number of results of a histogram.
    fn count(&self) -> usize {
        match self {
            Self::Quantiles(_, quantiles) => quantiles.len(),
            Self::Fraction(..) => 1,
        }
    }
}

/// A result and the series that it is computed from.
enum Output {
    /// The native histograms of a series whose floats are a classic bucket.
    OfBucket(usize),
    /// A histogram, native or classic.
    Whole(Source),
}

/// A histogram, native or classic, and its series.
struct Source {
    /// The series without an upper bound, if there is one: it has the native histograms.
    native: Option<usize>,
    /// The classic buckets: upper bound and position of the series.
    buckets: Vec<(f64, usize)>,
    /// The position of the last series.
    last: usize,
    /// The metric's name.
    metric: String,
}

/// Computes a measure of every histogram of a vector.
pub(crate) struct Buckets {
    input: BoxOperator,
    measure: Measure,
    outputs: VecDeque<Output>,
    series: SeriesList,
    kept: HashMap<usize, KeptPoints>,
    read: usize,
    /// The next results; `None` for a result without points.
    ready: VecDeque<Option<KeptPoints>>,
    steps: Steps,
    span: Span,
    context: Arc<Context>,
    /// The memory of `outputs`.
    _held: Held,
}

/// Bytes of an output and of each of its series, without its labels and name.
const SOURCE_BYTES: usize = 2 * (size_of::<Output>() + size_of::<Labels>()) + 64;

impl Buckets {
    /// Computes `measure` of `input`, the argument at `span`.
    pub(crate) fn boxed(
        input: BoxOperator,
        measure: Measure,
        steps: Steps,
        span: Span,
        context: &Arc<Context>,
    ) -> Result<BoxOperator, QueryError> {
        let mut held = context.budget.nothing();
        let (outputs, bases) = outputs(input.series(), &mut held)?;
        let places = outputs.len() * measure.count();
        let mut series = SeriesList::new(places, &context.budget)?;
        let text = |values: &Vec<f64>| open_metrics(values.first().copied().unwrap_or(f64::NAN));
        let label = match &measure {
            Measure::Quantiles(Some(name), quantiles) => {
                Some((name, quantiles.iter().map(text).collect::<Vec<_>>()))
            }
            _ => None,
        };
        for base in &bases {
            let nameless = Series::new(base.clone()).nameless(context);
            let Some((name, values)) = &label else {
                series.push_made(nameless)?;
                continue;
            };
            for value in values {
                let labels = with(&nameless.labels, name, value)?;
                series.push_made(Series { labels, ..nameless.clone() })?;
            }
        }
        let buckets = Self {
            input,
            measure,
            outputs: outputs.into(),
            series,
            kept: HashMap::new(),
            read: 0,
            ready: VecDeque::new(),
            steps,
            span,
            context: Arc::clone(context),
            _held: held,
        };
        Merged::of(Box::new(buckets), &context.budget)
    }

    fn read_one(&mut self) -> Result<(), QueryError> {
        let mut points = Points::default();
        self.input.next(&mut points)?;
        let labels = &self.input.series()[self.read].labels;
        if parse_bound(labels.get(BUCKET_LABEL)).is_none() {
            self.tell_bad_bound(labels, &points);
        }
        let kept = KeptPoints::new(points, &self.context.budget)?;
        self.kept.insert(self.read, kept);
        self.read += 1;
        Ok(())
    }

    fn tell_bad_bound(&self, labels: &Labels, points: &Points) {
        if (0..points.steps()).all(|step| points.float(step).is_none()) {
            return;
        }
        let metric = self.shown_name(labels.as_ref().metric_name());
        let le = labels.get(BUCKET_LABEL).to_owned();
        self.context.annotate(Note::BadBucketLabel { le, metric }.at(self.span));
    }

    /// The metric's name for notes: empty unless the removal of names is delayed.
    fn shown_name(&self, metric: &str) -> String {
        if self.context.delays_names() { metric.to_owned() } else { String::new() }
    }

    /// Computes the native histograms of a series whose floats are a classic bucket.
    fn compute_of_bucket(&mut self, position: usize) -> Result<(), QueryError> {
        let points = self.kept.get(&position).filter(|points| points.has_histograms());
        let metric = self.input.series()[position].labels.as_ref().metric_name();
        let of_points = |which: usize, points: &KeptPoints| {
            let mut result = KeptPoints::absent(self.steps.count(), &self.context.budget)?;
            for (step, histogram) in points.histograms() {
                result.set_float(step, self.native(histogram, which, step, metric));
            }
            Ok::<_, QueryError>(result)
        };
        let of = |which| points.map(|points| of_points(which, points)).transpose();
        let results: Result<Vec<_>, _> = (0..self.measure.count()).map(of).collect();
        self.ready.extend(results?);
        Ok(())
    }

    fn compute(&mut self, source: &Source) -> Result<(), QueryError> {
        let native = source.native.and_then(|position| self.kept.remove(&position));
        let kept = |&(upper, position): &(f64, usize)| Some((upper, self.kept.remove(&position)?));
        let buckets: Vec<(f64, KeptPoints)> = source.buckets.iter().filter_map(kept).collect();
        let count = self.steps.count();
        let absent = |_| KeptPoints::absent(count, &self.context.budget);
        let results: Result<Vec<KeptPoints>, _> = (0..self.measure.count()).map(absent).collect();
        let mut results = results?;
        let mut classic = Vec::with_capacity(buckets.len());
        for step in 0..count {
            classic.clear();
            for (upper, points) in &buckets {
                if let Some(count) = points.float(step) {
                    classic.push(ClassicBucket { upper: *upper, count });
                }
            }
            let histogram = native.as_ref().and_then(|points| points.histogram(step));
            if histogram.is_some() && !classic.is_empty() {
                let metric = self.shown_name(&source.metric);
                self.context.annotate(Note::MixedClassicNative { metric }.at(self.span));
                continue;
            }
            for (which, result) in results.iter_mut().enumerate() {
                let value = match histogram {
                    Some(histogram) => self.native(histogram, which, step, &source.metric),
                    None if classic.is_empty() => break,
                    None => self.classic(&classic, which, step, &source.metric),
                };
                result.set_float(step, value);
            }
        }
        self.ready.extend(results.into_iter().map(Some));
        Ok(())
    }

    fn native(&self, histogram: &FloatHistogram, which: usize, step: usize, metric: &str) -> f64 {
        let metric = self.shown_name(metric);
        let q = match &self.measure {
            Measure::Quantiles(_, quantiles) => quantiles[which][step],
            Measure::Fraction(lower, upper) => {
                let fraction = histogram.fraction(lower[step], upper[step]);
                if fraction.has_nan {
                    self.context.annotate(Note::NanInFraction { metric }.at(self.span));
                }
                return fraction.value;
            }
        };
        let quantile = histogram.quantile(q);
        match quantile.nan {
            None => {}
            Some(NanObservations::Result) => {
                self.context.annotate(Note::NanQuantile { metric }.at(self.span));
            }
            Some(NanObservations::Skewed) => {
                self.context.annotate(Note::NanSkewsQuantile { metric }.at(self.span));
            }
        }
        quantile.value
    }

    fn classic(&self, buckets: &[ClassicBucket], which: usize, step: usize, metric: &str) -> f64 {
        let q = match &self.measure {
            Measure::Quantiles(_, quantiles) => quantiles[which][step],
            Measure::Fraction(lower, upper) => {
                return classic_fraction(lower[step], upper[step], buckets.to_vec());
            }
        };
        let quantile = classic_quantile(q, buckets.to_vec());
        // Counts that an earlier quantile raised stay raised, and its note is enough.
        let raised = matches!(&self.measure, Measure::Quantiles(_, quantiles)
            if quantiles[..which].iter().any(|q| (0.0..=1.0).contains(&q[step])));
        if let Some(forced) = quantile.forced.filter(|_| !raised) {
            let (metric, time) = (self.shown_name(metric), self.steps.time(step));
            self.context.annotate(Note::forced_monotonicity(metric, forced, time, self.span));
        }
        quantile.value
    }
}

impl Operator for Buckets {
    fn series(&self) -> &[Series] {
        &self.series
    }

    fn next(&mut self, points: &mut Points) -> Result<(), QueryError> {
        while self.ready.is_empty() {
            let Some(output) = self.outputs.pop_front() else { break };
            while self.read <= output.last() {
                self.read_one()?;
            }
            match output {
                Output::OfBucket(position) => self.compute_of_bucket(position)?,
                Output::Whole(source) => self.compute(&source)?,
            }
        }
        match self.ready.pop_front().flatten() {
            Some(ready) => *points = ready.into_points(),
            None => points.clear(self.steps.count()),
        }
        Ok(())
    }
}

impl Output {
    /// The position of the last series.
    fn last(&self) -> usize {
        match self {
            Self::OfBucket(position) => *position,
            Self::Whole(source) => source.last,
        }
    }
}

/// The histograms that `series` may contain, in the order in which they become complete, and their
/// labels: for a classic histogram without the bound.
fn outputs(series: &[Series], held: &mut Held) -> Result<(Vec<Output>, Vec<Labels>), QueryError> {
    held.take(0, series.len() * SOURCE_BYTES)?;
    let mut bytes = series.len() * SOURCE_BYTES;
    let mut known: HashMap<Labels, usize> = HashMap::new();
    let mut sources: Vec<Source> = Vec::new();
    let mut of_buckets = Vec::new();
    for (position, one) in series.iter().enumerate() {
        let bound = parse_bound(one.labels.get(BUCKET_LABEL));
        if bound.is_some() {
            of_buckets.push((Output::OfBucket(position), one.labels.clone()));
        }
        // A series without a bound can only be a native histogram.
        let base = match bound {
            Some(_) => one.labels.filtered(|name| name != BUCKET_LABEL.as_bytes()),
            None => one.labels.clone(),
        };
        let at = *known.entry(base).or_insert(sources.len());
        if at == sources.len() {
            // The labels and the name.
            bytes += 2 * made_bytes(&one.labels);
            held.cover(bytes)?;
            let metric = one.labels.as_ref().metric_name().to_owned();
            sources.push(Source { native: None, buckets: Vec::new(), last: 0, metric });
        }
        let source = &mut sources[at];
        source.last = position;
        match bound {
            Some(bound) => source.buckets.push((bound, position)),
            None => source.native = Some(position),
        }
    }
    let mut bases = vec![Labels::default(); sources.len()];
    known.into_iter().for_each(|(base, at)| bases[at] = base);
    let whole = sources.into_iter().map(Output::Whole).zip(bases);
    let mut both: Vec<(Output, Labels)> = of_buckets.into_iter().chain(whole).collect();
    both.sort_by_key(|(output, _)| output.last());
    Ok(both.into_iter().unzip())
}

/// Parses an upper bound; `+Inf` is valid, NaN and a number too large for a float are not.
fn parse_bound(text: &str) -> Option<f64> {
    go_float(text).ok().filter(|bound| !bound.is_nan())
}
