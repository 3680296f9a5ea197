//! Operators of function calls.

use std::sync::Arc;

use super::Builder;
use crate::annotations::Note;
use crate::ast::StringLiteral;
use crate::counts::{Destination, Windows};
use crate::error::QueryError;
use crate::operators::buckets::{Buckets, Measure};
use crate::operators::elementwise::{self, Mapped};
use crate::operators::info::{self, Info};
use crate::operators::kernels::Kernel;
use crate::operators::literal::{Nothing, constant, times};
use crate::operators::merged::Merged;
use crate::operators::selector::{Newest, Wanted};
use crate::operators::sliding::Frame;
use crate::operators::vector::{Sort, absent, scalar};
use crate::operators::windows::{OverSelection, OverSubquery, WindowFunction};
use crate::operators::{BoxOperator, Map, Scope, relabel};
use crate::plan::{Argument, Call, Lookup, Node, Range, Requested, ResetHints, Source};
use crate::points::ABSENT;
use crate::position::Span;
use crate::settings::StartTimestamps;
use crate::signature::Function;
use crate::source::select;
use crate::steps::Steps;
use promkairos_model::{Matcher, TimeRange};
use promkairos_storage::QueryHints;

/// The default strategy of `integral`.
const DEFAULT_STRATEGY: f64 = 2.0;

impl Builder {
    /// The operator of a call.
    pub(super) fn call(&self, call: &Call, scope: &Scope) -> Result<BoxOperator, QueryError> {
        let ranges = |arg: &Argument| matches!(arg.node, Node::Range(_));
        if let Some(at) = call.args.iter().position(ranges) {
            return self.window_function(call, at, scope);
        }
        let args = call.args.as_slice();
        let steps = scope.steps;
        match (call.function, args) {
            (Function::Time, _) => Ok(times(steps)),
            (Function::Pi, _) => Ok(constant(std::f64::consts::PI, steps)),
            (Function::Vector, [arg]) => self.build(&arg.node, scope),
            (Function::Scalar, [arg]) => Ok(scalar(self.build(&arg.node, scope)?, steps.count())),
            (Function::Absent, [arg]) => {
                Ok(absent(self.build(&arg.node, scope)?, matchers(&arg.node), steps.count()))
            }
            (Function::Timestamp | Function::StartTimestamp, [arg]) => {
                self.timestamp(call.function, arg, scope)
            }
            (Function::LabelReplace, [arg, texts @ ..]) => {
                let texts: Option<Vec<_>> = texts.iter().map(string).collect();
                let texts = texts.and_then(|texts| texts.try_into().ok());
                let texts = texts.ok_or_else(|| wrong_arguments(call))?;
                let input = self.build(&arg.node, scope)?;
                relabel::label_replace(input, texts, &self.context, &self.runtime)
            }
            (Function::LabelJoin, [arg, texts @ ..]) => {
                let texts: Option<Vec<_>> = texts.iter().map(string).collect();
                let Some([name, separator, sources @ ..]) = texts.as_deref() else {
                    return Err(wrong_arguments(call));
                };
                relabel::label_join(
                    self.build(&arg.node, scope)?,
                    name,
                    separator,
                    sources,
                    &self.context,
                )
            }
            (Function::Info, [base, rest @ ..]) => self.info(base, rest.first(), scope),
            (
                Function::Sort
                | Function::SortDesc
                | Function::SortByLabel
                | Function::SortByLabelDesc,
                [arg, labels @ ..],
            ) => self.sort(call, arg, labels, scope),
            (
                Function::HistogramQuantile
                | Function::HistogramQuantiles
                | Function::HistogramFraction,
                _,
            ) => self.buckets(call, scope),
            _ => self.elementwise(call, scope),
        }
    }

    fn elementwise(&self, call: &Call, scope: &Scope) -> Result<BoxOperator, QueryError> {
        let args = call.args.as_slice();
        let map: Map = match (call.function, args) {
            (function @ (Function::MaxOf | Function::MinOf), [a, b]) => {
                let max = function == Function::MaxOf;
                let other = self.scalar(&b.node, scope)?;
                let combine = if max { elementwise::greater } else { elementwise::smaller };
                let map = elementwise::map_floats(move |step, value| combine(value, other[step]));
                return Ok(Mapped::labeled(self.build(&a.node, scope)?, map));
            }
            (Function::Clamp, [_, min, max]) => {
                self.clamp(Some(&min.node), Some(&max.node), scope)?
            }
            (Function::ClampMin, [_, min]) => self.clamp(Some(&min.node), None, scope)?,
            (Function::ClampMax, [_, max]) => self.clamp(None, Some(&max.node), scope)?,
            (Function::Round, [_, rest @ ..]) => {
                let to = match rest.first() {
                    Some(to) => self.scalar(&to.node, scope)?,
                    None => vec![1.0; scope.steps.count()],
                };
                elementwise::map_floats(move |step, value| elementwise::round(value, to[step]))
            }
            (function, rest) => {
                if let Some(f) = elementwise::float_function(function) {
                    let map = elementwise::map_floats(move |_, value| f(value));
                    if rest.is_empty() {
                        // Without an argument, functions of dates use the time of the step.
                        return Ok(Mapped::labeled(times(scope.steps), map));
                    }
                    map
                } else if let Some(f) = elementwise::histogram_function(function) {
                    elementwise::map_histograms(f)
                } else {
                    return Err(wrong_arguments(call));
                }
            }
        };
        let Some(input) = args.first() else { return Err(wrong_arguments(call)) };
        Mapped::nameless(self.build(&input.node, scope)?, &self.context, map)
    }

    fn clamp(
        &self,
        min: Option<&Node>,
        max: Option<&Node>,
        scope: &Scope,
    ) -> Result<Map, QueryError> {
        let bound = |node: Option<&Node>, otherwise: f64| match node {
            Some(node) => self.scalar(node, scope),
            None => Ok(vec![otherwise; scope.steps.count()]),
        };
        let (min, max) = (bound(min, f64::NEG_INFINITY)?, bound(max, f64::INFINITY)?);
        Ok(elementwise::map_floats(move |step, value| match max[step] < min[step] {
            true => ABSENT,
            false => elementwise::clamp(value, min[step], max[step]),
        }))
    }

    fn timestamp(
        &self,
        function: Function,
        arg: &Argument,
        scope: &Scope,
    ) -> Result<BoxOperator, QueryError> {
        let starts = function == Function::StartTimestamp;
        let used = self.context.start_timestamps == StartTimestamps::Used;
        if let Node::Selector(selector) = &arg.node
            && (!starts || used)
        {
            self.touch(&arg.node)?;
            let wanted = if starts { Wanted::StartTimestamp } else { Wanted::Timestamp };
            return Merged::of(self.newest(selector, wanted, scope)?, &self.context.budget);
        }
        let steps = scope.steps;
        let map: Map = Box::new(move |points| {
            for step in 0..points.steps() {
                if starts {
                    points.remove(step);
                } else if points.get(step).is_some() {
                    points.set_float(step, steps.time(step) as f64 / 1000.0);
                }
            }
            Ok(())
        });
        Mapped::nameless(self.build(&arg.node, scope)?, &self.context, map)
    }

    fn sort(
        &self,
        call: &Call,
        arg: &Argument,
        labels: &[Argument],
        scope: &Scope,
    ) -> Result<BoxOperator, QueryError> {
        if !scope.steps.is_instant() {
            self.context.annotate(Note::SortInRangeQuery.at(call.span));
        }
        let falling = matches!(call.function, Function::SortDesc | Function::SortByLabelDesc);
        let by_label = matches!(call.function, Function::SortByLabel | Function::SortByLabelDesc);
        let names = labels.iter().filter_map(string).map(|label| label.value.clone());
        let names = by_label.then(|| names.collect());
        Sort::boxed(self.build(&arg.node, scope)?, names, falling, &self.context.budget)
    }

    fn buckets(&self, call: &Call, scope: &Scope) -> Result<BoxOperator, QueryError> {
        let check = |arg: &Argument| -> Result<Vec<f64>, QueryError> {
            let values = self.scalar(&arg.node, scope)?;
            for value in values.iter().filter(|value| !(0.0..=1.0).contains(*value)) {
                self.context.annotate(Note::invalid_quantile(*value).at(arg.span));
            }
            Ok(values)
        };
        let (input, measure) = match (call.function, call.args.as_slice()) {
            (Function::HistogramQuantile, [quantile, input]) => {
                (input, Measure::Quantiles(None, vec![check(quantile)?]))
            }
            (Function::HistogramQuantiles, [input, label, quantiles @ ..]) => {
                let values = quantiles.iter().map(check).collect::<Result<Vec<_>, _>>()?;
                let label = string(label).map(|label| label.value.clone());
                (input, Measure::Quantiles(Some(label.unwrap_or_default()), values))
            }
            (Function::HistogramFraction, [lower, upper, input]) => {
                let bounds = (self.scalar(&lower.node, scope)?, self.scalar(&upper.node, scope)?);
                (input, Measure::Fraction(bounds.0, bounds.1))
            }
            _ => return Err(wrong_arguments(call)),
        };
        let operator = self.build(&input.node, scope)?;
        Buckets::boxed(operator, measure, scope.steps, input.span, &self.context)
    }

    fn window_function(
        &self,
        call: &Call,
        at: usize,
        scope: &Scope,
    ) -> Result<BoxOperator, QueryError> {
        let Node::Range(range) = &call.args[at].node else { return Err(wrong_arguments(call)) };
        let mut scalars = Vec::new();
        for (_, arg) in call.args.iter().enumerate().filter(|(position, _)| *position != at) {
            scalars.push(self.scalar(&arg.node, scope)?);
        }
        if call.function == Function::Integral && scalars.is_empty() {
            scalars.push(vec![DEFAULT_STRATEGY; scope.steps.count()]);
        }
        let kernel = Kernel::new(call.function, scalars)?;
        kernel.check_edges(range.edges)?;
        let used = self.context.start_timestamps == StartTimestamps::Used;
        let frame = self.frame(range, scope.steps, used && kernel.uses_starts());
        // In the notes of Prometheus, a subquery that is the first argument has no place.
        let placeless = at == 0 && matches!(range.source, Source::Subquery { .. });
        let function = WindowFunction {
            kernel,
            frame,
            steps: scope.steps,
            span: if placeless { Span::default() } else { call.args[0].span },
            last_argument: call.args.last().map_or(call.span, |arg| arg.span),
            counted: scope.counted.clone(),
            context: Arc::clone(&self.context),
        };
        let operator = match &range.source {
            Source::Selection { selection, .. } => {
                self.touch(&call.args[at].node)?;
                let selected = &self.selections[*selection];
                if !selected.series.is_empty() {
                    function.kernel.check_arguments()?;
                }
                let operator = self.runs(OverSelection::new(function, selected), scope.steps);
                Merged::of(operator, &self.context.budget)?
            }
            Source::Subquery { node, steps } => {
                // The counts of each step of the subquery.
                self.hold_steps(*steps, 2 * size_of::<u64>())?;
                let windows = Windows {
                    outer: scope.steps,
                    inner: *steps,
                    offset: range.lookup.offset,
                    range: range.range,
                    fixed: range.lookup.at.is_some(),
                };
                let counted = self.context.counts.inside(&scope.counted, windows);
                let input = self.build(node, &Scope { steps: *steps, counted })?;
                if !input.series().is_empty() {
                    function.kernel.check_arguments()?;
                    // Every consumer needs at least one series at all steps of the subquery.
                    self.context.budget.nothing().take(steps.count(), 0)?;
                }
                OverSubquery::boxed(function, input, *steps)?
            }
        };
        if call.function == Function::AbsentOverTime {
            return Ok(absent(operator, matchers(&call.args[at].node), scope.steps.count()));
        }
        Ok(operator)
    }

    /// The frame of the windows of a range.
    pub(crate) fn frame(&self, range: &Range, steps: Steps, starts: bool) -> Frame {
        Frame {
            looks: range.lookup.steps(steps),
            range: range.range,
            edges: range.edges,
            hints: range.hints,
            lookback: self.context.lookback,
            starts,
        }
    }

    fn info(
        &self,
        base: &Argument,
        labels: Option<&Argument>,
        scope: &Scope,
    ) -> Result<BoxOperator, QueryError> {
        let steps = scope.steps;
        let lookup = base.node.shared_lookup().unwrap_or(Lookup { at: None, offset: 0 });
        let base = self.build(&base.node, scope)?;
        let wanted = info::Wanted::new(labels.map(|labels| matchers(&labels.node)));
        let infos: BoxOperator = if info::Targets::of(base.series(), &wanted).is_empty() {
            Box::new(Nothing)
        } else {
            let looks = lookup.steps(steps);
            let start = looks.start.saturating_sub(self.context.lookback.saturating_sub(1));
            let range = TimeRange::new(start, looks.last());
            let matchers = wanted.matchers();
            let budget = &self.context.budget;
            let hints = Some(Arc::new(QueryHints {
                start,
                end: looks.end,
                step: steps.interval,
                function: Function::Info.signature().name.into(),
                ..QueryHints::default()
            }));
            let requested = Requested { matchers, range, hints, users: 1 };
            let selected = self.runtime.block_on(select(&*self.store, &requested, budget))?;
            let (wanted, hints) = (Wanted::InfoTimestamp, ResetHints::AsStored);
            let scope = &Scope { steps, counted: Destination::nowhere() };
            let work = Newest::new(&selected, lookup, wanted, hints, scope, &self.context)?;
            self.runs(work, steps)
        };
        Info::boxed(base, infos, &wanted, scope, &self.context)
    }
}

fn string(argument: &Argument) -> Option<&StringLiteral> {
    if let Node::String(text) = &argument.node { Some(text) } else { None }
}

/// The matchers of a selector.
fn matchers(node: &Node) -> &[Matcher] {
    match node {
        Node::Matchers(matchers) => matchers,
        Node::Selector(selector) => &selector.matchers,
        Node::Range(Range { source: Source::Selection { matchers, .. }, .. }) => matchers,
        _ => &[],
    }
}

/// The parser does not accept a call that causes this error.
fn wrong_arguments(call: &Call) -> QueryError {
    QueryError::Execution(format!("wrong arguments for function {}", call.function))
}
